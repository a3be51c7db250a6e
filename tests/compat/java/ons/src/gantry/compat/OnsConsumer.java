package gantry.compat;

import com.aliyun.openservices.ons.api.Action;
import com.aliyun.openservices.ons.api.Consumer;
import com.aliyun.openservices.ons.api.Message;
import com.aliyun.openservices.ons.api.MessageSelector;
import com.aliyun.openservices.ons.api.ONSFactory;
import com.aliyun.openservices.ons.api.PropertyKeyConst;
import java.util.Properties;

/**
 * Consumes {@code --topic} with ons-client until its input closes and prints {@code received} for each delivery. The
 * user property {@code fails} of a message says how many of its deliveries end with ReconsumeLater. {@code --model} is
 * CLUSTERING or BROADCASTING, {@code --tags} and {@code --sql} a filter, {@code --max-reconsume-times} the retries before a dead letter.
 */
public final class OnsConsumer {
    public static void main(String[] argv) throws Exception {
        Arguments arguments = new Arguments(argv);
        Properties properties = OnsClient.properties(arguments);
        properties.setProperty(PropertyKeyConst.MessageModel, arguments.text("model", "CLUSTERING"));
        properties.setProperty(PropertyKeyConst.ConsumeThreadNums, "4");
        int retries = arguments.number("max-reconsume-times", -1);
        if (retries >= 0) {
            properties.setProperty(PropertyKeyConst.MaxReconsumeTimes, String.valueOf(retries));
        }
        Consumer consumer = ONSFactory.createConsumer(properties);
        String sql = arguments.text("sql", "");
        consumer.subscribe(
                arguments.text("topic"),
                sql.isEmpty() ? MessageSelector.byTag(arguments.text("tags", "*")) : MessageSelector.bySql(sql),
                (message, context) -> consume(message));
        OnsClient.beat(consumer);
        consumer.start();
        Output.event("ready");
        Lifetime.untilInputCloses();
        Lifetime.end(consumer::shutdown);
    }

    private static Action consume(Message message) {
        OnsClient.received(message);
        String fails = message.getUserProperties("fails");
        boolean failed = fails != null && message.getReconsumeTimes() < Integer.parseInt(fails);
        return failed ? Action.ReconsumeLater : Action.CommitMessage;
    }
}
