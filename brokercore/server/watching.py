"""What watches a process: `/metrics` for Prometheus, `/healthz` for whoever restarts it (docs/operate/broker.md)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

import orjson
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from brokercore.server.connections.fairness import SLICE_SECONDS

if TYPE_CHECKING:
    import socket

logger = logging.getLogger(__name__)

REQUEST_SECONDS = 5.0
_LONGEST_REQUEST = 8 * 1024
MOST_AT_ONCE = 64
"""Connections that are open at a time; further ones are closed at once."""

_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
_TEXT = "text/plain; charset=utf-8"

_HEAD_LINES = 2
"""What is said once of a metric: its help and its type."""


class Watching:
    """Answers GET and HEAD, one request a connection. Nothing of a request but its path is looked at."""

    def __init__(self, figures: Collector, trouble: Callable[[], str]) -> None:
        """`trouble` says why requests cannot be answered; nothing while they can."""
        self._figures, self._trouble = Figures(figures), trouble
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, listening: socket.socket) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._serve, sock=listening, limit=_LONGEST_REQUEST)

    async def close(self) -> None:
        """Accept none any more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= MOST_AT_ONCE:
            writer.close()
            return
        self._open += 1
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                method, path = head.split(b"\r\n", 1)[0].split(b" ")[:2]
                writer.write(await self._answer(method, path.partition(b"?")[0]))
                await writer.drain()
        except (ValueError, OSError, EOFError, asyncio.LimitOverrunError) as error:
            logger.info("a request for figures was not understood: %s", type(error).__name__)
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, method: bytes, path: bytes) -> bytes:
        if method not in (b"GET", b"HEAD"):
            return _response(405, _TEXT, b"GET and HEAD are answered\n", method)
        if path == b"/metrics":
            return _response(200, CONTENT_TYPE_LATEST, await self._figures.text(), method)
        if path == b"/healthz":
            trouble = self._trouble()
            state = {"status": "trouble", "reason": trouble} if trouble else {"status": "ok"}
            return _response(503 if trouble else 200, "application/json", orjson.dumps(state), method)
        return _response(404, _TEXT, b"there is /metrics and /healthz\n", method)


def _response(status: int, content_type: str, body: bytes, method: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)


class Figures:
    """Everything that is shown, with the process's own figures, in Prometheus' text format."""

    def __init__(self, figures: Collector) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(figures)
        ProcessCollector(registry=self._registry)

    async def text(self) -> bytes:
        """The figures of this moment, written in slices: there are as many as there are topics and groups."""
        parts: list[bytes] = []
        before, end = "", perf_counter() + SLICE_SECONDS
        for metric in self._registry.collect():
            written = generate_latest(_Only(metric))
            # A metric of many values comes in pieces, of which each begins with what is said once.
            parts.append(written if metric.name != before else written.split(b"\n", _HEAD_LINES)[_HEAD_LINES])
            before = metric.name
            if perf_counter() >= end:
                await asyncio.sleep(0)
                end = perf_counter() + SLICE_SECONDS
        return b"".join(parts)


def gauge(name: str, text: str, value: float) -> Metric:
    """A figure that goes up and down."""
    return GaugeMetricFamily(name, text, value=float(value))


def counter(name: str, text: str, value: float) -> Metric:
    """A figure that only grows."""
    return CounterMetricFamily(name, text, value=float(value))


class _Only(Collector):
    """A single metric, as the library writes registries."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> list[Metric]:
        return [self._metric]
