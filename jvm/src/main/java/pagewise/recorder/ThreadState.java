package pagewise.recorder;

/**
 * What the recorder keeps of a thread: the references that its frames hold, as an interpreter's stack would.
 *
 * <p>Each recorded method has a frame of slots, one for each local variable and one for each place of the operand stack.
 * Slots are written by the thread itself and read only by it, when it next allocates.
 */
public final class ThreadState {
    /** Frames beyond are not followed, and counted: some ten thousand of them fit. */
    static final int SLOTS = 1 << 18;

    /** To begin with: 16 KB. Most threads need no more, and under Epsilon none is ever given back. */
    static final int FIRST_SLOTS = 1 << 11;

    /** The first slots belong to no frame: the recorder's own. */
    static final int RESERVED = 2;

    static final int NONE = -1;
    static final int UNCUT = Integer.MAX_VALUE;

    /** The trace's number of the thread, which it gets with its first event. */
    int number = NONE;

    Object[] slots;
    /** What the trace was last told of each slot. */
    int[] told;
    /** To read a reference's bits: an object is put here and an integer taken out. */
    final Object[] scratch = new Object[1];
    /** Slots below are in use. */
    int top = RESERVED;
    /** Slots from here on may have changed since the trace was last told. */
    int low = RESERVED;
    /** Slots below may be known to the trace. */
    int toldTop = RESERVED;
    /** The trace is being told that slots from here on are no more; it may not have been, if an exception came in between. */
    int cut = UNCUT;
    /** The thread is in the recorder itself, or in a class transformer: what it does now is not the program's. */
    int busy;

    /** Of a thread that has ended: the next that is free as well. */
    ThreadState nextFree;

    ThreadState(int slots) {
        this.slots = new Object[slots];
        this.told = new int[slots];
    }

    /** Room for a frame that ends there; false: it is too deep to be followed. */
    boolean grow(int end) {
        if (end > SLOTS) {
            return false;
        }
        int size = slots.length;
        while (size < end) {
            size *= 2;
        }
        Object[] moreSlots = new Object[size];
        int[] moreTold = new int[size];
        for (int i = 0; i < slots.length; i++) {
            moreSlots[i] = slots[i];
            moreTold[i] = told[i];
        }
        slots = moreSlots;
        told = moreTold;
        return true;
    }
}
