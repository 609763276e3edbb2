package workloads;

import java.util.Map;

/**
 * Runs one of the workloads: {@code workloads.Main NAME INPUT ROUNDS}. Each is in the spirit of the SPECjvm2008 benchmark of
 * its name, which the Metis paper traces; none of its code or data is used. INPUT chooses what is worked on: `train` or `test`.
 */
public final class Main {
    private Main() {}

    private interface Maker {
        Workload make(boolean training) throws Exception;
    }

    private static final Map<String, Maker> MAKERS = Map.of(
            "compiler.compiler", Compiler::programs,
            "compiler.sunflow", Compiler::vectors,
            "compress", Compress::new,
            "serial", Serial::new,
            "sunflow", Sunflow::new,
            "xml.transform", Transform::new,
            "xml.validation", Validation::new);

    public static void main(String[] arguments) throws Exception {
        Maker maker = arguments.length == 3 ? MAKERS.get(arguments[0]) : null;
        if (maker == null) {
            System.err.println("usage: workloads.Main NAME train|test ROUNDS; names: " + MAKERS.keySet());
            System.exit(2);
        }
        Workload workload = maker.make(arguments[1].equals("train"));
        // Classes are loaded and caches filled by then: recordings start with the first round.
        long sum = workload.round(0);
        System.out.println(arguments[0] + " " + (sum + rounds(workload, Integer.parseInt(arguments[2]))));
    }

    /** What is recorded. */
    static long rounds(Workload workload, int count) throws Exception {
        long sum = 0;
        for (int number = 1; number <= count; number++) {
            sum = 31 * sum + workload.round(number);
        }
        return sum;
    }
}
