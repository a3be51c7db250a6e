import org.apache.spark.TaskContext;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.catalyst.optimizer.BuildLeft$;
import org.apache.spark.sql.catalyst.optimizer.BuildSide;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.GenerateExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import org.apache.spark.sql.execution.joins.BroadcastNestedLoopJoinExec;
import org.apache.spark.sql.types.DataTypes;

import scala.Option;
import scala.Some;
import scala.collection.immutable.Nil$;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * An extension of Spark's sessions (`spark.sql.extensions`): a task whose statement was cancelled ends soon, also amid
 * what makes many rows of one.
 *
 * A task looks whether it was told to end between two batches of what it reads, which have some thousand rows. Where
 * each of them meets many of a broadcast table, or is exploded into many, it has minutes of work until then, and keeps
 * its core for as long. Here it looks at every so many rows that go into such a join, or into what explodes them.
 */
public class InterruptibleJoins extends AbstractFunction1 {
    /** A look costs some nanoseconds; beside what is done with this many rows of the one side it is nothing. */
    private static final int EVERY = 32;

    public Object apply(Object extensions) {
        final ColumnarRule rules = new ColumnarRule() {
            public Rule preColumnarTransitions() {
                return new LookAtRows();
            }
        };
        ((SparkSessionExtensions) extensions).injectColumnar(new AbstractFunction1() {
            public Object apply(Object session) {
                return rules;
            }
        });
        return BoxedUnit.UNIT;
    }

    /** Lets the rows that go into them pass by a look. */
    public static class LookAtRows extends Rule {
        public TreeNode apply(TreeNode plan) {
            return looked((SparkPlan) plan);
        }

        private static SparkPlan looked(SparkPlan plan) {
            int many = sideOfMany(plan);
            Object[] children = new Object[plan.children().length()];
            boolean changed = false;
            for (int number = 0; number < children.length; number++) {
                SparkPlan before = (SparkPlan) plan.children().apply(number);
                SparkPlan after = looked(before);
                children[number] = number == many ? new FilterExec(look(), after) : after;
                changed |= children[number] != before;
            }
            return changed ? (SparkPlan) plan.withNewChildren(sequence(children)) : plan;
        }

        /** The number of the child each of whose rows may become many; -1 for none. */
        private static int sideOfMany(SparkPlan plan) {
            if (plan instanceof BroadcastHashJoinExec) {
                return streamed(((BroadcastHashJoinExec) plan).buildSide());
            }
            if (plan instanceof BroadcastNestedLoopJoinExec) {
                return streamed(((BroadcastNestedLoopJoinExec) plan).buildSide());
            }
            return plan instanceof GenerateExec ? 0 : -1;
        }

        private static int streamed(BuildSide build) {
            return build == BuildLeft$.MODULE$ ? 1 : 0;
        }

        private static Expression look() {
            Option name = new Some("goes_on");
            return new ScalaUDF(new Look(), DataTypes.BooleanType, empty(), empty(), Option.empty(), name, false, true);
        }

        private static scala.collection.immutable.Seq empty() {
            return (scala.collection.immutable.Seq) (Object) Nil$.MODULE$;
        }

        private static scala.collection.immutable.Seq sequence(Object[] items) {
            return scala.jdk.javaapi.CollectionConverters.asScala(java.util.Arrays.asList(items)).toSeq();
        }
    }

    /** True for every row, as long as the task is to go on. A task has one of its own, or shares it, which is the same. */
    public static class Look extends AbstractFunction0 implements java.io.Serializable {
        private int rows;

        public Object apply() {
            if (++rows % EVERY == 0) {
                TaskContext task = TaskContext.get();
                if (task != null) {
                    task.killTaskIfInterrupted();
                }
            }
            return Boolean.TRUE;
        }
    }
}
