package gantry.inflow;

import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Debezium's embedded engine as a user writes it who wants its records in a topic: a batch of records goes in requests of
 * up to 500 messages and 1 MiB, as ours do, and is marked as processed after that. Arguments: a file of properties, the
 * name server, the topic; ACCESS_KEY and SECRET_KEY are in the environment.
 */
public final class Writer {
    private static final int MOST_MESSAGES = 500;
    private static final int MOST_BYTES = 1 << 20;

    private Writer() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(file);
        }
        SessionCredentials keys = new SessionCredentials(System.getenv("ACCESS_KEY"), System.getenv("SECRET_KEY"));
        DefaultMQProducer producer = new DefaultMQProducer("GID_DEBEZIUM", new AclClientRPCHook(keys));
        producer.setNamesrvAddr(arguments[1]);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        String topic = arguments[2];
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
                .using(properties)
                .using(new DebeziumEngine.ConnectorCallback() {
                    @Override
                    public void pollingStarted() {
                        System.out.println("#polling");
                    }
                })
                .notifying((records, committer) -> {
                    try {
                        write(producer, topic, records);
                    } catch (InterruptedException error) {
                        throw error;
                    } catch (Exception error) {
                        throw new IllegalStateException(error);
                    }
                    for (ChangeEvent<String, String> record : records) {
                        committer.markProcessed(record);
                    }
                    committer.markBatchFinished();
                })
                .build();
        engine.run();
    }

    private static void write(DefaultMQProducer producer, String topic, List<ChangeEvent<String, String>> records)
            throws Exception {
        List<Message> chunk = new ArrayList<>();
        int size = 0;
        for (ChangeEvent<String, String> record : records) {
            if (record.value() == null) {
                continue; // no message is without a body
            }
            byte[] body = record.value().getBytes(StandardCharsets.UTF_8);
            if (!chunk.isEmpty() && (chunk.size() >= MOST_MESSAGES || size + body.length > MOST_BYTES)) {
                producer.send(chunk);
                chunk = new ArrayList<>();
                size = 0;
            }
            chunk.add(new Message(topic, "", record.key(), body));
            size += body.length;
        }
        if (!chunk.isEmpty()) {
            producer.send(chunk);
        }
    }
}
