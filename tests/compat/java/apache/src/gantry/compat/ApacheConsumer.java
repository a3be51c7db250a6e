package gantry.compat;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * Consumes {@code --topic} with rocketmq-client's push consumer until its input closes and prints {@code received} for
 * each delivery. {@code --listener} is concurrent or orderly, {@code --model} CLUSTERING or BROADCASTING,
 * {@code --tags} and {@code --sql} a filter;
 * with {@code --rebalance broker} the broker says which queues it works on, and whether it pops them. The user property {@code fails} of a message says how many of its deliveries end with
 * RECONSUME_LATER; after {@code --max-reconsume-times} retries it is a dead letter.
 */
public final class ApacheConsumer {
    public static void main(String[] argv) throws Exception {
        Arguments arguments = new Arguments(argv);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
                arguments.text("group"), ApacheClient.hook(), new AllocateMessageQueueAveragely());
        ApacheClient.configure(consumer, arguments);
        consumer.setMessageModel(MessageModel.valueOf(arguments.text("model", "CLUSTERING")));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes(arguments.number("max-reconsume-times", -1));
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        consumer.setClientRebalance(!arguments.text("rebalance", "client").equals("broker"));
        String sql = arguments.text("sql", "");
        consumer.subscribe(arguments.text("topic"),
                sql.isEmpty() ? MessageSelector.byTag(arguments.text("tags", "*")) : MessageSelector.bySql(sql));
        listen(consumer, arguments.text("listener", "concurrent"));
        consumer.start();
        Output.event("ready");
        Lifetime.untilInputCloses();
        Lifetime.end(consumer::shutdown);
    }

    private static void listen(DefaultMQPushConsumer consumer, String listener) {
        if (listener.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(ApacheClient::received);
                return ConsumeOrderlyStatus.SUCCESS;
            });
            return;
        }
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0); // one message a call is the client's default
            ApacheClient.received(message);
            String fails = message.getUserProperty("fails");
            boolean failed = fails != null && message.getReconsumeTimes() < Integer.parseInt(fails);
            return failed ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
    }
}
