import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/**
 * An optimizer rule: a condition on the store time of an archive also says which of its days can be meant, so the folders of
 * the other days are not opened. Spark knows no such relation between a column and the folder it was sorted into.
 *
 * Compiled by Janino, the compiler inside Spark: no generics, no lambdas.
 */
public class ArchiveDays extends org.apache.spark.sql.catalyst.rules.Rule {
    private static final long DAY_US = 86400000000L;
    private static final String ARCHIVE = "_archive";

    public TreeNode apply(TreeNode plan) {
        return plan.transformDown(new Days());
    }

    /** Gives each filter right above an archive the days that its times mean. */
    public static class Days extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof Filter;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!(node instanceof Filter)) {
                return otherwise.apply(node);
            }
            Filter filter = (Filter) node;
            if (!(filter.child() instanceof LogicalRelation) || !isArchive((LogicalRelation) filter.child())) {
                return node;
            }
            Attribute time = column(filter, "store_time");
            Attribute day = column(filter, "day");
            if (time == null || day == null || filter.condition().references().contains(day)) {
                return node;
            }
            Expression days = days(filter.condition(), time, day);
            return days == null ? node : new Filter(new And(filter.condition(), days), filter.child());
        }

        private boolean isArchive(LogicalRelation relation) {
            scala.Option table = relation.catalogTable();
            return table.isDefined()
                && ((org.apache.spark.sql.catalyst.catalog.CatalogTable) table.get()).identifier().table().endsWith(ARCHIVE);
        }

        private Attribute column(Filter filter, String name) {
            scala.collection.Iterator columns = filter.child().output().iterator();
            while (columns.hasNext()) {
                Attribute column = (Attribute) columns.next();
                if (column.name().equals(name)) {
                    return column;
                }
            }
            return null;
        }

        /** The days that all parts of a conjunction leave, or null when none of them speaks of the time. */
        private Expression days(Expression condition, Attribute time, Attribute day) {
            if (condition instanceof And) {
                Expression left = days((Expression) ((And) condition).left(), time, day);
                Expression right = days((Expression) ((And) condition).right(), time, day);
                return left == null ? right : right == null ? left : new And(left, right);
            }
            if (!(condition instanceof BinaryComparison)) {
                return null;
            }
            BinaryComparison comparison = (BinaryComparison) condition;
            boolean turned = comparison.left() instanceof Literal;
            Expression column = (Expression) (turned ? comparison.right() : comparison.left());
            Expression constant = (Expression) (turned ? comparison.left() : comparison.right());
            if (!(column instanceof Attribute) || !((Attribute) column).exprId().equals(time.exprId())
                    || !(constant instanceof Literal) || !(((Literal) constant).value() instanceof Long)) {
                return null;
            }
            long moment = ((Long) ((Literal) constant).value()).longValue();
            int number = (int) Math.floorDiv(moment, DAY_US);
            Literal date = new Literal(Integer.valueOf(number), org.apache.spark.sql.types.DateType$.MODULE$);
            boolean lower = condition instanceof GreaterThan || condition instanceof GreaterThanOrEqual;
            boolean upper = condition instanceof LessThan || condition instanceof LessThanOrEqual;
            if (condition instanceof EqualTo) {
                return new EqualTo(day, date);
            }
            if (lower && !turned || upper && turned) {
                return new GreaterThanOrEqual(day, date);
            }
            return upper || lower ? new LessThanOrEqual(day, date) : null;
        }
    }
}
