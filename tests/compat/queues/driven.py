"""A program around one of the vendor's SDKs that does what it is told, one JSON object a line."""

from __future__ import annotations

import itertools
import json
import os
from typing import Any

from tests.compat.programs import Event, Program


class SdkError(Exception):
    """What the SDK raised: the name of its class, the service's code, and what it says of each part of a batch."""

    def __init__(self, event: Event) -> None:
        super().__init__(f"{event['kind']} {event['code']} {event['message']}")
        self.kind, self.code, self.message = event["kind"], event["code"], event["message"]
        self.request_id = event.get("request") or ""
        self.details: dict[str, str] = event.get("details") or {}


class Driven:
    """The running program."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.program = Program(name, command, dict(os.environ)).wait_ready()
        self._numbers = itertools.count()

    def __call__(self, do: str, **fields: Any) -> Any:
        """Do one thing, as `owner` unless another is named, and return what the SDK gave. Raises SdkError."""
        return self.result(self.start(do, **fields))

    def start(self, do: str, **fields: Any) -> int:
        """As a call, without waiting for the end of it."""
        number = next(self._numbers)
        as_name = fields.pop("as_", "owner")
        self.program.tell(json.dumps({"n": number, "do": do, "as": as_name} | fields))
        return number

    def result(self, number: int) -> Any:
        """What a started call gave. Raises SdkError."""
        self.program.wait_until(lambda: self._ended(number) is not None, f"the end of call {number}", 100)
        event = self._ended(number)
        assert event is not None
        if event["event"] == "refused":
            raise SdkError(event)
        return event["value"]

    def _ended(self, number: int) -> Event | None:
        found = (e for e in self.program.events() if e.get("n") == number)
        return next(found, None)
