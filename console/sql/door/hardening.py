"""Everything mysql-mimic 3.0.5 needs before it may face a network (docs/mysql-door.md lists defect and mend).

The library is used through subclasses, with nothing of it patched; its version is pinned, since they override
methods that it does not promise to keep. Each mend has a test that fails on the stock classes. Reading and TLS are
mended in `stream`, passwords in `scrambles`, prepared statements in `prepared`.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any, Protocol

from mysql_mimic import packets, types, utils
from mysql_mimic.constants import KillKind
from mysql_mimic.errors import MysqlError
from mysql_mimic.stream import ConnectionClosed

from console.sql.door import errors, scrambles
from console.sql.door.commands import Commands
from console.sql.door.errors import DoorError
from console.sql.door.handshake import SignIn, TlsRequest, read_change_user, read_response
from console.sql.door.limits import AFTER_SIGN_IN, BEFORE_SIGN_IN, MOST_KEPT_OF_ACCOUNT, PACKET_S
from console.sql.door.room import LARGE

log = logging.getLogger(__name__)

#: Time from connecting to being signed in, seconds.
SIGN_IN_S = 10.0
#: Pause after a refused sign-in: guessing passwords is to be slow.
REFUSED_PAUSE_S = 0.2
#: What a damaged packet makes the parsers raise.
_DAMAGED = (ValueError, LookupError, TypeError, AssertionError, EOFError, struct.error)


class Account(Protocol):
    """Whoever may sign in."""

    @property
    def hashes(self) -> scrambles.DoubleHashes:
        """What the password is checked against."""

    @property
    def tenant(self) -> str:
        """The tenant that its connections are counted for; empty for nobody."""

    @property
    def most_connections(self) -> int:
        """How many the tenant may have open at this door; 0 is no limit."""


FindAccount = Callable[[str], Awaitable[Account | None]]


class DoorConnection(Commands):
    """One client: signed in with either password method or not served at all."""

    def __init__(self, find_account: FindAccount, **stock: Any) -> None:
        super().__init__(identity_provider=None, **stock)
        self._find_account = find_account
        self._kill: KillKind | None = None
        self._busy = False
        #: Room for the large packet that is read or worked for.
        self._room = AsyncExitStack()
        self.stream.before_large = self._take_room
        commands = types.Commands
        self._handlers: dict[int, Callable[[bytes], Awaitable[None]]] = {
            commands.COM_QUERY: self.handle_query,
            commands.COM_STMT_PREPARE: self.handle_stmt_prepare,
            commands.COM_STMT_SEND_LONG_DATA: self.handle_stmt_send_long_data,
            commands.COM_STMT_EXECUTE: self.handle_stmt_execute,
            commands.COM_STMT_FETCH: self.handle_stmt_fetch,
            commands.COM_STMT_RESET: self.handle_stmt_reset,
            commands.COM_STMT_CLOSE: self.handle_stmt_close,
            commands.COM_PING: self.handle_ping,
            commands.COM_CHANGE_USER: self.handle_change_user,
            commands.COM_RESET_CONNECTION: self.handle_reset_connection,
            commands.COM_INIT_DB: self.handle_init_db,
            commands.COM_FIELD_LIST: self.handle_field_list,
            commands.COM_STATISTICS: self.handle_statistics,
            commands.COM_SET_OPTION: self.handle_set_option,
            commands.COM_PROCESS_KILL: self.handle_process_kill,
        }

    # --- Life of a connection ---------------------------------------------------------------------------------------

    async def _start(self) -> None:
        try:
            await self.session.init(self)
            if await self._signed_in():
                await self.command_phase()
        except asyncio.CancelledError:
            if self._kill is not KillKind.CONNECTION:
                raise
            with suppress(ConnectionClosed, ConnectionError):
                await self.tell(DoorError(errors.INTERRUPTED, "The connection was killed."))
        except MysqlError as error:
            await self.tell(error)
        except (ConnectionClosed, ConnectionError) as error:
            log.info("connection %s closed: %s", self.connection_id, error)
        finally:
            await self._room.aclose()
            await self.forget_statements()
            await self.session.close()

    async def _signed_in(self) -> bool:
        """Run the connection phase within its time; a client that is refused is told so and not served."""
        try:
            async with asyncio.timeout(SIGN_IN_S):
                await self.connection_phase()
        except TimeoutError:
            log.info("connection %s from %s did not sign in in time", self.connection_id, self.stream.peer)
        except MysqlError as error:
            log.info("sign-in from %s refused: %s", self.stream.peer, error.msg)
            await self.tell(error)
        except _DAMAGED as error:
            log.info("damaged handshake from %s: %r", self.stream.peer, error)
            await self.tell(errors.malformed("the handshake cannot be read"))
        else:
            return True
        return False

    async def tell(self, error: MysqlError) -> None:
        """Send an error packet; what the client's character set does not have is told as `?`."""
        codec = self.results_charset.codec
        await self.stream.write(self.error(msg=str(error.msg).encode(codec, "replace").decode(codec), code=error.code))

    # --- Sign-in ----------------------------------------------------------------------------------------------------

    async def connection_phase(self) -> None:
        """Handshake, TLS if the client wants it, password (MySQL internals, Connection Phase)."""
        nonce = utils.nonce(20)
        await self.stream.write(
            packets.make_handshake_v10(
                capabilities=self.server_capabilities,
                server_charset=self.server_charset,
                server_version=str(self.session.variables.get("version")),
                connection_id=self.connection_id,
                auth_data=nonce + b"\0",
                status_flags=self.status_flags,
                auth_plugin_name=scrambles.CACHING_SHA2,
            )
        )
        response = read_response(await self.stream.read(), self.server_capabilities)
        if isinstance(response, TlsRequest):
            if self.ssl is None:
                raise DoorError(errors.MALFORMED, "TLS was not offered.")
            await self.stream.start_tls(self.ssl)
            response = read_response(await self.stream.read(), self.server_capabilities)
        if isinstance(response, TlsRequest):
            raise DoorError(errors.MALFORMED, "TLS was asked for twice.")
        self.capabilities = response.capabilities
        await self._sign_in(response, nonce)

    async def handle_change_user(self, data: bytes) -> None:
        """COM_CHANGE_USER: whoever it was is forgotten first, with all it had, and any failure ends the connection."""
        self.control.sign_out(self)
        await self.forget_statements()
        await self.session.forget()
        self.stream.limit = BEFORE_SIGN_IN
        try:
            async with asyncio.timeout(SIGN_IN_S):
                request = read_change_user(data, self.capabilities, self.client_charset)
                await self._sign_in(replace(request, scramble=b""), b"")  # always with a fresh nonce
        except MysqlError as error:
            await self.tell(error)
            raise ConnectionClosed("change of user refused") from error
        except TimeoutError as error:
            raise ConnectionClosed("change of user took too long") from error
        except _DAMAGED as error:
            await self.tell(errors.malformed("the change of user cannot be read"))
            raise ConnectionClosed("damaged change of user") from error

    async def _sign_in(self, request: SignIn, nonce: bytes) -> None:
        """Check the password by whichever method the client knows; a method that is not ours is switched."""
        account = await self._find_account(request.username)
        method, scramble = request.method or scrambles.NATIVE, request.scramble
        if method not in scrambles.METHODS or not scramble:
            method = scrambles.NATIVE if method == scrambles.NATIVE else scrambles.CACHING_SHA2
            nonce = utils.nonce(20)
            await self.stream.write(packets.make_auth_switch_request(self.server_charset, method, nonce + b"\0"))
            scramble = await self.stream.read()
        hashes = account.hashes if account else scrambles.NOBODY
        if not scrambles.matches(method, scramble, nonce, hashes) or account is None:
            pause = asyncio.sleep(REFUSED_PAUSE_S)
            # Within the pause, not before it: an entry takes time, by which a name that exists could be told.
            await (asyncio.gather(pause, self.session.sign_in_refused(account)) if account is not None else pause)
            raise DoorError(
                errors.ACCESS_DENIED, f"Access denied for user {request.username[:80]!r}@{self.stream.peer!r}."
            )
        self.control.sign_in(self, account)
        if method == scrambles.CACHING_SHA2:
            await self.stream.write(packets.make_auth_more_data(b"\x03"))  # fast path: no full exchange follows
        await self.session.reset()
        self.session.variables.use_charset(request.charset)
        await self.session.sign_in(account, request.schema or None)
        self.session.username = request.username
        self.stream.limit = AFTER_SIGN_IN
        await self.stream.write(self.ok())
        self.stream.reset_seq()

    # --- Commands ---------------------------------------------------------------------------------------------------

    async def command_phase(self) -> None:
        """Answer commands one after the other until the client leaves (MySQL internals, Command Phase)."""
        while True:
            data = await self.stream.read()
            if not data or data[0] == types.Commands.COM_QUIT:
                return
            try:
                await self.control.turns.wait(self.control.holder(self))
                self._busy = True
                await self._dispatch(data)
            except asyncio.CancelledError:
                if self._kill is None or self._task is None:
                    raise
                await self.tell(DoorError(errors.INTERRUPTED, "The statement was killed."))
                if self._kill is KillKind.CONNECTION:
                    return
                self._kill = None
                self._task.uncancel()
            finally:
                self._busy = False
                self.stream.reset_seq()
                await self._room.aclose()

    async def _take_room(self, size: int) -> None:
        """Wait until the account has room for a packet of so many bytes. Raises ConnectionClosed when it has none."""
        try:
            async with asyncio.timeout(PACKET_S):
                await self._room.enter_async_context(self.control.room.of(self.control.holder(self), size))
        except TimeoutError as error:
            raise ConnectionClosed("the account's other connections have large packets under way") from error

    def keep(self, size: int) -> bool:
        """Count so many bytes more, which the account may keep over all its connections."""
        if self.kept + size > LARGE and self.control.kept(self.control.holder(self)) + size > MOST_KEPT_OF_ACCOUNT:
            return False
        return super().keep(size)

    async def _dispatch(self, data: bytes) -> None:
        handler = self._handlers.get(data[0])
        try:
            if handler is None:
                raise DoorError(errors.NOT_OFFERED, f"Command {data[0]:#x} is not offered.")
            await handler(data[1:])
        except MysqlError as error:
            await self.tell(error)
        except _DAMAGED as error:
            log.info("command %#x of connection %s failed: %r", data[0], self.connection_id, error)
            await self.tell(errors.malformed("the command cannot be read"))

    def kill(self, kind: KillKind = KillKind.CONNECTION) -> None:
        """Stop the running statement, or the connection; a statement that does not run cannot be killed."""
        if kind is KillKind.CONNECTION or self._busy:
            super().kill(kind)
