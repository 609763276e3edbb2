package pagewise.recorder;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.ConstantDynamic;
import org.objectweb.asm.Handle;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.analysis.Analyzer;
import org.objectweb.asm.tree.analysis.AnalyzerException;
import org.objectweb.asm.tree.analysis.BasicVerifier;

class InstrumenterTest {
    private static final String HOOKS = "pagewise/recorder/LoggingHooks";

    private TestSites sites;
    private int methodsLeftOut;

    @BeforeEach
    void reset() {
        LoggingHooks.reset();
        sites = new TestSites();
    }

    /** Loads instrumented copies of the samples' classes. */
    private static final class Loader extends ClassLoader {
        private final Instrumenter instrumenter;

        Loader(Instrumenter instrumenter) {
            super(InstrumenterTest.class.getClassLoader());
            this.instrumenter = instrumenter;
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith("pagewise.recorder.Samples")) {
                return super.loadClass(name, resolve);
            }
            Class<?> known = findLoadedClass(name);
            return known != null ? known : define(instrumenter.instrument(original(name), true).code);
        }

        Class<?> define(byte[] code) {
            return defineClass(null, code, 0, code.length);
        }
    }

    private static byte[] original(String name) {
        try (InputStream in = InstrumenterTest.class.getResourceAsStream("/" + name.replace('.', '/') + ".class")) {
            return in.readAllBytes();
        } catch (IOException failed) {
            throw new IllegalStateException(failed);
        }
    }

    private Object run(String name, Object... arguments) throws Throwable {
        return run(new Instrumenter(sites, HOOKS, null, false), name, arguments);
    }

    private Object run(Instrumenter instrumenter, String name, Object... arguments) throws Throwable {
        int top = LoggingHooks.state.top;
        Class<?> samples = new Loader(instrumenter).loadClass("pagewise.recorder.Samples");
        Method method = Stream.of(samples.getDeclaredMethods()).filter(one -> one.getName().equals(name)).findFirst().get();
        try {
            Object result = method.invoke(null, arguments);
            assertEquals(top, LoggingHooks.state.top, "every frame was left");
            return result;
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }

    private static List<String> log(String... starts) {
        return LoggingHooks.LOG.stream()
                .filter(line -> Stream.of(starts).anyMatch(line::startsWith))
                .collect(Collectors.toList());
    }

    @Test
    void tellsOfANewObjectWithItsPlace() throws Throwable {
        assertNotNull(run("object"));
        assertEquals(List.of("allocated Node as Samples$Node"), log("allocated"));
        String site = TestSites.texts.stream().filter(text -> text.endsWith("Samples$Node")).findFirst().get();
        assertTrue(site.startsWith("pagewise.recorder.Samples.object\tSamples.java\t"), site);
    }

    @Test
    void tellsOfObjectsBeforeTheirConstructorsArguments() throws Throwable {
        assertEquals("a", run("nestedArguments").toString());
        assertEquals(
                List.of("allocated StringBuilder as StringBuilder", "allocated String as String", "array char[] 1 << 1"),
                log("allocated", "array"));
    }

    @Test
    void tellsLengthAndWidthOfArrays() throws Throwable {
        run("arrays", 1L, 4);
        assertEquals(
                List.of(
                        "array Object[] 8 << 2",
                        "array boolean[] 1 << 0",
                        "array byte[] 2 << 0",
                        "array char[] 3 << 1",
                        "array short[] 4 << 1",
                        "array int[] 5 << 2",
                        "array float[] 6 << 2",
                        "array long[] 7 << 3",
                        "array double[] 8 << 3"),
                log("array"));
        run("nested");
        assertEquals(List.of("nested Samples$Node[][][]"), log("nested"));
    }

    @Test
    void tellsOfFieldsAndStatics() throws Throwable {
        run("fields");
        assertEquals(
                List.of("Node.next = Node", "Node.next = null", "static head = Node", "load head", "pin String",
                        "Node.value = String"),
                log("Node.", "static", "load", "pin"));
        LoggingHooks.LOG.clear();
        run("chained");
        assertEquals(List.of("Node.next = Node", "Node.next = Node"), log("Node."));
    }

    @Test
    void storesIntoArraysAsTheInstructionDoes() throws Throwable {
        Object[] array = (Object[]) run("arrayStores");
        assertNotNull(array[0]);
        assertEquals(array[0], array[1]);
        assertEquals(List.of("[1] = Node", "[0] = Node", "copy 1 to 1"), log("[", "copy"));
        LoggingHooks.LOG.clear();
        assertEquals("type index null", run("wrongStores"));
        assertEquals(List.of(), log("["));
    }

    @Test
    void seesFieldsThatAreSetBeforeTheSuperclassIsConstructed() throws Throwable {
        assertNotNull(run("beforeSuper"));
        assertEquals(List.of("Inner.this$0 = Samples"), log("Inner."));
    }

    @Test
    void asksAboutWhatNativeCodeReturns() throws Throwable {
        run("unseen");
        assertEquals(List.of("returned int[]", "returned Copied", "returned Node[]"), log("returned"));
    }

    @Test
    void takesLambdasForNewIfTheyCaptureSomething() throws Throwable {
        assertEquals(false, run("lambdas", "captured"));
        assertEquals(List.of("pin lambda", "returned lambda"), log("pin lambda", "returned"));
        run("interned", "text");
        assertTrue(LoggingHooks.LOG.contains("pin String"));
    }

    @Test
    void findsItsFrameAgainAfterExceptions() throws Throwable {
        assertEquals(2, run("recursion", 3));
        int once = LoggingHooks.deepest;
        for (int i = 0; i < 100; i++) {
            run("recursion", 3);
        }
        assertEquals(once, LoggingHooks.deepest);
        assertThrows(IllegalArgumentException.class, () -> run("recursion", 2));
    }

    @Test
    void leavesMethodsWithoutReferencesAlone() throws Throwable {
        assertEquals(15L, run("primitives", 3, 2L, 3.5));
        assertEquals(ThreadState.RESERVED, LoggingHooks.deepest == 0 ? ThreadState.RESERVED : LoggingHooks.deepest);
    }

    @Test
    void callsTheRecorderInsteadOfUnsafe() throws Throwable {
        assertEquals(true, run("unsafe"));
        assertEquals(List.of("compare and set", "put"), log("compare", "put"));
    }

    @Test
    void startsAndJumpsWhereTold() throws Throwable {
        Instrumenter instrumenter = new Instrumenter(sites, HOOKS, "pagewise.recorder.Samples.chained", true);
        run(instrumenter, "chained");
        assertEquals("start", LoggingHooks.LOG.get(0));
        assertEquals("jump pagewise.recorder.Samples.chained", LoggingHooks.LOG.get(1));
    }

    /** A method of the instructions given between two objects and two returns of what is on top. */
    private Object runCode(java.util.function.Consumer<MethodVisitor> body) throws Throwable {
        return runCode(Opcodes.V1_5, 0, 0, body);
    }

    /** Sizes of 0: as the method needs them. */
    private Object runCode(int version, int stack, int variables, java.util.function.Consumer<MethodVisitor> body)
            throws Throwable {
        ClassWriter writer = new ClassWriter(stack == 0 ? ClassWriter.COMPUTE_MAXS : 0);
        writer.visit(version, Opcodes.ACC_PUBLIC, "made/Code", null, "java/lang/Object", null);
        MethodVisitor method = writer.visitMethod(
                Opcodes.ACC_PUBLIC | Opcodes.ACC_STATIC, "run", "(Ljava/lang/Object;Ljava/lang/Object;J)Ljava/lang/Object;", null, null);
        method.visitCode();
        body.accept(method);
        method.visitInsn(Opcodes.ARETURN);
        method.visitMaxs(stack, variables);
        method.visitEnd();
        writer.visitEnd();
        Instrumenter instrumenter = new Instrumenter(sites, HOOKS, null, false);
        Instrumenter.Result made = instrumenter.instrument(writer.toByteArray(), true);
        methodsLeftOut = made.methodsLeftOut;
        Class<?> type = new Loader(instrumenter).define(made.code);
        Object result = type.getMethod("run", Object.class, Object.class, long.class).invoke(null, "a", "b", 1L);
        assertEquals(ThreadState.RESERVED, LoggingHooks.state.top);
        return result;
    }

    private static void newNode(MethodVisitor method) {
        method.visitTypeInsn(Opcodes.NEW, "java/lang/Object");
        method.visitInsn(Opcodes.DUP);
        method.visitMethodInsn(Opcodes.INVOKESPECIAL, "java/lang/Object", "<init>", "()V", false);
    }

    @Test
    void followsWhatIsMovedOnTheStack() throws Throwable {
        // Each moves the new object below others; what pops those must leave it held.
        int[][] moves = {
            {Opcodes.DUP_X1, 1, Opcodes.POP},
            {Opcodes.SWAP, 1, Opcodes.NOP},
            {Opcodes.DUP_X2, 2, Opcodes.POP},
        };
        for (int[] move : moves) {
            Object result = runCode(method -> {
                for (int i = 0; i < move[1]; i++) {
                    method.visitVarInsn(Opcodes.ALOAD, 0);
                }
                newNode(method);
                method.visitInsn(move[0]);
                method.visitInsn(move[2]);
                for (int i = 0; i < move[1]; i++) {
                    method.visitInsn(Opcodes.POP);
                }
                method.visitInsn(Opcodes.DUP);
                method.visitMethodInsn(
                        Opcodes.INVOKESTATIC, "pagewise/recorder/LoggingHooks", "note", "(Ljava/lang/Object;)V", false);
            });
            assertNotNull(result);
            assertTrue(LoggingHooks.wasHeld, "after " + move[0]);
        }
    }

    @Test
    void movesOfWideValuesStayWithinTheFrame() throws Throwable {
        for (int move : new int[] {Opcodes.DUP2_X1, Opcodes.DUP2_X2, Opcodes.DUP_X2}) {
            Object result = runCode(method -> {
                method.visitVarInsn(Opcodes.ALOAD, 0);
                method.visitVarInsn(Opcodes.ALOAD, 1);
                if (move == Opcodes.DUP_X2) {
                    method.visitInsn(Opcodes.POP);
                    method.visitVarInsn(Opcodes.LLOAD, 2);
                    newNode(method);
                    method.visitInsn(move);
                    method.visitInsn(Opcodes.POP);
                    method.visitInsn(Opcodes.POP2);
                    method.visitInsn(Opcodes.POP);
                } else {
                    method.visitVarInsn(Opcodes.LLOAD, 2);
                    method.visitInsn(move);
                    method.visitInsn(Opcodes.POP2);
                    method.visitInsn(Opcodes.POP);
                    if (move == Opcodes.DUP2_X2) {
                        method.visitInsn(Opcodes.POP);
                    }
                    method.visitInsn(Opcodes.POP2);
                    if (move == Opcodes.DUP2_X2) {
                        method.visitVarInsn(Opcodes.ALOAD, 0);
                    }
                }
            });
            assertEquals("a", result);
        }
    }

    @Test
    void hugeMethodsStillFit() throws Throwable {
        Object result = runCode(method -> {
            for (int i = 0; i < 11_000; i++) {
                method.visitVarInsn(Opcodes.ALOAD, 0);
                method.visitVarInsn(Opcodes.ASTORE, 1);
            }
            Label end = new Label();
            method.visitJumpInsn(Opcodes.GOTO, end);
            method.visitLabel(end);
            newNode(method);
        });
        assertNotNull(result);
        assertEquals(1, log("allocated").size());
    }

    /** Taken for references, they would end the JVM. */
    @Test
    void computedConstantsMayBeNumbers() throws Throwable {
        for (String type : List.of("I", "J")) {
            Object result = runCode(Opcodes.V11, 0, 0, method -> {
                method.visitLdcInsn(parsed(type));
                method.visitMethodInsn(
                        Opcodes.INVOKESTATIC, "java/lang/String", "valueOf", "(" + type + ")Ljava/lang/String;", false);
            });
            assertEquals("123456789", result);
        }
        assertEquals(List.of(), log("pin"));
    }

    private static ConstantDynamic parsed(String type) {
        String bootstrap = "(Ljava/lang/invoke/MethodHandles$Lookup;Ljava/lang/String;Ljava/lang/Class;"
                + "Ljava/lang/invoke/MethodHandle;[Ljava/lang/Object;)Ljava/lang/Object;";
        String owner = type.equals("I") ? "java/lang/Integer" : "java/lang/Long";
        String parser = type.equals("I") ? "parseInt" : "parseLong";
        int tag = Opcodes.H_INVOKESTATIC;
        return new ConstantDynamic(
                "number",
                type,
                new Handle(tag, "java/lang/invoke/ConstantBootstraps", "invoke", bootstrap, false),
                new Handle(tag, owner, parser, "(Ljava/lang/String;)" + type, false),
                "123456789");
    }

    /** What a subroutine stores as a reference is where it returns to. */
    @Test
    void subroutinesAreNotFollowed() throws Throwable {
        Object result = runCode(method -> {
            Label subroutine = new Label();
            Label end = new Label();
            method.visitJumpInsn(Opcodes.JSR, subroutine);
            method.visitJumpInsn(Opcodes.GOTO, end);
            method.visitLabel(subroutine);
            method.visitVarInsn(Opcodes.ASTORE, 4);
            newNode(method);
            method.visitVarInsn(Opcodes.ASTORE, 0);
            method.visitVarInsn(Opcodes.RET, 4);
            method.visitLabel(end);
            method.visitVarInsn(Opcodes.ALOAD, 0);
        });
        assertNotNull(result);
        assertEquals(1, methodsLeftOut);
        assertEquals(1, log("allocated").size());
    }

    /** The format has room for 65,535 variables, and as many places of the stack. */
    @Test
    void methodsWithoutRoomForMoreStayAsTheyAre() throws Throwable {
        int[][] sizes = {{2, 65_534}, {2, 65_535}, {65_531, 4}, {65_535, 4}};
        for (int[] size : sizes) {
            assertNotNull(runCode(Opcodes.V1_5, size[0], size[1], InstrumenterTest::newNode), size[0] + ", " + size[1]);
            assertEquals(1, methodsLeftOut);
        }
        assertEquals(2, log("allocated").size(), "where the stack has room");
    }

    @Test
    void methodsThatAreNotFollowedDropWhatTheyCaughtAnExceptionOf() throws Throwable {
        Object result = runCode(method -> {
            Label start = new Label();
            Label handler = new Label();
            Label end = new Label();
            method.visitTryCatchBlock(start, handler, handler, "java/lang/IllegalArgumentException");
            for (int i = 0; i < 12_000; i++) {
                method.visitInsn(Opcodes.NOP);
            }
            method.visitLabel(start);
            method.visitInsn(Opcodes.ICONST_0);
            method.visitMethodInsn(Opcodes.INVOKESTATIC, "pagewise/recorder/Samples", "recursion", "(I)I", false);
            method.visitInsn(Opcodes.POP);
            method.visitJumpInsn(Opcodes.GOTO, end);
            method.visitLabel(handler);
            method.visitVarInsn(Opcodes.ASTORE, 1);
            method.visitLabel(end);
            method.visitVarInsn(Opcodes.ALOAD, 1);
        });
        assertInstanceOf(IllegalArgumentException.class, result);
        assertEquals(1, methodsLeftOut);
    }

    @Test
    void leavesTheRecordersOwnClassesAndUnsafeAlone() {
        assertTrue(Instrumenter.isLeftOut("pagewise/recorder/Recorder"));
        assertTrue(Instrumenter.isLeftOut("jdk/internal/misc/Unsafe"));
        assertFalse(Instrumenter.isLeftOut("java/util/HashMap"));
        assertFalse(Instrumenter.isLeftOut("java/lang/invoke/VarHandleReferences$Array"));
    }

    /** What becomes of the JDK's own classes is consistent: depths of stacks, kinds of values. */
    @Test
    void theJdksClassesStaySound() throws Exception {
        Instrumenter instrumenter = new Instrumenter(sites, HOOKS, null, true);
        Path modules = FileSystems.getFileSystem(URI.create("jrt:/")).getPath("/modules/java.base/java");
        int methods = 0;
        for (String folder : List.of("util", "util/concurrent", "io", "text")) {
            List<Path> files;
            try (Stream<Path> all = Files.list(modules.resolve(folder))) {
                files = all.filter(file -> file.toString().endsWith(".class")).collect(Collectors.toList());
            }
            for (Path file : files) {
                ClassNode node = new ClassNode();
                new ClassReader(instrumenter.instrument(Files.readAllBytes(file), false).code).accept(node, 0);
                for (MethodNode method : node.methods) {
                    try {
                        new Analyzer<>(new BasicVerifier()).analyze(node.name, method);
                    } catch (AnalyzerException wrong) {
                        throw new AssertionError(node.name + "." + method.name + method.desc, wrong);
                    }
                    methods++;
                }
            }
        }
        assertTrue(methods > 5000, methods + " methods");
        assertInstanceOf(TestSites.class, sites);
    }
}
