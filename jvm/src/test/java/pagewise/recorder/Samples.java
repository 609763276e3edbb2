package pagewise.recorder;

import java.lang.reflect.Array;
import java.util.function.Supplier;
import jdk.internal.misc.Unsafe;

/** Code of every kind that the recorder changes. The tests run an instrumented copy. */
public class Samples {
    static class Node {
        Node next;
        Object value;
    }

    class Inner {
        Object seen() {
            return Samples.this;
        }
    }

    static class Copied implements Cloneable {
        Copied copy() throws CloneNotSupportedException {
            return (Copied) super.clone();
        }
    }

    static Node head;

    public static Object object() {
        return new Node();
    }

    public static Object nestedArguments() {
        return new StringBuilder(new String(new char[] {'a'}));
    }

    public static void arrays(long wide, int length) {
        Object[] all = {
            new boolean[1], new byte[2], new char[3], new short[length], new int[5], new float[6], new long[7], new double[8]
        };
        if (all.length != 8 || wide != 1) {
            throw new IllegalStateException();
        }
    }

    public static Object nested() {
        return new Node[2][3][];
    }

    public static void fields() {
        Node node = new Node();
        node.next = node;
        node.next = null;
        head = node;
        head.value = "text";
    }

    public static Object chained() {
        Node first = new Node();
        Node second = new Node();
        first.next = second.next = new Node();
        return first;
    }

    public static Object arrayStores() {
        Object[] array = new Object[2];
        array[1] = new Node();
        int at = 0;
        array[at++] = array[at];
        System.arraycopy(array, 0, array, 1, 1);
        return array;
    }

    public static String wrongStores() {
        StringBuilder caught = new StringBuilder();
        Object[] strings = new String[1];
        try {
            strings[0] = new Node();
        } catch (ArrayStoreException expected) {
            caught.append("type ");
        }
        try {
            strings[1] = "";
        } catch (ArrayIndexOutOfBoundsException expected) {
            caught.append("index ");
        }
        try {
            strings = null;
            strings[0] = "";
        } catch (NullPointerException expected) {
            caught.append("null");
        }
        return caught.toString();
    }

    public static Object beforeSuper() {
        return new Samples().new Inner().seen();
    }

    public static Object unseen() throws CloneNotSupportedException {
        int[] numbers = {1, 2};
        Object[] all = {numbers.clone(), new Copied().copy(), Array.newInstance(Node.class, 2)};
        return all;
    }

    public static Object lambdas(Object captured) {
        Supplier<Object> plain = Node::new;
        Supplier<Object> capturing = () -> captured;
        return plain.get() == capturing.get();
    }

    public static String interned(String text) {
        return text.intern();
    }

    public static int recursion(int depth) {
        Node node = new Node();
        if (depth == 0) {
            throw new IllegalArgumentException();
        }
        try {
            return recursion(depth - 1);
        } catch (IllegalArgumentException caught) {
            node.value = caught;
            return depth == 3 ? thrower(node) : throwOn(caught);
        } finally {
            node.next = new Node();
        }
    }

    private static int throwOn(IllegalArgumentException caught) {
        throw caught;
    }

    private static int thrower(Node node) {
        return node.value == null ? 1 : 2;
    }

    public static long primitives(int a, long b, double c) {
        long sum = 0;
        for (int i = 0; i < a; i++) {
            sum += b + (long) c;
        }
        return sum;
    }

    public static Object unsafe() {
        Unsafe unsafe = Unsafe.getUnsafe();
        Object[] array = new Object[1];
        long first = Unsafe.ARRAY_OBJECT_BASE_OFFSET;
        unsafe.weakCompareAndSetReferencePlain(array, first, null, array);
        unsafe.putReference(array, first, unsafe);
        return array[0] == unsafe;
    }
}
