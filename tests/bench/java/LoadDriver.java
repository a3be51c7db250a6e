import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Load on one topic with the Apache client, requests signed.
 *
 * <p>{@code LoadDriver send NAMESRV TOPIC GROUP THREADS MESSAGES BYTES} sends synchronously from THREADS threads and
 * prints {@code send <messages per second> <p50 ms> <p99 ms> <failures> <all messages sent, those of the warm-up
 * included>}. {@code LoadDriver consume NAMESRV TOPIC GROUP
 * MESSAGES} takes MESSAGES from the topic's beginning with a push consumer and prints
 * {@code consume <messages per second> <messages>}: the time runs from the first delivery. The AccessKey pair is in the
 * environment: ACCESS_KEY, SECRET_KEY.
 */
public final class LoadDriver {
    private static final int WARM_UP_MESSAGES = 2000;
    private static final long PATIENCE_SECONDS = 180;
    private static final int BATCH = 32; // what a pull brings at most

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("send")) {
            send(arguments[1], arguments[2], arguments[3], number(arguments[4]), number(arguments[5]),
                    number(arguments[6]));
        } else {
            consume(arguments[1], arguments[2], arguments[3], number(arguments[4]));
        }
        System.exit(0); // the client leaves threads behind
    }

    private static int number(String text) {
        return Integer.parseInt(text);
    }

    private static RPCHook signer() {
        return new AclClientRPCHook(
                new SessionCredentials(System.getenv("ACCESS_KEY"), System.getenv("SECRET_KEY")));
    }

    private static void send(String namesrv, String topic, String group, int threads, int messages, int bytes)
            throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group, signer());
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        byte[] body = new byte[bytes];
        new Random(7).nextBytes(body); // no help for whoever compresses
        AtomicInteger failures = new AtomicInteger();
        int warmedUp = sendFromThreads(producer, topic, body, threads, WARM_UP_MESSAGES, failures).length;

        long begin = System.nanoTime();
        long[] nanos = sendFromThreads(producer, topic, body, threads, messages, failures);
        double seconds = (System.nanoTime() - begin) / 1e9;
        Arrays.sort(nanos);
        System.out.printf("send %.1f %.3f %.3f %d %d%n", nanos.length / seconds, percentile(nanos, 50),
                percentile(nanos, 99), failures.get(), warmedUp + nanos.length);
        producer.shutdown();
    }

    /** Sends from all threads at once and returns how long each send took, in ns. */
    private static long[] sendFromThreads(
            DefaultMQProducer producer, String topic, byte[] body, int threads, int messages, AtomicInteger failures)
            throws InterruptedException {
        int each = Math.max(1, messages / threads);
        long[] nanos = new long[each * threads];
        Thread[] senders = new Thread[threads];
        for (int sender = 0; sender < threads; sender++) {
            int first = sender * each;
            senders[sender] = new Thread(() -> {
                for (int i = first; i < first + each; i++) {
                    long begin = System.nanoTime();
                    if (!sendOne(producer, new Message(topic, "tag", "key" + i, body))) {
                        failures.incrementAndGet();
                    }
                    nanos[i] = System.nanoTime() - begin;
                }
            });
            senders[sender].start();
        }
        for (Thread sender : senders) {
            sender.join();
        }
        return nanos;
    }

    private static boolean sendOne(DefaultMQProducer producer, Message message) {
        try {
            return producer.send(message).getSendStatus() == SendStatus.SEND_OK;
        } catch (Exception error) {
            System.err.println(error);
            return false;
        }
    }

    private static double percentile(long[] sortedNanos, int percent) {
        return sortedNanos[Math.min(sortedNanos.length - 1, sortedNanos.length * percent / 100)] / 1e6;
    }

    private static void consume(String namesrv, String topic, String group, int messages) throws Exception {
        DefaultMQPushConsumer consumer =
                new DefaultMQPushConsumer(group, signer(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(BATCH);
        consumer.setConsumeMessageBatchMaxSize(BATCH);
        consumer.subscribe(topic, "*");
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
        if (!all.await(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
            throw new IllegalStateException("only " + received + " of " + messages + " messages came");
        }
        System.out.printf("consume %.1f %d%n", received.get() / ((last.get() - first.get()) / 1e9), received.get());
        consumer.shutdown();
    }
}
