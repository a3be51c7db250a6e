import java.util.Random;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.remoting.RPCHook;

/** What all commands of one process share: where the cluster is, how requests are signed, and one producer. */
final class Session {
    static final int PULLED_AT_ONCE = 32; // what a pull brings at most
    private static final int SEND_TIMEOUT_MS = 10_000;

    final String namesrv;
    final RPCHook signer;
    private DefaultMQProducer producer;
    private int consumers;

    Session(String namesrv, RPCHook signer) {
        this.namesrv = namesrv;
        this.signer = signer;
    }

    /** The producer, started. */
    DefaultMQProducer producer() throws Exception {
        if (producer == null) {
            producer = new DefaultMQProducer("load", signer);
            producer.setNamesrvAddr(namesrv);
            producer.setInstanceName("producer");
            producer.setSendMsgTimeout(SEND_TIMEOUT_MS);
            producer.start();
        }
        return producer;
    }

    /** A push consumer with a connection of its own, not started, without listener. */
    DefaultMQPushConsumer consumer(String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, signer, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("consumer" + consumers++);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(PULLED_AT_ONCE);
        consumer.setConsumeMessageBatchMaxSize(PULLED_AT_ONCE);
        consumer.subscribe(topic, "*");
        return consumer;
    }

    /** A body that no compression makes smaller. */
    static byte[] body(int bytes) {
        byte[] body = new byte[bytes];
        new Random(7).nextBytes(body);
        return body;
    }
}
