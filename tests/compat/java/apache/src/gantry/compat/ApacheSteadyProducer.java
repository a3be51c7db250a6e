package gantry.compat;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * Sends with {@code --threads} threads until its input closes, whatever fails, and prints {@code sending} before and
 * {@code sent} after each message that was acknowledged, {@code failed} for the others.
 */
public final class ApacheSteadyProducer {
    private static final int PAUSE_MILLIS = 20; // after a failure; without it a broker that is away would fill the output

    public static void main(String[] argv) throws Exception {
        Arguments arguments = new Arguments(argv);
        DefaultMQProducer producer = new DefaultMQProducer(arguments.text("group"), ApacheClient.hook());
        ApacheClient.configure(producer, arguments);
        producer.start();
        AtomicBoolean stopped = new AtomicBoolean();
        AtomicInteger next = new AtomicInteger();
        Thread[] threads = new Thread[arguments.number("threads", 4)];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                while (!stopped.get()) {
                    send(producer, arguments.text("topic"), "java:" + next.getAndIncrement());
                }
            });
            threads[i].start();
        }
        Output.event("ready");
        Lifetime.untilInputCloses();
        stopped.set(true);
        for (Thread thread : threads) {
            thread.join();
        }
        Lifetime.end(producer::shutdown);
    }

    private static void send(DefaultMQProducer producer, String topic, String body) {
        Output.event("sending", "body", body);
        try {
            SendResult result = producer.send(new Message(topic, body.getBytes(StandardCharsets.UTF_8)));
            String event = result.getSendStatus() == SendStatus.SEND_OK ? "sent" : "failed";
            Output.event(event, "body", body, "status", result.getSendStatus());
        } catch (MQClientException | MQBrokerException | RemotingException error) {
            Output.failure("send", error, "body", body);
            pause();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MILLIS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
