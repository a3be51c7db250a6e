import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/** Synchronous sends from many threads, each as fast as it is answered. */
final class Sending {
    private Sending() {}

    /** Sends MESSAGES messages over the topics in turn. */
    static String send(Session session, String[] topics, int threads, int messages, int bytes) throws Exception {
        DefaultMQProducer producer = session.producer();
        byte[] body = Session.body(bytes);
        return measure(threads, messages, 1,
                number -> producer.send(new Message(topics[number % topics.length], "tag", "key" + number, body)));
    }

    /** Sends BATCHES requests of COUNT messages each. */
    static String batch(Session session, String topic, int threads, int batches, int bytes, int count)
            throws Exception {
        DefaultMQProducer producer = session.producer();
        byte[] body = Session.body(bytes);
        return measure(threads, batches, count, number -> {
            List<Message> messages = new ArrayList<>(count);
            for (int i = 0; i < count; i++) {
                messages.add(new Message(topic, "tag", "key" + number, body));
            }
            return producer.send(messages);
        });
    }

    /** What is sent for the number of a request. */
    interface Request {
        SendResult send(int number) throws Exception;
    }

    private static String measure(int threads, int requests, int weight, Request request) throws Exception {
        AtomicInteger failures = new AtomicInteger();
        int each = Math.max(1, requests / threads);
        long[] nanos = new long[each * threads];
        Thread[] senders = new Thread[threads];
        for (int sender = 0; sender < threads; sender++) {
            int first = sender * each;
            senders[sender] = new Thread(() -> {
                for (int i = first; i < first + each; i++) {
                    long begin = System.nanoTime();
                    if (!succeeds(request, i)) {
                        failures.incrementAndGet();
                    }
                    nanos[i] = System.nanoTime() - begin;
                }
            });
        }
        long begin = System.nanoTime();
        for (Thread sender : senders) {
            sender.start();
        }
        for (Thread sender : senders) {
            sender.join();
        }
        double seconds = (System.nanoTime() - begin) / 1e9;
        Percentiles times = new Percentiles(nanos);
        return String.format(Locale.ROOT, "%.1f %s %s %d", nanos.length * (double) weight / seconds, times.at(50),
                times.at(99), failures.get());
    }

    private static boolean succeeds(Request request, int number) {
        try {
            return request.send(number).getSendStatus() == SendStatus.SEND_OK;
        } catch (Exception error) {
            System.err.println(error);
            return false;
        }
    }
}
