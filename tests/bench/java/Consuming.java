import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;

/** A push consumer that takes what is there. */
final class Consuming {
    private static final long PATIENCE_SECONDS = 60;

    private Consuming() {}

    /** Takes MESSAGES messages from the topic's beginning; the time runs from the first delivery. */
    static String backlog(Session session, String topic, String group, int messages) throws Exception {
        DefaultMQPushConsumer consumer = session.consumer(topic, group);
        AtomicLong first = new AtomicLong();
        AtomicLong last = new AtomicLong();
        AtomicInteger received = new AtomicInteger();
        CountDownLatch all = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            first.compareAndSet(0, System.nanoTime());
            if (received.addAndGet(batch.size()) >= messages) {
                last.compareAndSet(0, System.nanoTime());
                all.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            if (!all.await(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
                throw new IllegalStateException("only " + received + " of " + messages + " messages came");
            }
            double seconds = (last.get() - first.get()) / 1e9;
            return String.format(Locale.ROOT, "%.1f %d", received.get() / seconds, received.get());
        } finally {
            consumer.shutdown();
        }
    }
}
