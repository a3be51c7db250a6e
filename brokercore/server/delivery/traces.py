"""Message traces (RMQ_SYS_TRACE_TOPIC): each account's lie in a queue of their own, are its bytes, and stay few.

Clients see a topic of one queue, which every AccessKey that may publish somewhere may write to; the broker chooses the
queue by the account that sends. So what an account stores of them is known at any time, also after a start, and nobody
loses traces because others write many.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from brokercore.names import TRACE_TOPIC
from brokercore.server.errors import StoreUnavailable
from brokercore.server.storage.retention import keep_small

if TYPE_CHECKING:
    from brokercore.server.rights.account import Account
    from brokercore.server.rights.limits import TenantLimits
    from brokercore.server.storage.queue import Queue
    from brokercore.server.storage.store import Done, MessageStore
    from brokercore.server.storage.topics import TopicTable

TRACES_SHARE = 20
"""The traces of one account may take one part in so many of the store."""

KEPT_PERCENT = 75
"""What is left of an account's traces, the newest, once they took all they may."""


class Traces:
    """Which queue of the trace topic is whose."""

    def __init__(self, store: MessageStore, topics: TopicTable, limits: TenantLimits) -> None:
        self._store, self._topics, self._limits = store, topics, limits
        self._queue_ids: dict[str, int] = {}
        self._owners: dict[int, str] = {}
        self._coming: defaultdict[str, int] = defaultdict(int)
        self._trimming: dict[str, asyncio.Task[None]] = {}
        self._changes = asyncio.Lock()

    async def load(self) -> None:
        """Read whose the queues are. Raises StoreUnavailable."""
        table: list[bytes] = await self._store.writer.call("HGETALL", self._store.keys.traces)
        self._queue_ids = {uid.decode(): int(number) for uid, number in zip(table[::2], table[1::2], strict=True)}
        self._owners = {number: uid for uid, number in self._queue_ids.items()}

    @property
    def most_bytes(self) -> int:
        """What the traces of one account may take."""
        return self._store.settings.store_max_bytes // TRACES_SHARE

    def owner_uid(self, queue: Queue) -> str:
        """The account whose traces lie in a queue of the trace topic; "" of the system's."""
        return self._owners.get(queue.queue_id, "")

    def queue(self, account: Account | None) -> Queue | None:
        """The queue for the traces of an account, None is the system; None when it has none yet."""
        number = self._queue_ids.get(account.uid) if account is not None else 0
        topic = self._topics.get(TRACE_TOPIC)
        if topic is None:
            raise StoreUnavailable("the broker is starting")
        return topic.queues[number] if number is not None and number < len(topic.queues) else None

    async def open(self, account: Account) -> Queue:
        """Make the queue for the traces of an account. Raises StoreUnavailable."""
        async with self._changes:
            queue = self.queue(account)
            if queue is None:
                queue = await self._topics.add_queue(TRACE_TOPIC)
                await self._store.writer.call("HSET", self._store.keys.traces, account.uid, queue.queue_id)
                self._queue_ids[account.uid] = queue.queue_id
                self._owners[queue.queue_id] = account.uid
            return queue

    def admit(self, account: Account | None, queue: Queue, size: int, done: Done) -> Done:
        """Let traces of so many bytes pass; returns what is called once they are stored. Raises LimitReached.

        Those that find no room make some: the account's oldest leave.
        """
        uid = account.uid if account is not None else ""
        stored = queue.stored_bytes + self._coming[uid]
        if stored >= self.most_bytes:
            self._make_room(uid, queue)
            raise self._limits.traces_full(stored, self.most_bytes)
        self._limits.admit_traces(account, size)
        self._coming[uid] += size

        def ended(reason: str | None) -> None:
            self._coming[uid] -= size
            done(reason)

        return ended

    def _make_room(self, uid: str, queue: Queue) -> None:
        if uid not in self._trimming:
            task = asyncio.get_running_loop().create_task(self._trim(queue))
            self._trimming[uid] = task
            task.add_done_callback(lambda _: self._trimming.pop(uid, None))

    async def _trim(self, queue: Queue) -> None:
        try:
            await keep_small(self._store, queue, self.most_bytes * KEPT_PERCENT // 100)
        except StoreUnavailable:
            return  # the store's own log tells of it; the next one that finds no room tries again

    async def close(self) -> None:
        """End what is under way."""
        for task in list(self._trimming.values()):
            task.cancel()
        await asyncio.gather(*self._trimming.values(), return_exceptions=True)
