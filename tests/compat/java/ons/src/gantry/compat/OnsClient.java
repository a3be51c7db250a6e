package gantry.compat;

import com.aliyun.openservices.ons.api.Message;
import com.aliyun.openservices.ons.api.PropertyKeyConst;
import com.aliyun.openservices.ons.api.impl.rocketmq.ONSConsumerAbstract;
import com.aliyun.openservices.shade.com.alibaba.rocketmq.client.ClientConfig;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Properties;

/** What the ons-client programs share: connection properties, the message built from the arguments, its report. */
final class OnsClient {
    private OnsClient() {}

    static Properties properties(Arguments arguments) {
        Properties properties = new Properties();
        String onsAddr = arguments.text("ons-addr", "");
        if (onsAddr.isEmpty()) {
            properties.setProperty(PropertyKeyConst.NAMESRV_ADDR, arguments.text("namesrv"));
        } else {
            properties.setProperty(PropertyKeyConst.ONSAddr, onsAddr);
        }
        properties.setProperty(PropertyKeyConst.AccessKey, Arguments.accessKey());
        properties.setProperty(PropertyKeyConst.SecretKey, Arguments.secretKey());
        properties.setProperty(PropertyKeyConst.GROUP_ID, arguments.text("group"));
        String instance = arguments.text("instance", "");
        if (!instance.isEmpty()) {
            properties.setProperty(PropertyKeyConst.INSTANCE_ID, instance);
        }
        return properties;
    }

    /** Lets a consumer that has not started yet send {@link Heartbeat}s; ons-client has no property for that. */
    static void beat(Object consumer) throws ReflectiveOperationException {
        Field client = ONSConsumerAbstract.class.getDeclaredField("defaultMQPushConsumer");
        client.setAccessible(true);
        ((ClientConfig) client.get(consumer)).setHeartbeatBrokerInterval(Heartbeat.MILLIS);
    }

    static Message message(Arguments arguments, String body) {
        String tag = arguments.text("tag", "");
        String key = arguments.text("key", "");
        Message message = new Message(arguments.text("topic"), tag, key, body.getBytes(StandardCharsets.UTF_8));
        arguments.pairs("properties").forEach(message::putUserProperties);
        int delay = arguments.number("deliver-after-ms", 0);
        if (delay > 0) {
            message.setStartDeliverTime(System.currentTimeMillis() + delay);
        }
        return message;
    }

    static void received(Message message) {
        Output.event(
                "received",
                "body", new String(message.getBody(), StandardCharsets.UTF_8),
                "topic", message.getTopic(),
                "id", message.getMsgID(),
                "tag", message.getTag(),
                "key", message.getKey(),
                "reconsumeTimes", message.getReconsumeTimes(),
                "queue", message.getTopicPartition() == null ? null : message.getTopicPartition().getPartition(),
                "shardingKey", message.getShardingKey(),
                "properties", message.getUserProperties());
    }
}
