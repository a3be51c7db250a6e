package gantry.compat;

import com.aliyun.openservices.ons.api.Message;
import com.aliyun.openservices.ons.api.ONSFactory;
import com.aliyun.openservices.ons.api.OnExceptionContext;
import com.aliyun.openservices.ons.api.Producer;
import com.aliyun.openservices.ons.api.SendCallback;
import com.aliyun.openservices.ons.api.SendResult;
import com.aliyun.openservices.ons.api.exception.ONSClientException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Sends {@code --count} messages in each of the {@code --modes} (sync, async, oneway) with ons-client. The body of
 * message n is {@code BODY-MODE-n}. Prints {@code sent} or {@code failed} for each.
 */
public final class OnsProducer {
    public static void main(String[] argv) throws InterruptedException {
        Arguments arguments = new Arguments(argv);
        Producer producer = ONSFactory.createProducer(OnsClient.properties(arguments));
        producer.start();
        for (String mode : arguments.list("modes", "sync")) {
            for (int n = 0; n < arguments.number("count", 1); n++) {
                String body = arguments.text("body", "message") + "-" + mode + "-" + n;
                send(producer, mode, OnsClient.message(arguments, body), body);
            }
        }
        Lifetime.end(producer::shutdown);
    }

    private static void send(Producer producer, String mode, Message message, String body) throws InterruptedException {
        try {
            switch (mode) {
                case "sync" -> sent(mode, body, producer.send(message).getMessageId());
                case "async" -> sendAsync(producer, message, body);
                case "oneway" -> {
                    producer.sendOneway(message);
                    sent(mode, body, message.getMsgID());
                }
                default -> throw new IllegalArgumentException("unknown mode " + mode);
            }
        } catch (ONSClientException error) {
            Output.failure("send", error, "mode", mode, "body", body);
        }
    }

    private static void sendAsync(Producer producer, Message message, String body) throws InterruptedException {
        CountDownLatch answered = new CountDownLatch(1);
        producer.sendAsync(message, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                sent("async", body, result.getMessageId());
                answered.countDown();
            }

            @Override
            public void onException(OnExceptionContext context) {
                Output.failure("send", context.getException(), "mode", "async", "body", body);
                answered.countDown();
            }
        });
        answered.await(20, TimeUnit.SECONDS);
    }

    private static void sent(String mode, String body, String id) {
        Output.event("sent", "mode", mode, "body", body, "id", id);
    }
}
