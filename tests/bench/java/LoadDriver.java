import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Load with the Apache client, requests signed: one process takes command after command, so that its own code is warm.
 *
 * <p>{@code java LoadDriver NAMESRV}, with ACCESS_KEY and SECRET_KEY in the environment. Each line of standard input is
 * a command; it is answered with one line, {@code ok} and figures, or {@code failed} and why:
 *
 * <ul>
 *   <li>{@code send TOPIC THREADS MESSAGES BYTES}: messages per second, p50 and p99 in ms, failures
 *   <li>{@code batch TOPIC THREADS BATCHES BYTES COUNT}: the same, COUNT messages in each request
 *   <li>{@code consume TOPIC GROUP MESSAGES}: messages per second from the first delivery on, messages received
 *   <li>{@code latency TOPIC GROUP RATE SECONDS BYTES}: p50, p99, p99.9 in ms from the time a message was due to its
 *       delivery, messages that did not come
 *   <li>{@code idle TOPIC GROUP CONSUMERS QUEUES BROKER}: connects consumers that only wait; {@code leave} ends them
 *   <li>{@code create PREFIX COUNT QUEUES}: topics created per second
 *   <li>{@code route PREFIX COUNT}: routes read per second
 *   <li>{@code spread PREFIX COUNT THREADS MESSAGES BYTES}: as {@code send}, over COUNT topics
 *   <li>{@code user NAME SECRET}: creates a user of Apache RocketMQ, for a session with its administrator's key
 *   <li>{@code burst TOPIC GROUP THREADS SECONDS BYTES}: messages per second with a consumer beside
 *   <li>{@code soak TOPIC GROUP THREADS RATE SECONDS BYTES}: before its answer, one line a minute (see Soak)
 * </ul>
 */
public final class LoadDriver {
    private LoadDriver() {}

    /** Runs until the input ends. */
    public static void main(String[] arguments) throws Exception {
        Session session = new Session(arguments[0], signer());
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer;
            try {
                answer = "ok " + run(session, new Words(line));
            } catch (Exception error) {
                error.printStackTrace();
                answer = "failed " + String.valueOf(error).replace('\n', ' ');
            }
            System.out.println(answer);
        }
        System.exit(0); // the client leaves threads behind
    }

    private static String run(Session session, Words words) throws Exception {
        return switch (words.text(0)) {
            case "send" -> Sending.send(session, new String[] {words.text(1)}, words.number(2), words.number(3),
                    words.number(4));
            case "batch" -> Sending.batch(session, words.text(1), words.number(2), words.number(3), words.number(4),
                    words.number(5));
            case "consume" -> Consuming.backlog(session, words.text(1), words.text(2), words.number(3));
            case "latency" -> Paced.latency(session, words.text(1), words.text(2), words.number(3), words.number(4),
                    words.number(5));
            case "burst" -> Paced.burst(session, words.text(1), words.text(2), words.number(3), words.number(4),
                    words.number(5));
            case "soak" -> Paced.soak(session, words.text(1), words.text(2), words.number(3), words.number(4),
                    words.number(5), words.number(6));
            case "idle" -> IdleConsumers.open(session, words.text(1), words.text(2), words.number(3), words.number(4),
                    words.text(5));
            case "leave" -> IdleConsumers.close();
            case "create" -> Administration.create(session, words.text(1), words.number(2), words.number(3));
            case "route" -> Administration.route(session, words.text(1), words.number(2));
            case "spread" -> Sending.send(session, Administration.names(words.text(1), words.number(2)), words.number(3),
                    words.number(4), words.number(5));
            case "user" -> Administration.user(session, words.text(1), words.text(2));
            default -> throw new IllegalArgumentException("unknown command " + words.text(0));
        };
    }

    private static RPCHook signer() {
        return new AclClientRPCHook(
                new SessionCredentials(System.getenv("ACCESS_KEY"), System.getenv("SECRET_KEY")));
    }

    /** The words of a command. */
    private record Words(String line) {
        String text(int at) {
            return line.trim().split("\\s+")[at];
        }

        int number(int at) {
            return Integer.parseInt(text(at));
        }
    }
}
