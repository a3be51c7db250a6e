"""A receiver of pushes: an HTTP server on the loopback that keeps what it got and answers as the test says."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Pushed(NamedTuple):
    """One push: its path with the query, its headers by lower-case names, and its body."""

    path: str
    headers: Mapping[str, str]
    body: bytes


Reply = Callable[[Pushed], int | tuple[int, Mapping[str, str]] | bytes]


def _ok(_pushed: Pushed) -> int:
    return 204


@dataclass
class Receiver:
    """A running receiver; `reply` gives the status, status and headers, or the body of an answer 200.

    It may take its time.
    """

    port: int
    reply: Reply = _ok
    pushed: list[Pushed] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[str]:
        """Bodies of what it got, in their order."""
        return [one.body.decode() for one in self.pushed]


@contextmanager
def receiver(reply: Reply = _ok, context: ssl.SSLContext | None = None, port: int = 0) -> Iterator[Receiver]:
    """A receiver on a port, 0 for a free one, of https where a context is given."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(size := int(self.headers["content-length"]))
            if len(body) < size:
                return  # who pushes was killed in the middle of it
            pushed = Pushed(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            found.pushed.append(pushed)
            answer = found.reply(pushed)
            content = answer if isinstance(answer, bytes) else b""
            told = 200 if isinstance(answer, bytes) else answer
            status, headers = told if isinstance(told, tuple) else (told, {})
            self.send_response(status)
            for name, value in {"content-length": f"{len(content)}", **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing is written: what came is in `pushed`."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            """Who pushes may be killed."""

    with Server(("127.0.0.1", port), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        found = Receiver(server.server_port, reply)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
