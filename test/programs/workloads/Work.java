// SPDX-License-Identifier: MIT
// Nothing in what it prints depends on time, order or addresses.
import java.io.*;
import java.nio.*;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class Work {
    static String hash(byte[] data) throws Exception {
        return new java.math.BigInteger(1, MessageDigest.getInstance("SHA-256").digest(data)).toString(16);
    }

    static String work(int seed) throws Exception {
        Map<String, List<String>> table = new TreeMap<>();
        for (int i = 0; i < 400; i++) {
            String key = hash((seed + "-" + i).getBytes());
            table.put(key.substring(0, i % 20 + 2), new ArrayList<>(Collections.nCopies(i % 9, key)));
        }
        byte[] text = table.toString().getBytes();
        Deflater deflater = new Deflater(6);
        deflater.setInput(text);
        deflater.finish();
        byte[] packed = new byte[text.length + 100];
        int size = deflater.deflate(packed);
        deflater.end();
        Inflater inflater = new Inflater();
        inflater.setInput(packed, 0, size);
        byte[] again = new byte[text.length];
        int length = inflater.inflate(again);
        inflater.end();
        return hash(text) + " " + size + " " + length + " " + Arrays.equals(text, again);
    }

    static void threads() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(6);
        List<Future<String>> said = new ArrayList<>();
        for (int n = 0; n < 6; n++) {
            int seed = n;
            said.add(pool.submit(() -> work(seed)));
        }
        for (Future<String> one : said) System.out.println(one.get());
        pool.shutdown();
        List<Thread> brief = new ArrayList<>();
        LongAdderLike sum = new LongAdderLike();
        for (int n = 0; n < 60; n++) {
            int number = n;
            Thread thread = new Thread(() -> sum.add(number), "brief-" + n);
            thread.start();
            brief.add(thread);
        }
        for (Thread thread : brief) thread.join();
        System.out.println("threads " + sum.value);
        System.out.println("parallel " + IntStream.range(0, 400_000).parallel().mapToLong(i -> (long) i * i % 7919).sum());
    }

    static class LongAdderLike {
        long value;
        synchronized void add(int more) { value += more; }
    }

    static void arrays() {
        long total = 0;
        List<byte[]> kept = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            byte[] one = new byte[(i % 16 + 1) << 20];
            Arrays.fill(one, (byte) i);
            total += one[one.length / 2];
            if (i % 9 == 0) kept.add(one);
            if (kept.size() > 4) kept.remove(0);
        }
        double[] numbers = new double[200_000];
        for (int i = 0; i < numbers.length; i++) numbers[i] = (i * 48271L % 1_000_003) / 8.0;
        Arrays.parallelSort(numbers);
        System.out.println("arrays " + total + " " + numbers[100_000] + " " + Arrays.hashCode(numbers));
        List<Object> nodes = new LinkedList<>();
        for (int i = 0; i < 150_000; i++) {
            nodes.add(new int[] {i});
            if (nodes.size() > 20_000) nodes.remove(0);
        }
        System.gc();
        System.out.println("nodes " + ((int[]) nodes.get(100))[0]);
    }

    static void outside(String folder) throws Exception {
        long total = 0;
        for (int i = 0; i < 80; i++) {
            ByteBuffer direct = ByteBuffer.allocateDirect((i % 12 + 1) * 70_000);
            while (direct.remaining() >= 8) direct.putLong(i);
            total += direct.getLong(64_000);
            if (i % 40 == 0) System.gc();
        }
        Path file = Path.of(folder, "mapped");
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            MappedByteBuffer mapped = channel.map(FileChannel.MapMode.READ_WRITE, 0, 3 << 20);
            for (int i = 0; i < mapped.capacity(); i++) mapped.put(i, (byte) (i * 31));
            mapped.force();
        }
        System.out.println("outside " + total + " " + hash(Files.readAllBytes(file)));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ZipOutputStream zip = new ZipOutputStream(bytes)) {
            for (int i = 0; i < 100; i++) {
                ZipEntry entry = new ZipEntry("entry" + i);
                entry.setTime(315_532_800_000L);
                zip.putNextEntry(entry);
                zip.write(("text " + i).repeat(i * 20).getBytes());
            }
        }
        try (ZipInputStream zip = new ZipInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
            int count = 0;
            while (zip.getNextEntry() != null) count += zip.readAllBytes().length;
            System.out.println("zip " + count);
        }
    }

    static void processes() throws Exception {
        List<Process> all = new ArrayList<>();
        for (int n = 0; n < 8; n++) {
            all.add(new ProcessBuilder("sh", "-c", "seq " + n + " 5000 | sort -r | cksum; echo $((" + n + " * 7)) >&2")
                .redirectErrorStream(true).start());
        }
        for (Process one : all) {
            String said = new String(one.getInputStream().readAllBytes());
            System.out.println("process " + said.lines().sorted().collect(Collectors.joining(" ")) + " " + one.waitFor());
        }
        try {
            new ProcessBuilder("/nonexistent").start();
        } catch (IOException problem) {
            System.out.println("process is not there");
        }
    }

    public static void main(String[] arguments) throws Exception {
        arrays();
        threads();
        outside(arguments[0]);
        processes();
    }
}
