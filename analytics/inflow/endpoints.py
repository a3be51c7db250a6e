"""Events of inflow tasks to HTTP endpoints: a POST for each, or for a batch of them.

    POST <url>
    content-type, ce-*: of the event (`cloud_events`)
    x-gantry-request-id: the same for an event, however often it is sent
    x-gantry-signature: sha256=<HMAC-SHA256 over the body with the account's key, hexadecimal>
    what the task names itself

2xx is delivered, whatever its content is. 408, 425, 429, 5xx and faults of the connection are tried again, not before
what Retry-After asks for; any other answer fails the event at once, redirects too. Of an answer nothing is shown but
the status and the beginning of the first line. Where a request may go is the line's matter (`http_line`).
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network

from analytics.inflow import lanes
from analytics.inflow.cloud_events import array_of
from analytics.inflow.delivery import Misset, Outgoing, Undelivered
from analytics.inflow.http_line import Answer, Line, Unanswered, sign

log = logging.getLogger(__name__)

_MOST_ENDPOINTS = 8
#: Of the first line of an answer, characters.
_LONGEST_SHOWN = 120
#: A secret that is shorter is in any line by chance.
_SHORTEST_HIDDEN = 4

_lock = threading.Lock()
#: Of this process, which Spark uses again for many batches of one task or another.
_lines: OrderedDict[Endpoint, list[_Kept]] = OrderedDict()


@dataclass(frozen=True)
class Endpoint:
    """The target of a task: an address. Safe in threads."""

    url: str
    #: What signs the requests.
    key: bytes = field(default=b"", repr=False)
    #: What the task names itself, with the values of secrets.
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: The values of secrets among them.
    hidden: tuple[str, ...] = field(default=(), repr=False)
    #: What may be reached beside public addresses, separated by commas.
    networks: str = ""
    timeout_s: float = 15.0
    #: Events of a request at most; with more than one it is an array, of this type.
    batch: int = 1
    batch_type: str = ""

    def require(self) -> None:
        """Raise Misset for an address that no request may go to. One whose name is not known now may be one."""
        with self._line(0) as line:
            try:
                line.require_reachable(self.timeout_s)
            except Unanswered as error:
                if error.is_forbidden:
                    raise Misset(error.user_message) from error
                log.info("whether an endpoint can be reached is not known: %s", error.user_message)
        for name, value in self.headers:
            if not value.isprintable() or not value.isascii():
                raise Misset(f"The value of the header {name} has other characters than a header may have.")

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Deliver all of them. Raises Undelivered, and Misset for an address that no request may go to."""
        sent = lanes.Sent()
        places = lanes.by_lane(messages) or lanes.spread(len(messages))
        lanes.run(places, lambda lane, found: self._send_lane(lane, messages, found, sent))
        sent.check()

    def _send_lane(self, lane: int, messages: Sequence[Outgoing], places: Sequence[int], sent: lanes.Sent) -> None:
        """One request after the other, up to the first that fails: what is behind it may be of the same key."""
        with self._line(lane) as line:
            for begin in range(0, len(places), self.batch):
                if not self._deliver(line, messages, places[begin : begin + self.batch], sent):
                    return

    def _deliver(self, line: Line, messages: Sequence[Outgoing], places: Sequence[int], sent: lanes.Sent) -> bool:
        """Deliver these in one request; of a batch that is refused the one that is to blame is looked for.

        False where no more is to be sent in this lane now.
        """
        try:
            answer = self._asked(line, [messages[place] for place in places])
        except Unanswered as error:
            wrong = Misset(error.user_message) if error.is_forbidden else Undelivered(error.user_message, may_pass=True)
            sent.add(wrong, places)
            return False
        if answer.is_taken:
            sent.add(None, places)
            return True
        reason = self._reason(line, answer)
        if answer.may_pass:
            sent.add(Undelivered(reason, may_pass=True, pause_s=answer.pause_s), places)
            return False
        if len(places) == 1:
            sent.refuse(places[0], reason)
            return not messages[places[0]].order
        half = len(places) // 2
        return all(self._deliver(line, messages, part, sent) for part in (places[:half], places[half:]))

    def _asked(self, line: Line, messages: Sequence[Outgoing]) -> Answer:
        found = [one.message for one in messages]
        request = array_of(found, self.batch_type) if self.batch > 1 else found[0]
        told = {
            "accept-encoding": "identity",
            "user-agent": "Gantry",
            **dict(self.headers),
            **request.properties,
            "x-gantry-request-id": str(request.unique_id),
            "x-gantry-signature": sign(self.key, request.body),
        }
        return line.ask(request.body, told, self.timeout_s)

    def _reason(self, line: Line, answer: Answer) -> str:
        if answer.is_elsewhere:
            return f"{line.where} redirects to another address (status {answer.status}), which is not followed."
        shown = self._first_line(answer)
        return f"{line.where} answers with status {answer.status}{f': {shown}' if shown else ''}".rstrip(".") + "."

    def _first_line(self, answer: Answer) -> str:
        text = answer.content.decode("utf-8", "replace").strip()
        text = text.splitlines()[0] if text else ""
        for value in self.hidden:
            if len(value) >= _SHORTEST_HIDDEN:
                text = text.replace(value, "…")
        return "".join(one if one.isprintable() else " " for one in text)[:_LONGEST_SHOWN].strip()

    def _line(self, lane: int) -> _Kept:
        """That of this process, for a lane."""
        gone: list[_Kept] = []
        with _lock:
            kept = _lines.get(self)
            if kept is None:
                kept = _lines[self] = [_Kept(self._new()) for _ in range(lanes.LANES)]
            _lines.move_to_end(self)
            if len(_lines) > _MOST_ENDPOINTS:
                gone = _lines.popitem(last=False)[1]
        for one in gone:
            one.close()
        return kept[lane]

    def _new(self) -> Line:
        return Line(self.url, "endpoint", [ip_network(one) for one in self.networks.split(",") if one])


class _Kept:
    """A line, of one thread at a time."""

    def __init__(self, line: Line) -> None:
        self._lock, self._line = threading.Lock(), line

    def __enter__(self) -> Line:
        self._lock.acquire()
        return self._line

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def close(self) -> None:
        """Close the connection, once it rests."""
        with self as line:
            line.close()
