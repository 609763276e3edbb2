package pagewise.recorder;

import java.lang.instrument.Instrumentation;
import java.lang.instrument.UnmodifiableClassException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Starts recording in a JVM: {@code -javaagent:pagewise-jvm-recorder.jar=spool=FOLDER[,from=CLASS.METHOD][,jumps=1]}. */
public final class Agent {
    private Agent() {}

    /** Nothing is thrown: the JVM would end, where it may as well go on unrecorded. */
    public static void premain(String arguments, Instrumentation instrumentation) {
        try {
            String wrong = Machine.wrongVersion(Runtime.version().feature());
            if (wrong == null) {
                wrong = start(arguments, instrumentation);
            }
            if (wrong != null) {
                tell(wrong);
            }
        } catch (Throwable failed) {
            tell(failed.toString());
        }
    }

    private static void tell(String why) {
        System.err.println("pagewise: this JVM is not recorded: " + why);
    }

    /** Why it was not; null: it was. */
    private static String start(String arguments, Instrumentation instrumentation) throws Exception {
        String spool = "";
        String from = null;
        boolean jumps = false;
        for (String option : arguments.split(",")) {
            if (option.startsWith("spool=")) {
                spool = option.substring(6);
            } else if (option.startsWith("from=")) {
                from = option.substring(5);
            } else if (option.equals("jumps=1")) {
                jumps = true;
            }
        }
        open(instrumentation);
        String wrong = Machine.wrongOptions();
        if (wrong == null) {
            Recording.start(instrumentation, spool, from, jumps);
        }
        return wrong;
    }

    /** Unsafe, and the fields of all classes. */
    private static void open(Instrumentation instrumentation) {
        Module base = Object.class.getModule();
        Set<Module> us = Set.of(Agent.class.getModule());
        instrumentation.redefineModule(
                base,
                Set.of(),
                Map.of("jdk.internal.misc", us),
                Map.of("java.lang", us),
                Set.of(),
                Map.of());
    }

    /** Apart from the agent, since it uses Unsafe, which must be open by then. */
    private static final class Recording {
        static void start(Instrumentation instrumentation, String folder, String from, boolean jumps) throws Exception {
            ProcessHandle process = ProcessHandle.current();
            String command = process.info().commandLine().orElse("java");
            String path = folder + "/" + process.pid() + ".0";
            Spool spool = new Spool(path, process.pid(), command, System.currentTimeMillis() * 1_000_000);
            Sites sites = new Sites(spool);
            Recorder.prepare(instrumentation, new Shapes(), spool, sites);
            spool.start(() -> Recorder.busy(1));
            Instrumenter instrumenter = new Instrumenter(sites, "pagewise/recorder/Recorder", from, jumps);
            instrumentation.addTransformer(new Transformer(instrumenter, spool), true);
            Recorder.busy(1);
            retransform(instrumentation);
            // With a name, for threads without one are numbered, and the program's first is 0.
            Runtime.getRuntime().addShutdownHook(new Thread(spool::ended, "pagewise end"));
            Recorder.busy(-1);
            if (from == null) {
                Recorder.start();
            }
        }

        private static void retransform(Instrumentation instrumentation) {
            List<Class<?>> loaded = new ArrayList<>();
            for (Class<?> type : instrumentation.getAllLoadedClasses()) {
                if (instrumentation.isModifiableClass(type) && !type.isArray()) {
                    loaded.add(type);
                }
            }
            try {
                instrumentation.retransformClasses(loaded.toArray(new Class<?>[0]));
            } catch (UnmodifiableClassException | LinkageError together) {
                oneByOne(instrumentation, loaded);
            }
        }

        private static void oneByOne(Instrumentation instrumentation, List<Class<?>> loaded) {
            for (Class<?> type : loaded) {
                try {
                    instrumentation.retransformClasses(type);
                } catch (UnmodifiableClassException | LinkageError alone) {
                    // It stays as it is.
                }
            }
        }
    }
}
