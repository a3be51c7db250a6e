package gantry.compat;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.StringJoiner;

/** Machine-readable standard output: one JSON object a line, its first key is {@code event}. */
final class Output {
    private static final PrintStream LINES = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Output() {}

    /** Prints one event; {@code fields} are names and values in turn. */
    static void event(String event, Object... fields) {
        StringJoiner line = new StringJoiner(",", "{", "}");
        line.add("\"event\":" + quote(event));
        line.add("\"at\":" + System.currentTimeMillis());
        for (int i = 0; i < fields.length; i += 2) {
            line.add(quote(fields[i].toString()) + ":" + json(fields[i + 1]));
        }
        synchronized (LINES) {
            LINES.println(line);
        }
    }

    /** Prints a failure with the texts of the whole chain of causes: the clients hide the broker's answer in it. */
    static void failure(String what, Throwable error, Object... fields) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            text.append(cause.getClass().getSimpleName()).append(": ").append(cause.getMessage()).append(" | ");
        }
        Object[] all = new Object[fields.length + 4];
        all[0] = "what";
        all[1] = what;
        all[2] = "error";
        all[3] = text.toString();
        System.arraycopy(fields, 0, all, 4, fields.length);
        event("failed", all);
    }

    private static String json(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        if (value instanceof Map<?, ?> map) {
            StringJoiner entries = new StringJoiner(",", "{", "}");
            map.forEach((key, entry) -> entries.add(quote(key.toString()) + ":" + json(entry)));
            return entries.toString();
        }
        if (value instanceof Iterable<?> items) {
            StringJoiner entries = new StringJoiner(",", "[", "]");
            items.forEach(item -> entries.add(json(item)));
            return entries.toString();
        }
        return quote(value.toString());
    }

    private static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < 0x20) {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}
