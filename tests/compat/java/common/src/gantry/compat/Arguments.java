package gantry.compat;

import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Command-line arguments of the form {@code --name value}. The AccessKey pair comes from the environment
 * (ACCESS_KEY, SECRET_KEY), so that no secret shows in the process list.
 */
final class Arguments {
    private final Map<String, String> values = new HashMap<>();

    Arguments(String[] arguments) {
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            if (!arguments[i].startsWith("--")) {
                throw new IllegalArgumentException("expected --name value, got " + arguments[i]);
            }
            values.put(arguments[i].substring(2), arguments[i + 1]);
        }
    }

    String text(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        return values.containsKey(name) ? Integer.parseInt(values.get(name)) : otherwise;
    }

    List<String> list(String name, String otherwise) {
        String value = text(name, otherwise);
        return value.isEmpty() ? List.of() : List.of(value.split(","));
    }

    /** Name and value of each {@code name=value} of a comma separated list. */
    Map<String, String> pairs(String name) {
        Map<String, String> pairs = new HashMap<>();
        for (String pair : list(name, "")) {
            String[] parts = pair.split("=", 2);
            pairs.put(parts[0], parts[1]);
        }
        return pairs;
    }

    static String accessKey() {
        return System.getenv("ACCESS_KEY");
    }

    static String secretKey() {
        return System.getenv("SECRET_KEY");
    }
}
