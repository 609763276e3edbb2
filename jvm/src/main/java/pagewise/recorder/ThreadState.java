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

    /** The first slots belong to no frame: the recorder's own. */
    static final int RESERVED = 2;

    final int number;
    final Object[] slots = new Object[SLOTS];
    /** What the trace was last told of each slot. */
    final int[] told = new int[SLOTS];
    /** To read a reference's bits: an object is put here and an integer taken out. */
    final Object[] scratch = new Object[1];
    /** Slots below are in use. */
    int top = RESERVED;
    /** Slots from here on may have changed since the trace was last told. */
    int low = RESERVED;
    /** Slots below may be known to the trace. */
    int toldTop = RESERVED;
    /** The thread is in the recorder itself, or in a class transformer: what it does now is not the program's. */
    int busy;

    ThreadState(int number) {
        this.number = number;
    }
}
