"""A mail server that keeps what it is sent, for tests: as much of SMTP (RFC 5321) as a sender needs."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage


@dataclass
class MailServer:
    """What came, and what is refused: `refused` has addresses with the status that their RCPT is answered."""

    port: int = 0
    messages: list[EmailMessage] = field(default_factory=list)
    receivers: list[list[str]] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """A running server on a port of its own."""
    told = MailServer()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say(220, "mail.test")
            receivers: list[str] = []
            while line := self.rfile.readline():
                verb, _, rest = line.decode().strip().partition(" ")
                match verb.upper():
                    case "EHLO" | "HELO" | "MAIL" | "RSET" | "NOOP":
                        self._say(250, "fine")
                    case "RCPT":
                        address = rest.partition(":")[2].strip("<> ")
                        status = told.refused.get(address, 250)
                        receivers += [address] if status == 250 else []
                        self._say(status, "to that one")
                    case "DATA":
                        self._say(354, "go on")
                        told.messages.append(self._message())
                        told.receivers.append(receivers)
                        receivers = []
                        self._say(250, "taken")
                    case "QUIT":
                        self._say(221, "bye")
                        return
                    case _:
                        self._say(502, "not here")

        def _say(self, status: int, words: str) -> None:
            self.wfile.write(f"{status} {words}\r\n".encode())

        def _message(self) -> EmailMessage:
            lines = []
            while (line := self.rfile.readline()) not in (b".\r\n", b""):
                lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
            return message_from_bytes(b"".join(lines), policy=policy.default)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), Handler) as server:
        told.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, name="mail server", daemon=True).start()
        try:
            yield told
        finally:
            server.shutdown()
