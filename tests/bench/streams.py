"""Many open pages: kept current over streams, beside the same pages that ask by themselves, on one web process."""

from __future__ import annotations

import asyncio
import os
import random
import re
import statistics
import time
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.bench import figures
from tests.bench.copy import running_copy

#: Pages that are open at a time, and how many of them one session has.
PAGES, OF_A_SESSION = 200, 4
_SETTLING_S, _COUNTED_S = 20.0, 60.0
_TAG = re.compile(r"<[^>]*\shx-trigger=\"every (\d+)s\"[^>]*>")
_PATH = re.compile(r"\shx-get=\"([^\"]+)\"")
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Seen:
    """What the web process took while pages were open, and what it sent."""

    cpu_s: float
    memory: int
    threads: int
    requests: int
    size: int
    page_ms: float
    """Of a page that somebody opens meanwhile, once a second, the median."""


class Wire:
    """Counts requests and bytes of answers, with heads as HTTP/1 writes them."""

    def __init__(self) -> None:
        self.requests = self.size = 0

    def head(self, response: httpx.Response) -> None:
        self.requests += 1
        self.size += sum(len(name) + len(value) + 4 for name, value in response.headers.raw) + 17


def main(demo_file: Path | None) -> str:
    """Open the pages in both ways, one after the other, and return the table."""
    with running_copy(demo_file) as demo:
        return asyncio.run(_compared(demo))


async def _compared(demo: dict[str, Any]) -> str:
    process = _web_process(demo["console"])
    sessions = [await _signed_in(demo) for _ in range(PAGES // OF_A_SESSION)]
    page = (await sessions[0].get("/")).text + await _loaded_later(sessions[0])
    parts = [(int(tag[1]), _PATH.search(tag[0])[1].replace("&amp;", "&")) for tag in _TAG.finditer(page)]  # type: ignore[index]
    visitor = await _signed_in(demo)
    none = await _watched(process, [], Wire(), visitor)
    rows = []
    for name, way in (("asking", _asks), ("streams", _streams)):
        wire = Wire()
        seen = await _watched(
            process, [way(session, parts, wire) for session in sessions for _ in range(OF_A_SESSION)], wire, visitor
        )
        rows.append((name, seen))
    for session in (*sessions, visitor):
        await session.aclose()
    asking, streams = rows[0][1], rows[1][1]
    table: list[tuple[str, float, float]] = [
        (
            "of a processor, %",
            100 * (asking.cpu_s - none.cpu_s) / _COUNTED_S,
            100 * (streams.cpu_s - none.cpu_s) / _COUNTED_S,
        ),
        ("memory, MB more than with none", (asking.memory - none.memory) / 1e6, (streams.memory - none.memory) / 1e6),
        ("threads", asking.threads, streams.threads),
        (f"a page beside them, median ms ({figures.number(none.page_ms)} alone)", asking.page_ms, streams.page_ms),
        ("requests a minute of a page", asking.requests / PAGES, streams.requests / PAGES),
        ("kB a minute of a page", asking.size / PAGES / 1000, streams.size / PAGES / 1000),
    ]
    head = (f"{PAGES} overviews, {len(parts)} parts each", "asking", "streams", "ratio")
    lines = [(what, figures.number(a), figures.number(b), figures.number(b / a) if a else "") for what, a, b in table]
    return figures.table(head, lines)


async def _signed_in(demo: dict[str, Any]) -> httpx.AsyncClient:
    client = httpx.AsyncClient(base_url=demo["console"], timeout=120, follow_redirects=True)
    form = (await client.get("/account/login/")).text
    token = re.search(r'csrfmiddlewaretoken" value="([^"]+)"', form)[1]  # type: ignore[index]
    answer = await client.post(
        "/account/login/",
        data={"csrfmiddlewaretoken": token, "login": demo["username"], "password": demo["password"]},
        headers={"Referer": demo["console"]},
    )
    assert "Overview" in answer.text, answer.status_code
    return client


async def _loaded_later(session: httpx.AsyncClient) -> str:
    """The parts that a page asks for once it is there."""
    paths = ("attention", "limits", "storage")
    return "".join([(await session.get(f"/overview/{path}", headers={"HX-Request": "true"})).text for path in paths])


async def _visits(session: httpx.AsyncClient, seconds: float) -> list[float]:
    """How long the overview takes, ms."""
    found, end = [], time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        with suppress(httpx.RemoteProtocolError):
            (await session.get("/")).raise_for_status()
        found.append((time.monotonic() - began) * 1000)
        await asyncio.sleep(max(0.0, 1 - (time.monotonic() - began)))
    return found


async def _watched(process: int, pages: list[Awaitable[None]], wire: Wire, visitor: httpx.AsyncClient) -> Seen:
    tasks = [asyncio.ensure_future(page) for page in pages]
    await asyncio.sleep(_SETTLING_S)
    cpu, requests, size, began = _cpu(process), wire.requests, wire.size, time.monotonic()
    visits = await _visits(visitor, _COUNTED_S)
    minutes = (time.monotonic() - began) / 60
    memory, threads = _memory_and_threads(process)
    seen = Seen(
        (_cpu(process) - cpu) / minutes,
        memory,
        threads,
        round((wire.requests - requests) / minutes),
        round((wire.size - size) / minutes),
        statistics.median(visits),
    )
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError, httpx.HTTPError):
            await task
    return seen


async def _asks(session: httpx.AsyncClient, parts: list[tuple[int, str]], wire: Wire) -> None:
    await asyncio.gather(*(_asks_for(session, seconds, path, wire) for seconds, path in parts))


async def _asks_for(session: httpx.AsyncClient, seconds: int, path: str, wire: Wire) -> None:
    mark = "none"
    while True:
        await asyncio.sleep(seconds)
        headers = {"HX-Request": "true", "X-Gantry-Live": mark, "Accept-Encoding": "gzip"}
        # The server closes silent connections of a client that has very many; a browser would ask again.
        with suppress(httpx.HTTPError):
            async with session.stream("GET", path, headers=headers) as answer:
                wire.head(answer)
                async for raw in answer.aiter_raw():
                    wire.size += len(raw)
                mark = answer.headers.get("X-Gantry-Live", mark)


async def _streams(session: httpx.AsyncClient, parts: list[tuple[int, str]], wire: Wire) -> None:
    query = {"part": [f"{seconds} - {path}" for seconds, path in parts]}
    headers = {"HX-Request": "true", "Accept-Encoding": "gzip"}
    # People do not open their pages in the same moment: of one account 128 requests may wait.
    await asyncio.sleep(random.uniform(0, _SETTLING_S / 2))
    async with session.stream("GET", "/live", params=query, headers=headers) as answer:
        assert answer.status_code == 200, answer.status_code
        wire.head(answer)
        async for raw in answer.aiter_raw():
            wire.size += len(raw)


def _cpu(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def _memory_and_threads(process: int) -> tuple[int, int]:
    status = Path(f"/proc/{process}/status").read_text()
    memory, threads = (int(re.search(rf"{name}:\s+(\d+)", status)[1]) for name in ("VmRSS", "Threads"))  # type: ignore[index]
    return memory * 1024, threads


def _web_process(address: str) -> int:
    """The process that answers: the child of the server on this port."""
    port = address.rstrip("/").rpartition(":")[2].encode()
    servers = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (folder / "cmdline").read_bytes().split(b"\0")
            if b"granian" in line and port in line:
                servers.add(int(folder.name))
    return next(pid for pid in servers if _parent(pid) in servers)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
