package gantry.compat;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.common.message.Message;

/**
 * Asks {@code --count} questions with rocketmq-client's request and prints {@code replied} for each reply. It asks with a
 * callback: in 5.3 the call without one fails as soon as the question is stored before its reply is there.
 */
public final class ApacheRequester {
    private static final int PATIENCE_MILLIS = 60_000;

    public static void main(String[] argv) throws Exception {
        Arguments arguments = new Arguments(argv);
        DefaultMQProducer producer = new DefaultMQProducer(arguments.text("group"), ApacheClient.hook());
        ApacheClient.configure(producer, arguments);
        producer.start();
        int count = arguments.number("count", 1);
        CountDownLatch replies = new CountDownLatch(count);
        for (int n = 0; n < count; n++) {
            Message question = ApacheClient.message(arguments, "question-" + n);
            producer.request(question, new RequestCallback() {
                @Override
                public void onSuccess(Message reply) {
                    Output.event("replied", "body", new String(reply.getBody(), StandardCharsets.UTF_8));
                    replies.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    Output.failure("request", error);
                    replies.countDown();
                }
            }, PATIENCE_MILLIS);
        }
        replies.await(PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
        Lifetime.end(producer::shutdown);
    }
}
