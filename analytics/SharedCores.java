import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.ExternalClusterManager;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulerBackend;
import org.apache.spark.scheduler.SchedulingMode;
import org.apache.spark.scheduler.TaskDescription;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.scheduler.WorkerOffer;
import org.apache.spark.scheduler.local.LocalSchedulerBackend;
import org.apache.spark.util.SystemClock;

/**
 * The master `local[shared:<cores>:<pools>]`: Spark inside this JVM, whose cores nobody can take from another.
 *
 * A task cannot be interrupted, and Spark gives every free core to whoever asks first: one cross join holds them for
 * minutes. Here the first task of a pool (a tenant's) starts at once, beside those that run, and the system divides the
 * cores among their threads; a pool's further tasks start only while a core is free. Spark finds this class by
 * META-INF/services.
 *
 * A task that waits for something outside holds no core. Whoever runs it tells the scheduler so, since Spark cannot know.
 */
public class SharedCores implements ExternalClusterManager {
    private static final Pattern MASTER = Pattern.compile("local\\[shared:(\\d+|\\*):(\\d+)\\]");

    public boolean canCreate(String master) {
        return MASTER.matcher(master).matches();
    }

    public TaskScheduler createTaskScheduler(SparkContext context, String master) {
        return new Scheduler(context, cores(master), pools(master) / 2);
    }

    public SchedulerBackend createSchedulerBackend(SparkContext context, String master, TaskScheduler scheduler) {
        int places = cores(master) + pools(master);
        // Work is divided for the cores that there are, not for the places.
        context.conf().setIfMissing("spark.default.parallelism", String.valueOf(cores(master)));
        return new LocalSchedulerBackend(context.conf(), (TaskSchedulerImpl) scheduler, places);
    }

    public void initialize(TaskScheduler scheduler, SchedulerBackend backend) {
        ((TaskSchedulerImpl) scheduler).initialize(backend);
    }

    private static int cores(String master) {
        Matcher found = MASTER.matcher(master);
        found.matches();
        return "*".equals(found.group(1)) ? Runtime.getRuntime().availableProcessors() : Integer.parseInt(found.group(1));
    }

    private static int pools(String master) {
        Matcher found = MASTER.matcher(master);
        found.matches();
        return Integer.parseInt(found.group(2));
    }

    /** Gives the free places away one by one: then a pool's limit holds within an offer too. */
    public static class Scheduler extends TaskSchedulerImpl {
        private final int cores;
        private final Idle idle;

        public Scheduler(SparkContext context, int cores, int mostIdle) {
            super(context, 1, true, new SystemClock());
            this.cores = cores;
            this.idle = new Idle(mostIdle);
        }

        /**
         * So many tasks wait for something outside: of a group of jobs, as a run of a streaming query is, or of jobs in
         * no group that have a tag. None of its further tasks starts until they wait no more.
         */
        public void waits(String work, int tasks) {
            idle.told(work, tasks);
            backend().reviveOffers();
        }

        /** Jobs that name no pool share one like all others. */
        public void initialize(SchedulerBackend backend) {
            super.initialize(backend);
            Schedulable standard = rootPool().getSchedulableByName("default");
            if (standard != null) {
                rootPool().removeSchedulable(standard);
            }
            ensurePool("default");
        }

        /** How many tasks with a job tag hold a place, those that were told to end included. */
        public int running(String tag) {
            int found = 0;
            for (Iterator managers = taskIdToTaskSetManager().values().iterator(); managers.hasNext();) {
                if (tags((TaskSetManager) managers.next()).contains(tag)) {
                    found++;
                }
            }
            return found;
        }

        /** A pool for a tenant, unless there is one; fair inside. */
        public synchronized void ensurePool(String name) {
            if (rootPool().getSchedulableByName(name) == null) {
                rootPool().addSchedulable(new TenantPool(name, cores, idle));
            }
        }

        public synchronized scala.collection.immutable.Seq resourceOffers(
                scala.collection.immutable.IndexedSeq offers, boolean isAllFreeResources) {
            List found = new ArrayList();
            for (int number = 0; number < offers.length(); number++) {
                found.add(sequence(started((WorkerOffer) offers.apply(number), isAllFreeResources)));
            }
            return sequence(found);
        }

        private List started(WorkerOffer offer, boolean isAllFreeResources) {
            List started = new ArrayList();
            WorkerOffer one = offer.copy(offer.executorId(), offer.host(), scala.math.BigDecimal.valueOf(1.0),
                    offer.address(), offer.resources(), offer.resourceProfileId());
            List single = new ArrayList();
            single.add(one);
            for (int left = offer.cores().toInt(); left > 0; left--) {
                scala.collection.immutable.Seq round = super.resourceOffers(
                        sequence(single).toIndexedSeq(), isAllFreeResources);
                scala.collection.immutable.Seq tasks = (scala.collection.immutable.Seq) round.apply(0);
                if (tasks.isEmpty()) {
                    return started;
                }
                started.add(tasks.apply(0));
                note((TaskDescription) tasks.apply(0));
            }
            return started;
        }

        private void note(TaskDescription started) {
            TaskSetManager statement = (TaskSetManager) taskIdToTaskSetManager().get(Long.valueOf(started.taskId()));
            if (statement != null && statement.parent() instanceof TenantPool) {
                ((TenantPool) statement.parent()).served(statement);
            }
        }

        private static scala.collection.immutable.Seq sequence(List list) {
            return scala.jdk.javaapi.CollectionConverters.asScala(list).toSeq();
        }
    }

    private static List tags(TaskSetManager statement) {
        String tags = property(statement, "spark.job.tags");
        return tags == null ? Collections.EMPTY_LIST : Arrays.asList(tags.split(","));
    }

    private static String property(TaskSetManager statement, String name) {
        Properties properties = statement.taskSet().properties();
        return properties == null ? null : properties.getProperty(name);
    }

    /** Tasks that hold no core, since they wait for something outside. */
    public static class Idle {
        private final Map told = new ConcurrentHashMap();
        private final int most;

        /** Of all pools not more than `most` count: each has a place, and places are left for those who begin. */
        public Idle(int most) {
            this.most = most;
        }

        public void told(String work, int tasks) {
            if (tasks > 0) {
                told.put(work, Integer.valueOf(tasks));
            } else {
                told.remove(work);
            }
        }

        /** Of a statement. */
        public int of(Schedulable statement) {
            if (told.isEmpty() || !(statement instanceof TaskSetManager)) {
                return 0;
            }
            int found = 0;
            String group = property((TaskSetManager) statement, "spark.jobGroup.id");
            if (group != null) {
                found = tasks(group);
            } else {
                for (Iterator tags = tags((TaskSetManager) statement).iterator(); tags.hasNext();) {
                    found = Math.max(found, tasks((String) tags.next()));
                }
            }
            return Math.min(found, statement.runningTasks());
        }

        /** Of a pool, as far as they count: where there are more than `most`, pools have equal shares of it. */
        public int in(Schedulable pool) {
            if (told.isEmpty()) {
                return 0;
            }
            int own = found(pool), all = 0, pools = 0;
            for (Iterator others = pool.parent().schedulableQueue().iterator(); others.hasNext();) {
                int found = found((Schedulable) others.next());
                all += found;
                pools += found > 0 ? 1 : 0;
            }
            return all <= most ? own : Math.min(own, most / pools);
        }

        /** Of all pools, as far as they count. */
        public int below(Schedulable root) {
            int found = 0;
            for (Iterator pools = root.schedulableQueue().iterator(); pools.hasNext();) {
                found += found((Schedulable) pools.next());
            }
            return Math.min(found, most);
        }

        private int found(Schedulable pool) {
            int found = 0;
            for (Iterator statements = pool.schedulableQueue().iterator(); statements.hasNext();) {
                found += of((Schedulable) statements.next());
            }
            return found;
        }

        private int tasks(String work) {
            Integer found = (Integer) told.get(work);
            return found == null ? 0 : found.intValue();
        }
    }

    /**
     * Has nothing to start when it would take a core that is not free, unless none of its tasks has one.
     *
     * Inside, who has the fewest running tasks is next, and of those who has waited longest. Spark's own fair order breaks
     * ties by name, so that with more statements than cores the same ones would get every core that comes free.
     */
    public static class TenantPool extends Pool {
        private final int cores;
        private final Idle idle;
        private final Map turns = Collections.synchronizedMap(new WeakHashMap());
        private long turn;

        public TenantPool(String name, int cores, Idle idle) {
            super(name, SchedulingMode.FAIR(), 0, 1);
            this.cores = cores;
            this.idle = idle;
        }

        /** A task of the statement starts. */
        public synchronized void served(Schedulable statement) {
            turn++;
            turns.put(statement, Long.valueOf(turn));
        }

        public scala.collection.mutable.ArrayBuffer getSortedTaskSetQueue() {
            scala.collection.mutable.ArrayBuffer sorted = new scala.collection.mutable.ArrayBuffer();
            if (runningTasks() > idle.in(this) && parent().runningTasks() - idle.below(parent()) >= cores) {
                return sorted;
            }
            List waiting = new ArrayList();
            for (Iterator statements = schedulableQueue().iterator(); statements.hasNext();) {
                Schedulable statement = (Schedulable) statements.next();
                if (idle.of(statement) > 0) {
                    continue;  // its further tasks would wait as well, each with a process of its own
                }
                Long last = (Long) turns.get(statement);
                waiting.add(new Waiting(statement, statement.runningTasks(), last == null ? 0 : last.longValue()));
            }
            Collections.sort(waiting);
            for (Iterator ordered = waiting.iterator(); ordered.hasNext();) {
                sorted.appendAll(((Waiting) ordered.next()).statement.getSortedTaskSetQueue());
            }
            return sorted;
        }
    }

    /** What the order of a statement is found by, as it is at one moment: tasks start and end meanwhile. */
    public static class Waiting implements Comparable {
        final Schedulable statement;
        final int running;
        final long turn;

        Waiting(Schedulable statement, int running, long turn) {
            this.statement = statement;
            this.running = running;
            this.turn = turn;
        }

        public int compareTo(Object other) {
            Waiting that = (Waiting) other;
            return running != that.running ? Integer.compare(running, that.running) : Long.compare(turn, that.turn);
        }
    }
}
