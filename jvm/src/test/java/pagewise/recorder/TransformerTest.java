package pagewise.recorder;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TransformerTest {
    private static final String NAME = "pagewise/samples/Samples";

    @TempDir
    Path folder;

    private Spool spool;
    private Transformer transformer;

    @BeforeEach
    void begin() throws IOException {
        spool = new Spool(path().toString(), 1, "java Main", 0);
        transformer = transformer(new TestSites());
    }

    private Path path() {
        return folder.resolve("1.0");
    }

    private Transformer transformer(Sites sites) {
        return new Transformer(new Instrumenter(sites, "pagewise/recorder/LoggingHooks", null, false), spool);
    }

    private byte[] transform(ClassLoader loader) throws IOException {
        try (InputStream code = TransformerTest.class.getResourceAsStream("Samples.class")) {
            return transformer.transform(null, loader, NAME, null, null, code.readAllBytes());
        }
    }

    private long count(Spool.Count what) throws IOException {
        ByteBuffer header = ByteBuffer.wrap(Files.readAllBytes(path())).order(ByteOrder.nativeOrder());
        return header.getLong(Spool.AT_COUNTS + 8 * what.ordinal());
    }

    /** Whatever is thrown: the stack of the thread that loads a class may be full. */
    @Test
    void classesThatFailAreCounted() throws IOException {
        transformer = transformer(new Sites(null) {
            @Override
            int site(String method, String file, int line, int index, String type) {
                throw new StackOverflowError();
            }
        });
        assertNull(transform(null));
        assertEquals(1, count(Spool.Count.CLASSES_LEFT_OUT));
        assertFalse(Recorder.isBusy());
    }
}
