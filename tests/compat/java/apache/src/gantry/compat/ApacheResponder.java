package gantry.compat;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** Answers each question on {@code --topic} with {@code re: } and its body until its input closes. */
public final class ApacheResponder {
    public static void main(String[] argv) throws Exception {
        Arguments arguments = new Arguments(argv);
        DefaultMQProducer producer = new DefaultMQProducer("GID_replies", ApacheClient.hook());
        ApacheClient.configure(producer, arguments);
        producer.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
                arguments.text("group"), ApacheClient.hook(), new AllocateMessageQueueAveragely());
        ApacheClient.configure(consumer, arguments);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments.text("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt question : messages) {
                answer(producer, question);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Output.event("ready");
        Lifetime.untilInputCloses();
        Lifetime.end(() -> {
            consumer.shutdown();
            producer.shutdown();
        });
    }

    private static void answer(DefaultMQProducer producer, MessageExt question) {
        try {
            byte[] body = ("re: " + new String(question.getBody(), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
            producer.send(MessageUtil.createReplyMessage(question, body));
            Output.event("answered");
        } catch (Exception error) {
            Output.failure("reply", error);
        }
    }
}
