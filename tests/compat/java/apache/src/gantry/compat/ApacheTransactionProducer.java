package gantry.compat;

import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends one transactional message for each of the {@code --outcomes} (commit, rollback, unknown) with rocketmq-client;
 * the body is the outcome. A check prints {@code checked}; it ends an unknown one as {@code --check} says (commit or
 * rollback). Runs until its input closes.
 */
public final class ApacheTransactionProducer {
    public static void main(String[] argv) throws Exception {
        Arguments arguments = new Arguments(argv);
        TransactionMQProducer producer = new TransactionMQProducer(arguments.text("group"), ApacheClient.hook());
        ApacheClient.configure(producer, arguments);
        producer.setSendMsgTimeout(10_000); // as for other requests
        producer.setTransactionListener(new Listener(state(arguments.text("check", "commit"))));
        producer.start();
        for (String outcome : arguments.list("outcomes", "commit")) {
            Message message = ApacheClient.message(arguments, outcome);
            message.putUserProperty(
                    MessageConst.PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS, arguments.text("check-immunity-seconds", "1"));
            try {
                SendResult result = producer.sendMessageInTransaction(message, outcome);
                Output.event("sent", "body", outcome, "id", result.getMsgId(), "status", result.getSendStatus());
            } catch (MQClientException error) {
                Output.failure("send", error, "body", outcome);
            }
        }
        Output.event("ready");
        Lifetime.untilInputCloses();
        Lifetime.end(producer::shutdown);
    }

    private static LocalTransactionState state(String outcome) {
        return switch (outcome) {
            case "commit" -> LocalTransactionState.COMMIT_MESSAGE;
            case "rollback" -> LocalTransactionState.ROLLBACK_MESSAGE;
            default -> LocalTransactionState.UNKNOW;
        };
    }

    /** Answers as the outcome says that travels as the local transaction's argument. */
    private record Listener(LocalTransactionState onCheck) implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object outcome) {
            return state((String) outcome);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String outcome = new String(message.getBody());
            Output.event("checked", "body", outcome, "topic", message.getTopic(), "id", message.getMsgId());
            return outcome.equals("unknown") ? onCheck : state(outcome);
        }
    }
}
