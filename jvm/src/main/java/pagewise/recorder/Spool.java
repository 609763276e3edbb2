package pagewise.recorder;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import jdk.internal.misc.Unsafe;

/**
 * The file that events go into, through memory: what is written survives the death of the JVM.
 *
 * <p>`pagewise` reads it (trace/analysis/src/jvm/spool.rs has the layout) and writes the trace. A page of header, then
 * records of 32-bit words, the first of which is the operation and is written last. A zero word ends the file. An exception
 * may come between any two of the program's instructions, and of ours (a full stack, {@code Thread.stop}): the next record
 * takes the place of one that was left unfinished.
 *
 * <p>Records are reserved under the recorder's lock, by threads that may be in any monitor of the JDK. So nothing is opened,
 * mapped or closed there: all addresses are mapped at the start, and the file grows to them in a thread of its own.
 */
final class Spool {
    static final long MAGIC = 0x314f_4f50_534a_5750L; // "PWJSPOO1"
    static final int HEADER = 4096;
    static final int WINDOW = 16 << 20;
    /** 256 GB of addresses; the file is as long as what was written. */
    private static final int MOST_WINDOWS = 1 << 14;
    private static final int LARGEST_PIECE = 1 << 30;

    // Operations: the low eight bits of a record's first word.
    static final int THREAD = 1;
    static final int ALLOCATE = 2;
    static final int ASSIGN = 3;
    static final int SLOT = 4;
    static final int TOP = 5;
    static final int PIN = 6;
    static final int SITE = 7;
    static final int STATIC = 8;
    static final int TIME = 9;
    static final int JUMP = 10;
    static final int PAD = 11;

    // Places in the header.
    static final int AT_PROCESS = 8;
    static final int AT_STOP = 12;
    static final int AT_START = 16;
    static final int AT_ENDED = 24;
    static final int AT_COUNTS = 32;
    static final int AT_COMMAND = 1024;
    static final int COMMAND_BYTES = 2048;

    /** Longest text of a site. */
    static final int LONGEST_TEXT = 4000;

    /** The recorder's lock: records are reserved under it. */
    static final Object LOCK = new Object();

    private static final Unsafe U = Unsafe.getUnsafe();
    private static final long BUFFER_ADDRESS = U.objectFieldOffset(java.nio.Buffer.class, "address");

    private final RandomAccessFile file;
    private final byte[] zeros = new byte[1 << 20];
    private final MappedByteBuffer header;
    /** Keeps the windows mapped. */
    private final List<MappedByteBuffer> pieces = new ArrayList<>();
    /** Where the windows lie; the first {@code mapped} are there. */
    private final long[] windows = new long[MOST_WINDOWS];

    private int mapped;
    private long cursor;
    private long limit;
    private boolean stopped;

    private final Thread filler;
    /** What the filler's thread does first. */
    private Runnable beforeFilling;
    /** Held while a window is filled. Nobody takes another lock within. */
    private final Object filling = new Object();
    /** The window that records go into. */
    private volatile int current;
    /** So many windows can be written to. */
    private volatile int filled;
    /** There will be no more of them. */
    private volatile boolean isFull;

    Spool(String path, long process, String command, long startNanoseconds) throws IOException {
        file = new RandomAccessFile(path, "rw");
        fill(0, HEADER);
        header = map(0, HEADER);
        mapWindows();
        fill(HEADER, WINDOW);
        filled = 1;
        go(0);
        // Not among the program's threads.
        ThreadGroup system = Thread.currentThread().getThreadGroup().getParent();
        filler = new Thread(system, this::fillAhead, "pagewise spool", 0, false);
        filler.setDaemon(true);
        long at = address(header);
        byte[] text = command.getBytes(StandardCharsets.UTF_8);
        for (int i = 0; i < Math.min(text.length, COMMAND_BYTES - 1); i++) {
            U.putByte(at + AT_COMMAND + i, text[i]);
        }
        U.putInt(at + AT_PROCESS, (int) process);
        U.putLong(at + AT_START, startNanoseconds);
        U.putLong(null, at, MAGIC);
    }

    /** To be called without the recorder's lock: the filler's thread runs {@code first}, which takes it once, and begins. */
    void start(Runnable first) {
        beforeFilling = first;
        filler.start();
        isFilled(1);
    }

    /** Where a record with so many words begins, until it or another is published there; 0 where recording has stopped. */
    long reserve(int words) {
        if (stopped) {
            return 0;
        }
        long bytes = 4L * words;
        // A word is left for the padding's operation.
        if (cursor + bytes + 4 > limit && !turn()) {
            return 0;
        }
        // One that was published might not have been counted.
        U.putInt(null, cursor, 0);
        return cursor;
    }

    /** All other words of the record are written. */
    void publish(int words, int operation) {
        long end = cursor + 4L * words;
        // A longer one that was left unfinished may have written there.
        U.putInt(null, end, 0);
        U.putIntRelease(null, cursor, operation);
        cursor = end;
    }

    private boolean turn() {
        if (cursor < limit) {
            U.putIntRelease(null, cursor, PAD);
        }
        int next = current + 1;
        // Who came into this window may not have got as far as to say so.
        U.unpark(filler);
        if (!isFilled(next)) {
            U.putInt(address(header) + AT_STOP, 1);
            stopped = true;
            return false;
        }
        go(next);
        U.unpark(filler);
        return true;
    }

    private void go(int window) {
        cursor = windows[window];
        limit = cursor + WINDOW;
        current = window;
    }

    /**
     * Waits until it is, or never will be. Not by parking or waiting, which may be what the thread was about to do: it would lose
     * its permit, or its interrupt. No method of the JDK is called: with the lock held, it would be recorded.
     */
    private boolean isFilled(int window) {
        while (filled <= window) {
            if (isFull) {
                // The last that was filled may be this one.
                return filled > window;
            }
            synchronized (filling) {
                // Free when the window is filled; or the filler is only waking up.
            }
        }
        return true;
    }

    // ---- The filler's thread

    /** One window ahead. Others wait for it in any monitor: it takes none, and its events are not recorded. */
    private void fillAhead() {
        beforeFilling.run();
        try {
            for (int next = 1; next < mapped; next++) {
                while (current < next - 1) {
                    U.park(false, 0);
                    Thread.interrupted();
                }
                synchronized (filling) {
                    fill(HEADER + (long) next * WINDOW, WINDOW);
                    filled = next + 1;
                }
            }
        } catch (IOException | OutOfMemoryError full) {
            // Who needs the window says so.
        } finally {
            isFull = true;
        }
    }

    /** Written before it is touched as memory, so that a full disk is an error here and not a signal later. */
    private void fill(long start, int length) throws IOException {
        file.seek(start);
        for (int written = 0; written < length; ) {
            int part = Math.min(zeros.length, length - written);
            file.write(zeros, 0, part);
            written += part;
        }
    }

    // ---- Addresses

    /** In pieces that grow, and shrink again at a limit on the file's size. */
    private void mapWindows() throws IOException {
        boolean isLimited = false;
        for (int piece = WINDOW; piece >= WINDOW && mapped + piece / WINDOW <= MOST_WINDOWS; ) {
            try {
                add(map(HEADER + (long) mapped * WINDOW, piece));
                piece = isLimited || piece == LARGEST_PIECE ? piece : 2 * piece;
            } catch (IOException limit) {
                if (mapped == 0) {
                    throw limit;
                }
                if (limit.getCause() instanceof OutOfMemoryError) {
                    giveBackHalf();
                    break;
                }
                isLimited = true;
                piece /= 2;
            }
        }
        // Mapping made it as long as the addresses.
        file.setLength(HEADER);
    }

    private MappedByteBuffer map(long start, int length) throws IOException {
        return file.getChannel().map(FileChannel.MapMode.READ_WRITE, start, length);
    }

    private void add(MappedByteBuffer piece) {
        pieces.add(piece);
        for (int at = 0; at < piece.capacity(); at += WINDOW) {
            windows[mapped++] = address(piece) + at;
        }
    }

    /** Where addresses are limited (ulimit -v), the program needs some as well. */
    private void giveBackHalf() {
        for (int half = mapped / 2; mapped > half && pieces.size() > 1; ) {
            MappedByteBuffer last = pieces.remove(pieces.size() - 1);
            mapped -= last.capacity() / WINDOW;
            U.invokeCleaner(last);
        }
    }

    private static long address(MappedByteBuffer buffer) {
        return U.getLong(buffer, BUFFER_ADDRESS);
    }

    /** Adds to a counter that the trace's properties will name. */
    void count(Count what) {
        long at = address(header) + AT_COUNTS + 8L * what.ordinal();
        U.putLong(at, U.getLong(at) + 1);
    }

    void ended() {
        U.putInt(address(header) + AT_ENDED, 1);
    }

    /** What the recorder counts, in the order in which the command reads it. */
    enum Count {
        /** Objects that uninstrumented code or the JVM allocated, seen later. */
        UNSEEN,
        /** Classes that could not be transformed. */
        CLASSES_LEFT_OUT,
        CLASSES,
        /** Methods whose frames are not followed, for they would be too large, or have subroutines. */
        METHODS_LEFT_OUT,
        /** Frames beyond the deepest stack followed. */
        FRAMES_LEFT_OUT,
    }
}
