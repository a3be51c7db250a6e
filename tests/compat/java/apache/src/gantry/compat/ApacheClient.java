package gantry.compat;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/** What the rocketmq-client programs share: credentials, address and namespace, the message built from the arguments. */
final class ApacheClient {
    private static final int API_TIMEOUT_MILLIS = 10_000; // 3 s are little for a JVM that starts on a busy machine

    private ApacheClient() {}

    /** The hook that signs each request; null without an AccessKey, so that a request without signature can be tried. */
    static RPCHook hook() {
        String accessKey = Arguments.accessKey();
        return accessKey == null || accessKey.isEmpty()
                ? null
                : new AclClientRPCHook(new SessionCredentials(accessKey, Arguments.secretKey()));
    }

    /** Sets address and namespace; the deprecated setter is the one that uses the form {@code instance%topic}. */
    @SuppressWarnings("deprecation")
    static void configure(ClientConfig client, Arguments arguments) {
        client.setNamesrvAddr(arguments.text("namesrv"));
        client.setMqClientApiTimeout(API_TIMEOUT_MILLIS);
        int beat = arguments.number("heartbeat-ms", Heartbeat.MILLIS);
        client.setHeartbeatBrokerInterval(beat);
        client.setPollNameServerInterval(beat);
        // Two broadcasting consumers on one machine are one client unless their instances have names of their own.
        client.setInstanceName("pid" + ProcessHandle.current().pid());
        client.setEnableTrace(Boolean.parseBoolean(arguments.text("trace", "false")));
        String instance = arguments.text("instance", "");
        if (!instance.isEmpty()) {
            client.setNamespace(instance);
        }
    }

    static Message message(Arguments arguments, String body) {
        String tag = arguments.text("tag", "");
        String key = arguments.text("key", "");
        Message message = new Message(arguments.text("topic"), tag, key, body.getBytes(StandardCharsets.UTF_8));
        arguments.pairs("properties").forEach(message::putUserProperty);
        int delay = arguments.number("deliver-after-ms", 0);
        if (delay > 0) {
            message.setDeliverTimeMs(System.currentTimeMillis() + delay);
        }
        if (arguments.number("delay-level", 0) > 0) {
            message.setDelayTimeLevel(arguments.number("delay-level", 0));
        }
        return message;
    }

    static void received(MessageExt message) {
        Output.event(
                "received",
                "body", new String(message.getBody(), StandardCharsets.UTF_8),
                "topic", message.getTopic(),
                "id", message.getMsgId(),
                "tag", message.getTags(),
                "key", message.getKeys(),
                "reconsumeTimes", message.getReconsumeTimes(),
                "queue", message.getQueueId(),
                "queueOffset", message.getQueueOffset(),
                "properties", message.getProperties());
    }
}
