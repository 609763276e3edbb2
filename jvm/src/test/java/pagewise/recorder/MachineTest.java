package pagewise.recorder;

import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class MachineTest {
    private static String wrong(String options) {
        return Machine.wrongOptions(options.split(" "), 4);
    }

    @Test
    void theLastOptionCounts() {
        String ours = "-XX:+UseEpsilonGC -XX:-BytecodeVerificationRemote";
        for (String fine : new String[] {"", " -Xverify:none", " -Xverify:all -Xverify:none", " -XX:-UseEpsilonGC -XX:+UseEpsilonGC"}) {
            assertNull(wrong(ours + fine), fine);
        }
        assertTrue(wrong("-Xmx1g").contains("collector"));
        assertTrue(wrong(ours + " -XX:-UseEpsilonGC").contains("collector"));
        for (String verifying : new String[] {
            "-Xverify", "-Xverify:all", "-Xverify:remote", "-XX:+BytecodeVerificationLocal", "-XX:+BytecodeVerificationRemote"
        }) {
            assertTrue(wrong(ours + " " + verifying).contains("verifies"), verifying);
        }
    }

    @Test
    void referencesOf64BitsAndOtherVersionsAreTold() {
        assertTrue(Machine.wrongOptions(new String[] {"-XX:+UseEpsilonGC"}, 8).contains("64 bits"));
        assertNull(Machine.wrongVersion(17));
        assertNull(Machine.wrongVersion(21));
        assertTrue(Machine.wrongVersion(25).contains("Java 25"));
    }
}
