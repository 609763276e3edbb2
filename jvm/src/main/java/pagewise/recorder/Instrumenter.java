package pagewise.recorder;

import java.util.List;
import java.util.ListIterator;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodTooLargeException;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.MethodNode;

/** Classes in, classes that tell the recorder out. Methods keep their signatures, so loaded classes can be transformed too. */
final class Instrumenter {
    /** Bytes of code from which a method's frame is not followed: with it, it might not fit into the format's 64 KB. */
    private static final int LARGE = 12_000;

    private final Sites sites;
    private final String hooks;
    /** Where recording starts, as {@code class.method}; null: at once. */
    private final String from;

    private final boolean jumps;

    /** How a class went. */
    static final class Result {
        byte[] code;
        int methodsLeftOut;
    }

    Instrumenter(Sites sites, String hooks, String from, boolean jumps) {
        this.sites = sites;
        this.hooks = hooks;
        this.from = from;
        this.jumps = jumps;
    }

    /**
     * Classes that stay as they are: the recorder's own, those that walk stacks, and Unsafe, whose callers are
     * instrumented instead.
     */
    static boolean isLeftOut(String name) {
        return name.startsWith("pagewise/recorder/")
                || name.startsWith("java/lang/instrument/")
                || name.startsWith("sun/instrument/")
                || name.startsWith("jdk/internal/vm/")
                || name.startsWith("java/lang/StackStreamFactory")
                // Allocates lambdas: they are seen where they are returned, with what hidden code put into them.
                || name.startsWith("java/lang/invoke/DirectMethodHandle")
                || name.equals("jdk/internal/misc/Unsafe")
                || name.equals("java/lang/Object");
    }

    static String nameOf(byte[] code) {
        return new ClassReader(code).getClassName();
    }

    /** {@code hasLoader}: the class is not loaded by the JVM itself. */
    Result instrument(byte[] original, boolean hasLoader) {
        try {
            return instrument(original, hasLoader, LARGE, true);
        } catch (MethodTooLargeException large) {
            return instrumentLarge(original, hasLoader);
        }
    }

    private Result instrumentLarge(byte[] original, boolean hasLoader) {
        try {
            return instrument(original, hasLoader, 0, true);
        } catch (MethodTooLargeException larger) {
            return instrument(original, hasLoader, 0, false);
        }
    }

    /**
     * The verifier is off, so frames for it are not needed. {@code restore}: methods whose frames are not followed drop those
     * of what they called where they catch an exception.
     */
    private Result instrument(byte[] original, boolean hasLoader, int large, boolean restore) {
        ClassNode node = new ClassNode();
        new ClassReader(original).accept(node, ClassReader.SKIP_FRAMES);
        Result result = new Result();
        for (MethodNode method : node.methods) {
            if ((method.access & (Opcodes.ACC_ABSTRACT | Opcodes.ACC_NATIVE)) != 0) {
                continue;
            }
            MethodInstrumenter one = new MethodInstrumenter(node, method, sites, hooks, hasLoader);
            boolean follow = method.instructions.size() < large && !one.isFull() && one.canBeFollowed();
            result.methodsLeftOut += follow ? 0 : 1;
            boolean starts = from != null && from.equals(node.name.replace('/', '.') + '.' + method.name);
            if (!one.isFull()) {
                one.instrument(follow, restore, starts, jumps);
            }
        }
        // Sizes of stacks are the method instrumenter's: ASM would take them from the frames that were skipped.
        ClassWriter writer = new ClassWriter(0);
        node.accept(writer);
        result.code = writer.toByteArray();
        return result;
    }
}
