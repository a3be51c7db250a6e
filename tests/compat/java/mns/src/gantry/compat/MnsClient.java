package gantry.compat;

import com.aliyun.mns.client.AsyncCallback;
import com.aliyun.mns.client.AsyncResult;
import com.aliyun.mns.client.CloudAccount;
import com.aliyun.mns.client.CloudPullTopic;
import com.aliyun.mns.client.CloudQueue;
import com.aliyun.mns.client.CloudTopic;
import com.aliyun.mns.client.DefaultMNSClient;
import com.aliyun.mns.client.MNSClient;
import com.aliyun.mns.client.TransactionQueue;
import com.aliyun.mns.common.BatchDeleteException;
import com.aliyun.mns.common.BatchSendException;
import com.aliyun.mns.common.ClientException;
import com.aliyun.mns.common.ServiceException;
import com.aliyun.mns.common.http.ClientConfiguration;
import com.aliyun.mns.model.AccountAttributes;
import com.aliyun.mns.model.Base64TopicMessage;
import com.aliyun.mns.model.MailAttributes;
import com.aliyun.mns.model.Message;
import com.aliyun.mns.model.MessageAttributes;
import com.aliyun.mns.model.PagingListResult;
import com.aliyun.mns.model.QueueMeta;
import com.aliyun.mns.model.RawTopicMessage;
import com.aliyun.mns.model.SubscriptionMeta;
import com.aliyun.mns.model.TopicMessage;
import com.aliyun.mns.model.TopicMeta;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.Vector;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/**
 * The vendor's Java SDK of queues. Reads commands from its input, a JSON object a line, and answers each with an event:
 * {@code answer} with its value, or {@code refused}. What has an asynchronous form is done in the one that the command's
 * {@code how} names: {@code sync}, {@code async} (the result is waited for) or {@code callback}.
 */
public final class MnsClient {
    private static final long PATIENCE_SECONDS = 60;

    private final Map<String, MNSClient> clients = new HashMap<>();

    public static void main(String[] argv) {
        MnsClient program = new MnsClient();
        Output.event("ready");
        Scanner commands = new Scanner(System.in, StandardCharsets.UTF_8);
        while (commands.hasNextLine()) {
            JsonObject command = new JsonParser().parse(commands.nextLine()).getAsJsonObject();
            int number = command.get("n").getAsInt();
            try {
                Output.event("answer", "n", number, "value", program.carryOut(new Command(command)));
            } catch (Throwable error) {
                refused(number, error);
            }
        }
        System.exit(0); // the SDK leaves threads behind
    }

    private static void refused(int number, Throwable error) {
        String code = "";
        String request = "";
        Map<String, Object> details = new LinkedHashMap<>();
        if (error instanceof ServiceException refusal) {
            code = refusal.getErrorCode();
            request = refusal.getRequestId();
        } else if (error instanceof ClientException failure) {
            code = failure.getErrorCode();
        }
        if (error instanceof BatchDeleteException partly) {
            partly.getErrorMessages().forEach((handle, why) -> details.put(handle, why.getErrorCode()));
        } else if (error instanceof BatchSendException partly) {
            int place = 0;
            for (Message message : partly.getMessages()) {
                String what = message.isErrorMessage() ? message.getErrorMessageDetail().getErrorCode() : "sent";
                details.put(String.valueOf(place++), what);
            }
        }
        String kind = error.getClass().getSimpleName();
        Output.event(
                "refused", "n", number, "kind", kind, "code", code, "message", String.valueOf(error.getMessage()),
                "request", request, "details", details);
    }

    private Object carryOut(Command command) throws Throwable {
        if (command.text("do").equals("connect")) {
            clients.put(command.text("as"), connect(command));
            return null;
        }
        MNSClient client = clients.get(command.text("as"));
        return switch (command.text("do")) {
            case "createQueue" -> client.createQueue(command.meta()).getQueueURL();
            case "createQueueAsync" -> ((DefaultMNSClient) client).createQueueAsync(command.meta(), null).getResult();
            case "listQueue" -> page(client.listQueue(command.text("prefix"), command.text("marker"), command.number("count")));
            case "asyncListQueue" -> page(((DefaultMNSClient) client)
                    .asyncListQueue(command.text("prefix"), command.text("marker"), command.number("count"), true, null)
                    .getResult());
            case "listQueueURL" -> page(client.listQueueURL(command.text("prefix"), command.text("marker"), command.number("count")));
            case "isOpen" -> client.isOpen();
            case "transact" -> transact(client, command);
            case "pullTopic" -> pullTopic(client, command);
            case "createTopic" -> client.createTopic(topicMeta(command)).getTopicURL();
            case "listTopic" -> page(client.listTopic(command.text("prefix"), command.text("marker"), command.number("count")));
            case "listTopicURL" -> page(client.listTopicURL(command.text("prefix"), command.text("marker"), command.number("count")));
            case "getAccount" -> client.GetAccountAttributes().getLoggingBucket();
            case "setAccount" -> {
                AccountAttributes account = new AccountAttributes();
                account.setLoggingBucket(command.text("bucket"));
                client.SetAccountAttributes(account);
                yield null;
            }
            case "openService" -> client.openService().getOrderId();
            default -> command.text("topic") == null
                    ? onQueue(client.getQueueRef(command.text("queue")), command)
                    : onTopic(client.getTopicRef(command.text("topic")), command);
        };
    }

    private static MNSClient connect(Command command) {
        ClientConfiguration configuration = new ClientConfiguration();
        configuration.setGenerateRequestId(command.flag("ids"));
        configuration.setExceptContinue(!command.flag("impatient"));
        String token = command.text("token");
        CloudAccount account = token == null
                ? new CloudAccount(command.text("id"), command.text("secret"), command.text("endpoint"), configuration)
                : new CloudAccount(
                        command.text("id"), command.text("secret"), command.text("endpoint"), token, null, configuration);
        return account.getMNSClient();
    }

    private static Object onQueue(CloudQueue queue, Command command) throws Throwable {
        String how = command.text("how");
        Integer seconds = command.number("wait");
        Integer most = command.number("most");
        String handle = command.text("handle");
        return switch (command.text("do")) {
            case "create" -> perform(how, () -> queue.create(command.meta()), done -> queue.asyncCreate(command.meta(), done));
            case "createPlain" -> queue.create();
            case "delete" -> perform(how, () -> nothing(queue::delete), queue::asyncDelete);
            case "getAttributes" -> told(perform(how, queue::getAttributes, queue::asyncGetAttributes));
            case "setAttributes" -> perform(
                    how, () -> nothing(() -> queue.setAttributes(command.meta())),
                    done -> queue.asyncSetAttributes(command.meta(), done));
            case "put" -> told(perform(
                    how, () -> queue.putMessage(command.message()), done -> queue.asyncPutMessage(command.message(), done)));
            case "batchPut" -> told(perform(
                    how, () -> queue.batchPutMessage(command.messages()),
                    done -> queue.asyncBatchPutMessage(command.messages(), done)));
            case "pop" -> told(
                    seconds == null
                            ? perform(how, queue::popMessage, queue::asyncPopMessage)
                            : perform(how, () -> queue.popMessage(seconds), done -> queue.asyncPopMessage(seconds, done)));
            case "batchPop" -> told(
                    seconds == null
                            ? perform(how, () -> queue.batchPopMessage(most), done -> queue.asyncBatchPopMessage(most, done))
                            : perform(
                                    how, () -> queue.batchPopMessage(most, seconds),
                                    done -> queue.asyncBatchPopMessage(most, seconds, done)));
            case "peek" -> told(perform(how, queue::peekMessage, queue::asyncPeekMessage));
            case "batchPeek" -> told(
                    perform(how, () -> queue.batchPeekMessage(most), done -> queue.asyncBatchPeekMessage(most, done)));
            case "change" -> told(perform(
                    how, () -> queue.changeMessageVisibility(handle, command.number("seconds")),
                    done -> queue.asyncChangeMessageVisibility(handle, command.number("seconds"), done)));
            case "changeTimeout" -> perform(
                    how, () -> queue.changeMessageVisibilityTimeout(handle, command.number("seconds")),
                    done -> queue.asyncChangeMessageVisibilityTimeout(handle, command.number("seconds"), done));
            case "deleteMessage" -> perform(
                    how, () -> nothing(() -> queue.deleteMessage(handle)), done -> queue.asyncDeleteMessage(handle, done));
            case "batchDelete" -> perform(
                    how, () -> nothing(() -> queue.batchDeleteMessage(command.texts("handles"))),
                    done -> queue.asyncBatchDeleteMessage(command.texts("handles"), done));
            case "isQueueExist" -> queue.isQueueExist();
            case "getQueueURL" -> queue.getQueueURL();
            default -> throw new IllegalArgumentException("unknown command " + command.text("do"));
        };
    }

    private static Object onTopic(CloudTopic topic, Command command) throws Throwable {
        String how = command.text("how");
        String name = command.text("subscription");
        return switch (command.text("do")) {
            case "create" -> topic.create(topicMeta(command));
            case "createPlain" -> topic.create();
            case "getAttribute" -> told(perform(how, topic::getAttribute, topic::asyncGetAttribute));
            case "setAttribute" -> perform(
                    how, () -> nothing(() -> topic.setAttribute(topicMeta(command))),
                    done -> topic.asyncSetAttribute(topicMeta(command), done));
            case "delete" -> perform(how, () -> nothing(topic::delete), topic::asyncDelete);
            case "publish" -> perform(
                    how, () -> topic.publishMessage(command.publication()),
                    done -> topic.asyncPublishMessage(command.publication(), done)).getMessageId();
            case "publishWithAttributes" -> topic.publishMessage((RawTopicMessage) command.publication(), attributes())
                    .getMessageId();
            case "subscribe" -> perform(
                    how, () -> topic.subscribe(command.subscription()),
                    done -> topic.asyncSubscribe(command.subscription(), done));
            case "getSubscriptionAttr" -> told(perform(
                    how, () -> topic.getSubscriptionAttr(name), done -> topic.asyncGetSubscriptionAttr(name, done)));
            case "setSubscriptionAttr" -> perform(
                    how, () -> nothing(() -> topic.setSubscriptionAttr(command.subscription())),
                    done -> topic.asyncSetSubscriptionAttr(command.subscription(), done));
            case "unsubscribe" -> perform(
                    how, () -> nothing(() -> topic.unsubscribe(name)), done -> topic.asyncUnsubscribe(name, done));
            case "listSubscriptions" -> page(
                    topic.listSubscriptions(command.text("prefix"), command.text("marker"), command.number("count")));
            case "listSubscriptionUrls" -> page(
                    topic.listSubscriptionUrls(command.text("prefix"), command.text("marker"), command.number("count")));
            case "endpoints" -> List.of(
                    topic.generateQueueEndpoint("q"), topic.generateMailEndpoint("a@b"), topic.generateSmsEndpoint(),
                    topic.generateSmsEndpoint("1"), topic.generateBatchSmsEndpoint(), topic.generateDayuEndpoint("1"),
                    topic.generatePushEndpoint("k"));
            default -> throw new IllegalArgumentException("unknown command " + command.text("do"));
        };
    }

    private static TopicMeta topicMeta(Command command) {
        TopicMeta meta = new TopicMeta();
        meta.setTopicName(command.text("topic"));
        if (command.number("size") != null) {
            meta.setMaxMessageSize(command.number("size").longValue());
        }
        return meta;
    }

    private static MessageAttributes attributes() {
        MailAttributes mail = new MailAttributes();
        mail.setAccountName("account");
        mail.setSubject("subject");
        MessageAttributes attributes = new MessageAttributes();
        attributes.setMailAttributes(mail);
        return attributes;
    }

    /** Publishes to a topic of which queues have all; gives what each of them has of it. */
    private static Object pullTopic(MNSClient client, Command command) {
        List<String> found = new ArrayList<>();
        Vector<String> queues = new Vector<>(command.texts("queues"));
        CloudPullTopic topic = client.createPullTopic(topicMeta(command), queues, true, null);
        try {
            Base64TopicMessage message = new Base64TopicMessage();
            message.setMessageBody(command.text("body"));
            topic.publishMessage(message);
            for (String queue : queues) {
                Message received = client.getQueueRef(queue).popMessage(30);
                found.add(received == null ? null : received.getMessageBodyAsString());
            }
        } finally {
            topic.delete();
        }
        return found;
    }

    /** Sends in a transaction whose local part gives {@code commit}; gives what can be received of it then. */
    private static Object transact(MNSClient client, Command command) {
        QueueMeta meta = new QueueMeta();
        meta.setQueueName(command.text("queue"));
        TransactionQueue queue = client.createTransQueue(meta);
        try {
            queue.sendTransMessage(new Message(command.text("body")), message -> command.flag("commit"));
            Message received = queue.getInnerQueue().popMessage(command.number("wait"));
            return received == null ? null : received.getMessageBodyAsString();
        } finally {
            queue.delete();
        }
    }

    private interface Work<T> {
        T call() throws Exception;
    }

    private interface Step {
        void run() throws Exception;
    }

    private interface Started<T> {
        AsyncResult<T> call(AsyncCallback<T> done);
    }

    private static Void nothing(Step step) throws Exception {
        step.run();
        return null;
    }

    private static <T> T perform(String how, Work<T> sync, Started<T> async) throws Throwable {
        if (how.equals("sync")) {
            return sync.call();
        }
        if (how.equals("async")) {
            AsyncResult<T> result = async.call(null);
            T value = result.getResult();
            if (!result.isSuccess()) {
                throw result.getException();
            }
            return value;
        }
        CompletableFuture<T> found = new CompletableFuture<>();
        async.call(new AsyncCallback<>() {
            @Override
            public void onSuccess(T value) {
                found.complete(value);
            }

            @Override
            public void onFail(Exception error) {
                found.completeExceptionally(error);
            }
        });
        try {
            return found.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            throw error.getCause();
        }
    }

    private static Object told(Object value) {
        if (value instanceof List<?> items) {
            return items.stream().map(MnsClient::told).toList();
        }
        Map<String, Object> fields = new LinkedHashMap<>();
        if (value instanceof Message message) {
            fields.put("id", message.getMessageId());
            fields.put("md5", message.getMessageBodyMD5());
            fields.put("handle", message.getReceiptHandle());
            fields.put("raw", message.getMessageBodyAsRawString());
            fields.put("body", message.getMessageBodyAsRawString() == null ? null : message.getMessageBodyAsString());
            fields.put("count", message.getDequeueCount());
            fields.put("priority", message.getPriority());
            fields.put("enqueued", millis(message.getEnqueueTime()));
            fields.put("first", millis(message.getFirstDequeueTime()));
            fields.put("next", millis(message.getNextVisibleTime()));
        } else if (value instanceof QueueMeta meta) {
            fields.put("name", meta.getQueueName());
            fields.put("url", meta.getQueueURL());
            fields.put("delay", meta.getDelaySeconds());
            fields.put("size", meta.getMaxMessageSize());
            fields.put("retention", meta.getMessageRetentionPeriod());
            fields.put("visibility", meta.getVisibilityTimeout());
            fields.put("polling", meta.getPollingWaitSeconds());
            fields.put("logging", meta.isLoggingEnabled());
            fields.put("active", meta.getActiveMessages());
            fields.put("inactive", meta.getInactiveMessages());
            fields.put("delayed", meta.getDelayMessages());
            fields.put("created", millis(meta.getCreateTime()));
        } else if (value instanceof TopicMeta meta) {
            fields.put("name", meta.getTopicName());
            fields.put("url", meta.getTopicURL());
            fields.put("size", meta.getMaxMessageSize());
            fields.put("retention", meta.getMessageRetentionPeriod());
            fields.put("created", meta.getCreateTime());
        } else if (value instanceof SubscriptionMeta meta) {
            fields.put("name", meta.getSubscriptionName());
            fields.put("url", meta.getSubscriptionURL());
            fields.put("topic", meta.getTopicName());
            fields.put("owner", meta.getTopicOwner());
            fields.put("endpoint", meta.getEndpoint());
            fields.put("strategy", meta.getNotifyStrategy());
            fields.put("format", meta.getNotifyContentFormat());
            fields.put("tag", meta.getFilterTag());
        } else {
            return value;
        }
        return fields;
    }

    private static Long millis(java.util.Date date) {
        return date == null ? null : date.getTime();
    }

    private static Object page(PagingListResult<?> page) {
        if (page == null) {
            return null;
        }
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("marker", page.getMarker());
        fields.put("items", page.getResult() == null ? null : told(new ArrayList<>(page.getResult())));
        return fields;
    }

    /** A command's fields. */
    private record Command(JsonObject fields) {
        String text(String name) {
            return fields.has(name) ? fields.get(name).getAsString() : name.equals("how") ? "sync" : null;
        }

        Integer number(String name) {
            return fields.has(name) ? fields.get(name).getAsInt() : null;
        }

        boolean flag(String name) {
            return fields.has(name) && fields.get(name).getAsBoolean();
        }

        List<String> texts(String name) {
            List<String> found = new ArrayList<>();
            fields.get(name).getAsJsonArray().forEach(one -> found.add(one.getAsString()));
            return found;
        }

        QueueMeta meta() {
            QueueMeta meta = new QueueMeta();
            meta.setQueueName(text("queue")); // without it the SDK throws all of them away
            for (Map.Entry<String, JsonElement> one : fields.getAsJsonObject("meta").entrySet()) {
                switch (one.getKey()) {
                    case "delay" -> meta.setDelaySeconds(one.getValue().getAsLong());
                    case "size" -> meta.setMaxMessageSize(one.getValue().getAsLong());
                    case "retention" -> meta.setMessageRetentionPeriod(one.getValue().getAsLong());
                    case "visibility" -> meta.setVisibilityTimeout(one.getValue().getAsLong());
                    case "polling" -> meta.setPollingWaitSeconds(one.getValue().getAsInt());
                    case "logging" -> meta.setLoggingEnabled(one.getValue().getAsBoolean());
                    default -> throw new IllegalArgumentException("unknown attribute " + one.getKey());
                }
            }
            return meta;
        }

        Message message() {
            return message(fields.getAsJsonObject("message"));
        }

        List<Message> messages() {
            List<Message> found = new ArrayList<>();
            JsonArray given = fields.getAsJsonArray("messages");
            given.forEach(one -> found.add(message(one.getAsJsonObject())));
            return found;
        }

        TopicMessage publication() {
            TopicMessage message = flag("base64") ? new Base64TopicMessage() : new RawTopicMessage();
            message.setMessageBody(text("body"));
            if (text("tag") != null) {
                message.setMessageTag(text("tag"));
            }
            return message;
        }

        SubscriptionMeta subscription() {
            SubscriptionMeta meta = new SubscriptionMeta();
            meta.setSubscriptionName(text("subscription"));
            meta.setEndpoint(text("endpoint"));
            meta.setFilterTag(text("tag"));
            if (text("strategy") != null) {
                meta.setNotifyStrategy(SubscriptionMeta.NotifyStrategy.valueOf(text("strategy")));
            }
            if (text("format") != null) {
                meta.setNotifyContentFormat(SubscriptionMeta.NotifyContentFormat.valueOf(text("format")));
            }
            return meta;
        }

        private static Message message(JsonObject given) {
            Message message = new Message();
            if (given.has("raw")) {
                message.setMessageBodyAsRawString(given.get("raw").getAsString());
            } else {
                message.setMessageBody(given.get("body").getAsString());
            }
            if (given.has("delay")) {
                message.setDelaySeconds(given.get("delay").getAsInt());
            }
            if (given.has("priority")) {
                message.setPriority(given.get("priority").getAsInt());
            }
            return message;
        }
    }
}
