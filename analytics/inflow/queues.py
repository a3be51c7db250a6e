"""Messages of inflow tasks into queues of SMQ, by `brokercore.smq.client`.

Up to 16 messages go in one request, some requests at a time: a queue keeps no order. A message of a queue is a body and
nothing else, and no larger than the queue allows, 64 KiB at most. A dead letter is a JSON object with the reason, the
task, how often it was tried, and the event; of an event that is too large its attributes, and how many bytes it had.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

from analytics.inflow import lanes
from analytics.inflow.delivery import CUT, REASON, TASK, TRIES, Misset, Outgoing, Undelivered, attributes_of, text_of
from brokercore.smq.client import QueueClient, QueueServiceUnavailable
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import MAX_BATCH, PRIORITY_DEFAULT, Draft

log = logging.getLogger(__name__)

MOST_BODY = 64 << 10
"""Bytes that a message of any queue has at most."""
_MOST_CLIENTS = 8
#: Bytes of an event in a dead letter: beside it there are the reason and the rest.
_MOST_KEPT = MOST_BODY - (12 << 10)
#: What is wrong with the task, and with no message: it is not there, or it is not this key's to write to.
_MISSET = frozenset(
    {
        Code.QUEUE_NOT_EXIST, Code.INVALID_QUEUE_NAME, Code.QUEUE_NAME_LENGTH_ERROR, Code.ACCESS_DENIED,
        Code.INVALID_ACCESS_KEY_ID, Code.SIGNATURE_DOES_NOT_MATCH,
    }
)  # fmt: skip
#: What another try may help. An error that the client does not know is InternalError to it.
_PASSING = frozenset({Code.INTERNAL_ERROR, Code.QPS_LIMIT_EXCEEDED, Code.TIME_EXPIRED})

#: What XML 1.0 has no way to write (2.2): a request is XML.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_lock = threading.Lock()
#: Of this process, which Spark uses again for many batches of one task or another; a connection for each thread.
_clients: OrderedDict[Service, QueueClient] = OrderedDict()


@dataclass(frozen=True)
class Service:
    """Where a queue is, and as who it is written to."""

    endpoint: str
    key_id: str
    secret: str = field(repr=False)
    #: Whose queue it is, where the key is Gantry's own.
    account: str = ""
    #: What may be reached beside public addresses, separated by commas; None for anywhere.
    networks: str | None = None

    def client(self) -> QueueClient:
        """That of this process."""
        with _lock:
            client = _clients.get(self)
            if client is None:
                networks = (
                    None if self.networks is None else [ip_network(one) for one in self.networks.split(",") if one]
                )
                client = _clients[self] = QueueClient(
                    self.endpoint, self.key_id, self.secret, account=self.account, networks=networks
                )
            _clients.move_to_end(self)
            if len(_clients) > _MOST_CLIENTS:
                _clients.popitem(last=False)
            return client


@dataclass(frozen=True)
class QueueTarget:
    """The target of a task: a queue. Safe in threads."""

    service: Service
    queue: str
    #: Whether bodies are written in Base64, as the vendor's clients read them unless told otherwise.
    base64: bool = False
    #: 1 to 16, of which 1 comes first.
    priority: int = PRIORITY_DEFAULT
    #: Seconds; None for the queue's own.
    delay_s: int | None = None

    def require(self) -> None:
        """Raise Misset for a queue that is not there. One whose service does not answer now may be."""
        try:
            self.service.client().queue(self.queue)
        except SmqError as error:
            if error.code in _MISSET - {Code.ACCESS_DENIED}:  # who may send need not be allowed to look
                raise Misset(self._sentence(error.message)) from error
        except QueueServiceUnavailable as error:
            log.info("whether there is a queue %s is not known: %s", self.queue, error)

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Deliver all of them. Raises Undelivered, and Misset for a queue that cannot be written to."""
        sent = lanes.Sent()
        batches = [range(begin, min(begin + MAX_BATCH, len(messages))) for begin in range(0, len(messages), MAX_BATCH)]
        parts = {lane: batches[lane :: lanes.LANES] for lane in range(min(lanes.LANES, len(batches)))}
        lanes.run(
            {lane: [place for batch in part for place in batch] for lane, part in parts.items()},
            lambda lane, _: self._send_batches(messages, parts[lane], sent),
        )
        sent.check()

    def send_dead(self, body: bytes, properties: Mapping[str, str]) -> None:
        """Deliver an event that has failed. Raises Undelivered and Misset."""
        draft = Draft(_letter(body, properties))
        sent = lanes.Sent()
        self._try(sent, [0], [draft])
        try:
            sent.check()
        except Undelivered as error:
            if error.may_pass or not error.refused:
                raise
            raise Undelivered(error.refused[0], may_pass=False) from error

    def _send_batches(self, messages: Sequence[Outgoing], batches: Sequence[range], sent: lanes.Sent) -> None:
        for places in batches:
            if not self._try(sent, places, [self._draft(messages[place]) for place in places]):
                break
        if len(messages) > MAX_BATCH:
            self.service.client().close()  # that of this thread, which ends now

    def _draft(self, outgoing: Outgoing) -> Draft:
        body = outgoing.message.body
        return Draft(b64encode(body) if self.base64 else body, self.delay_s, self.priority)

    def _try(self, sent: lanes.Sent, places: Sequence[int], drafts: Sequence[Draft]) -> bool:
        """Send these in one request; False where none is to follow now."""
        fitting: list[int] = []
        for index, draft in enumerate(drafts):
            if reason := _problem(draft):
                sent.refuse(places[index], self._sentence(reason))
            else:
                fitting.append(index)
        if not fitting:
            return True
        places, drafts = [places[index] for index in fitting], [drafts[index] for index in fitting]
        try:
            answers = self.service.client().send_batch(self.queue, drafts)
        except QueueServiceUnavailable as error:
            sent.add(Undelivered(self._sentence(str(error)), may_pass=True), places)
            return False
        except SmqError as error:
            return self._refused(sent, places, drafts, error)
        for place, answer in zip(places, answers, strict=True):
            if not isinstance(answer, SmqError):
                sent.add(None, [place])
            elif answer.code in _PASSING or answer.code is Code.ACCESS_DENIED:  # of one message: the queues are full
                sent.add(Undelivered(self._sentence(answer.message), may_pass=True), [place])
            else:
                sent.refuse(place, self._sentence(answer.message))
        return True

    def _refused(self, sent: lanes.Sent, places: Sequence[int], drafts: Sequence[Draft], error: SmqError) -> bool:
        """The whole request: of one for what a message is, which is looked for."""
        sentence = self._sentence(error.message)
        if error.code in _MISSET:
            sent.add(Misset(sentence), places)
        elif error.code in _PASSING:
            sent.add(Undelivered(sentence, may_pass=True), places)
        elif len(places) == 1:
            sent.refuse(places[0], sentence)
            return True
        else:
            half = len(places) // 2
            parts = ((places[:half], drafts[:half]), (places[half:], drafts[half:]))
            return all(self._try(sent, *part) for part in parts)
        return False

    def _sentence(self, reason: str) -> str:
        return f"The queue {self.queue} cannot be written to: {reason.rstrip('.')}."


def _problem(draft: Draft) -> str:
    """Why no queue takes a message; empty for one that it may."""
    if len(draft.body) > MOST_BODY:
        return f"the body has {len(draft.body):,} bytes, and a queue takes {MOST_BODY:,} at most"
    if _NO_XML.search(draft.body.decode("utf-8", "replace")):
        return "the body has a character that no XML has, such as U+0000; in Base64 it may have any"
    return ""


def _letter(event: bytes, properties: Mapping[str, str]) -> bytes:
    """An event that has failed, with what is told of it."""
    found: dict[str, Any] = {
        "task": properties.get(TASK, ""),
        "reason": properties.get(REASON, ""),
        "tries": int(properties.get(TRIES, 0)),
    }
    whole = _with_event(found, event, properties.get(CUT))
    return whole if len(whole) <= MOST_BODY else _with_event(found, attributes_of(event, _MOST_KEPT), str(len(event)))


def _with_event(found: Mapping[str, Any], event: bytes, cut: str | None) -> bytes:
    try:
        told = json.loads(event)
    except (ValueError, RecursionError):
        told = _NO_XML.sub("\ufffd", event.decode("utf-8", "replace"))
    return text_of({**found, "event": told, **({"cutBytes": int(cut)} if cut else {})})
