"""Pushes notifications to their receivers: takes what is due, signs, posts, and says what became of it.

All processes of the service do so, and share the work through Redis. How many pushes are under way to one subscriber
and for one account is bounded there, so a receiver that takes its time holds up nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from email.utils import formatdate
from http import HTTPStatus

from brokercore.server.errors import RedisError, StoreUnavailable
from brokercore.smq.server.outgoing import ATTEMPT_SECONDS, PushError, Receivers
from brokercore.smq.server.signing import Signer
from brokercore.smq.storage.pushes import LANE_ROOM, Push, Pushes
from brokercore.smq.wire.notifications import pause_before_next, push_headers, push_text_to_sign

logger = logging.getLogger(__name__)

#: Pushes that one process has under way.
ROOM = 512
_LANES_AT_ONCE = 64
#: Between two looks for what other processes stored, s; after trouble with Redis, s.
_LOOK_SECONDS, _TROUBLE_SECONDS = 0.5, 1.0
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class Pushing:
    """The pushes of this process."""

    def __init__(self, pushes: Pushes, receivers: Receivers, signer: Signer) -> None:
        self._pushes, self.receivers, self._signer = pushes, receivers, signer
        self._under_way: set[asyncio.Task[None]] = set()
        self.ended: Counter[str] = Counter()
        """Attempts of this process that ended, by `delivered`, `failed` and `dropped`: failed for the last time."""
        self._news = asyncio.Event()

    def __len__(self) -> int:
        """How many pushes are under way."""
        return len(self._under_way)

    def wake(self) -> None:
        """Something was stored that is to be pushed."""
        self._news.set()

    async def run(self) -> None:
        """Push until cancelled."""
        while True:
            self._news.clear()
            try:
                pause = await self._start_some()
            except (RedisError, StoreUnavailable) as error:
                logger.warning("nothing is pushed now: %s", error)
                pause = _TROUBLE_SECONDS
            if pause:
                await self._rest(pause)

    async def close(self) -> None:
        """Let attempts end, which takes no longer than one may; the lease of what is left ends by itself."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=ATTEMPT_SECONDS)
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self.receivers.close()

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def _start_some(self) -> float:
        """Start what is due and has room; seconds until it is worth another look."""
        room = ROOM - len(self._under_way)
        if room <= 0:
            return _LOOK_SECONDS  # the end of an attempt wakes sooner
        lanes, seconds = await self._pushes.due(min(room, _LANES_AT_ONCE))
        if lanes:
            await self._signer.start()
        for lane in lanes:
            room = ROOM - len(self._under_way)
            if room <= 0:
                break
            for push in await self._pushes.claim(lane, min(room, LANE_ROOM)):
                task = asyncio.create_task(self._push(push))
                self._under_way.add(task)
                task.add_done_callback(self._ended)
        return 0.0 if lanes else min(seconds, _LOOK_SECONDS)

    async def _push(self, push: Push) -> None:
        one = push.subscription
        request_id = os.urandom(12).hex().upper()
        headers = push_headers(
            one.format,
            push.content,
            push.headers,
            request_id=request_id,
            date=formatdate(usegmt=True),
            certificate_url=self._signer.certificate_url,
        )
        headers["authorization"] = self._signer.sign(push_text_to_sign(one.endpoint, headers))
        status, error = 0, ""
        try:
            status = await self.receivers.post(push.lane.account, one.endpoint, headers, push.content)
        except PushError as failure:
            error = str(failure)
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            await self._pushes.delivered(push, status)
            self.ended["delivered"] += 1
        else:
            pause_s = pause_before_next(one.strategy, push.tries)
            await self._pushes.failed(push, status, error or _sentence(status), pause_s)
            self.ended["dropped" if pause_s is None else "failed"] += 1

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._news.set()
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, RedisError | StoreUnavailable):
            logger.warning("what became of a push is not stored, so it is done again: %s", error)
        else:
            logger.error("a push failed", exc_info=error)


def _sentence(status: int) -> str:
    words = f"The receiver answered {status} {_REASONS.get(status, '')}".rstrip()
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return f"{words}; redirects are not followed."
    return f"{words}."
