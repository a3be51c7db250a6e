"""Messages that a push consumer works on stay invisible while it is there (`auto_renew`)."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from brokercore.server.errors import Refusal
from brokercore.server.storage.offsets import Place

if TYPE_CHECKING:
    from brokercore.server.grpc.door import Door
    from brokercore.server.grpc.sessions import SessionKey

logger = logging.getLogger(__name__)

RENEWED_MS = 60_000
"""How long a message is invisible at a time."""

AHEAD_MS = 20_000
"""It is renewed when it would be visible within this time."""

LOOK_SECONDS = 5.0
LONGEST_MS = 3 * 3600 * 1000
"""A consumer that has not finished by then has lost the message."""

GONE_MS = 1000
"""A message whose consumer went is visible this much later."""


class _Held(NamedTuple):
    """A delivery that one client works on."""

    place: Place
    offset: int
    popped_ms: int


class Renewals:
    """Deliveries by client. What was acknowledged, or given a new handle, drops out by itself."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._held: dict[SessionKey, set[_Held]] = {}

    def add(self, client: SessionKey, place: Place, offset: int, popped_ms: int) -> None:
        """A client was given a message."""
        self._held.setdefault(client, set()).add(_Held(place, offset, popped_ms))

    def give_back(self, place: Place, offset: int, popped_ms: int) -> None:
        """A message did not reach its client: others get it soon. Raises StoreUnavailable."""
        now_ms = int(time.time() * 1000)
        flights = self._door.broker.flights
        state = flights.find(place)
        flight = state.flights.get(offset) if state else None
        if flight is not None and flight.popped_ms == popped_ms and flight.visible_ms > now_ms + GONE_MS:
            flights.extend(place, offset, now_ms + GONE_MS)
            self._wake(place)

    async def run(self) -> None:
        """Look after them until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                self.look()
            except Refusal as refusal:
                logger.warning("messages in work are not renewed now: %s", refusal.remark)

    def look(self) -> None:
        """Renew what would be visible soon. Raises StoreUnavailable."""
        now_ms = int(time.time() * 1000)
        for client, held in list(self._held.items()):
            online = self._door.sessions.is_online(client)
            for delivery in list(held):
                if not self._renew(delivery, now_ms, online=online):
                    held.discard(delivery)
            if not held:
                del self._held[client]

    def _renew(self, held: _Held, now_ms: int, *, online: bool) -> bool:
        """False when there is nothing left to look after."""
        flights = self._door.broker.flights
        state = flights.find(held.place)
        flight = state.flights.get(held.offset) if state else None
        if flight is None or flight.popped_ms != held.popped_ms or now_ms - held.popped_ms > LONGEST_MS:
            return False
        if not online:
            self.give_back(*held)
            return False
        if flight.visible_ms < now_ms + AHEAD_MS:
            flights.extend(held.place, held.offset, now_ms + RENEWED_MS)
        return True

    def _wake(self, place: Place) -> None:
        """Those who wait for the queue look when the message is visible."""
        topic = self._door.broker.topics.get(place[1])
        if topic is not None:
            self._door.broker.waiting.wake(topic.queues[place[2]])
