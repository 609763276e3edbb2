package pagewise.recorder;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.MappedByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import jdk.internal.misc.Unsafe;

/**
 * The file that events go into, through memory: what is written survives the death of the JVM.
 *
 * <p>`pagewise` reads it (cli/src/trace/jvm/spool.rs has the layout) and writes the trace. A page of header, then records of
 * 32-bit words, the first of which is the operation and is written last. A zero word ends the file.
 */
final class Spool {
    static final long MAGIC = 0x314f_4f50_534a_5750L; // "PWJSPOO1"
    static final int HEADER = 4096;
    static final int WINDOW = 16 << 20;

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

    private static final Unsafe U = Unsafe.getUnsafe();
    private static final long BUFFER_ADDRESS = U.objectFieldOffset(java.nio.Buffer.class, "address");

    private final String path;
    private final byte[] zeros = new byte[1 << 20];
    private final MappedByteBuffer header;
    /** Keeps the window mapped. */
    private MappedByteBuffer window;
    private long windowStart;
    private long cursor;
    private long limit;
    private boolean stopped;

    Spool(String path, long process, String command, long startNanoseconds) throws IOException {
        this.path = path;
        header = map(0, HEADER);
        long at = address(header);
        byte[] text = command.getBytes(StandardCharsets.UTF_8);
        for (int i = 0; i < Math.min(text.length, COMMAND_BYTES - 1); i++) {
            U.putByte(at + AT_COMMAND + i, text[i]);
        }
        U.putInt(at + AT_PROCESS, (int) process);
        U.putLong(at + AT_START, startNanoseconds);
        windowStart = HEADER;
        nextWindow();
        U.putLong(null, at, MAGIC);
    }

    /** The first word of a record with so many words, all of which must be written; 0 where recording has stopped. */
    long reserve(int words) {
        if (stopped) {
            return 0;
        }
        long bytes = 4L * words;
        // A word is left for the padding's operation.
        if (cursor + bytes + 4 > limit && !turn()) {
            return 0;
        }
        long at = cursor;
        cursor += bytes;
        return at;
    }

    private boolean turn() {
        if (cursor < limit) {
            U.putIntRelease(null, cursor, PAD);
        }
        Recorder.busy(1);
        try {
            nextWindow();
            return true;
        } catch (IOException | OutOfMemoryError error) {
            stopped = true;
            U.putInt(address(header) + AT_STOP, 1);
            return false;
        } finally {
            Recorder.busy(-1);
        }
    }

    private void nextWindow() throws IOException {
        window = map(windowStart, WINDOW);
        cursor = address(window);
        limit = cursor + WINDOW;
        windowStart += WINDOW;
    }

    /** Written first, so that a full disk is an error here and not a signal later. */
    private MappedByteBuffer map(long start, int length) throws IOException {
        boolean interrupted = Thread.interrupted();
        try {
            while (true) {
                try (RandomAccessFile file = new RandomAccessFile(path, "rw")) {
                    file.seek(start);
                    for (int written = 0; written < length; ) {
                        int part = Math.min(zeros.length, length - written);
                        file.write(zeros, 0, part);
                        written += part;
                    }
                    return file.getChannel().map(FileChannel.MapMode.READ_WRITE, start, length);
                } catch (ClosedByInterruptException interrupt) {
                    interrupted = Thread.interrupted();
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
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
        /** Methods whose frames are not followed, for they would be too large. */
        METHODS_LEFT_OUT,
        /** Frames beyond the deepest stack followed. */
        FRAMES_LEFT_OUT,
    }
}
