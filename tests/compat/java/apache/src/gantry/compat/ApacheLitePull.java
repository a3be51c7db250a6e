package gantry.compat;

import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** Polls {@code --topic} with rocketmq-client's lite pull consumer until its input closes. */
public final class ApacheLitePull {
    private static final long POLL_MILLIS = 200;

    public static void main(String[] argv) throws Exception {
        Arguments arguments = new Arguments(argv);
        DefaultLitePullConsumer consumer =
                new DefaultLitePullConsumer(arguments.text("group"), ApacheClient.hook());
        ApacheClient.configure(consumer, arguments);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments.text("topic"), arguments.text("tags", "*"));
        consumer.start();
        Output.event("ready");
        AtomicBoolean running = new AtomicBoolean(true);
        Thread poller = new Thread(() -> {
            while (running.get()) {
                consumer.poll(POLL_MILLIS).forEach(ApacheClient::received);
            }
        });
        poller.start();
        Lifetime.untilInputCloses();
        running.set(false);
        poller.join();
        consumer.commit();
        Lifetime.end(consumer::shutdown);
    }
}
