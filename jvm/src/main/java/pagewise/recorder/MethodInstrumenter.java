package pagewise.recorder;

import java.util.HashSet;
import java.util.Set;
import org.objectweb.asm.ConstantDynamic;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.FieldInsnNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.IntInsnNode;
import org.objectweb.asm.tree.InvokeDynamicInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.LdcInsnNode;
import org.objectweb.asm.tree.LineNumberNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.MultiANewArrayInsnNode;
import org.objectweb.asm.tree.TryCatchBlockNode;
import org.objectweb.asm.tree.TypeInsnNode;
import org.objectweb.asm.tree.VarInsnNode;
import org.objectweb.asm.tree.analysis.Analyzer;
import org.objectweb.asm.tree.analysis.AnalyzerException;
import org.objectweb.asm.tree.analysis.BasicInterpreter;
import org.objectweb.asm.tree.analysis.BasicValue;
import org.objectweb.asm.tree.analysis.Frame;

/**
 * Adds the recorder's calls to a method.
 *
 * <p>The method's frame has a slot for each local variable, and behind them one for each place of the operand stack. A
 * reference is put into the slot of where it lies when it comes to lie there: from a parameter, an allocation, a field, an
 * array, a call, a handler. It stays until another takes the slot, as in an interpreter's frame.
 */
final class MethodInstrumenter {
    private static final String STATE = "pagewise/recorder/ThreadState";
    private static final String STATE_TYPE = "L" + STATE + ";";
    private static final String OBJECT = "Ljava/lang/Object;";
    private static final String UNSAFE = "jdk/internal/misc/Unsafe";
    private static final int NO_FRAME = -1;
    /** The longest of the recorder's calls has four arguments, and a copy of one below them. */
    private static final int MORE_STACK = 5;
    /** Of local variables of ours. */
    private static final int MORE_VARIABLES = 2;
    /** Of variables, and of the stack, by the format of class files. */
    private static final int MOST = 65_535;

    private final ClassNode owner;
    private final MethodNode method;
    private final Sites sites;
    private final String hooks;
    private final boolean isStatic;
    /** The class was not loaded by the JVM itself: the classes that it names are looked for by code in Java. */
    private final boolean hasLoader;
    private Frame<BasicValue>[] frames;
    /** Local variables of ours: the thread's state, and the frame's first slot. */
    private int stateVariable = NO_FRAME;
    /** As these, where the frame has no slots: what its handlers find above them is gone. */
    private int callersVariable = NO_FRAME;

    private int line;
    private int index;

    MethodInstrumenter(ClassNode owner, MethodNode method, Sites sites, String hooks, boolean hasLoader) {
        this.owner = owner;
        this.method = method;
        this.sites = sites;
        this.hooks = hooks;
        this.hasLoader = hasLoader;
        this.isStatic = (method.access & Opcodes.ACC_STATIC) != 0;
    }

    /** There is no room in it for what tells the recorder of what it does. */
    boolean isFull() {
        return method.maxStack + MORE_STACK > MOST;
    }

    /** Its frame can be followed: it has room, and what looks like a reference is one. */
    boolean canBeFollowed() {
        return hasVariables() && !hasSubroutines();
    }

    private boolean hasVariables() {
        return method.maxLocals + MORE_VARIABLES <= MOST;
    }

    /** Of old class files: there a place in the code is a value that is stored as a reference is. */
    private boolean hasSubroutines() {
        for (AbstractInsnNode instruction : method.instructions) {
            if (instruction.getOpcode() == Opcodes.JSR) {
                return true;
            }
        }
        return false;
    }

    void instrument(boolean follow, boolean restore, boolean starts, boolean jumps) {
        int slots = method.maxLocals + method.maxStack;
        method.maxStack += MORE_STACK;
        follow = follow && analyze() && mayHold();
        if (follow) {
            stateVariable = moreVariables();
        } else if (restore && hasVariables() && !method.tryCatchBlocks.isEmpty()) {
            callersVariable = moreVariables();
        }
        AbstractInsnNode[] original = method.instructions.toArray();
        for (index = 0; index < original.length; index++) {
            AbstractInsnNode instruction = original[index];
            if (instruction instanceof LineNumberNode) {
                line = ((LineNumberNode) instruction).line;
            } else if (instruction.getOpcode() >= 0) {
                instrument(instruction);
            }
        }
        catchExceptions(slots);
        method.instructions.insert(prologue(slots, starts, jumps));
    }

    private int moreVariables() {
        int first = method.maxLocals;
        method.maxLocals += MORE_VARIABLES;
        return first;
    }

    private boolean analyze() {
        try {
            frames = new Analyzer<>(new BasicInterpreter()).analyze(owner.name, method);
            return true;
        } catch (AnalyzerException strange) {
            return false;
        }
    }

    /** A method without references has nothing to hold. */
    private boolean mayHold() {
        if (!isStatic || method.desc.indexOf(';') >= 0 || method.desc.indexOf('[') >= 0) {
            return true;
        }
        for (AbstractInsnNode instruction : method.instructions) {
            switch (instruction.getOpcode()) {
                case Opcodes.NEW:
                case Opcodes.NEWARRAY:
                case Opcodes.ANEWARRAY:
                case Opcodes.MULTIANEWARRAY:
                case Opcodes.GETSTATIC:
                case Opcodes.INVOKESTATIC:
                case Opcodes.INVOKEDYNAMIC:
                case Opcodes.LDC:
                    return true;
                default:
            }
        }
        return false;
    }

    private InsnList prologue(int slots, boolean starts, boolean jumps) {
        InsnList code = new InsnList();
        if (starts) {
            call(code, "start", "()V");
        }
        if (jumps) {
            push(code, site(""));
            call(code, "jump", "(I)V");
        }
        if (callersVariable != NO_FRAME) {
            enter(code, 0, callersVariable);
        }
        if (stateVariable != NO_FRAME) {
            enter(code, slots, stateVariable);
            holdParameters(code);
        }
        return code;
    }

    private void enter(InsnList code, int slots, int variable) {
        push(code, slots);
        call(code, "enter", "(I)" + STATE_TYPE);
        code.add(new InsnNode(Opcodes.DUP));
        code.add(new VarInsnNode(Opcodes.ASTORE, variable));
        push(code, slots);
        call(code, "base", "(" + STATE_TYPE + "I)I");
        code.add(new VarInsnNode(Opcodes.ISTORE, variable + 1));
    }

    private void holdParameters(InsnList code) {
        int variable = 0;
        if (!isStatic) {
            holdVariable(code, variable++);
        }
        for (Type type : Type.getArgumentTypes(method.desc)) {
            if (isReference(type)) {
                holdVariable(code, variable);
            }
            variable += type.getSize();
        }
        if (owner.name.equals("java/lang/Thread") && method.name.equals("start")) {
            code.add(new VarInsnNode(Opcodes.ALOAD, 0));
            call(code, "pin", "(" + OBJECT + ")V");
        }
    }

    private void instrument(AbstractInsnNode instruction) {
        int opcode = instruction.getOpcode();
        InsnList after = new InsnList();
        switch (opcode) {
            case Opcodes.NEW:
                allocated(after, "allocated", ((TypeInsnNode) instruction).desc.replace('/', '.'));
                hold(after, instruction);
                break;
            case Opcodes.NEWARRAY:
                array(after, primitive(((IntInsnNode) instruction).operand));
                hold(after, instruction);
                break;
            case Opcodes.ANEWARRAY:
                array(after, Type.getObjectType(((TypeInsnNode) instruction).desc));
                hold(after, instruction);
                break;
            case Opcodes.MULTIANEWARRAY:
                allocated(after, "allocatedNested", Type.getType(((MultiANewArrayInsnNode) instruction).desc).getClassName());
                hold(after, instruction);
                break;
            case Opcodes.LDC:
                constant(after, (LdcInsnNode) instruction);
                break;
            case Opcodes.GETFIELD:
                if (isReference(Type.getType(((FieldInsnNode) instruction).desc))) {
                    hold(after, instruction);
                }
                break;
            case Opcodes.GETSTATIC:
                staticField(after, (FieldInsnNode) instruction, "staticLoaded");
                break;
            case Opcodes.PUTFIELD:
                storeField((FieldInsnNode) instruction);
                break;
            case Opcodes.PUTSTATIC:
                storeStatic((FieldInsnNode) instruction);
                break;
            case Opcodes.AALOAD:
                hold(after, instruction);
                break;
            case Opcodes.AASTORE:
                replace(instruction, "arrayStore", "([" + OBJECT + "I" + OBJECT + ")V");
                return;
            case Opcodes.ASTORE:
                if (stateVariable != NO_FRAME) {
                    holdVariable(after, ((VarInsnNode) instruction).var);
                }
                break;
            case Opcodes.DUP_X1:
            case Opcodes.DUP_X2:
            case Opcodes.DUP2_X1:
            case Opcodes.DUP2_X2:
            case Opcodes.SWAP:
                moveSlots(after, instruction);
                break;
            case Opcodes.INVOKEDYNAMIC:
                dynamic(after, (InvokeDynamicInsnNode) instruction);
                break;
            case Opcodes.INVOKEVIRTUAL:
            case Opcodes.INVOKESPECIAL:
            case Opcodes.INVOKESTATIC:
            case Opcodes.INVOKEINTERFACE:
                invoke(after, (MethodInsnNode) instruction);
                break;
            case Opcodes.ARETURN:
                pinForLauncher(instruction);
                method.instructions.insertBefore(instruction, leave());
                break;
            case Opcodes.IRETURN:
            case Opcodes.LRETURN:
            case Opcodes.FRETURN:
            case Opcodes.DRETURN:
            case Opcodes.RETURN:
                method.instructions.insertBefore(instruction, leave());
                break;
            default:
        }
        method.instructions.insert(instruction, after);
    }

    // ---- Allocations

    private void allocated(InsnList code, String hook, String type) {
        code.add(new InsnNode(Opcodes.DUP));
        push(code, site(type));
        call(code, hook, "(" + OBJECT + "I)V");
    }

    private void array(InsnList code, Type element) {
        code.add(new InsnNode(Opcodes.DUP));
        code.add(new InsnNode(Opcodes.DUP));
        code.add(new InsnNode(Opcodes.ARRAYLENGTH));
        push(code, shift(element));
        push(code, site(element.getClassName() + "[]"));
        call(code, "allocatedArray", "(" + OBJECT + "III)V");
    }

    private static Type primitive(int operand) {
        switch (operand) {
            case Opcodes.T_BOOLEAN:
                return Type.BOOLEAN_TYPE;
            case Opcodes.T_CHAR:
                return Type.CHAR_TYPE;
            case Opcodes.T_FLOAT:
                return Type.FLOAT_TYPE;
            case Opcodes.T_DOUBLE:
                return Type.DOUBLE_TYPE;
            case Opcodes.T_BYTE:
                return Type.BYTE_TYPE;
            case Opcodes.T_SHORT:
                return Type.SHORT_TYPE;
            case Opcodes.T_INT:
                return Type.INT_TYPE;
            default:
                return Type.LONG_TYPE;
        }
    }

    /** Of an element's bytes; a compressed reference has four. */
    private static int shift(Type element) {
        switch (element.getSort()) {
            case Type.BOOLEAN:
            case Type.BYTE:
                return 0;
            case Type.CHAR:
            case Type.SHORT:
                return 1;
            case Type.LONG:
            case Type.DOUBLE:
                return 3;
            default:
                return 2;
        }
    }

    private int site(String type) {
        String name = owner.name.replace('/', '.') + '.' + method.name;
        return sites.site(name, owner.sourceFile, line, index, type);
    }

    // ---- Fields

    private void storeField(FieldInsnNode store) {
        if (!isReference(Type.getType(store.desc))) {
            return;
        }
        method.instructions.insertBefore(store, new InsnNode(Opcodes.DUP2));
        InsnList after = new InsnList();
        push(after, sites.field(store.owner, store.name));
        call(after, "fieldStored", "(" + OBJECT + OBJECT + "I)V");
        method.instructions.insert(store, after);
    }

    private void storeStatic(FieldInsnNode store) {
        if (!isReference(Type.getType(store.desc))) {
            return;
        }
        method.instructions.insertBefore(store, new InsnNode(Opcodes.DUP));
        InsnList after = new InsnList();
        push(after, sites.field(store.owner, store.name));
        call(after, "staticStored", "(" + OBJECT + "I)V");
        method.instructions.insert(store, after);
    }

    private void staticField(InsnList code, FieldInsnNode load, String hook) {
        if (!isReference(Type.getType(load.desc))) {
            return;
        }
        code.add(new InsnNode(Opcodes.DUP));
        push(code, sites.field(load.owner, load.name));
        call(code, hook, "(" + OBJECT + "I)V");
        hold(code, load);
    }

    private void constant(InsnList code, LdcInsnNode load) {
        if (load.cst instanceof Number || load.cst instanceof ConstantDynamic && !isReference((ConstantDynamic) load.cst)) {
            return;
        }
        code.add(new InsnNode(Opcodes.DUP));
        call(code, "pin", "(" + OBJECT + ")V");
        hold(code, load);
    }

    private static boolean isReference(ConstantDynamic computed) {
        return isReference(Type.getType(computed.getDescriptor()));
    }

    // ---- Calls

    private static final Set<String> WEAK_FORMS = Set.of(
            "weakCompareAndSetReference",
            "weakCompareAndSetReferencePlain",
            "weakCompareAndSetReferenceAcquire",
            "weakCompareAndSetReferenceRelease");
    private static final Set<String> EXCHANGES =
            Set.of("compareAndExchangeReferenceAcquire", "compareAndExchangeReferenceRelease");
    private static final Set<String> SWAPS = Set.of("getAndSetReferenceAcquire", "getAndSetReferenceRelease");
    private static final Set<String> UNSAFE_WRITES = Set.of(
            "putReference",
            "putReferenceVolatile",
            "putReferenceRelease",
            "putReferenceOpaque",
            "compareAndSetReference",
            "compareAndExchangeReference",
            "getAndSetReference");

    private void invoke(InsnList after, MethodInsnNode call) {
        Type returned = Type.getReturnType(call.desc);
        if (call.name.equals("<init>") || !isReference(returned)) {
            invokeOther(after, call);
            return;
        }
        if (call.owner.equals(UNSAFE) && replaceUnsafe(call)) {
            hold(after, call);
            return;
        }
        boolean isClone = call.name.equals("clone") && call.desc.equals("()" + OBJECT);
        boolean isInterned = call.name.equals("intern") && call.owner.equals("java/lang/String");
        if (isClone || allocatesUnseen(call)) {
            boolean isArray = call.owner.startsWith("[");
            allocated(after, "returned", isArray ? Type.getObjectType(call.owner).getClassName() : typeOf(call, returned));
        }
        if (isInterned || isClone && HELD_BY_THE_JVM.contains(owner.name)) {
            after.add(new InsnNode(Opcodes.DUP));
            call(after, "pin", "(" + OBJECT + ")V");
        }
        hold(after, call);
    }

    private void invokeOther(InsnList after, MethodInsnNode call) {
        if (call.owner.equals(UNSAFE)) {
            replaceUnsafe(call);
        } else if (call.name.equals("arraycopy") && call.owner.equals("java/lang/System")) {
            retarget(call, "arraycopy", call.desc);
        }
    }

    private boolean replaceUnsafe(MethodInsnNode call) {
        String name = call.name;
        if (WEAK_FORMS.contains(name)) {
            name = "compareAndSetReference";
        } else if (EXCHANGES.contains(name)) {
            name = "compareAndExchangeReference";
        } else if (SWAPS.contains(name)) {
            name = "getAndSetReference";
        }
        if (!UNSAFE_WRITES.contains(name)) {
            return false;
        }
        retarget(call, name, "(L" + UNSAFE + ";" + call.desc.substring(1));
        return true;
    }

    /** Calls of native methods that allocate what they return. */
    private static boolean allocatesUnseen(MethodInsnNode call) {
        switch (call.name) {
            case "newArray":
            case "multiNewArray":
            case "newInstance":
                return call.owner.equals("java/lang/reflect/Array");
            case "allocateInstance":
            case "allocateUninitializedArray":
                return call.owner.equals(UNSAFE);
            case "copyOf":
            case "copyOfRange":
                return call.owner.equals("java/util/Arrays");
            case "newInstance0":
                return call.owner.startsWith("jdk/internal/reflect/");
            default:
                return false;
        }
    }

    /** What is known of it here: {@code super.clone()} makes one of this class or a subclass, others anything. */
    private String typeOf(MethodInsnNode call, Type returned) {
        if (call.name.equals("clone")) {
            return owner.name.replace('/', '.');
        }
        return returned.getDescriptor().equals(OBJECT) ? "" : returned.getClassName();
    }

    /** Lambdas that capture something are new each time; those that do not are kept by the JVM. */
    private void dynamic(InsnList after, InvokeDynamicInsnNode call) {
        Type returned = Type.getReturnType(call.desc);
        if (!isReference(returned)) {
            return;
        }
        if (call.desc.startsWith("()")) {
            after.add(new InsnNode(Opcodes.DUP));
            call(after, "pin", "(" + OBJECT + ")V");
        } else {
            allocated(after, "returned", returned.getClassName());
        }
        hold(after, call);
    }

    private void replace(AbstractInsnNode instruction, String hook, String descriptor) {
        method.instructions.set(
                instruction, new MethodInsnNode(Opcodes.INVOKESTATIC, hooks, hook, descriptor, false));
    }

    private void retarget(MethodInsnNode call, String hook, String descriptor) {
        call.setOpcode(Opcodes.INVOKESTATIC);
        call.owner = hooks;
        call.name = hook;
        call.desc = descriptor;
        call.itf = false;
    }

    // ---- Frames

    /** The reference on top of the stack, into the slot of its place; not where the next takes it at once. */
    private void hold(InsnList code, AbstractInsnNode producer) {
        int depth = depthAfter(producer);
        if (depth < 0 || isTakenAtOnce(producer)) {
            return;
        }
        code.add(new InsnNode(Opcodes.DUP));
        holdTop(code, stackSlot(depth - 1));
    }

    private void holdVariable(InsnList code, int variable) {
        code.add(new VarInsnNode(Opcodes.ALOAD, variable));
        holdTop(code, variable);
    }

    private void holdTop(InsnList code, int slot) {
        code.add(new VarInsnNode(Opcodes.ALOAD, stateVariable));
        slotNumber(code, slot);
        call(code, "hold", "(" + OBJECT + STATE_TYPE + "I)V");
    }

    private void slotNumber(InsnList code, int slot) {
        code.add(new VarInsnNode(Opcodes.ILOAD, stateVariable + 1));
        push(code, slot);
        code.add(new InsnNode(Opcodes.IADD));
    }

    private int stackSlot(int place) {
        return stateVariable + place;
    }

    /** Values on the stack after the instruction; -1 where no frame is followed or the code is never reached. */
    private int depthAfter(AbstractInsnNode instruction) {
        if (stateVariable == NO_FRAME || index + 1 >= frames.length || frames[index] == null) {
            return -1;
        }
        // Producers of references fall through.
        Frame<BasicValue> next = frames[index + 1];
        return next == null ? -1 : next.getStackSize();
    }

    private boolean isTakenAtOnce(AbstractInsnNode producer) {
        AbstractInsnNode next = producer.getNext();
        while (next != null && (next.getOpcode() < 0 || next.getOpcode() == Opcodes.CHECKCAST)) {
            if (mayRunOthers(next)) {
                return false;
            }
            next = next.getNext();
        }
        if (next == null || mayRunOthers(next)) {
            return false;
        }
        switch (next.getOpcode()) {
            case Opcodes.ASTORE:
            case Opcodes.POP:
            case Opcodes.ARETURN:
            case Opcodes.IFNULL:
            case Opcodes.IFNONNULL:
            case Opcodes.ARRAYLENGTH:
            case Opcodes.GETFIELD:
            case Opcodes.PUTFIELD:
            case Opcodes.AASTORE:
            case Opcodes.INSTANCEOF:
            case Opcodes.IF_ACMPEQ:
            case Opcodes.IF_ACMPNE:
                return true;
            case Opcodes.INVOKEVIRTUAL:
            case Opcodes.INVOKESPECIAL:
            case Opcodes.INVOKEINTERFACE:
                // As the last argument, or the receiver: a parameter of the method that is called. A static call may
                // first initialise a class, which allocates.
                return true;
            default:
                return false;
        }
    }

    /**
     * Whether code of others may run, and allocate, while the instruction still has its operands: a class loader's, the first
     * time that a class is named here; what is in a method handle.
     */
    private boolean mayRunOthers(AbstractInsnNode instruction) {
        String named;
        if (instruction instanceof TypeInsnNode) {
            named = ((TypeInsnNode) instruction).desc;
        } else if (instruction instanceof FieldInsnNode) {
            named = ((FieldInsnNode) instruction).owner;
        } else if (instruction instanceof MethodInsnNode) {
            named = ((MethodInsnNode) instruction).owner;
        } else {
            return false;
        }
        return named.startsWith("java/lang/invoke/") || hasLoader && !named.equals(owner.name);
    }

    /** What the instruction does to the stack, done to its slots. */
    private void moveSlots(InsnList code, AbstractInsnNode instruction) {
        if (stateVariable == NO_FRAME || frames[index] == null) {
            return;
        }
        Frame<BasicValue> before = frames[index];
        int top = before.getStackSize();
        boolean isWide = before.getStack(top - 1).getSize() == 2;
        int moved = 1;
        int under = 1;
        switch (instruction.getOpcode()) {
            case Opcodes.DUP_X1:
                break;
            case Opcodes.DUP_X2:
                under = before.getStack(top - 2).getSize() == 2 ? 1 : 2;
                break;
            case Opcodes.DUP2_X1:
                moved = isWide ? 1 : 2;
                break;
            case Opcodes.DUP2_X2:
                moved = isWide ? 1 : 2;
                under = before.getStack(top - 1 - moved).getSize() == 2 ? 1 : 2;
                break;
            default: // SWAP: the upper's old slot keeps it too, which does no harm.
                copy(code, top - 2, top);
                copy(code, top - 1, top - 2);
                copy(code, top, top - 1);
                return;
        }
        // From the top down, so that nothing is overwritten before it is copied.
        for (int place = top - 1; place >= top - moved - under; place--) {
            copy(code, place, place + moved);
        }
        for (int place = 0; place < moved; place++) {
            copy(code, top + place, top - moved - under + place);
        }
    }

    private void copy(InsnList code, int from, int to) {
        code.add(new VarInsnNode(Opcodes.ALOAD, stateVariable));
        slotNumber(code, stackSlot(from));
        slotNumber(code, stackSlot(to));
        call(code, "copy", "(" + STATE_TYPE + "II)V");
    }

    private InsnList leave() {
        InsnList code = new InsnList();
        if (method.name.equals("<init>") && HELD_BY_THE_JVM.contains(owner.name)) {
            code.add(new VarInsnNode(Opcodes.ALOAD, 0));
            call(code, "pin", "(" + OBJECT + ")V");
        }
        if (stateVariable != NO_FRAME) {
            code.add(new VarInsnNode(Opcodes.ALOAD, stateVariable));
            code.add(new VarInsnNode(Opcodes.ILOAD, stateVariable + 1));
            call(code, "leave", "(" + STATE_TYPE + "I)V");
        }
        if (method.name.equals("exit") && owner.name.equals("java/lang/Thread")) {
            call(code, "threadEnds", "()V");
        }
        return code;
    }

    /** The launcher is native code, and keeps what it is given: the program's arguments. */
    private void pinForLauncher(AbstractInsnNode instruction) {
        if (owner.name.equals("sun/launcher/LauncherHelper")) {
            InsnList code = new InsnList();
            code.add(new InsnNode(Opcodes.DUP));
            call(code, "pin", "(" + OBJECT + ")V");
            method.instructions.insertBefore(instruction, code);
        }
    }

    /** Objects that the JVM keeps for good, or for as long as classes that refer to them; made by these constructors. */
    private static final Set<String> HELD_BY_THE_JVM = Set.of(
            "java/lang/ClassLoader",
            "java/lang/Module",
            "java/lang/invoke/CallSite",
            "java/lang/invoke/LambdaForm",
            "java/lang/invoke/MemberName",
            "java/lang/invoke/MethodHandle",
            "java/lang/invoke/MethodType",
            "java/security/ProtectionDomain");

    /** Handlers find the frames of what was called gone, and the exception on the stack. */
    private void catchExceptions(int slots) {
        Set<LabelNode> done = new HashSet<>();
        for (TryCatchBlockNode block : method.tryCatchBlocks) {
            if (!done.add(block.handler)) {
                continue;
            }
            InsnList code = new InsnList();
            if (callersVariable != NO_FRAME) {
                code.add(new VarInsnNode(Opcodes.ALOAD, callersVariable));
                code.add(new VarInsnNode(Opcodes.ILOAD, callersVariable + 1));
                call(code, "caught", "(" + STATE_TYPE + "I)V");
            }
            if (stateVariable != NO_FRAME) {
                code.add(new VarInsnNode(Opcodes.ALOAD, stateVariable));
                slotNumber(code, slots);
                call(code, "caught", "(" + STATE_TYPE + "I)V");
                code.add(new InsnNode(Opcodes.DUP));
                holdTop(code, stackSlot(0));
            }
            method.instructions.insert(block.handler, code);
        }
    }

    // ---- Small code

    private void call(InsnList code, String hook, String descriptor) {
        code.add(new MethodInsnNode(Opcodes.INVOKESTATIC, hooks, hook, descriptor, false));
    }

    private static void push(InsnList code, int number) {
        if (number >= -1 && number <= 5) {
            code.add(new InsnNode(Opcodes.ICONST_0 + number));
        } else if (number >= Byte.MIN_VALUE && number <= Byte.MAX_VALUE) {
            code.add(new IntInsnNode(Opcodes.BIPUSH, number));
        } else if (number >= Short.MIN_VALUE && number <= Short.MAX_VALUE) {
            code.add(new IntInsnNode(Opcodes.SIPUSH, number));
        } else {
            code.add(new LdcInsnNode(number));
        }
    }

    private static boolean isReference(Type type) {
        return type.getSort() == Type.OBJECT || type.getSort() == Type.ARRAY;
    }
}
