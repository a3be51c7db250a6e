"""Messages on their way in lanes: those of one key one after the other in one of them, several keys at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from zlib import crc32

from analytics.inflow.delivery import Misset, Outgoing, Undelivered

LANES = 8
"""So many at a time."""


class Sent:
    """What became of the messages of a call, told by their places. Safe in threads."""

    def __init__(self) -> None:
        self._done: list[int] = []
        self._refused: dict[int, str] = {}
        self._failures: list[Undelivered | Misset] = []

    def add(self, failure: Undelivered | Misset | None, places: Iterable[int]) -> None:
        """These were taken, or have failed together with what may be one of them."""
        if failure is None:
            self._done += places
        else:
            self._failures.append(failure)

    def refuse(self, place: int, reason: str) -> None:
        """This one will never be taken."""
        self._refused[place] = reason

    def check(self) -> None:
        """Raise the failure that says most: what no further try can help comes before what may pass."""
        if not self._failures and not self._refused:
            return
        worst = max(
            self._failures,
            key=lambda one: (isinstance(one, Misset), not getattr(one, "may_pass", True)),
            default=Undelivered("Some were refused.", may_pass=False),
        )
        if isinstance(worst, Misset):
            raise worst
        pause_s = max((one.pause_s for one in self._failures if isinstance(one, Undelivered)), default=0.0)
        raise Undelivered(
            worst.user_message, may_pass=worst.may_pass, done=self._done, refused=self._refused, pause_s=pause_s
        )


def by_lane(messages: Sequence[Outgoing]) -> dict[int, list[int]]:
    """Places of messages with a key, by the lane of their key."""
    found: dict[int, list[int]] = {}
    for place, outgoing in enumerate(messages):
        if outgoing.order:
            found.setdefault(crc32(outgoing.order.encode("utf-8", "replace")) % LANES, []).append(place)
    return found


def spread(most: int) -> dict[int, list[int]]:
    """So many places by lanes, where no order is kept."""
    return {lane: list(range(lane, most, LANES)) for lane in range(min(LANES, most))}


def run(lanes: Mapping[int, Sequence[int]], send: Callable[[int, Sequence[int]], None]) -> None:
    """Let `send` deliver what each lane has, some lanes at a time: given its number, and its places."""
    if len(lanes) <= 1:
        for lane, places in lanes.items():
            send(lane, places)
        return
    with ThreadPoolExecutor(len(lanes), "send") as threads:
        list(threads.map(send, lanes.keys(), lanes.values()))
