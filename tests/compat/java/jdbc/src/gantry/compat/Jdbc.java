package gantry.compat;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/**
 * What a program does at the MySQL endpoint, by JDBC: one step an event. {@code --steps} names them; user and password come
 * from the environment, as for the other programs.
 */
final class Jdbc {
    private Jdbc() {}

    public static void main(String[] given) throws Exception {
        Arguments arguments = new Arguments(given);
        try (Connection connection =
                DriverManager.getConnection(arguments.text("url"), Arguments.accessKey(), Arguments.secretKey())) {
            for (String step : arguments.list("steps", "")) {
                run(step, connection);
            }
            Output.event("done", "driver", connection.getMetaData().getDriverVersion());
        } catch (SQLException error) {
            Output.event("refused", "code", error.getErrorCode(), "state", error.getSQLState(),
                    "message", error.getMessage());
        }
    }

    private static void run(String step, Connection connection) throws Exception {
        try {
            switch (step) {
                case "describe" -> describe(connection);
                case "submit" -> submit(connection);
                case "types" -> types(connection);
                case "fetch" -> fetch(connection);
                case "stream" -> stream(connection);
                case "limit" -> limit(connection);
                case "metadata" -> metadata(connection);
                case "unknown" -> query(connection, "select * from nothing");
                case "timeout" -> timeout(connection);
                default -> throw new IllegalArgumentException(step);
            }
        } catch (SQLException error) {
            Output.event(step, "error", error.getClass().getSimpleName(), "code", error.getErrorCode(),
                    "state", error.getSQLState(), "message", error.getMessage());
        }
    }

    private static void describe(Connection connection) throws SQLException {
        Output.event("describe", "databases", column(connection, "show databases"),
                "tables", column(connection, "show tables"),
                "cipher", query(connection, "show session status like 'Ssl_cipher'").get(0).get(1),
                "valid", connection.isValid(5), "catalog", connection.getCatalog());
    }

    private static void submit(Connection connection) throws SQLException {
        String text = "/*+ run_async=true */ select * from flights where carrier in (?, ?) and hour > ? and x = ?";
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            statement.setString(1, "it's \"a\" \\ back\nslash");
            statement.setString(2, "nul \0 and 😀");
            statement.setLong(3, -9007199254740993L);
            statement.setNull(4, java.sql.Types.VARCHAR);
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                Output.event("submit", "label", rows.getMetaData().getColumnLabel(1), "id", rows.getString(1));
            }
        }
    }

    private static void types(Connection connection) throws SQLException {
        List<Object> kinds = new ArrayList<>();
        List<Object> values = new ArrayList<>();
        try (PreparedStatement statement = connection.prepareStatement("select * from flights");
                ResultSet rows = statement.executeQuery()) {
            ResultSetMetaData about = rows.getMetaData();
            rows.next();
            for (int i = 1; i <= about.getColumnCount(); i++) {
                kinds.add(about.getColumnTypeName(i) + "(" + about.getPrecision(i) + "," + about.getScale(i) + ")");
                Object value = rows.getObject(i);
                values.add(value instanceof byte[] bytes ? HexFormat.of().formatHex(bytes)
                        : value == null ? null : value.getClass().getSimpleName() + " " + rows.getString(i));
            }
        }
        Output.event("types", "kinds", kinds, "values", values);
    }

    /** With useCursorFetch rows come by COM_STMT_FETCH. */
    private static void fetch(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("select * from flights")) {
            statement.setFetchSize(7);
            Output.event("fetch", "rows", count(statement.executeQuery()));
        }
    }

    private static void stream(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(Integer.MIN_VALUE);
            Output.event("stream", "rows", count(statement.executeQuery("select * from flights")));
        }
    }

    private static void limit(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setMaxRows(3);
            Output.event("limit", "rows", count(statement.executeQuery("select * from flights")));
        }
    }

    private static void metadata(Connection connection) throws SQLException {
        List<Object> tables = new ArrayList<>();
        try (ResultSet rows = connection.getMetaData().getTables("demo", null, "%", null)) {
            while (rows.next()) {
                tables.add(rows.getString("TABLE_NAME"));
            }
        }
        List<Object> columns = new ArrayList<>();
        try (ResultSet rows = connection.getMetaData().getColumns("demo", null, "flights", "%")) {
            while (rows.next()) {
                columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME"));
            }
        }
        Output.event("metadata", "tables", tables, "columns", columns,
                "product", connection.getMetaData().getDatabaseProductName());
    }

    private static void timeout(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.executeQuery("select * from flights");
        } finally {
            Output.event("afterwards", "answer", column(connection, "select 1"));
        }
    }

    private static int count(ResultSet rows) throws SQLException {
        int count = 0;
        while (rows.next()) {
            count++;
        }
        rows.close();
        return count;
    }

    private static List<Object> column(Connection connection, String text) throws SQLException {
        List<Object> values = new ArrayList<>();
        query(connection, text).forEach(row -> values.add(row.get(0)));
        return values;
    }

    private static List<List<Object>> query(Connection connection, String text) throws SQLException {
        List<List<Object>> all = new ArrayList<>();
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(text)) {
            while (rows.next()) {
                List<Object> row = new ArrayList<>();
                for (int i = 1; i <= rows.getMetaData().getColumnCount(); i++) {
                    row.add(rows.getObject(i));
                }
                all.add(row);
            }
        }
        return all;
    }
}
