package pagewise.recorder;

import java.lang.instrument.Instrumentation;
import jdk.internal.misc.Unsafe;

/**
 * What instrumented code calls.
 *
 * <p>Under Epsilon objects never move, so the 32 bits of a compressed reference are an object's identity for good. The calls
 * below run within every class of the JDK, and therefore use no class of it but Unsafe, until the thread is marked busy:
 * then calls of instrumented code return at once.
 *
 * <p>Roots are told lazily. Frames write what they hold into slots (see {@link ThreadState}), and what has changed goes
 * into the file when the thread next allocates, since a simulated heap is collected at no other time.
 */
public final class Recorder {
    private static final Unsafe U = Unsafe.getUnsafe();
    private static final long FIRST = Unsafe.ARRAY_OBJECT_BASE_OFFSET;
    private static final long SCALE = Unsafe.ARRAY_OBJECT_INDEX_SCALE;
    private static final long THREAD_ID = U.objectFieldOffset(Thread.class, "tid");
    /** Bits, one for each reference: 512 MB of addresses, of which the system backs what is touched. */
    private static final long BITMAP = 1L << 29;
    private static final int EVENTS_PER_TIME = 1 << 12;
    /** Slots that a method's frame cannot pass: it has at most 65,535 variables, and as many places of its stack. */
    private static final int DEEP_FRAME = 1 << 17;
    private static final int UNRESOLVED = 0;
    private static final int UNKNOWN_FIELD = -1;
    private static final int NOBODY = -1;

    private static final Object LOCK = Spool.LOCK;
    /** The program is being recorded; before `from` it is not. */
    private static volatile boolean recording;
    /** More than one thread has been recorded. */
    private static boolean threaded;

    /** By the threads' own numbers; the last is nobody's. */
    private static ThreadState[] states = new ThreadState[1 << 12];
    /** Of threads that have ended. */
    private static ThreadState free;

    private static int threads;
    private static long seen;
    private static long pinned;
    private static int[] siteSizes;
    private static int[] fieldOffsets;
    /** What each static field was last known to refer to. */
    private static int[] statics;
    private static String[] fieldOwners;
    private static String[] fieldNames;
    private static Instrumentation instrumentation;
    private static Shapes shapes;
    private static Spool spool;
    private static Sites sites;
    /** The object that is about to be told of: slots that hold it already need not make it known. */
    private static int fresh;

    private static int current = NOBODY;
    private static int untilTime;

    private Recorder() {}

    static void prepare(Instrumentation by, Shapes of, Spool to, Sites at) {
        instrumentation = by;
        shapes = of;
        spool = to;
        sites = at;
        seen = U.allocateMemory(BITMAP);
        pinned = U.allocateMemory(BITMAP);
        siteSizes = new int[Sites.MOST_SITES];
        fieldOffsets = new int[Sites.MOST_FIELDS];
        statics = new int[Sites.MOST_FIELDS];
        fieldOwners = sites.fieldOwners;
        fieldNames = sites.fieldNames;
        // Once, so that no class is loaded for it while the lock is held.
        ThreadState state = state();
        state.busy++;
        shapes.references(Object[].class);
        instrumentation.getObjectSize(state);
        sites.unseen(Object.class);
        state.busy--;
    }

    /** Instrumented at the entry of the method that recording shall start with, or called by the agent. */
    public static void start() {
        recording = true;
    }

    // ---- Frames

    /** A method begins. Its frame is so many slots from the state's {@code top} minus {@code count}. */
    public static ThreadState enter(int count) {
        ThreadState state = state();
        int base = state.top;
        int top = base + count;
        if (top > state.slots.length && !state.grow(top)) {
            return deep();
        }
        for (int i = base; i < top; i++) {
            state.slots[i] = null;
        }
        if (base < state.low) {
            state.low = base;
        }
        state.top = top;
        return state;
    }

    /** Frames beyond the deepest all write into a state that nobody reads. */
    private static ThreadState deep() {
        spool.count(Spool.Count.FRAMES_LEFT_OUT);
        ThreadState nobody = states[states.length - 1];
        nobody.top = DEEP_FRAME;
        return nobody;
    }

    /** Where the frame that was just begun has its first slot. */
    public static int base(ThreadState state, int count) {
        return state.top - count;
    }

    public static void hold(Object value, ThreadState state, int slot) {
        state.slots[slot] = value;
        if (slot < state.low) {
            state.low = slot;
        }
    }

    /** The stack's places change: `to` now holds what `from` held. */
    public static void copy(ThreadState state, int from, int to) {
        hold(state.slots[from], state, to);
    }

    public static void leave(ThreadState state, int base) {
        state.top = base;
    }

    /** An exception was caught in the frame that ends there: those above are gone. */
    public static void caught(ThreadState state, int top) {
        state.top = top;
    }

    /** The thread ends. */
    public static void threadEnds() {
        ThreadState state = state();
        if (state.busy != 0) {
            return;
        }
        state.top = ThreadState.RESERVED;
        keep(state, null, null);
        synchronized (LOCK) {
            if (recording) {
                tell(state);
            }
            release(state);
        }
    }

    /** The trace knows nothing of it any more: it may be another thread's. */
    private static void release(ThreadState state) {
        states[(int) id()] = null;
        state.number = ThreadState.NONE;
        state.nextFree = free;
        free = state;
    }

    /** The method at the site begins. */
    public static void jump(int site) {
        ThreadState state = state();
        if (recording && state.busy == 0) {
            synchronized (LOCK) {
                switchTo(state);
                write(Spool.JUMP, site);
            }
        }
    }

    // ---- Allocations

    /** After {@code new}, before the constructor. */
    public static void allocated(Object object, int site) {
        ThreadState state = state();
        if (!recording || state.busy != 0) {
            return;
        }
        int size = siteSizes[site];
        if (size == 0) {
            size = sizeOf(state, object);
            siteSizes[site] = size;
        }
        allocate(state, object, site, size);
    }

    public static void allocatedArray(Object array, int length, int shift, int site) {
        ThreadState state = state();
        if (recording && state.busy == 0) {
            allocate(state, array, site, arraySize(length, shift));
        }
    }

    public static void allocatedNested(Object array, int site) {
        ThreadState state = state();
        if (recording && state.busy == 0) {
            keep(state, array, null);
            allocate(state, array, site, sizeOf(state, array));
            if (array instanceof Object[]) {
                allocateElements(state, (Object[]) array, site);
            }
        }
    }

    private static void allocateElements(ThreadState state, Object[] array, int site) {
        for (int i = 0; i < array.length; i++) {
            Object element = array[i];
            if (element == null) {
                continue;
            }
            allocate(state, element, site, sizeOf(state, element));
            assign(state, array, i, element);
            if (element instanceof Object[]) {
                allocateElements(state, (Object[]) element, site);
            }
        }
    }

    /** A call that may have allocated where no instrumented code runs: a clone, a lambda, an array by reflection. */
    public static void returned(Object value, int site) {
        ThreadState state = state();
        if (value == null || !recording || state.busy != 0 || isSet(seen, bits(state, value))) {
            return;
        }
        long[] references = value instanceof Object[] ? null : referencesOf(state, value);
        allocate(state, value, site, sizeOf(state, value));
        if (value instanceof Object[]) {
            Object[] elements = (Object[]) value;
            assignRange(state, elements, 0, elements.length, true);
            return;
        }
        for (long offset : references) {
            assignAt(state, value, offset);
        }
    }

    private static long[] referencesOf(ThreadState state, Object value) {
        state.busy++;
        try {
            return shapes.references(value.getClass());
        } finally {
            state.busy--;
        }
    }

    private static void allocate(ThreadState state, Object object, int site, int size) {
        synchronized (LOCK) {
            int bits = bits(state, object);
            fresh = bits;
            try {
                tell(state);
                write(Spool.ALLOCATE, site, bits, size);
                set(seen, bits);
            } finally {
                fresh = 0;
            }
        }
    }

    private static int sizeOf(ThreadState state, Object object) {
        state.busy++;
        try {
            return (int) (instrumentation.getObjectSize(object) >>> 3);
        } finally {
            state.busy--;
        }
    }

    /** In words of 8 bytes. */
    private static int arraySize(int length, int shift) {
        return (int) ((FIRST + ((long) length << shift) + 7) >>> 3);
    }

    // ---- References

    public static void fieldStored(Object object, Object value, int field) {
        ThreadState state = state();
        if (!recording || state.busy != 0) {
            return;
        }
        int offset = fieldOffsets[field];
        if (offset == UNRESOLVED) {
            offset = resolve(state, object, field);
        }
        if (offset != UNKNOWN_FIELD) {
            assign(state, object, offset >>> 2, value);
        }
    }

    private static int resolve(ThreadState state, Object object, int field) {
        state.busy++;
        try {
            long offset = Shapes.offset(object.getClass(), fieldOwners[field], fieldNames[field]);
            fieldOffsets[field] = (int) offset;
            return (int) offset;
        } finally {
            state.busy--;
        }
    }

    public static void staticStored(Object value, int field) {
        ThreadState state = state();
        if (recording && state.busy == 0) {
            int bits = value == null ? 0 : bits(state, value);
            if (statics[field] != bits) {
                assignStatic(state, value, bits, field);
            }
        }
    }

    /** What code reads it must hold, whoever wrote it: the JVM, or code that ran before the recording. */
    public static void staticLoaded(Object value, int field) {
        staticStored(value, field);
    }

    private static void assignStatic(ThreadState state, Object value, int bits, int field) {
        synchronized (LOCK) {
            if (bits != 0 && !isSet(seen, bits)) {
                see(state, value, bits);
            }
            beforeUnlinking(state);
            write(Spool.STATIC, field, bits);
            statics[field] = bits;
        }
    }

    /** The array store itself, with its checks. */
    public static void arrayStore(Object[] array, int index, Object value) {
        array[index] = value;
        ThreadState state = state();
        if (recording && state.busy == 0) {
            assign(state, array, index, value);
        }
    }

    public static void arraycopy(Object from, int fromIndex, Object to, int toIndex, int length) {
        System.arraycopy(from, fromIndex, to, toIndex, length);
        ThreadState state = state();
        if (recording && state.busy == 0 && to instanceof Object[]) {
            assignRange(state, (Object[]) to, toIndex, length, false);
        }
    }

    private static void assignRange(ThreadState state, Object[] array, int start, int length, boolean fresh) {
        for (int i = start; i < start + length; i++) {
            Object value = array[i];
            if (value != null || !fresh) {
                assign(state, array, i, value);
            }
        }
    }

    private static void assign(ThreadState state, Object object, int field, Object value) {
        synchronized (LOCK) {
            int source = bits(state, object);
            int target = value == null ? 0 : bits(state, value);
            if (!isSet(seen, source) || target != 0 && !isSet(seen, target)) {
                keep(state, object, value);
                tell(state);
            }
            beforeUnlinking(state);
            write(Spool.ASSIGN, source, field, target);
        }
    }

    /** The reference at the offset, as somebody just wrote it. */
    private static void assignAt(ThreadState state, Object object, long offset) {
        Object value = U.getReferenceVolatile(object, offset);
        boolean isArray = object instanceof Object[];
        assign(state, object, (int) (isArray ? (offset - FIRST) / SCALE : offset >>> 2), value);
    }

    /** An object in another thread's hands may have been reachable through what is overwritten and nothing else. */
    private static void beforeUnlinking(ThreadState state) {
        if (threaded) {
            tell(state);
        } else {
            switchTo(state);
        }
    }

    // ---- What the JVM holds

    /** The JVM itself will go on referring to the object: a constant, a thread, a class loader. */
    public static void pin(Object object) {
        if (object == null) {
            return;
        }
        ThreadState state = state();
        if (!recording || state.busy != 0 || isSet(pinned, bits(state, object))) {
            return;
        }
        synchronized (LOCK) {
            int bits = bits(state, object);
            if (!isSet(seen, bits)) {
                see(state, object, bits);
            }
            pinSeen(state, bits);
        }
    }

    private static void pinSeen(ThreadState state, int bits) {
        if (!isSet(pinned, bits)) {
            switchTo(state);
            write(Spool.PIN, bits);
            set(pinned, bits);
        }
    }

    /** In the slots that no frame has: objects in the recorder's own hands. */
    private static void keep(ThreadState state, Object first, Object second) {
        hold(first, state, 0);
        hold(second, state, 1);
    }

    /** The lock is held. An object that no instrumented code allocated is the JVM's: it stays. */
    private static void see(ThreadState state, Object object, int bits) {
        state.busy++;
        try {
            int site = sites.unseen(object.getClass());
            int size = (int) (instrumentation.getObjectSize(object) >>> 3);
            tellSeen(state);
            // Where this was begun before, and ended by an exception, it is another object from now on, which is not pinned yet.
            clear(pinned, bits);
            write(Spool.ALLOCATE, site, bits, size);
            pinSeen(state, bits);
            set(seen, bits);
            spool.count(Spool.Count.UNSEEN);
        } finally {
            state.busy--;
        }
    }

    // ---- Unsafe, in place of its own methods of these names

    /** After a call that may have written a reference. */
    private static void written(Object object, long offset) {
        ThreadState state = state();
        if (object != null && recording && state.busy == 0) {
            assignAt(state, object, offset);
        }
    }

    public static void putReference(Unsafe unsafe, Object object, long offset, Object value) {
        unsafe.putReference(object, offset, value);
        written(object, offset);
    }

    public static void putReferenceVolatile(Unsafe unsafe, Object object, long offset, Object value) {
        unsafe.putReferenceVolatile(object, offset, value);
        written(object, offset);
    }

    public static void putReferenceRelease(Unsafe unsafe, Object object, long offset, Object value) {
        unsafe.putReferenceRelease(object, offset, value);
        written(object, offset);
    }

    public static void putReferenceOpaque(Unsafe unsafe, Object object, long offset, Object value) {
        unsafe.putReferenceOpaque(object, offset, value);
        written(object, offset);
    }

    /** Also for the weak forms, which may do no more than this. */
    public static boolean compareAndSetReference(
            Unsafe unsafe, Object object, long offset, Object expected, Object value) {
        boolean done = unsafe.compareAndSetReference(object, offset, expected, value);
        if (done) {
            written(object, offset);
        }
        return done;
    }

    public static Object compareAndExchangeReference(
            Unsafe unsafe, Object object, long offset, Object expected, Object value) {
        Object before = unsafe.compareAndExchangeReference(object, offset, expected, value);
        written(object, offset);
        return before;
    }

    public static Object getAndSetReference(Unsafe unsafe, Object object, long offset, Object value) {
        Object before = unsafe.getAndSetReference(object, offset, value);
        written(object, offset);
        return before;
    }

    // ---- Threads and bits

    private static long id() {
        return U.getLong(Thread.currentThread(), THREAD_ID);
    }

    private static ThreadState state() {
        long id = id();
        ThreadState[] known = states;
        if (id >= 0 && id < known.length - 1) {
            ThreadState state = known[(int) id];
            if (state != null) {
                return state;
            }
        }
        return newState(id);
    }

    /** No instrumented code runs here: the constructor of the state stores fields and arrays. */
    private static ThreadState newState(long id) {
        synchronized (LOCK) {
            int at = (int) id;
            if (at >= states.length - 1) {
                ThreadState[] more = new ThreadState[2 * at];
                for (int i = 0; i < states.length - 1; i++) {
                    more[i] = states[i];
                }
                more[more.length - 1] = states[states.length - 1];
                states = more;
            }
            ThreadState state = states[at];
            if (state == null) {
                state = takeState();
                states[at] = state;
                if (states[states.length - 1] == null) {
                    states[states.length - 1] = new ThreadState(DEEP_FRAME);
                    states[states.length - 1].busy = 1;
                }
            }
            return state;
        }
    }

    private static ThreadState takeState() {
        ThreadState state = free;
        if (state == null) {
            return new ThreadState(ThreadState.FIRST_SLOTS);
        }
        free = state.nextFree;
        state.nextFree = null;
        return state;
    }

    static void busy(int change) {
        state().busy += change;
    }

    static boolean isBusy() {
        return state().busy != 0;
    }

    private static int bits(ThreadState state, Object object) {
        state.scratch[0] = object;
        return U.getInt(state.scratch, FIRST);
    }

    private static boolean isSet(long bitmap, int bits) {
        long at = bits & 0xffff_ffffL;
        return (U.getByte(bitmap + (at >>> 3)) & 1 << (at & 7)) != 0;
    }

    private static void set(long bitmap, int bits) {
        long at = bits & 0xffff_ffffL;
        long address = bitmap + (at >>> 3);
        U.putByte(address, (byte) (U.getByte(address) | 1 << (at & 7)));
    }

    private static void clear(long bitmap, int bits) {
        long at = bits & 0xffff_ffffL;
        long address = bitmap + (at >>> 3);
        U.putByte(address, (byte) (U.getByte(address) & ~(1 << (at & 7))));
    }

    // ---- Records; the lock is held. What the trace was told is noted after it was: an exception may come in between, and to tell
    // it again does no harm.

    /** What the thread's slots hold, where that has changed. */
    private static void tell(ThreadState state) {
        tellSeen(state);
        for (int i = state.low; i < state.top; i++) {
            int bits = U.getInt(state.slots, FIRST + SCALE * i);
            if (bits != state.told[i]) {
                if (bits != fresh && !isSet(seen, bits)) {
                    see(state, state.slots[i], bits);
                }
                tellSlot(state, i, bits);
            }
        }
        state.low = state.top;
    }

    /** Slots that hold objects which are in the trace: before another comes into it, they must be held. */
    private static void tellSeen(ThreadState state) {
        switchTo(state);
        int top = state.top;
        if (top < state.cut) {
            state.cut = top;
        }
        if (state.cut < state.toldTop) {
            tellTop(state);
        }
        state.cut = ThreadState.UNCUT;
        state.toldTop = top;
        for (int i = state.low; i < top; i++) {
            int bits = U.getInt(state.slots, FIRST + SCALE * i);
            if (bits != state.told[i] && (bits == 0 || isSet(seen, bits))) {
                tellSlot(state, i, bits);
            }
        }
    }

    private static void tellTop(ThreadState state) {
        write(Spool.TOP, state.cut);
        for (int i = state.cut; i < state.toldTop; i++) {
            state.told[i] = 0;
        }
    }

    private static void tellSlot(ThreadState state, int slot, int bits) {
        write(Spool.SLOT, slot, bits);
        state.told[slot] = bits;
    }

    private static void switchTo(ThreadState state) {
        if (--untilTime <= 0) {
            untilTime = EVENTS_PER_TIME;
            long time = System.nanoTime();
            write(Spool.TIME, (int) time, (int) (time >>> 32));
        }
        if (state.number == ThreadState.NONE) {
            state.number = threads++;
        }
        if (current == state.number) {
            return;
        }
        threaded = threaded || state.number > 0;
        // Until it is known that the record is there, it is not known whose turn it is.
        current = NOBODY;
        write(Spool.THREAD, state.number);
        current = state.number;
    }

    private static void write(int operation, int first) {
        long at = spool.reserve(2);
        if (at != 0) {
            U.putInt(null, at + 4, first);
            spool.publish(2, operation);
        }
    }

    private static void write(int operation, int first, int second) {
        long at = spool.reserve(3);
        if (at != 0) {
            U.putInt(null, at + 4, first);
            U.putInt(null, at + 8, second);
            spool.publish(3, operation);
        }
    }

    private static void write(int operation, int first, int second, int third) {
        long at = spool.reserve(4);
        if (at != 0) {
            U.putInt(null, at + 4, first);
            U.putInt(null, at + 8, second);
            U.putInt(null, at + 12, third);
            spool.publish(4, operation);
        }
    }
}
