// Every client of rocketmq-client-go (remoting), with nothing set but address, keys and namespace. Reads commands from
// its input, one a line: `send KIND TOPIC BODY`, `push GROUP TOPIC`, `ordered GROUP TOPIC`, `answer GROUP TOPIC`,
// `ask TOPIC BODY`. Prints JSON lines that begin with {"event".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var (
	servers     = []string{os.Args[1]}
	namespace   = os.Args[2]
	credentials = primitive.Credentials{AccessKey: os.Getenv("ACCESS_KEY"), SecretKey: os.Getenv("SECRET_KEY")}
	lines       = make(chan string, 100)
)

type fields map[string]any

func print(event string, more fields) {
	said, err := json.Marshal(more)
	if err != nil {
		panic(err)
	}
	lines <- strings.Replace(fmt.Sprintf(`{"event": %q, %s`, event, said[1:]), ", }", "}", 1)
}

func must(err error) {
	if err != nil {
		print("failed", fields{"error": err.Error()})
	}
}

func newProducer(group string) rocketmq.Producer {
	made, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver(servers)),
		producer.WithNamespace(namespace),
		producer.WithCredentials(credentials),
		producer.WithGroupName(group),
		producer.WithInstanceName(group),
	)
	must(err)
	must(made.Start())
	return made
}

// One for all sends: a group has one producer in a process.
var sending = sync.OnceValue(func() rocketmq.Producer { return newProducer("GID_go_producer") })

func message(topic, body string) *primitive.Message {
	made := primitive.NewMessage(topic, []byte(body)).WithTag("TagA").WithKeys([]string{"k1", "k2"})
	made.WithProperty("colour", "blue")
	return made
}

func send(kind, topic, body string) {
	made := message(topic, body)
	switch kind {
	case "delay":
		made.WithDelayTimeLevel(2)
	case "fifo":
		made.WithShardingKey("g")
	}
	result, err := sending().SendSync(context.Background(), made)
	if err != nil {
		must(err)
		return
	}
	print("sent", fields{"body": body, "id": result.MsgID})
}

func push(group, topic string, ordered bool) {
	made, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver(servers)),
		consumer.WithNamespace(namespace),
		consumer.WithCredentials(credentials),
		consumer.WithGroupName(group),
		consumer.WithInstance(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(ordered),
	)
	must(err)
	must(made.Subscribe(topic, consumer.MessageSelector{}, func(
		_ context.Context, messages ...*primitive.MessageExt,
	) (consumer.ConsumeResult, error) {
		for _, one := range messages {
			received(one)
			if strings.HasPrefix(string(one.Body), "bad") && one.ReconsumeTimes == 0 {
				return consumer.ConsumeRetryLater, nil
			}
		}
		return consumer.ConsumeSuccess, nil
	}))
	must(made.Start())
	print("consuming", fields{"group": group})
}

func received(one *primitive.MessageExt) {
	print("received", fields{
		"body": string(one.Body), "topic": one.Topic, "id": one.MsgId, "tag": one.GetTags(),
		"keys": strings.Fields(one.GetKeys()), "colour": one.GetProperty("colour"), "attempt": one.ReconsumeTimes + 1,
	})
}

// A server of requests: its reply carries what was asked, or nothing at all where `empty` was asked. What the client
// makes of a request never has a body, whatever it is told: that is set afterwards.
func answer(group, topic string) {
	replying := newProducer(group + "_replies")
	made, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver(servers)),
		consumer.WithNamespace(namespace),
		consumer.WithCredentials(credentials),
		consumer.WithGroupName(group),
		consumer.WithInstance(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithPullInterval(0),
	)
	must(err)
	must(made.Subscribe(topic, consumer.MessageSelector{}, func(
		_ context.Context, messages ...*primitive.MessageExt,
	) (consumer.ConsumeResult, error) {
		for _, one := range messages {
			reply, err := consumer.CreateReplyMessage(one, nil)
			must(err)
			if string(one.Body) != "empty" {
				reply.Body = []byte("re: " + string(one.Body))
			}
			_, err = replying.SendSync(context.Background(), reply)
			must(err)
		}
		return consumer.ConsumeSuccess, nil
	}))
	must(made.Start())
	print("consuming", fields{"group": group})
}

func ask(topic, body string) {
	reply, err := sending().Request(
		context.Background(), 20*time.Second, primitive.NewMessage(topic, []byte(body)),
	)
	if err != nil {
		must(err)
		return
	}
	print("answered", fields{"asked": body, "body": string(reply.Body)})
}

func main() {
	rlog.SetLogLevel("warn")
	go func() {
		for line := range lines {
			fmt.Println(line)
		}
	}()
	print("ready", fields{})
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		words := strings.Split(commands.Text(), " ")
		switch words[0] {
		case "send":
			send(words[1], words[2], words[3])
		case "push":
			push(words[1], words[2], false)
		case "ordered":
			push(words[1], words[2], true)
		case "answer":
			answer(words[1], words[2])
		case "ask":
			ask(words[1], words[2])
		default:
			panic("unknown command " + words[0])
		}
	}
}
