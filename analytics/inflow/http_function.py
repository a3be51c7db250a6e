"""Transforms by a function that the task's owner runs: a request with the batch, an answer with what it becomes.

    POST <url>
    content-type: application/json
    x-gantry-request-id: the same for all tries of a batch
    x-gantry-signature: sha256=<HMAC-SHA256 over the body with the function's key, hexadecimal>

    [{"specversion": "1.0", "id": …}, …]

It answers 200 and a JSON array of events, of as many as it likes. What it answers else, or how, is told as a sentence;
where it may be another time, it is asked again after a pause. So a function may get a batch twice.

Where a request may go is the line's matter (`http_line`).
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Collection, Sequence

from analytics.inflow.http_line import Line, Unanswered, sign
from analytics.inflow.transform import Event, Transformed, TransformFailed, pieces
from brokercore.addresses import Network, Resolve, resolve

#: How long a function has for its answer, with the resolving of its name and the connecting, s.
ANSWER_S = 30.0
#: Between two tries, s; up to half of it is added, so that tasks do not come together.
PAUSES_S = (0.5, 1.0, 2.0)
#: What a function may ask for by Retry-After, s.
_LONGEST_PAUSE_S = 30.0
#: Bytes of a request, of which a batch makes several if it has more; and of an answer.
MOST_REQUEST, MOST_ANSWER = 6 << 20, 8 << 20


class HttpFunction:
    """A transform by a function. It keeps a connection between batches; safe in threads, which take turns."""

    def __init__(
        self,
        url: str,
        key: bytes,
        *,
        networks: Collection[Network] = (),
        answer_s: float = ANSWER_S,
        pauses_s: Sequence[float] = PAUSES_S,
        given_up: threading.Event | None = None,
        resolver: Resolve = resolve,
    ) -> None:
        """`key` signs the requests. `networks` may be reached beside public addresses.

        Who sets `given_up` ends the pauses between two tries. Raises TransformFailed for what is no URL of a function.
        """
        try:
            self._line = Line(url, "function", networks, resolver)
        except ValueError as error:
            raise TransformFailed(str(error)) from error
        self.host = self._line.host
        self._key, self._answer_s, self._pauses_s = key, answer_s, pauses_s
        self._given_up = given_up or threading.Event()
        self._lock = threading.Lock()

    def require_reachable(self) -> None:
        """Raises TransformFailed for a name that has no address now, or none that a request may go to."""
        with self._lock:
            try:
                self._line.require_reachable(self._answer_s)
            except Unanswered as error:
                raise _failed(error) from error

    def apply(self, events: Sequence[Event]) -> Transformed:
        """What the function makes of a batch; of which event it made what is not known. Raises TransformFailed."""
        done = Transformed()
        with self._lock:
            for begin, piece in pieces(events, MOST_REQUEST):
                if len(piece[0]) > MOST_REQUEST:
                    done.failed[begin] = f"The event has more than {MOST_REQUEST >> 20} MiB, which no function gets."
                    continue
                answer = self._asked(b"[" + b",".join(piece) + b"]")
                done.add(answer, None, f"the function at {self.host}")
        return done

    def close(self) -> None:
        """Close the connection; the next batch opens another."""
        with self._lock:
            self._line.close()

    def _asked(self, body: bytes) -> bytes:
        headers = {
            "accept": "application/json",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "Gantry",
            "x-gantry-request-id": str(uuid.uuid4()),
            "x-gantry-signature": sign(self._key, body),
        }
        for pause_s in (*self._pauses_s, None):
            try:
                return self._asked_once(body, headers)
            except _Passing as failed:
                if pause_s is None or self._given_up.wait(max(failed.pause_s, pause_s * random.uniform(1, 1.5))):
                    raise
        raise AssertionError("the last try has no pause behind it")

    def _asked_once(self, body: bytes, headers: dict[str, str]) -> bytes:
        try:
            answer = self._line.ask(body, headers, self._answer_s, MOST_ANSWER)
        except Unanswered as error:
            raise _failed(error) from error
        where = self._line.where
        if answer.may_pass:
            raise _Passing(f"{where} answers with status {answer.status}.", min(answer.pause_s, _LONGEST_PAUSE_S))
        if answer.is_elsewhere:
            raise TransformFailed(
                f"{where} redirects to another address (status {answer.status}), which is not followed."
            )
        if not answer.is_taken:
            raise TransformFailed(f"{where} answers with status {answer.status}; 200 is allowed.")
        if answer.encoding not in ("", "identity"):
            raise TransformFailed(f"{where} packs its answer as {answer.encoding[:20]}, which it was not asked for.")
        if len(answer.content) > MOST_ANSWER:
            raise TransformFailed(f"{where} answers with more than {MOST_ANSWER >> 20} MiB.")
        return answer.content


class _Passing(TransformFailed):
    """It may be different later, and is worth no try within so many seconds."""

    def __init__(self, message: str, pause_s: float = 0.0) -> None:
        super().__init__(message, retryable=True)
        self.pause_s = pause_s


def _failed(error: Unanswered) -> TransformFailed:
    return TransformFailed(error.user_message) if error.is_forbidden else _Passing(error.user_message)
