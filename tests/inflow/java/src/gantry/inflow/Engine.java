package gantry.inflow;

import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.PrintStream;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/**
 * Runs Debezium's embedded engine with the properties of a file, and prints its records: a line is topic, key and value,
 * JSON without schemas, separated by tabs, which JSON has none of. It says {@code #streaming} when it follows changes.
 */
public final class Engine {
    private static final PrintStream LINES = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Engine() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(file);
        }
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
                .using(properties)
                .using(new DebeziumEngine.ConnectorCallback() {
                    @Override
                    public void pollingStarted() {
                        print("#polling");
                    }
                })
                .using((isSuccess, message, error) -> {
                    if (!isSuccess) {
                        print("#failed\t" + message + "\t" + error);
                    }
                })
                .notifying(record -> {
                    if (record.value() != null) {
                        print(record.destination() + "\t" + record.key() + "\t" + record.value());
                    } else {
                        print(record.destination() + "\t" + record.key() + "\t");
                    }
                })
                .build();
        engine.run();
    }

    private static void print(String line) {
        synchronized (LINES) {
            LINES.println(line);
        }
    }
}
