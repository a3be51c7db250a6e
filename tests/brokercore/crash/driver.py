"""The clients of the crash tests: `python -m tests.brokercore.crash.driver ROLE --topic …`, until its input closes."""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from brokercore.client import (
    ConsumeResult,
    Credentials,
    Message,
    MessageView,
    Producer,
    PushConsumer,
    SendResult,
    TransactionState,
    membership,
    running_consumer,
)
from brokercore.client.errors import BrokerError, ClientError
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.ids import Receipt
from brokercore.protocol.message import decode_stored
from tests.brokercore.crash.records import Notebook
from tests.brokercore.server.wire import Wire

BEAT_SECONDS = 0.5
"""Heartbeats, rebalances and renewed locks come so often here: nobody waits half a minute for a restarted broker."""

PAUSE_SECONDS = 0.05
"""After a refusal; without it a broker that is away would fill the notebook."""


class Driver:
    """What all roles have: arguments, a notebook, and the end of the input."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.notebook = Notebook(options.records)
        self.credentials = Credentials(os.environ["ACCESS_KEY"], os.environ["SECRET_KEY"])
        self.stopped = threading.Event()
        threading.Thread(target=self._wait_for_end, daemon=True).start()

    def produce(self) -> None:
        """Send with `--threads` threads, at most `--count` messages, and note what was acknowledged.

        With `--insist` each is sent until it is acknowledged.
        """
        options = self.options
        with Producer(
            options.namesrv, self.credentials, options.group, namespace=options.namespace,
            timeout_ms=options.timeout_ms, retries=options.retries,
        ) as producer:  # fmt: skip
            threads = [threading.Thread(target=self._send, args=(producer, n)) for n in range(options.threads)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.notebook.write("done", "")
            self.stopped.wait()

    def _send(self, producer: Producer, thread: int) -> None:
        options = self.options
        for number in range(options.count // options.threads):
            body = f"{options.name}{thread}:{number}"
            while not self.stopped.is_set():
                if self._sent(partial(self._one, producer, body, thread), body) or not options.insist:
                    break
            if self.stopped.is_set():
                return
            if options.pause:
                self.stopped.wait(options.pause)

    def _one(self, producer: Producer, body: str, thread: int) -> SendResult:
        options = self.options
        message = Message(
            options.topic,
            body.encode().ljust(options.size, b"."),
            keys=body,
            properties={"fails": str(options.fails)},
            deliver_at_ms=int(time.time() * 1000) + options.delay_ms if options.delay_ms else None,
        )
        if options.ordered:
            return producer.send_ordered(message, f"{options.name}{thread}")
        return producer.send(message)

    def _sent(self, send: Callable[[], object], body: str) -> bool:
        """Send, and note what came of it, with id and place of what was acknowledged; True when it was."""
        self.notebook.write("sent", body)
        try:
            result = send()
        except ClientError as error:
            code = str(error.code) if isinstance(error, BrokerError) else "-"
            self.notebook.write("refused", body, f"{code} {error}")
            self.stopped.wait(PAUSE_SECONDS)
            return False
        self.notebook.write("acknowledged", body, _place(result) if isinstance(result, SendResult) else "")
        return True

    def transact(self) -> None:
        """Send `--count` transactions, each until it is acknowledged.

        `--outcome` is that of the local part, `--check` what the broker is told when it asks.
        """
        options = self.options

        def check(message: MessageView) -> TransactionState:
            self.notebook.write("checked", _body(message))
            return TransactionState[options.check]

        def execute(message: Message, _message_id: str) -> TransactionState:
            self.notebook.write("prepared", message.body.decode().rstrip("."))
            return TransactionState[options.outcome]

        with Producer(
            options.namesrv, self.credentials, options.group, timeout_ms=options.timeout_ms, transaction_check=check
        ) as producer:
            for number in range(options.count):
                body = f"{options.name}:{number}"
                message = Message(
                    options.topic, body.encode(), keys=body, properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}
                )
                while not self._sent(partial(producer.send_transaction, message, execute), body):
                    if self.stopped.is_set():
                        return
            self.notebook.write("done", "")
            self.stopped.wait()

    def consume(self) -> None:
        """Receive; the first deliveries of a message fail as often as its property says."""
        while not self.stopped.is_set():
            consumer = self._consumer()
            try:
                consumer.start()
            except ClientError:
                self.stopped.wait(PAUSE_SECONDS)
                continue
            self.notebook.write("ready", "")
            self.stopped.wait()
            consumer.shutdown()

    def _consumer(self) -> PushConsumer:
        options = self.options
        consumer = PushConsumer(
            options.namesrv,
            self.credentials,
            options.group,
            namespace=options.namespace,
            ordered=bool(options.ordered),
            threads=options.threads,
            consume_from="CONSUME_FROM_FIRST_OFFSET",
            max_reconsume_times=options.max_reconsume_times,
        )

        @consumer.on_message
        def handle(message: MessageView) -> ConsumeResult:
            self.notebook.write("received", _body(message), f"{message.reconsume_times} {message.queue.queue_id}")
            if options.pause:
                self.stopped.wait(options.pause)
            if message.reconsume_times < int(message.properties.get("fails") or 0):
                return ConsumeResult.RECONSUME_LATER
            return ConsumeResult.SUCCESS

        return consumer.subscribe(options.topic)

    def pop(self) -> None:
        """Pop and acknowledge one by one; `acknowledged` is noted once the broker has said so."""
        while not self.stopped.is_set():
            try:
                with Wire(self.options.broker, (os.environ["ACCESS_KEY"], os.environ["SECRET_KEY"])) as wire:
                    while not self.stopped.is_set():
                        self._pop_once(wire)
            except (OSError, ProtocolError, AssertionError):
                self.stopped.wait(PAUSE_SECONDS)

    def _pop_once(self, wire: Wire) -> None:
        options = self.options
        ext = {
            "consumerGroup": options.group, "topic": options.topic, "queueId": -1, "maxMsgNums": 8,
            "invisibleTime": 3000, "pollTime": 500, "bornTime": int(time.time() * 1000), "initMode": 0,
            "expType": "TAG", "exp": "*", "order": "false",
        }  # fmt: skip
        answer = wire.call(200050, ext)
        if answer.code != 0:
            self.stopped.wait(PAUSE_SECONDS)
            return
        for message in decode_stored(answer.body):
            body = message.body.decode().rstrip(".")
            self.notebook.write("received", body)
            offset, popped = message.queue_offset, int(answer.ext["popTime"])
            receipt = Receipt(offset, popped, 3000, options.broker_name, message.queue_id, offset)
            self.notebook.write("acknowledging", body)
            done = wire.call(
                200051,
                {
                    "consumerGroup": options.group, "topic": options.topic, "queueId": message.queue_id,
                    "extraInfo": str(receipt), "offset": offset,
                },
            )  # fmt: skip
            self.notebook.write("acknowledged" if done.code == 0 else "refused", body, f"{done.code} {done.remark}")

    def change(self) -> None:
        """Create and delete topics in turn."""
        from brokercore.client import Admin

        with Admin(self.options.namesrv, self.credentials, timeout_ms=2000) as admin:
            for number in itertools.count():
                if self.stopped.is_set():
                    return
                name = f"{self.options.topic}-{number % 3}"
                try:
                    (admin.topics.delete if number % 2 else admin.topics.create)(name)
                    self.notebook.write("deleted" if number % 2 else "created", name)
                except ClientError as error:
                    self.notebook.write("refused", name, str(error))
                    self.stopped.wait(PAUSE_SECONDS)

    def _wait_for_end(self) -> None:
        while sys.stdin.buffer.read(1):
            continue
        self.stopped.set()


def _body(message: MessageView) -> str:
    return message.body.decode().rstrip(".")


def _place(result: SendResult) -> str:
    """Message id, broker, queue and offset."""
    queue = result.queue
    return f"{result.message_id} {queue.broker_name} {queue.queue_id} {result.queue_offset}"


def main() -> None:
    """Run one role."""
    logging.disable(logging.WARNING)  # of outages the notebook tells
    for module, name in (
        (membership, "HEARTBEAT_S"), (running_consumer, "HEARTBEAT_S"), (running_consumer, "REBALANCE_S"),
        (running_consumer, "RENEW_S"), (running_consumer, "COMMIT_S"),
    ):  # fmt: skip
        assert hasattr(module, name)
        setattr(module, name, BEAT_SECONDS)
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=("produce", "transact", "consume", "pop", "change"))
    for name in ("namesrv", "topic", "records"):
        parser.add_argument(f"--{name}", required=True)
    texts = {
        "group": "GID_crash", "name": "m", "outcome": "COMMIT", "check": "COMMIT", "broker": "", "broker-name": "",
        "namespace": "",
    }  # fmt: skip
    for name, text in texts.items():
        parser.add_argument(f"--{name}", default=text)
    numbers = {
        "count": 1_000_000, "threads": 4, "size": 0, "delay-ms": 0, "fails": 0, "timeout-ms": 3000, "retries": 2,
        "max-reconsume-times": 16, "ordered": 0, "insist": 0,
    }  # fmt: skip
    for name, number in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--pause", type=float, default=0.0)
    options = parser.parse_args()
    getattr(Driver(options), options.role)()


if __name__ == "__main__":
    main()
