package pagewise.recorder;

import java.util.Set;
import jdk.internal.misc.Unsafe;
import jdk.internal.misc.VM;

/** Whether this JVM runs as the recorder needs it to: a script's own options win over those that the command gave. */
final class Machine {
    /** As the command has them (cli/src/trace/jvm/java.rs). */
    private static final Set<Integer> SUPPORTED = Set.of(17, 21);

    private Machine() {}

    /** Before anything else is used, much of which others do not have; null: it is. */
    static String wrongVersion(int feature) {
        return SUPPORTED.contains(feature) ? null : "it is Java " + feature + "; try: Java 17 or 21";
    }

    /** To be asked when Unsafe is open; null: nothing. */
    static String wrongOptions() {
        return wrongOptions(VM.getRuntimeArguments(), Unsafe.ARRAY_OBJECT_INDEX_SCALE);
    }

    static String wrongOptions(String[] options, int referenceBytes) {
        if (referenceBytes != 4) {
            return "its references take 64 bits; try: -Xmx below 32g, and no -XX:-UseCompressedOops";
        }
        boolean isEpsilon = false;
        boolean verifiesLocal = false;
        boolean verifiesRemote = false;
        for (String option : options) {
            if (option.endsWith("UseEpsilonGC")) {
                isEpsilon = option.startsWith("-XX:+");
            } else if (option.endsWith("BytecodeVerificationLocal")) {
                verifiesLocal = option.startsWith("-XX:+");
            } else if (option.endsWith("BytecodeVerificationRemote")) {
                verifiesRemote = option.startsWith("-XX:+");
            } else if (option.startsWith("-Xverify")) {
                verifiesLocal = option.equals("-Xverify") || option.endsWith(":all");
                verifiesRemote = !option.endsWith(":none");
            }
        }
        if (!isEpsilon) {
            return "its collector moves objects; try: no option that chooses one";
        }
        boolean isVerifying = verifiesLocal || verifiesRemote;
        return isVerifying ? "it verifies the classes that are changed; try: no option that has it verify" : null;
    }
}
