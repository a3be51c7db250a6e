package gantry.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * Sends {@code --count} messages in each of the {@code --modes} (sync, async, oneway, batch, ordered, recalled)
 * with rocketmq-client. The body of message n is {@code BODY-MODE-n}, padded to {@code --size} characters when that is
 * given. Ordered messages go to the queue that the hash of {@code --key} selects.
 */
public final class ApacheProducer {
    private static final int ANSWER_SECONDS = 20;

    public static void main(String[] argv) throws Exception {
        Arguments arguments = new Arguments(argv);
        DefaultMQProducer producer = new DefaultMQProducer(arguments.text("group"), ApacheClient.hook());
        ApacheClient.configure(producer, arguments);
        producer.setSendMsgTimeout(10_000); // as for other requests
        producer.start();
        for (String mode : arguments.list("modes", "sync")) {
            List<Message> messages = new ArrayList<>();
            for (int n = 0; n < arguments.number("count", 1); n++) {
                messages.add(ApacheClient.message(arguments, body(arguments, mode, n)));
            }
            try {
                send(producer, mode, messages);
            } catch (MQClientException | MQBrokerException | RemotingException error) {
                Output.failure("send", error, "mode", mode);
            }
        }
        Lifetime.end(producer::shutdown);
    }

    private static String body(Arguments arguments, String mode, int n) {
        String body = arguments.text("body", "message") + "-" + mode + "-" + n;
        int missing = arguments.number("size", 0) - body.length();
        return missing > 0 ? body + ".".repeat(missing) : body;
    }

    private static void send(DefaultMQProducer producer, String mode, List<Message> messages)
            throws MQClientException, MQBrokerException, RemotingException, InterruptedException {
        if (mode.equals("batch")) {
            sent(mode, messages.get(0), producer.send(messages));
            return;
        }
        for (Message message : messages) {
            switch (mode) {
                case "sync" -> sent(mode, message, producer.send(message));
                case "ordered" -> sent(
                        mode, message, producer.send(message, new SelectMessageQueueByHash(), message.getKeys()));
                case "async" -> sendAsync(producer, message);
                case "recalled" -> {
                    SendResult result = producer.send(message);
                    sent(mode, message, result);
                    String id = producer.recallMessage(message.getTopic(), result.getRecallHandle());
                    Output.event("recalled", "id", id);
                }
                case "oneway" -> {
                    producer.sendOneway(message);
                    Output.event("sent", "mode", mode, "body", new String(message.getBody()));
                }
                default -> throw new IllegalArgumentException("unknown mode " + mode);
            }
        }
    }

    private static void sendAsync(DefaultMQProducer producer, Message message)
            throws MQClientException, RemotingException, InterruptedException {
        CountDownLatch answered = new CountDownLatch(1);
        producer.send(message, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                sent("async", message, result);
                answered.countDown();
            }

            @Override
            public void onException(Throwable error) {
                Output.failure("send", error, "mode", "async");
                answered.countDown();
            }
        });
        answered.await(ANSWER_SECONDS, TimeUnit.SECONDS);
    }

    private static void sent(String mode, Message message, SendResult result) {
        Output.event(
                "sent",
                "mode", mode,
                "body", new String(message.getBody()),
                "status", result.getSendStatus(),
                "id", result.getMsgId(),
                "offsetId", result.getOffsetMsgId(),
                "queue", result.getMessageQueue().getQueueId(),
                "queueOffset", result.getQueueOffset());
    }
}
