package workloads;

/** A task that is done again and again, as a server's is. */
interface Workload {
    /** Does it once; returns something that depends on the result. */
    long round(int number) throws Exception;
}
