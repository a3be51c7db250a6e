import org.elasticmq.rest.sqs.SQSRestServerBuilder;

/** ElasticMQ as it is by default, in memory, on the port given; it says when it is ready. */
final class ElasticMq {
    public static void main(String[] arguments) {
        SQSRestServerBuilder.withInterface("127.0.0.1")
                .withPort(Integer.parseInt(arguments[0]))
                .start()
                .waitUntilStarted();
        System.out.println("ready");
    }
}
