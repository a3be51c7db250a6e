import java.lang.reflect.Method;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.Set;

/**
 * Lists every node of a parsed plan in time linear to its size, wherever it sits: in children, in expressions, in subqueries,
 * in common table expressions, in options and tuples. (Spark's own toJSON writes some nodes twice per level, so that
 * thirty nested CASEs exhaust the heap, and it leaves out the options of a relation.)
 *
 * Compiled by Janino, the compiler inside Spark: no generics, no lambdas. Called through java.util.function.Function.
 */
public class PlanWalk implements java.util.function.Function {
    private static final String NODE = "\u0002";
    private static final String FIELD = "\u0001";
    private static final int MOST_NODES = 200000;
    /** Functions that are told a type by a text, and which of their arguments it is (from 0). */
    private static final java.util.Map TYPE_ARGUMENTS = new java.util.HashMap();
    /** Functions that are told options of Spark's readers, and which of their arguments they are (from 0). */
    private static final java.util.Map OPTIONS_ARGUMENTS = new java.util.HashMap();

    static {
        TYPE_ARGUMENTS.put("from_json", Integer.valueOf(1));
        TYPE_ARGUMENTS.put("from_csv", Integer.valueOf(1));
        TYPE_ARGUMENTS.put("variant_get", Integer.valueOf(2));
        TYPE_ARGUMENTS.put("try_variant_get", Integer.valueOf(2));
        OPTIONS_ARGUMENTS.put("from_json", Integer.valueOf(2));
        OPTIONS_ARGUMENTS.put("from_csv", Integer.valueOf(2));
        OPTIONS_ARGUMENTS.put("to_json", Integer.valueOf(1));
        OPTIONS_ARGUMENTS.put("to_csv", Integer.valueOf(1));
        OPTIONS_ARGUMENTS.put("schema_of_json", Integer.valueOf(1));
        OPTIONS_ARGUMENTS.put("schema_of_csv", Integer.valueOf(1));
    }

    /** Class names with what is needed to judge them; nodes are separated by \u0002, their fields by \u0001. */
    public Object apply(Object plan) {
        try {
            return list(plan);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private String list(Object plan) throws Exception {
        StringBuilder out = new StringBuilder();
        Set seen = Collections.newSetFromMap(new IdentityHashMap());
        ArrayDeque pending = new ArrayDeque();
        pending.push(plan);
        int nodes = 0;
        while (!pending.isEmpty()) {
            Object value = pending.pop();
            if (value instanceof String || value instanceof Number || !seen.add(value)) {
                continue;
            }
            if (value instanceof org.apache.spark.sql.catalyst.trees.TreeNode) {
                if (++nodes > MOST_NODES) {
                    return "TOO COMPLEX";
                }
                describe(value, out);
            }
            pushParts(value, pending);
        }
        return out.toString();
    }

    private void pushParts(Object value, ArrayDeque pending) {
        if (value instanceof org.apache.spark.sql.types.DataType) {
            return;
        }
        if (value instanceof scala.collection.Iterable) {
            push(((scala.collection.Iterable) value).iterator(), pending);
        } else if (value instanceof scala.Product) {
            push(((scala.Product) value).productIterator(), pending);
        } else if (value instanceof Iterable) {
            for (Iterator parts = ((Iterable) value).iterator(); parts.hasNext();) {
                pushOne(parts.next(), pending);
            }
        } else if (value instanceof Object[]) {
            Object[] parts = (Object[]) value;
            for (int i = 0; i < parts.length; i++) {
                pushOne(parts[i], pending);
            }
        }
    }

    private void push(scala.collection.Iterator parts, ArrayDeque pending) {
        while (parts.hasNext()) {
            pushOne(parts.next(), pending);
        }
    }

    private void pushOne(Object part, ArrayDeque pending) {
        if (part != null) {
            pending.push(part);
        }
    }

    private void describe(Object node, StringBuilder out) throws Exception {
        String name = node.getClass().getName();
        String kind = name.substring(name.lastIndexOf('.') + 1);
        if (out.length() > 0) {
            out.append(NODE);
        }
        out.append(name);
        if (kind.equals("UnresolvedRelation")) {
            Object options = call(node, "options");
            field(out, ((java.util.Map) options).isEmpty() ? "" : "options");
            field(out, ((Boolean) call(node, "isStreaming")).booleanValue() ? "streaming" : "");
            fields(out, call(node, "multipartIdentifier"));
        } else if (kind.equals("UnresolvedFunction")) {
            fields(out, call(node, "nameParts"));
            describeType(node, out);
            describeOptions(node, out);
        } else if (kind.equals("UnresolvedAttribute")) {
            fields(out, call(node, "nameParts"));
        } else if (kind.equals("UnresolvedTableValuedFunction")) {
            fields(out, call(node, "name"));
        } else if (kind.equals("UnresolvedGenerator")) {
            field(out, ((org.apache.spark.sql.catalyst.FunctionIdentifier) call(node, "name")).unquotedString());
        } else if (kind.equals("UnresolvedStar")) {
            scala.Option target = (scala.Option) call(node, "target");
            if (target.isDefined()) {
                fields(out, target.get());
            }
        } else if (kind.equals("UnresolvedWith")) {
            scala.collection.Iterator relations = ((scala.collection.Iterable) call(node, "cteRelations")).iterator();
            while (relations.hasNext()) {
                field(out, ((scala.Product) relations.next()).productElement(0).toString());
            }
        }
    }

    /** The argument by which a function is told a type, as a node of its own: "text" and the text, or what else it is. */
    private void describeType(Object function, StringBuilder out) throws Exception {
        scala.collection.Seq names = (scala.collection.Seq) call(function, "nameParts");
        Object place = TYPE_ARGUMENTS.get(String.valueOf(names.last()).toLowerCase(java.util.Locale.ROOT));
        scala.collection.Seq arguments = (scala.collection.Seq) call(function, "arguments");
        if (place == null || arguments.size() <= ((Integer) place).intValue()) {
            return;
        }
        Object type = arguments.apply(((Integer) place).intValue());
        out.append(NODE).append("TypeArgument");
        field(out, String.valueOf(names.last()));
        Object value = type instanceof org.apache.spark.sql.catalyst.expressions.Literal
            ? ((org.apache.spark.sql.catalyst.expressions.Literal) type).value() : null;
        if (value instanceof org.apache.spark.unsafe.types.UTF8String) {
            field(out, "text");
            field(out, value.toString());
        } else if (type.getClass().getName().endsWith(".UnresolvedFunction")) {
            field(out, "function");
            fields(out, call(type, "nameParts"));
        } else {
            field(out, "other");
        }
        for (int number = 0; number < arguments.size(); number++) {
            if (arguments.apply(number).getClass().getName().endsWith(".NamedArgumentExpression")) {
                out.append(NODE).append("TypeArgument");
                field(out, String.valueOf(names.last()));
                field(out, "other");
            }
        }
    }

    /** The options of a function, as a node of its own: "map" with names and values of texts in turn, or "other". */
    private void describeOptions(Object function, StringBuilder out) throws Exception {
        scala.collection.Seq names = (scala.collection.Seq) call(function, "nameParts");
        Object place = OPTIONS_ARGUMENTS.get(String.valueOf(names.last()).toLowerCase(java.util.Locale.ROOT));
        scala.collection.Seq arguments = (scala.collection.Seq) call(function, "arguments");
        if (place == null) {
            return;
        }
        for (int number = 0; number < arguments.size(); number++) {
            Object argument = arguments.apply(number);
            boolean isNamed = argument.getClass().getName().endsWith(".NamedArgumentExpression");
            if (!isNamed && number < ((Integer) place).intValue()) {
                continue;
            }
            out.append(NODE).append("OptionsArgument");
            field(out, String.valueOf(names.last()));
            fields(out, optionsOf(argument));
        }
    }

    private scala.collection.Iterable optionsOf(Object argument) throws Exception {
        scala.collection.mutable.ArrayBuffer told = new scala.collection.mutable.ArrayBuffer();
        if (argument.getClass().getName().endsWith(".UnresolvedFunction")) {
            scala.collection.Seq names = (scala.collection.Seq) call(argument, "nameParts");
            scala.collection.Seq pairs = (scala.collection.Seq) call(argument, "arguments");
            if (names.size() == 1 && String.valueOf(names.last()).equalsIgnoreCase("map") && pairs.size() % 2 == 0) {
                told.append("map");
                for (int number = 0; number < pairs.size(); number++) {
                    Object value = pairs.apply(number) instanceof org.apache.spark.sql.catalyst.expressions.Literal
                        ? ((org.apache.spark.sql.catalyst.expressions.Literal) pairs.apply(number)).value() : null;
                    if (!(value instanceof org.apache.spark.unsafe.types.UTF8String)) {
                        told.clear();
                        break;
                    }
                    told.append(value.toString());
                }
            }
        }
        if (told.isEmpty()) {
            told.append("other");
        }
        return told;
    }

    private Object call(Object node, String method) throws Exception {
        Method found = node.getClass().getMethod(method, new Class[0]);
        return found.invoke(node, new Object[0]);
    }

    private void fields(StringBuilder out, Object names) {
        scala.collection.Iterator parts = ((scala.collection.Iterable) names).iterator();
        while (parts.hasNext()) {
            field(out, String.valueOf(parts.next()));
        }
    }

    private void field(StringBuilder out, String text) {
        out.append(FIELD).append(text.replace(FIELD, "?").replace(NODE, "?"));
    }
}
