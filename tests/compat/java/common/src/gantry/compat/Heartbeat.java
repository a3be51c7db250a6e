package gantry.compat;

/**
 * How often the clients say that they are there.
 *
 * <p>Whenever a consumer gets other queues of a topic it gives its subscription a new version and tells the broker with
 * a heartbeat. If another of its threads is sending one in that moment, it leaves this one out, and until the next one
 * every broker refuses its pulls of the topic: SUBSCRIPTION_NOT_LATEST, from Apache RocketMQ too. On a busy machine
 * that happens to consumers that start. With the clients' 30 s between heartbeats their first messages, or their first
 * retries, come that much later than the broker has them; with these few seconds it stays far below what tests wait.
 */
final class Heartbeat {
    static final int MILLIS = 2_000;

    private Heartbeat() {}
}
