package gantry.compat;

import java.io.IOException;

/** How long a consumer runs: until its standard input is closed, which also happens when the test dies. */
final class Lifetime {
    private Lifetime() {}

    static void untilInputCloses() throws IOException {
        while (System.in.read() >= 0) {
            // What is written there has no meaning.
        }
    }

    /**
     * Says that the work is done, closes the client, so that it commits its offsets and leaves its group, and says so.
     */
    static void end(Runnable shutdown) {
        Output.event("done");
        shutdown.run();
        Output.event("closed");
        System.exit(0); // the clients leave threads behind
    }
}
