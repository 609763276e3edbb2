package pagewise.recorder;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import jdk.internal.misc.Unsafe;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SpoolTest {
    private static final Unsafe U = Unsafe.getUnsafe();
    private static final int WORDS = 4;

    @TempDir
    Path folder;

    private Path path() {
        return folder.resolve("1.0");
    }

    private Spool spool() throws IOException {
        return new Spool(path().toString(), 1, "java Main", 0);
    }

    @Test
    void goesOnFromWindowToWindow() throws IOException {
        Spool spool = spool();
        spool.start(() -> {});
        int records = 3 * Spool.WINDOW / (4 * WORDS);
        for (int i = 0; i < records; i++) {
            long at = spool.reserve(WORDS);
            assertNotEquals(0, at);
            U.putInt(null, at + 4, i);
            spool.publish(WORDS, Spool.ALLOCATE);
        }
        try (FileChannel file = FileChannel.open(path())) {
            ByteBuffer all = file.map(FileChannel.MapMode.READ_ONLY, Spool.HEADER, file.size() - Spool.HEADER);
            check(all.order(ByteOrder.nativeOrder()), records);
        }
    }

    private static void check(ByteBuffer all, int records) {
        int at = 0;
        for (int i = 0; i < records; i++) {
            if (all.getInt(at) == Spool.PAD) {
                at += Spool.WINDOW - at % Spool.WINDOW;
            }
            assertEquals(Spool.ALLOCATE, all.getInt(at));
            assertEquals(i, all.getInt(at + 4));
            at += 4 * WORDS;
        }
        assertEquals(0, all.getInt(at));
    }

    /** An exception may come in between: what is left unfinished is no end, and is not taken for a record. */
    @Test
    void theNextRecordTakesThePlaceOfAnUnfinishedOne() throws IOException {
        Spool spool = spool();
        long unfinished = spool.reserve(WORDS);
        for (int i = 1; i < WORDS; i++) {
            U.putInt(null, unfinished + 4 * i, Spool.JUMP);
        }
        assertEquals(unfinished, spool.reserve(2));
        U.putInt(null, unfinished + 4, 7);
        spool.publish(2, Spool.PIN);
        try (InputStream file = Files.newInputStream(path())) {
            file.skipNBytes(Spool.HEADER);
            ByteBuffer words = ByteBuffer.wrap(file.readNBytes(12)).order(ByteOrder.nativeOrder());
            assertEquals(Spool.PIN, words.getInt());
            assertEquals(7, words.getInt());
            assertEquals(0, words.getInt());
        }
    }

    /** As long as what was written, and a window to come; not as the addresses that are mapped. */
    @Test
    void takesNoMoreRoomThanItNeeds() throws IOException {
        Spool spool = spool();
        assertEquals(Spool.HEADER + Spool.WINDOW, Files.size(path()));
        spool.start(() -> {});
        assertEquals(Spool.HEADER + 2 * Spool.WINDOW, Files.size(path()));
    }

    /** The application's thread is in there: nothing may be thrown into it. */
    @Test
    void typesThatFindNoSiteShareTheLast() throws IOException {
        Sites sites = new Sites(spool(), 3);
        assertEquals(0, sites.site("a.A.b", "A.java", 1, 0, "a.B"));
        assertEquals(1, sites.unseen(String.class));
        assertEquals(2, sites.unseen(Integer.class));
        assertEquals(2, sites.unseen(Long.class));
        assertThrows(Sites.TooMany.class, () -> sites.site("a.A.c", "A.java", 2, 0, "a.B"));
        assertEquals(1, sites.unseen(String.class));
        try (InputStream file = Files.newInputStream(path())) {
            String text = new String(file.readNBytes(2 * Spool.HEADER), StandardCharsets.ISO_8859_1);
            assertEquals(2, text.split("other types", -1).length);
        }
    }
}
