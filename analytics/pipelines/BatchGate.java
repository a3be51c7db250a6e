import org.apache.spark.api.java.function.VoidFunction2;

/**
 * Hands the batches of a stream to a thread that asks for them, and lets the stream wait until each is done.
 *
 * Spark's own way into Python would have the JVM connect to it, on a port that nobody knows beforehand: the wall refuses
 * that. Compiled by Janino: no generics, no lambdas.
 */
public class BatchGate implements VoidFunction2 {
    private Object batch;
    private String failure;
    private boolean isDone = true;

    /** Called by the stream, in its thread, which is interrupted when it is stopped. */
    public synchronized void call(Object given, Object number) throws Exception {
        batch = given;
        failure = null;
        isDone = false;
        notifyAll();
        try {
            while (!isDone) {
                wait();
            }
        } finally {
            isDone = true;
            batch = null;
        }
        if (failure != null) {
            throw new IllegalStateException(failure);
        }
    }

    /** The batch that waits; null where there is none within so many milliseconds. */
    public synchronized Object take(long patience) throws Exception {
        if (isDone) {
            wait(patience);
        }
        return isDone ? null : batch;
    }

    /** The batch has been written, or could not be: then why. */
    public synchronized void done(String told) {
        failure = told;
        isDone = true;
        notifyAll();
    }
}
