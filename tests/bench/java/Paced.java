import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends at a fixed rate with a consumer beside. Each body begins with the time at which its message was due: who falls
 * behind does not hide it by sending later.
 */
final class Paced {
    private static final int LATENCY_THREADS = 4;
    private static final int WARM_UP_SECONDS = 2;
    private static final long READY_SECONDS = 60;
    private static final long TAIL_SECONDS = 10;
    private static final int DUE_BYTES = 8;
    private static final int UNPACED = 100_000_000;

    private final Session session;
    private final String topic;
    private final Arrivals arrivals = new Arrivals();
    private final AtomicInteger arrived = new AtomicInteger();
    private final AtomicInteger sent = new AtomicInteger();
    private final AtomicInteger failures = new AtomicInteger();

    private Paced(Session session, String topic) {
        this.session = session;
        this.topic = topic;
    }

    /** End-to-end latency at RATE messages a second, after a warm-up at the same rate. */
    static String latency(Session session, String topic, String group, int rate, int seconds, int bytes)
            throws Exception {
        Paced paced = new Paced(session, topic);
        DefaultMQPushConsumer consumer = paced.consume(group);
        try {
            paced.send(LATENCY_THREADS, rate, WARM_UP_SECONDS, bytes);
            paced.awaitArrivals();
            paced.arrivals.take();
            paced.arrived.set(0);
            paced.sent.set(0);
            paced.send(LATENCY_THREADS, rate, seconds, bytes);
            paced.awaitArrivals();
            Percentiles times = new Percentiles(paced.arrivals.take());
            return String.format(Locale.ROOT, "%s %s %s %d", times.at(50), times.at(99), times.at(99.9),
                    paced.sent.get() - paced.arrived.get() + paced.failures.get());
        } finally {
            consumer.shutdown();
        }
    }

    /** As many messages a second as go through with a consumer beside. */
    static String burst(Session session, String topic, String group, int threads, int seconds, int bytes)
            throws Exception {
        Paced paced = new Paced(session, topic);
        DefaultMQPushConsumer consumer = paced.consume(group);
        try {
            int before = paced.sent.get();
            paced.send(threads, UNPACED, seconds, bytes);
            int sent = paced.sent.get() - before;
            paced.awaitArrivals();
            return String.format(Locale.ROOT, "%.1f", (double) sent / seconds);
        } finally {
            consumer.shutdown();
        }
    }

    /**
     * A fixed rate for SECONDS seconds. Prints {@code minute <sent> <received> <failures> <p50 ms> <p99 ms> <max ms>} for
     * each minute.
     */
    static String soak(Session session, String topic, String group, int threads, int rate, int seconds, int bytes)
            throws Exception {
        Paced paced = new Paced(session, topic);
        DefaultMQPushConsumer consumer = paced.consume(group);
        AtomicBoolean over = new AtomicBoolean();
        Thread teller = new Thread(() -> {
            for (long next = System.nanoTime(); !over.get(); ) {
                next += TimeUnit.SECONDS.toNanos(Math.min(60, seconds));
                while (!over.get() && System.nanoTime() < next) {
                    LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(50));
                }
                if (over.get()) {
                    return; // what is left is no whole minute
                }
                Percentiles times = new Percentiles(paced.arrivals.take());
                System.out.printf(Locale.ROOT, "minute %d %d %d %s %s %s%n", paced.sent.get(), paced.arrived.get(),
                        paced.failures.get(), times.at(50), times.at(99), times.at(100));
            }
        });
        teller.start();
        try {
            paced.send(threads, rate, seconds, bytes);
            paced.awaitArrivals();
        } finally {
            over.set(true);
            teller.join();
            consumer.shutdown();
        }
        return paced.sent + " " + paced.arrived + " " + paced.failures;
    }

    private DefaultMQPushConsumer consume(String group) throws Exception {
        DefaultMQPushConsumer consumer = session.consumer(topic, group);
        consumer.setConsumeMessageBatchMaxSize(1); // a message's time must not depend on those it was pulled with
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            long now = System.nanoTime();
            for (MessageExt message : batch) {
                arrivals.add(now - ByteBuffer.wrap(message.getBody()).getLong());
            }
            arrived.addAndGet(batch.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(READY_SECONDS);
        while (arrived.get() == 0) { // until its first rebalance has given it queues
            if (System.nanoTime() > deadline) {
                consumer.shutdown();
                throw new IllegalStateException("no message came within " + READY_SECONDS + " s");
            }
            sendOne(new byte[DUE_BYTES], System.nanoTime());
            Thread.sleep(50);
        }
        awaitArrivals();
        arrivals.take();
        return consumer;
    }

    private void send(int threads, int rate, int seconds, int bytes) throws Exception {
        long interval = TimeUnit.SECONDS.toNanos(1) * threads / rate;
        long begin = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(10);
        long end = begin + TimeUnit.SECONDS.toNanos(seconds);
        Thread[] senders = new Thread[threads];
        for (int sender = 0; sender < threads; sender++) {
            long first = begin + interval * sender / threads;
            senders[sender] = new Thread(() -> {
                byte[] body = Session.body(Math.max(bytes, DUE_BYTES));
                for (long due = first; due < end && System.nanoTime() < end; due += interval) {
                    for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                        LockSupport.parkNanos(left);
                    }
                    sendOne(body.clone(), due);
                }
            });
            senders[sender].start();
        }
        for (Thread sender : senders) {
            sender.join();
        }
    }

    private void sendOne(byte[] body, long due) {
        try {
            DefaultMQProducer producer = session.producer();
            ByteBuffer.wrap(body).putLong(due);
            producer.send(new Message(topic, "tag", "key", body));
            sent.incrementAndGet();
        } catch (Exception error) {
            System.err.println(error);
            failures.incrementAndGet();
        }
    }

    private void awaitArrivals() throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TAIL_SECONDS);
        while (arrived.get() < sent.get() && System.nanoTime() < deadline) {
            Thread.sleep(10);
        }
    }

    /** Times of arrival, collected from many threads and taken out at once. */
    private static final class Arrivals {
        private long[] nanos = new long[1 << 16];
        private int count;

        synchronized void add(long time) {
            if (count == nanos.length) {
                nanos = Arrays.copyOf(nanos, count * 2);
            }
            nanos[count++] = time;
        }

        synchronized long[] take() {
            long[] taken = Arrays.copyOf(nanos, count);
            count = 0;
            return taken;
        }
    }
}
