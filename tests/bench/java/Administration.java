import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Creating a user; creating many topics and reading their routes, from a few threads. */
final class Administration {
    private static final int THREADS = 4;
    private static final int READY_SECONDS = 60;

    private Administration() {}

    /** Waits until a broker has registered, and creates a user there who may send, receive and create. */
    static String user(Session session, String name, String secret) throws Exception {
        DefaultMQAdminExt admin = started(session);
        try {
            String broker = broker(admin);
            admin.createUser(broker, name, secret, "Normal");
            admin.createAcl(broker, "User:" + name, List.of("Topic:*", "Group:*"),
                    List.of("Pub", "Sub", "Get", "List", "Create", "Update"), List.of(), "Allow");
            return "";
        } finally {
            admin.shutdown();
        }
    }

    /** Names of COUNT topics. */
    static String[] names(String prefix, int count) {
        String[] names = new String[count];
        for (int i = 0; i < count; i++) {
            names[i] = prefix + i;
        }
        return names;
    }

    /** Creates them at the only broker there is; tells how many a second. */
    static String create(Session session, String prefix, int count, int queues) throws Exception {
        return each(session, names(prefix, count), (admin, broker, name) ->
                admin.createAndUpdateTopicConfig(broker, new TopicConfig(name, queues, queues)));
    }

    /** Reads the route of each; tells how many a second. */
    static String route(Session session, String prefix, int count) throws Exception {
        return each(session, names(prefix, count), (admin, broker, name) -> {
            if (admin.examineTopicRouteInfo(name).getQueueDatas().isEmpty()) {
                throw new IllegalStateException("the route of " + name + " is empty");
            }
        });
    }

    /** What is done with a topic. */
    private interface Work {
        void with(DefaultMQAdminExt admin, String broker, String name) throws Exception;
    }

    private static String each(Session session, String[] names, Work work) throws Exception {
        DefaultMQAdminExt admin = started(session);
        try {
            String broker = broker(admin);
            AtomicInteger next = new AtomicInteger();
            AtomicInteger failures = new AtomicInteger();
            Thread[] workers = new Thread[THREADS];
            long begin = System.nanoTime();
            for (int worker = 0; worker < THREADS; worker++) {
                workers[worker] = new Thread(() -> {
                    for (int i = next.getAndIncrement(); i < names.length; i = next.getAndIncrement()) {
                        try {
                            work.with(admin, broker, names[i]);
                        } catch (Exception error) {
                            System.err.println(error);
                            failures.incrementAndGet();
                        }
                    }
                });
                workers[worker].start();
            }
            for (Thread worker : workers) {
                worker.join();
            }
            double seconds = (System.nanoTime() - begin) / 1e9;
            return String.format(Locale.ROOT, "%.1f %d", names.length / seconds, failures.get());
        } finally {
            admin.shutdown();
        }
    }

    private static DefaultMQAdminExt started(Session session) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(session.signer, 10_000);
        admin.setNamesrvAddr(session.namesrv);
        admin.setInstanceName("admin" + System.nanoTime());
        admin.start();
        return admin;
    }

    /** Address of the only broker there is, as soon as the name server knows it. */
    private static String broker(DefaultMQAdminExt admin) throws Exception {
        for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(READY_SECONDS); System.nanoTime() < end; ) {
            var brokers = admin.examineBrokerClusterInfo().getBrokerAddrTable();
            for (var known : brokers == null ? List.<BrokerData>of() : brokers.values()) {
                if (!known.getBrokerAddrs().isEmpty()) {
                    return known.selectBrokerAddr();
                }
            }
            Thread.sleep(50);
        }
        throw new IllegalStateException("no broker registered within " + READY_SECONDS + " s");
    }
}
