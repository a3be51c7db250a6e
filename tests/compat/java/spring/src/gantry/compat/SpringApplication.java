package gantry.compat;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.boot.Banner;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/**
 * An application of Spring Boot with rocketmq-spring-boot-starter as its guide has it: a listener, an ordered listener,
 * transactions, and the template. Topics, groups, keys and name server are its properties.
 */
@SpringBootApplication
public class SpringApplication {
    public static void main(String[] argv) {
        ConfigurableApplicationContext context = new SpringApplicationBuilder(SpringApplication.class)
                .bannerMode(Banner.Mode.OFF)
                .properties(Map.of("logging.level.root", "warn"))
                .run(argv);
        Output.event("ready");
        RocketMQTemplate template = context.getBean(RocketMQTemplate.class);
        String topic = context.getEnvironment().getRequiredProperty("topic");
        String ordered = context.getEnvironment().getRequiredProperty("ordered.topic");
        String transactions = context.getEnvironment().getRequiredProperty("transactions.topic");
        template.syncSend(topic + ":TagA", MessageBuilder.withPayload("plain").setHeader("KEYS", "k1 k2").build());
        template.syncSend(topic + ":TagB", "of another tag");
        template.syncSend(topic + ":TagA", "bad");
        for (int number = 0; number < 5; number++) {
            template.syncSendOrderly(ordered, "ordered-" + number, "g");
        }
        for (String end : new String[] {"commit", "rollback", "unknown"}) {
            template.sendMessageInTransaction(transactions, MessageBuilder.withPayload(end).build(), end);
        }
        Output.event("done");
    }

    private static void received(MessageExt message) {
        Output.event(
                "received",
                "body", new String(message.getBody(), StandardCharsets.UTF_8),
                "topic", message.getTopic(),
                "tag", String.valueOf(message.getTags()),
                "keys", String.valueOf(message.getKeys()),
                "attempt", message.getReconsumeTimes() + 1);
    }

    @org.springframework.stereotype.Service
    @RocketMQMessageListener(
            topic = "${topic}", consumerGroup = "${group}", selectorExpression = "TagA", namespace = "${namespace}")
    static class Listener implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            received(message);
            if (message.getReconsumeTimes() == 0 && message.getBody().length == 3) {
                throw new IllegalStateException("the first attempt fails");
            }
        }
    }

    @org.springframework.stereotype.Service
    @RocketMQMessageListener(
            topic = "${ordered.topic}",
            consumerGroup = "${ordered.group}",
            consumeMode = ConsumeMode.ORDERLY,
            namespace = "${namespace}")
    static class Ordered implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            received(message);
        }
    }

    @org.springframework.stereotype.Service
    @RocketMQMessageListener(
            topic = "${transactions.topic}", consumerGroup = "${transactions.group}", namespace = "${namespace}")
    static class Committed implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            received(message);
        }
    }

    @RocketMQTransactionListener
    static class Transactions implements RocketMQLocalTransactionListener {
        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object end) {
            return switch (String.valueOf(end)) {
                case "commit" -> RocketMQLocalTransactionState.COMMIT;
                case "rollback" -> RocketMQLocalTransactionState.ROLLBACK;
                default -> RocketMQLocalTransactionState.UNKNOWN;
            };
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            Output.event("checked", "body", new String((byte[]) message.getPayload(), StandardCharsets.UTF_8));
            return RocketMQLocalTransactionState.COMMIT;
        }
    }
}
