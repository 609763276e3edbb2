import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import javax.management.ObjectName;

/** What the tests of `pagewise trace record --jvm` record. */
public final class Objects {
    static class Leaf {
        long number;
    }

    public static class Tree implements Cloneable {
        public Tree left;
        public Tree right;
        public Object value;

        @Override
        public Tree clone() throws CloneNotSupportedException {
            return (Tree) super.clone();
        }
    }

    static class Link {
        Link next;
        Leaf[] leaves = new Leaf[3];
    }

    public static final Map<Integer, Tree> TREES = new HashMap<>();
    static final Map<Integer, Leaf> SHARED = new ConcurrentHashMap<>();
    static final List<Supplier<Leaf>> LATER = new ArrayList<>();
    static final Deque<Link> QUEUE = new ArrayDeque<>();
    static Link chain;

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "busy":
                busy(Integer.parseInt(arguments[1]));
                break;
            case "histogram":
                busy(Integer.parseInt(arguments[1]));
                System.out.println(histogram());
                break;
            case "threads":
                threads();
                break;
            case "files":
                files(Integer.parseInt(arguments[1]));
                break;
            case "ending":
                ending(Integer.parseInt(arguments[1]));
                break;
            case "deep":
                TREES.put(0, deep(Integer.parseInt(arguments[1])));
                break;
            case "overflow":
                overflow(Integer.parseInt(arguments[1]));
                break;
            case "name":
                inThreads(1, () -> System.out.println(Thread.currentThread().getName()));
                break;
            case "unnamed":
                unnamed(Integer.parseInt(arguments[1]));
                break;
            case "kill":
                busy(20_000);
                new ProcessBuilder("kill", "-9", Long.toString(ProcessHandle.current().pid())).start().waitFor();
                Thread.sleep(60_000);
                break;
            case "fill":
                for (List<byte[]> all = new ArrayList<>(); ; ) {
                    all.add(new byte[1 << 16]);
                }
            case "fail":
                System.exit(7);
                break;
            default:
                throw new IllegalArgumentException(arguments[0]);
        }
    }

    /** Makes and drops objects in every way: fields, arrays, collections, clones, lambdas, reflection, exceptions. */
    static void busy(int steps) throws Exception {
        Random random = new Random(1);
        for (int step = 0; step < steps; step++) {
            int key = random.nextInt(100);
            switch (random.nextInt(9)) {
                case 0:
                    TREES.put(key, grow(random, 4));
                    break;
                case 1:
                    TREES.remove(key);
                    break;
                case 2:
                    SHARED.computeIfAbsent(key, unused -> new Leaf()).number++;
                    break;
                case 3:
                    SHARED.remove(key);
                    break;
                case 4:
                    Link link = new Link();
                    link.leaves[key % 3] = new Leaf();
                    link.next = key == 0 ? null : chain;
                    chain = key % 10 == 0 ? link : chain;
                    QUEUE.add(link);
                    break;
                case 5:
                    QUEUE.poll();
                    break;
                case 6:
                    Tree tree = TREES.get(key);
                    TREES.put(key + 100, tree == null ? null : tree.clone());
                    break;
                case 7:
                    Leaf captured = new Leaf();
                    LATER.add(() -> captured);
                    if (LATER.size() > 50) {
                        LATER.subList(0, 40).clear();
                    }
                    break;
                default:
                    Tree made = Tree.class.getDeclaredConstructor().newInstance();
                    made.value = failing(made);
                    TREES.put(key, made);
            }
        }
    }

    private static Tree grow(Random random, int depth) {
        Tree tree = new Tree();
        if (depth > 0) {
            tree.left = grow(random, depth - 1);
            tree.right = random.nextBoolean() ? grow(random, depth - 2) : null;
            tree.value = new Leaf[][] {{new Leaf()}, {}};
        }
        return tree;
    }

    /** Holds a tree in a local variable, and nowhere else, while others come and go. */
    public static final class Unnamed implements Runnable {
        @Override
        public void run() {
            Tree kept = pair();
            kept.value = new Object[1];
            for (int i = 0; i < 50; i++) {
                TREES.put(0, pair());
            }
            TREES.put(1, kept);
        }
    }

    /** Defines a class without saying how it is called, as the JDK's XSLT does with compiled stylesheets. */
    private static final class Definer extends ClassLoader {
        Class<?> define() throws IOException {
            try (InputStream code = Objects.class.getResourceAsStream("Objects$Unnamed.class")) {
                byte[] bytes = code.readAllBytes();
                return defineClass(null, bytes, 0, bytes.length);
            }
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            return Objects.class.getClassLoader().loadClass(name);
        }
    }

    public static Tree pair() {
        Tree tree = new Tree();
        tree.left = new Tree();
        return tree;
    }

    private static void unnamed(int rounds) throws Exception {
        Class<?> type = new Definer().define();
        Runnable task = (Runnable) type.getDeclaredConstructor().newInstance();
        for (int round = 0; round < rounds; round++) {
            task.run();
        }
    }

    private static Object failing(Tree tree) {
        try {
            return new Leaf[1][-tree.hashCode() | 1 << 31];
        } catch (NegativeArraySizeException wrong) {
            return new Leaf();
        }
    }

    private static void threads() throws InterruptedException {
        inThreads(3, () -> {
            for (int i = 0; i < 20_000; i++) {
                SHARED.put(i % 1000, new Leaf());
            }
        });
    }

    private static void inThreads(int count, Runnable task) throws InterruptedException {
        List<Thread> all = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Thread thread = new Thread(task);
            thread.start();
            all.add(thread);
        }
        for (Thread thread : all) {
            thread.join();
        }
    }

    /** Each opening and closing takes a monitor of the JDK's, and stores references within. */
    private static void files(int rounds) throws InterruptedException {
        inThreads(4, () -> {
            for (int round = 0; round < rounds; round++) {
                try {
                    new FileInputStream("/dev/null").close();
                } catch (IOException failed) {
                    throw new IllegalStateException(failed);
                }
            }
        });
    }

    /** Threads one after the other. */
    private static void ending(int count) throws InterruptedException {
        for (int number = 0; number < count; number++) {
            int key = number;
            inThreads(1, () -> SHARED.put(key % 1000, new Leaf()));
        }
    }

    /** Each call holds a tree in a local variable, and nowhere else, while those below allocate. */
    private static Tree deep(int calls) {
        Tree kept = pair();
        Tree below = calls > 0 ? deep(calls - 1) : null;
        kept.right = below;
        kept.left.value = new Leaf();
        return kept;
    }

    /** Stacks of several sizes are filled in several ways, so that they are full at many places; leaves come last. */
    private static void overflow(int rounds) throws InterruptedException {
        for (int round = 0; round < rounds; round++) {
            int depth = round % 37;
            Thread thread = new Thread(null, () -> fill(depth), "full", 1 << (17 + round % 3));
            thread.start();
            thread.join();
        }
        for (int i = 0; i < 1000; i++) {
            SHARED.put(i, new Leaf());
        }
    }

    private static void fill(int depth) {
        if (depth > 0) {
            fill(depth - 1);
            return;
        }
        try {
            fill();
        } catch (StackOverflowError full) {
            chain = null;
        }
    }

    private static void fill() {
        chain = new Link();
        chain.leaves[0] = new Leaf();
        fill();
    }

    /** Of what is alive, as the JVM itself finds it. */
    private static Object histogram() throws Exception {
        return ManagementFactory.getPlatformMBeanServer()
                .invoke(
                        new ObjectName("com.sun.management:type=DiagnosticCommand"),
                        "gcClassHistogram",
                        new Object[] {new String[0]},
                        new String[] {String[].class.getName()});
    }
}
