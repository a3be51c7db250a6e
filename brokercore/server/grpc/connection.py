"""A gRPC call as the broker's handlers see it: a connection that asks for its caller and keeps the answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from brokercore.protocol.command import Command, decode
from brokercore.server.connection import Connection

if TYPE_CHECKING:
    from brokercore.server.broker import Broker
    from brokercore.server.connection import Dispatch
    from brokercore.server.security import Caller

_LANGUAGES = {"DOT_NET": "DOTNET", "GOLANG": "GO"}
_KNOWN = frozenset({"JAVA", "CPP", "DOTNET", "PYTHON", "GO", "PHP", "RUST", "RUBY", "NODE_JS"})

CALL_SECONDS = 0.0003
"""What reading and answering a call takes, whatever it asks for."""


class InnerConnection(Connection):
    """Where a call came from, and what the broker answers to the requests that it stands for."""

    def __init__(self, broker: Broker, dispatch: Dispatch, caller: Caller, came_on: Connection) -> None:
        super().__init__(dispatch, _nothing, broker.turn, broker.rounds)
        self.broker, self.caller = broker, caller
        self.account = caller.account  # the line that it came on is what counts as a connection
        self.peer, self.host_bytes, self.secure = came_on.peer, came_on.host_bytes, came_on.secure
        self.last_seen = time.monotonic()
        self.language = "OTHER"
        self._ended = False

    @property
    def is_open(self) -> bool:
        """False once the client has gone, or is answered."""
        return not self._ended

    def speaks(self, language: str) -> None:
        """The client's language, as its metadata names it."""
        name = _LANGUAGES.get(language, language)
        self.language = name if name in _KNOWN else "OTHER"

    async def turn(self) -> None:
        """Wait until the account has room in a round of the loop: a call takes as much as many small requests."""
        await self._rounds.turn(self._share(), CALL_SECONDS)

    async def ask(self, code: int, ext: dict[str, str], body: bytes = b"") -> Command:
        """Have the broker's handlers do something, with the rights of the caller, and return their answer.

        Raises ConnectionResetError when the client goes meanwhile.
        """
        opaque = self._next_opaque()
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = future
        try:
            self._dispatch(self, Command(code, opaque, language=self.language, ext=ext, body=body))
            return await future
        finally:
            self._waiting.pop(opaque, None)

    # What handlers answer

    def write(self, *parts: bytes) -> None:
        self._answered(decode(b"".join(parts)[4:]))

    def send(self, command: Command) -> None:
        self._answered(command)

    def send_frames(self, command: Command, frames: Iterable[bytes], _size: int) -> None:
        command.body = b"".join(frames)
        self._answered(command)

    # What the broker asks or tells by itself: only a client that listens (Session) can be told

    def push(self, code: int, ext: dict[str, str], body: bytes = b"") -> None:
        """Nobody listens."""

    async def request(self, code: int, _ext: dict[str, str], _body: bytes = b"", *, seconds: float) -> Command:
        raise TimeoutError(f"a gRPC client cannot be asked {code} within {seconds} s")

    # The end

    def close(self) -> None:
        """The call is over: what waits for it gives up."""
        if not self._ended:
            self._ended = True
            self.connection_lost(None)

    abort = close


def _nothing(_connection: Connection) -> None:
    """An inner connection is no connection of the broker's: its line is."""
