"""What a page costs a browser: requests, and bytes as they come over the wire, with heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Page


@dataclass
class Cost:
    """What was asked for since the count began; what the browser had kept is no request."""

    addresses: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def requests(self) -> int:
        """How many requests went out."""
        return len(self.addresses)


class Meter:
    """Counts what a page asks for, as Chromium's network sees it."""

    def __init__(self, page: Page) -> None:
        self.cost = Cost()
        self._asked: dict[str, str] = {}
        self._streams: set[str] = set()
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.requestWillBeSent", self._sent)
        session.on("Network.requestServedFromCache", self._kept)
        session.on("Network.responseReceived", self._received)
        session.on("Network.dataReceived", self._came)
        session.on("Network.loadingFinished", self._finished)

    def of(self, act: Callable[[], object]) -> Cost:
        """What `act` costs."""
        self.cost = Cost()
        self._asked.clear()
        act()
        return self.cost

    def _sent(self, event: dict[str, Any]) -> None:
        if event["request"]["url"].startswith("http"):
            self._asked[event["requestId"]] = event["request"]["url"]

    def _kept(self, event: dict[str, Any]) -> None:
        self._asked.pop(event["requestId"], None)
        self._streams.discard(event["requestId"])

    def _received(self, event: dict[str, Any]) -> None:
        if event["response"].get("fromDiskCache"):
            self._kept(event)
        # A stream does not end: what it brings counts when it comes, and its request and its head when it begins.
        elif event["response"]["mimeType"] == "text/event-stream" and event["requestId"] in self._asked:
            self._streams.add(event["requestId"])
            self.cost.addresses.append(self._asked.pop(event["requestId"]))
            self.cost.size += int(event["response"]["encodedDataLength"])

    def _came(self, event: dict[str, Any]) -> None:
        if event["requestId"] in self._streams:
            self.cost.size += int(event["encodedDataLength"])

    def _finished(self, event: dict[str, Any]) -> None:
        if address := self._asked.pop(event["requestId"], ""):
            self.cost.addresses.append(address)
            self.cost.size += int(event["encodedDataLength"])
