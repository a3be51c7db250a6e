package gantry.compat;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * Every client of rocketmq-client-java (gRPC), with its defaults, TLS among them: producers of the four kinds of messages,
 * a push consumer and a simple consumer, all in one JVM. Reads commands from its input, one a line:
 * {@code send KIND TOPIC BODY}, {@code push GROUP TOPIC}, {@code simple GROUP TOPIC}.
 */
public final class GrpcClient {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    private final ClientConfiguration configuration;

    private GrpcClient(Arguments arguments) {
        StaticSessionCredentialsProvider credentials =
                new StaticSessionCredentialsProvider(Arguments.accessKey(), System.getenv("SECRET_KEY"));
        configuration = ClientConfiguration.newBuilder()
                .setEndpoints(arguments.text("endpoints"))
                .setNamespace(arguments.text("namespace", ""))
                .setCredentialProvider(credentials)
                .setRequestTimeout(Duration.ofSeconds(10))
                .build();
    }

    public static void main(String[] argv) throws Exception {
        GrpcClient client = new GrpcClient(new Arguments(argv));
        Output.event("ready");
        java.util.Scanner commands = new java.util.Scanner(System.in, StandardCharsets.UTF_8);
        while (commands.hasNextLine()) {
            String[] words = commands.nextLine().split(" ");
            try {
                switch (words[0]) {
                    case "send" -> client.send(words[1], words[2], words[3]);
                    case "push" -> client.push(words[1], words[2]);
                    case "simple" -> client.simple(words[1], words[2]);
                    default -> throw new IllegalArgumentException("unknown command " + words[0]);
                }
            } catch (ClientException error) {
                Output.failure(words[0], error);
            }
        }
        System.exit(0);
    }

    private void send(String kind, String topic, String body) throws ClientException, java.io.IOException {
        ProducerBuilder builder = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic);
        builder.setTransactionChecker(half -> {
            Output.event("checked", "body", text(half));
            return TransactionResolution.COMMIT;
        });
        Producer producer = builder.build();
        MessageBuilder message = PROVIDER.newMessageBuilder()
                .setTopic(topic)
                .setTag("TagA")
                .setKeys("k1", "k2")
                .addProperty("colour", "blue")
                .setBody(body.getBytes(StandardCharsets.UTF_8));
        switch (kind) {
            case "normal" -> sent(producer, message.build(), body);
            case "fifo" -> sent(producer, message.setMessageGroup("g").build(), body);
            case "delay" -> sent(
                    producer, message.setDeliveryTimestamp(System.currentTimeMillis() + 2000).build(), body);
            default -> transaction(producer, message.build(), body, kind);
        }
        if (!kind.equals("unknown")) {
            producer.close();
        }
    }

    private static void sent(Producer producer, Message message, String body) throws ClientException {
        Output.event("sent", "body", body, "id", producer.send(message).getMessageId().toString());
    }

    private static void transaction(Producer producer, Message message, String body, String end)
            throws ClientException {
        Transaction transaction = producer.beginTransaction();
        Output.event("sent", "body", body, "id", producer.send(message, transaction).getMessageId().toString());
        switch (end) {
            case "commit" -> transaction.commit();
            case "rollback" -> transaction.rollback();
            default -> Output.event("unsaid");
        }
    }

    private void push(String group, String topic) throws ClientException {
        PushConsumer consumer = PROVIDER.newPushConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                .setMessageListener(message -> {
                    received(message);
                    boolean fails = text(message).startsWith("bad") && message.getDeliveryAttempt() == 1;
                    return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
                })
                .build();
        Output.event("consuming", "group", consumer.getConsumerGroup());
    }

    private void simple(String group, String topic) throws ClientException, java.io.IOException {
        try (SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setAwaitDuration(Duration.ofSeconds(10))
                .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                .build()) {
            for (MessageView message : consumer.receive(16, Duration.ofSeconds(20))) {
                consumer.changeInvisibleDuration(message, Duration.ofSeconds(30));
                consumer.ack(message);
                received(message);
            }
        }
        Output.event("polled");
    }

    private static void received(MessageView message) {
        Output.event(
                "received",
                "body", text(message),
                "topic", message.getTopic(),
                "id", message.getMessageId().toString(),
                "tag", message.getTag().orElse(""),
                "keys", message.getKeys(),
                "properties", message.getProperties(),
                "attempt", message.getDeliveryAttempt());
    }

    private static String text(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }
}
