package gantry.compat;

import com.aliyun.openservices.ons.api.Message;
import com.aliyun.openservices.ons.api.ONSFactory;
import com.aliyun.openservices.ons.api.PropertyKeyConst;
import com.aliyun.openservices.ons.api.order.OrderAction;
import com.aliyun.openservices.ons.api.order.OrderConsumer;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Consumes {@code --topic} in order with ons-client until its input closes. The first delivery of a message whose body
 * is among {@code --suspend-once} suspends its queue.
 */
public final class OnsOrderConsumer {
    private static final Set<String> SUSPENDED = ConcurrentHashMap.newKeySet();

    public static void main(String[] argv) throws Exception {
        Arguments arguments = new Arguments(argv);
        Properties properties = OnsClient.properties(arguments);
        properties.setProperty(PropertyKeyConst.ConsumeThreadNums, "4");
        properties.setProperty(PropertyKeyConst.SuspendTimeMillis, "200");
        Set<String> toSuspend = Set.copyOf(arguments.list("suspend-once", ""));
        OrderConsumer consumer = ONSFactory.createOrderedConsumer(properties);
        consumer.subscribe(arguments.text("topic"), "*", (message, context) -> consume(message, toSuspend));
        OnsClient.beat(consumer);
        consumer.start();
        Output.event("ready");
        Lifetime.untilInputCloses();
        Lifetime.end(consumer::shutdown);
    }

    private static OrderAction consume(Message message, Set<String> toSuspend) {
        OnsClient.received(message);
        String body = new String(message.getBody());
        return toSuspend.contains(body) && SUSPENDED.add(body) ? OrderAction.Suspend : OrderAction.Success;
    }
}
