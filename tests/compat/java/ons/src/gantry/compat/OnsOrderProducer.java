package gantry.compat;

import com.aliyun.openservices.ons.api.Message;
import com.aliyun.openservices.ons.api.ONSFactory;
import com.aliyun.openservices.ons.api.exception.ONSClientException;
import com.aliyun.openservices.ons.api.order.OrderProducer;

/** Sends {@code --count} messages for each of the {@code --sharding-keys} with ons-client; bodies are {@code KEY-n}. */
public final class OnsOrderProducer {
    public static void main(String[] argv) {
        Arguments arguments = new Arguments(argv);
        OrderProducer producer = ONSFactory.createOrderProducer(OnsClient.properties(arguments));
        producer.start();
        for (int n = 0; n < arguments.number("count", 1); n++) {
            for (String key : arguments.list("sharding-keys", "a")) {
                String body = key + "-" + n;
                Message message = OnsClient.message(arguments, body);
                try {
                    String id = producer.send(message, key).getMessageId();
                    Output.event("sent", "body", body, "id", id, "shardingKey", key);
                } catch (ONSClientException error) {
                    Output.failure("send", error, "body", body);
                }
            }
        }
        Lifetime.end(producer::shutdown);
    }
}
