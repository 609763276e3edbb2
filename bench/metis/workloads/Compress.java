package workloads;

import java.io.ByteArrayOutputStream;
import java.util.Random;

/** LZW with a dictionary of nodes, block by block; what was compressed is expanded again and compared. */
final class Compress implements Workload {
    private static final int BLOCK = 4096;
    private static final int LARGEST = 1 << 12;

    private final byte[] text;

    Compress(boolean training) {
        Random random = new Random(training ? 31 : 32);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        String[] words = new String[training ? 120 : 400];
        for (int i = 0; i < words.length; i++) {
            words[i] = Integer.toString(random.nextInt(training ? 4000 : 90_000), 36) + (i % 3 == 0 ? ", " : " ");
        }
        int length = training ? 6 * BLOCK : 9 * BLOCK;
        while (out.size() < length) {
            // Common words are much more common than others.
            int word = (int) (words.length * Math.pow(random.nextDouble(), 3));
            out.writeBytes(words[word].getBytes(java.nio.charset.StandardCharsets.US_ASCII));
        }
        text = out.toByteArray();
    }

    @Override
    public long round(int number) {
        long sum = 0;
        for (int start = 0; start < text.length; start += BLOCK) {
            int end = Math.min(text.length, start + BLOCK);
            Codes codes = new Encoder().encode(text, start, end);
            sum += codes.count;
            byte[] again = new Decoder().decode(codes);
            for (int i = start; i < end; i++) {
                if (again[i - start] != text[i]) {
                    throw new IllegalStateException("expanded to something else");
                }
            }
        }
        return sum;
    }

    private static final class Codes {
        int[] codes = new int[64];
        int count;

        void add(int code) {
            if (count == codes.length) {
                codes = java.util.Arrays.copyOf(codes, 2 * count);
            }
            codes[count++] = code;
        }
    }

    /** What has been seen, as a tree of bytes: children in a list. */
    private static final class Node {
        final int code;
        final byte symbol;
        Node child;
        Node next;

        Node(int code, byte symbol) {
            this.code = code;
            this.symbol = symbol;
        }

        Node find(byte wanted) {
            Node at = child;
            while (at != null && at.symbol != wanted) {
                at = at.next;
            }
            return at;
        }

        void add(Node node) {
            node.next = child;
            child = node;
        }
    }

    private static final class Encoder {
        private final Node root = new Node(-1, (byte) 0);
        private int codes;

        Encoder() {
            for (int symbol = 0; symbol < 128; symbol++) {
                root.add(new Node(codes++, (byte) symbol));
            }
        }

        Codes encode(byte[] text, int start, int end) {
            Codes out = new Codes();
            Node at = root;
            for (int i = start; i < end; i++) {
                Node next = at.find(text[i]);
                if (next == null) {
                    out.add(at.code);
                    if (codes < LARGEST) {
                        at.add(new Node(codes++, text[i]));
                    }
                    next = root.find(text[i]);
                }
                at = next;
            }
            out.add(at.code);
            return out;
        }
    }

    /** An entry of the other side's dictionary: a shorter one and a byte. */
    private static final class Entry {
        final Entry before;
        final byte last;
        final int length;

        Entry(Entry before, byte last) {
            this.before = before;
            this.last = last;
            this.length = before == null ? 1 : before.length + 1;
        }

        byte first() {
            Entry at = this;
            while (at.before != null) {
                at = at.before;
            }
            return at.last;
        }

        byte[] bytes() {
            byte[] out = new byte[length];
            int at = length;
            for (Entry entry = this; entry != null; entry = entry.before) {
                out[--at] = entry.last;
            }
            return out;
        }
    }

    private static final class Decoder {
        private final Entry[] entries = new Entry[LARGEST];
        private int count;

        Decoder() {
            for (int symbol = 0; symbol < 128; symbol++) {
                entries[count++] = new Entry(null, (byte) symbol);
            }
        }

        byte[] decode(Codes codes) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            Entry before = null;
            for (int i = 0; i < codes.count; i++) {
                Entry entry = entries[codes.codes[i]];
                if (before != null && count < LARGEST) {
                    byte last = entry == null ? before.first() : entry.first();
                    entries[count++] = new Entry(before, last);
                }
                before = entries[codes.codes[i]];
                out.writeBytes(before.bytes());
            }
            return out.toByteArray();
        }
    }
}
