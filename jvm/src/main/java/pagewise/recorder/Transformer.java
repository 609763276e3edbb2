package pagewise.recorder;

import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;

/** What the JVM shows each class to. */
final class Transformer implements ClassFileTransformer {
    private final Instrumenter instrumenter;
    private final Spool spool;

    Transformer(Instrumenter instrumenter, Spool spool) {
        this.instrumenter = instrumenter;
        this.spool = spool;
    }

    @Override
    public byte[] transform(
            Module module, ClassLoader loader, String name, Class<?> type, ProtectionDomain domain, byte[] code) {
        try {
            Recorder.busy(1);
            try {
                // Loaders may define classes without telling their names, as the JDK's XSLT does with its stylesheets.
                if (Instrumenter.isLeftOut(name != null ? name : Instrumenter.nameOf(code))) {
                    return null;
                }
                return instrument(code, loader != null);
            } finally {
                Recorder.busy(-1);
            }
        } catch (Throwable strange) {
            // Of any kind: the program's stack may be full here.
            count(Spool.Count.CLASSES_LEFT_OUT);
            return null;
        }
    }

    private byte[] instrument(byte[] code, boolean hasLoader) {
        Instrumenter.Result result = instrumenter.instrument(code, hasLoader);
        count(Spool.Count.CLASSES);
        for (int i = 0; i < result.methodsLeftOut; i++) {
            count(Spool.Count.METHODS_LEFT_OUT);
        }
        return result.code;
    }

    private void count(Spool.Count what) {
        synchronized (Spool.LOCK) {
            spool.count(what);
        }
    }
}
