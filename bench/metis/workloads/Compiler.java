package workloads;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import javax.tools.FileObject;
import javax.tools.ForwardingJavaFileManager;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileManager;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;

/** javac, from sources in memory to classes in memory. */
final class Compiler implements Workload {
    private final JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    private final List<Source> sources;

    private Compiler(List<Source> sources) {
        this.sources = sources;
    }

    /** Data structures, generics, lambdas, exceptions: what programs are made of. */
    static Compiler programs(boolean training) {
        Random random = new Random(training ? 11 : 12);
        List<Source> sources = new ArrayList<>();
        int count = training ? 5 : 6;
        for (int number = 0; number < count; number++) {
            sources.add(new Source("Program" + number, program(number, random)));
        }
        return new Compiler(sources);
    }

    private static String program(int number, Random random) {
        StringBuilder text = new StringBuilder("import java.util.*;\nimport java.util.function.*;\n");
        text.append("public class Program").append(number).append(" {\n");
        int methods = 4 + random.nextInt(5);
        for (int method = 0; method < methods; method++) {
            String name = "m" + method;
            switch (random.nextInt(4)) {
                case 0:
                    text.append("  static <T extends Comparable<T>> List<T> ").append(name)
                            .append("(Collection<? extends T> all) { List<T> out = new ArrayList<>(all); Collections.sort(out);")
                            .append(" for (Iterator<T> i = out.iterator(); i.hasNext(); ) { if (i.next() == null) i.remove(); }")
                            .append(" return out; }\n");
                    break;
                case 1:
                    text.append("  static Function<Integer, Integer> ").append(name).append("(int k) { int c = k + ")
                            .append(random.nextInt(100)).append("; return x -> { try { return x / (c - k); }")
                            .append(" catch (ArithmeticException e) { return -1; } finally { System.nanoTime(); } }; }\n");
                    break;
                case 2:
                    text.append("  static class N").append(method).append("<K, V> extends HashMap<K, V> { private final V other;")
                            .append(" N").append(method).append("(V other) { this.other = other; }")
                            .append(" @Override public V get(Object k) { V v = super.get(k); return v == null ? other : v; } }\n");
                    break;
                default:
                    text.append("  String ").append(name).append("(String s, int... more) { StringBuilder b = new StringBuilder(s);")
                            .append(" for (int i : more) switch (i % 3) { case 0: b.append(i).append(\"x\"); break;")
                            .append(" case 1: b.insert(0, i); break; default: b.reverse(); } return b + s + more.length; }\n");
            }
        }
        return text.append("}\n").toString();
    }

    /** Arithmetic on vectors and matrices: few types, long expressions. */
    static Compiler vectors(boolean training) {
        Random random = new Random(training ? 21 : 22);
        List<Source> sources = new ArrayList<>();
        int count = training ? 4 : 5;
        for (int number = 0; number < count; number++) {
            sources.add(new Source("Shader" + number, shader(number, random)));
        }
        return new Compiler(sources);
    }

    private static String shader(int number, Random random) {
        StringBuilder text = new StringBuilder("public final class Shader").append(number).append(" {\n");
        text.append("  public float x, y, z;\n  private final float[][] m = new float[4][4];\n");
        int methods = 6 + random.nextInt(6);
        for (int method = 0; method < methods; method++) {
            text.append("  public final Shader").append(number).append(" f").append(method).append("(Shader").append(number)
                    .append(" a, float t) {\n    float r = t;\n");
            int lines = 4 + random.nextInt(10);
            for (int line = 0; line < lines; line++) {
                int row = random.nextInt(4);
                int column = random.nextInt(4);
                text.append("    r += m[").append(row).append("][").append(column).append("] * (a.x - x) / (1f + ")
                        .append(random.nextInt(9)).append("f * a.y) - (float) Math.sqrt(a.z * z + r);\n");
                if (random.nextInt(3) == 0) {
                    text.append("    if (r > ").append(random.nextInt(50)).append("f && a != this) { x = r; } else { y -= r; }\n");
                }
            }
            text.append("    a.z = r;\n    return a;\n  }\n");
        }
        return text.append("}\n").toString();
    }

    @Override
    public long round(int number) {
        Classes classes = new Classes(compiler.getStandardFileManager(null, null, null));
        if (!compiler.getTask(null, classes, null, List.of("-proc:none", "-g"), null, sources).call()) {
            throw new IllegalStateException("the sources do not compile");
        }
        return classes.bytes();
    }

    private static final class Source extends SimpleJavaFileObject {
        private final String text;

        Source(String name, String text) {
            super(URI.create("string:///" + name + Kind.SOURCE.extension), Kind.SOURCE);
            this.text = text;
        }

        @Override
        public CharSequence getCharContent(boolean ignoreEncodingErrors) {
            return text;
        }
    }

    private static final class Classes extends ForwardingJavaFileManager<JavaFileManager> {
        private final List<ByteArrayOutputStream> written = new ArrayList<>();

        Classes(JavaFileManager files) {
            super(files);
        }

        @Override
        public JavaFileObject getJavaFileForOutput(Location place, String name, JavaFileObject.Kind kind, FileObject sibling) {
            return new SimpleJavaFileObject(URI.create("mem:///" + name.replace('.', '/') + kind.extension), kind) {
                @Override
                public OutputStream openOutputStream() {
                    ByteArrayOutputStream out = new ByteArrayOutputStream();
                    written.add(out);
                    return out;
                }
            };
        }

        long bytes() {
            return written.stream().mapToLong(ByteArrayOutputStream::size).sum();
        }
    }
}
