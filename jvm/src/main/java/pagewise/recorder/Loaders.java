package pagewise.recorder;

import java.util.IdentityHashMap;
import java.util.Map;

/** Which class loaders find the recorder: what they load may call it. Some know only the packages that they were told of. */
final class Loaders {
    /** Of those that were asked, whether they do; of those that are being asked, the thread that asks. */
    private final Map<ClassLoader, Object> known = new IdentityHashMap<>();

    boolean findUs(ClassLoader loader) {
        if (loader == null) {
            return true;
        }
        Object answer = knownOf(loader);
        if (answer instanceof Boolean) {
            return (Boolean) answer;
        }
        if (answer == Thread.currentThread()) {
            // The loader loads a class of its own to be able to answer.
            return false;
        }
        boolean found = ask(loader);
        note(loader, found);
        return found;
    }

    /** Loaders are the program's own code: what they do there is recorded, so the thread is not busy. */
    private static boolean ask(ClassLoader loader) {
        try {
            return Class.forName(Recorder.class.getName(), false, loader) == Recorder.class;
        } catch (ClassNotFoundException | RuntimeException | Error none) {
            return false;
        }
    }

    private Object knownOf(ClassLoader loader) {
        Recorder.busy(1);
        try {
            synchronized (known) {
                Object answer = known.get(loader);
                if (answer == null) {
                    known.put(loader, Thread.currentThread());
                }
                return answer;
            }
        } finally {
            Recorder.busy(-1);
        }
    }

    private void note(ClassLoader loader, boolean found) {
        Recorder.busy(1);
        try {
            synchronized (known) {
                known.put(loader, found);
            }
        } finally {
            Recorder.busy(-1);
        }
    }
}
