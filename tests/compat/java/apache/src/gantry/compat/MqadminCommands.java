package gantry.compat;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.commons.cli.CommandLine;
import org.apache.commons.cli.DefaultParser;
import org.apache.commons.cli.Options;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.srvutil.ServerUtil;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;

/**
 * Runs many commands of mqadmin in one JVM, several at once: starting a JVM for each would cost a minute.
 *
 * <p>A line on standard input is a command: the name that the answer carries and the arguments, separated by tabs. What
 * the command printed, on either stream, is one event. Commands that never end are cut off after {@code --seconds}.
 */
public final class MqadminCommands {
    private static final InheritableThreadLocal<ByteArrayOutputStream> PRINTED = new InheritableThreadLocal<>();
    private static final int ATTEMPTS = 6;
    private static final long BETWEEN_STARTS_MILLIS = 25;

    private final Map<String, Class<?>> commands = new TreeMap<>();
    private final long millis;

    private MqadminCommands(int seconds) throws ReflectiveOperationException {
        millis = seconds * 1000L;
        MQAdminStartup.initCommand();
        Field field = MQAdminStartup.class.getDeclaredField("SUB_COMMANDS");
        field.setAccessible(true);
        for (Object command : (Iterable<?>) field.get(null)) {
            commands.put(((SubCommand) command).commandName(), command.getClass());
        }
    }

    public static void main(String[] arguments) throws Exception {
        Arguments given = new Arguments(arguments);
        System.setProperty("rocketmq.namesrv.addr", given.text("namesrv"));
        MqadminCommands mqadmin = new MqadminCommands(given.number("seconds", 15));
        Output.event("ready", "commands", mqadmin.commands.keySet());
        capture();
        ExecutorService pool = Executors.newFixedThreadPool(given.number("threads", 12), MqadminCommands::daemon);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t");
            pool.execute(() -> mqadmin.run(words[0], Arrays.copyOfRange(words, 1, words.length)));
        }
        pool.shutdown();
        pool.awaitTermination(10, TimeUnit.MINUTES);
        System.exit(0);
    }

    private void run(String name, String[] words) {
        for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            Thread thread = daemon(() -> execute(words, printed));
            try {
                pause();
                thread.start();
                thread.join(millis);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
            String text = printed.toString(StandardCharsets.UTF_8);
            boolean clash = text.contains("has created already") || text.contains("has been created before");
            if (!clash || attempt == ATTEMPTS) {
                Output.event("printed", "name", name, "ended", !thread.isAlive(), "text", text);
                return;
            }
        }
    }

    /**
     * mqadmin names its clients by the millisecond of their start. Of two that have one name the second is refused, and
     * ends the first one's connections when it shuts down.
     */
    private static synchronized void pause() throws InterruptedException {
        Thread.sleep(BETWEEN_STARTS_MILLIS);
    }

    private void execute(String[] words, ByteArrayOutputStream printed) {
        PRINTED.set(printed);
        try {
            SubCommand command = (SubCommand) commands.get(words[0]).getDeclaredConstructor().newInstance();
            Options options = command.buildCommandlineOptions(ServerUtil.buildCommandlineOptions(new Options()));
            String[] arguments = Arrays.copyOfRange(words, 1, words.length);
            CommandLine line = new DefaultParser().parse(options, arguments);
            SessionCredentials keys = new SessionCredentials(Arguments.accessKey(), Arguments.secretKey());
            command.execute(line, options, new AclClientRPCHook(keys));
        } catch (Throwable error) {
            error.printStackTrace(System.err);
        }
    }

    /** What a thread prints goes to the command that it, or the thread that started it, works for. */
    private static void capture() {
        PrintStream stream = new PrintStream(new OutputStream() {
            @Override
            public void write(int value) {
                ByteArrayOutputStream printed = PRINTED.get();
                if (printed != null) {
                    printed.write(value);
                }
            }

            @Override
            public void write(byte[] bytes, int offset, int length) throws IOException {
                ByteArrayOutputStream printed = PRINTED.get();
                if (printed != null) {
                    printed.write(bytes, offset, length);
                }
            }
        }, true, StandardCharsets.UTF_8);
        System.setOut(stream);
        System.setErr(stream);
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }
}
