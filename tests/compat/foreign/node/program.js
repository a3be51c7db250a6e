'use strict';
// The clients of rocketmq-client-nodejs (gRPC): producers of four kinds, push consumers and simple consumers. Reads
// commands from its input, one a line: `send KIND TOPIC BODY`, `push GROUP TOPIC`, `simple GROUP TOPIC`. NODE_PATH
// tells where the package is installed.
const readline = require('readline');
const {Producer, PushConsumer, SimpleConsumer, ConsumeResult, FilterExpression} = require('rocketmq-client-nodejs');

const [, , endpoints, namespace] = process.argv;
const silent = {info() {}, debug() {}, warn: console.log, error: console.log, close() {}};
const common = {
  endpoints,
  namespace,
  logger: silent,
  sessionCredentials: {accessKey: process.env.ACCESS_KEY, accessSecret: process.env.SECRET_KEY},
};

function print(event, fields) {
  console.log(JSON.stringify({event, ...fields}));
}

function received(message) {
  print('received', {
    body: message.body.toString(), topic: message.topic, id: message.messageId, tag: message.tag, keys: message.keys,
    colour: (message.properties || new Map()).get('colour'), attempt: message.deliveryAttempt,
  });
}

const commands = {
  async send(kind, topic, body) {
    const producer = new Producer({
      ...common, topics: [topic],
      checker: {async check(message) { print('checked', {body: message.body.toString()}); return 1; }},
    });
    await producer.startup();
    const message = {
      topic, tag: 'TagA', keys: ['k1', 'k2'], properties: new Map([['colour', 'blue']]), body: Buffer.from(body),
    };
    if (kind === 'fifo') message.messageGroup = 'g';
    if (kind === 'delay') message.delay = 2000;
    const transaction = kind === 'commit' || kind === 'rollback' ? producer.beginTransaction() : undefined;
    const receipt = await producer.send(message, transaction);
    if (transaction) await transaction[kind]();
    print('sent', {body, id: receipt.messageId});
    await producer.shutdown();
  },

  async push(consumerGroup, topic) {
    const consumer = new PushConsumer({
      ...common, consumerGroup, subscriptions: new Map([[topic, FilterExpression.SUB_ALL]]),
      messageListener: {
        async consume(message) {
          received(message);
          const fails = message.body.toString().startsWith('bad') && message.deliveryAttempt === 1;
          return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        },
      },
    });
    await consumer.startup();
    print('consuming', {group: consumerGroup});
  },

  async simple(consumerGroup, topic) {
    const consumer = new SimpleConsumer({
      ...common, consumerGroup, awaitDuration: 10000, subscriptions: new Map([[topic, FilterExpression.SUB_ALL]]),
    });
    await consumer.startup();
    for (const message of await consumer.receive(16, 20000)) {
      await consumer.changeInvisibleDuration(message, 30000);
      await consumer.ack(message);
      received(message);
    }
    await consumer.shutdown();
    print('polled', {});
  },
};

let before = Promise.resolve();
readline.createInterface({input: process.stdin}).on('line', (line) => {
  const [name, ...rest] = line.split(' ');
  before = before.then(() => commands[name](...rest)).catch((error) => print('failed', {error: String(error)}));
});
print('ready', {});
