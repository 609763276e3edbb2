package pagewise.recorder;

import java.util.ArrayList;
import java.util.List;
import jdk.internal.misc.Unsafe;

/** In the place of {@link Recorder}: writes down what instrumented code tells, and does what it leaves to be done. */
public final class LoggingHooks {
    static final List<String> LOG = new ArrayList<>();
    static ThreadState state;
    static int deepest;

    private LoggingHooks() {}

    static void reset() {
        LOG.clear();
        state = new ThreadState(ThreadState.FIRST_SLOTS);
        deepest = 0;
    }

    /** A class's name without package and outer class; null as itself. */
    private static String kind(Object object) {
        return object == null ? "null" : object.getClass().getSimpleName();
    }

    private static void log(String text) {
        LOG.add(text);
    }

    static boolean wasHeld;

    /** Called by code of the tests' own: is the object in a frame's slot now? */
    public static void note(Object object) {
        wasHeld = false;
        for (int i = 0; i < state.top; i++) {
            wasHeld |= state.slots[i] == object;
        }
    }

    public static void start() {
        log("start");
    }

    public static void jump(int site) {
        log("jump " + TestSites.texts.get(site).split("\t")[0]);
    }

    public static ThreadState enter(int count) {
        for (int i = state.top; i < state.top + count; i++) {
            state.slots[i] = null;
        }
        state.top += count;
        deepest = Math.max(deepest, state.top);
        return state;
    }

    public static int base(ThreadState of, int count) {
        return of.top - count;
    }

    public static void hold(Object value, ThreadState of, int slot) {
        if (slot < 0 || slot >= of.top) {
            throw new IllegalStateException("slot " + slot + " of " + of.top);
        }
        of.slots[slot] = value;
    }

    public static void copy(ThreadState of, int from, int to) {
        hold(of.slots[from], of, to);
    }

    public static void leave(ThreadState of, int base) {
        of.top = base;
    }

    public static void caught(ThreadState of, int top) {
        of.top = top;
    }

    public static void threadEnds() {
        log("thread ends");
    }

    public static void allocated(Object object, int site) {
        log("allocated " + kind(object) + " as " + TestSites.type(site));
    }

    public static void allocatedArray(Object array, int length, int shift, int site) {
        log("array " + TestSites.type(site) + " " + length + " << " + shift);
    }

    public static void allocatedNested(Object array, int site) {
        log("nested " + TestSites.type(site));
    }

    public static void returned(Object value, int site) {
        log("returned " + (value.getClass().isHidden() ? "lambda" : kind(value)));
    }

    public static void fieldStored(Object object, Object value, int field) {
        log(kind(object) + "." + TestSites.last.fieldNames[field] + " = " + kind(value));
    }

    public static void staticStored(Object value, int field) {
        log("static " + TestSites.last.fieldNames[field] + " = " + kind(value));
    }

    public static void staticLoaded(Object value, int field) {
        log("load " + TestSites.last.fieldNames[field]);
    }

    public static void arrayStore(Object[] array, int index, Object value) {
        array[index] = value;
        log("[" + index + "] = " + kind(value));
    }

    public static void arraycopy(Object from, int fromIndex, Object to, int toIndex, int length) {
        System.arraycopy(from, fromIndex, to, toIndex, length);
        log("copy " + length + " to " + toIndex);
    }

    public static void pin(Object object) {
        log("pin " + (object.getClass().isHidden() ? "lambda" : kind(object)));
    }

    public static boolean compareAndSetReference(Unsafe unsafe, Object object, long offset, Object expected, Object value) {
        log("compare and set");
        return unsafe.compareAndSetReference(object, offset, expected, value);
    }

    public static void putReference(Unsafe unsafe, Object object, long offset, Object value) {
        log("put");
        unsafe.putReference(object, offset, value);
    }
}
