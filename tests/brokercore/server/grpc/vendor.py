"""The official `rocketmq-python-client`, as its users use it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, eventually


class Vendor:
    """Makes started clients with one AccessKey."""

    def __init__(self, module: Any, address: str, key: tuple[str, str] = (SYSTEM_KEY, SYSTEM_SECRET)) -> None:
        self.module, self.address, self.key = module, address, key
        self._started: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        for client in self._started:
            if client.is_running:
                client.shutdown()

    def configuration(self, space: str = "") -> Any:
        credentials = self.module.Credentials(*self.key)
        return self.module.ClientConfiguration(self.address, credentials, space, request_timeout=5)

    def producer(self, *topics: str, check: Callable[[Any], Any] | None = None, space: str = "") -> Any:
        """A producer; `check` answers the question what became of a transaction."""
        checker = None
        if check is not None:
            checker = type("Checker", (self.module.TransactionChecker,), {"check": lambda _, half: check(half)})()
        return self._start(self.module.Producer(self.configuration(space), topics, checker))

    def simple_consumer(self, group: str, topic: str, tags: str = "*", *, wait: int = 5, space: str = "") -> Any:
        """A consumer that asks for messages."""
        expression = self.module.FilterExpression(tags)
        configuration = self.configuration(space)
        return self._start(self.module.SimpleConsumer(configuration, group, {topic: expression}, await_duration=wait))

    def push_consumer(self, group: str, topic: str, consume: Callable[[Any], bool], tags: str = "*") -> Any:
        """A consumer that is called with each message; a false answer means that it failed."""
        result = self.module.ConsumeResult

        def take(_: Any, message: Any) -> Any:
            return result.SUCCESS if consume(message) else result.FAILURE

        listener = type("Listener", (self.module.MessageListener,), {"consume": take})()
        expression = self.module.FilterExpression(tags)
        return self._start(self.module.PushConsumer(self.configuration(), group, listener, {topic: expression}))

    def message(self, topic: str, body: bytes, **fields: Any) -> Any:
        """A message; keywords are its fields, `properties` those of the user."""
        found = self.module.Message()
        found.topic, found.body = topic, body
        for name, value in fields.pop("properties", {}).items():
            found.add_property(name, value)
        for name, value in fields.items():
            setattr(found, name, value)
        return found

    def _start(self, client: Any) -> Any:
        # Starting takes the loop that is this thread's now. The client makes its own one that, unless another of its
        # threads was the first to connect; asynchronous tests that ran before leave none.
        from rocketmq.v5.client.connection.rpc_client import RpcClient

        asyncio.set_event_loop(RpcClient.get_channel_io_loop())
        client.startup()
        self._started.append(client)
        return client


def drain(consumer: Any, count: int, invisible: int = 30, seconds: float = 20) -> list[Any]:
    """`count` messages, each acknowledged."""
    found: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < deadline, f"{[item.body for item in found]} of {count}"
        for item in consumer.receive(16, invisible):
            consumer.ack(item)
            found.append(item)
    return found


class Inbox:
    """What a push consumer was called with."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self._lock = threading.Lock()

    def take(self, message: Any) -> bool:
        """Consume a message."""
        with self._lock:
            self.messages.append(message)
        return True

    @property
    def bodies(self) -> list[bytes]:
        """The bodies, in the order of their coming."""
        with self._lock:
            return [message.body for message in self.messages]

    def wait(self, count: int, seconds: float = 30) -> list[bytes]:
        """At least so many bodies."""
        return eventually(lambda: self.bodies if len(self.bodies) >= count else [], seconds)  # type: ignore[no-any-return]


@contextmanager
def tried_again(seconds: float = 30) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Does something until it raises no more: a client whose broker is gone for a while."""
    deadline = time.monotonic() + seconds

    def attempt(work: Callable[[], Any]) -> Any:
        while True:
            try:
                return work()
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    yield attempt
