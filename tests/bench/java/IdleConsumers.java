import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.common.sysflag.PullSysFlag;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.filter.FilterAPI;
import org.apache.rocketmq.remoting.protocol.header.HeartbeatRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PullMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumeType;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumerData;
import org.apache.rocketmq.remoting.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;

/**
 * Consumers that wait for messages that never come: each has a connection, and a long poll for every queue, which it
 * sends again whenever the broker has given it up. One thread serves them all: 200 consumers of the client would bring
 * some thousand threads, and the machine would be measured, not the broker.
 */
final class IdleConsumers {
    private static final int SUSPEND_MS = 15_000; // what the client's push consumer asks for
    private static final int FIRST_SUSPEND_MS = 1_000;
    private static final int ANSWER_BYTES = 1 << 16;
    private static final int RESPONSE = 1;

    private static IdleConsumers current;

    private final Session session;
    private final SubscriptionData subscription;
    private final String group;
    private final String broker;
    private final Selector selector = Selector.open();
    private final AtomicBoolean over = new AtomicBoolean();
    private final AtomicInteger answers = new AtomicInteger();
    private final Random random = new Random(7);
    private Thread reader;

    private IdleConsumers(Session session, String topic, String group, String broker) throws Exception {
        this.session = session;
        this.subscription = FilterAPI.buildSubscriptionData(topic, SubscriptionData.SUB_ALL);
        this.group = group;
        this.broker = broker;
    }

    /** Connects them all and lets them wait. */
    static String open(Session session, String topic, String group, int consumers, int queues, String broker)
            throws Exception {
        current = new IdleConsumers(session, topic, group, broker);
        for (int number = 0; number < consumers; number++) {
            current.connect(number, queues);
        }
        current.reader = new Thread(current::serve);
        current.reader.start();
        return String.valueOf(consumers * queues);
    }

    /** Disconnects them; tells how many polls were answered. */
    static String close() throws Exception {
        current.over.set(true);
        current.selector.wakeup();
        current.reader.join();
        for (SelectionKey key : current.selector.keys()) {
            key.channel().close();
        }
        current.selector.close();
        return String.valueOf(current.answers.get());
    }

    private void connect(int number, int queues) throws IOException {
        int colon = broker.lastIndexOf(':');
        InetSocketAddress address =
                new InetSocketAddress(broker.substring(0, colon), Integer.parseInt(broker.substring(colon + 1)));
        SocketChannel channel = SocketChannel.open(address);
        write(channel, heartbeat(number));
        for (int queue = 0; queue < queues; queue++) {
            // The first ends early, each at another time, so that they come back spread over the whole period.
            write(channel, poll(queue, FIRST_SUSPEND_MS + random.nextInt(SUSPEND_MS - FIRST_SUSPEND_MS)));
        }
        channel.configureBlocking(false);
        channel.register(selector, SelectionKey.OP_READ, ByteBuffer.allocate(ANSWER_BYTES));
    }

    private void serve() {
        try {
            while (!over.get()) {
                selector.select(1000);
                for (SelectionKey key : selector.selectedKeys()) {
                    read((SocketChannel) key.channel(), (ByteBuffer) key.attachment());
                }
                selector.selectedKeys().clear();
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    private void read(SocketChannel channel, ByteBuffer buffer) throws Exception {
        if (channel.read(buffer) < 0) {
            throw new IOException("the broker closed a waiting consumer's connection");
        }
        buffer.flip();
        while (buffer.remaining() >= 4 && buffer.remaining() >= 4 + buffer.getInt(buffer.position())) {
            byte[] frame = new byte[buffer.getInt()];
            buffer.get(frame);
            RemotingCommand command = RemotingCommand.decode(ByteBuffer.wrap(frame));
            boolean polled = (command.getFlag() & RESPONSE) != 0 && command.getOpaque() < 0;
            if (polled) {
                answers.incrementAndGet();
                write(channel, poll(-1 - command.getOpaque(), SUSPEND_MS));
            }
        }
        buffer.compact();
    }

    private static void write(SocketChannel channel, RemotingCommand command) throws IOException {
        ByteBuffer bytes = command.encode();
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }

    private RemotingCommand heartbeat(int number) {
        ConsumerData consumer = new ConsumerData();
        consumer.setGroupName(group);
        consumer.setConsumeType(ConsumeType.CONSUME_PASSIVELY);
        consumer.setMessageModel(MessageModel.CLUSTERING);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.getSubscriptionDataSet().add(subscription);
        HeartbeatData data = new HeartbeatData();
        data.setClientID("127.0.0.1@idle" + number);
        data.getConsumerDataSet().add(consumer);
        RemotingCommand command =
                RemotingCommand.createRequestCommand(RequestCode.HEART_BEAT, new HeartbeatRequestHeader());
        command.setBody(data.encode());
        return signed(command);
    }

    /** A long poll at the queue's end (it is empty); its opaque tells the queue, below zero. */
    private RemotingCommand poll(int queue, int suspendMillis) {
        PullMessageRequestHeader header = new PullMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(subscription.getTopic());
        header.setQueueId(queue);
        header.setQueueOffset(0L);
        header.setMaxMsgNums(Session.PULLED_AT_ONCE);
        header.setSysFlag(PullSysFlag.buildSysFlag(false, true, true, false));
        header.setCommitOffset(0L);
        header.setSuspendTimeoutMillis((long) suspendMillis);
        header.setSubscription(SubscriptionData.SUB_ALL);
        header.setSubVersion(0L);
        header.setExpressionType(ExpressionType.TAG);
        RemotingCommand command = RemotingCommand.createRequestCommand(RequestCode.PULL_MESSAGE, header);
        command.setOpaque(-1 - queue);
        return signed(command);
    }

    private RemotingCommand signed(RemotingCommand command) {
        session.signer.doBeforeRequest(broker, command);
        return command;
    }
}
