package gantry.compat;

import com.aliyun.openservices.ons.api.Message;
import com.aliyun.openservices.ons.api.ONSFactory;
import com.aliyun.openservices.ons.api.PropertyKeyConst;
import com.aliyun.openservices.ons.api.transaction.TransactionProducer;
import com.aliyun.openservices.ons.api.transaction.TransactionStatus;
import java.nio.charset.StandardCharsets;
import java.util.Properties;

/**
 * Sends one transactional message for each of the {@code --outcomes} (commit, rollback, unknown) with ons-client; the
 * body is the outcome. A check prints {@code checked}; it commits an unknown one. Runs until its input closes.
 */
public final class OnsTransactionProducer {
    public static void main(String[] argv) throws Exception {
        Arguments arguments = new Arguments(argv);
        Properties properties = OnsClient.properties(arguments);
        properties.setProperty(
                PropertyKeyConst.CheckImmunityTimeInSeconds, arguments.text("check-immunity-seconds", "1"));
        TransactionProducer producer =
                ONSFactory.createTransactionProducer(properties, OnsTransactionProducer::checked);
        producer.start();
        for (String outcome : arguments.list("outcomes", "commit")) {
            Message message = OnsClient.message(arguments, outcome);
            try {
                String id = producer.send(message, (sent, argument) -> status(outcome), null).getMessageId();
                Output.event("sent", "body", outcome, "id", id);
            } catch (RuntimeException error) { // a rollback is thrown too, and not as ONSClientException
                Output.failure("send", error, "body", outcome);
            }
        }
        Output.event("ready");
        Lifetime.untilInputCloses();
        Lifetime.end(producer::shutdown);
    }

    private static TransactionStatus checked(Message message) {
        String outcome = new String(message.getBody(), StandardCharsets.UTF_8);
        Output.event("checked", "body", outcome, "topic", message.getTopic(), "id", message.getMsgID());
        return outcome.equals("unknown") ? TransactionStatus.CommitTransaction : status(outcome);
    }

    private static TransactionStatus status(String outcome) {
        return switch (outcome) {
            case "commit" -> TransactionStatus.CommitTransaction;
            case "rollback" -> TransactionStatus.RollbackTransaction;
            default -> TransactionStatus.Unknow;
        };
    }
}
