"""One client: it signs in with either password method, or is not served at all; then its commands are answered."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any

from mysqlwire.aio.limits import Limits
from mysqlwire.aio.prepared import PreparedStatements
from mysqlwire.aio.results import Answers
from mysqlwire.aio.session import Account, Control, Kill, Session
from mysqlwire.aio.stream import ConnectionClosedError, Stream
from mysqlwire.protocol import commands, errors, handshake
from mysqlwire.protocol import handshake as passwords
from mysqlwire.protocol.answers import Change
from mysqlwire.protocol.constants import OFFERED, Capability, Command, SessionTrack
from mysqlwire.protocol.errors import SqlError
from mysqlwire.protocol.handshake import SignIn, TlsRequest

log = logging.getLogger(__name__)

#: Finds who may sign in, by name; None for nobody.
FindAccount = Callable[[str], Awaitable[Account | None]]
_INTERNAL = SqlError(errors.UNKNOWN, "Internal error; the log of the server has the reason.")
#: Characters of a user name that errors show.
_SHOWN_OF_A_NAME = 80


class Connection:
    """The life of one connection, from the greeting to the end."""

    def __init__(
        self,
        stream: Stream,
        session: Session,
        control: Control,
        find_account: FindAccount,
        *,
        limits: Limits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.stream = stream
        self.session = session
        self.control = control
        #: The number that `kill` knows it by; given when the control takes it in.
        self.connection_id = 0
        #: What the client says of itself at sign-in, such as its program.
        self.attributes: dict[str, str] = {}
        self._find_account = find_account
        self._limits = limits
        self._tls = tls
        self._answers = Answers(stream, session)
        self.prepared = PreparedStatements(session, self._answers, limits, lambda size: control.may_keep(self, size))
        self._kill: Kill | None = None
        self._busy = False
        self._task: asyncio.Task[None] | None = None
        #: Room for the large packet that is read or worked for.
        self._room = AsyncExitStack()
        stream.before_large = self._reserve_room
        self._handlers: dict[int, Callable[[bytes], Awaitable[None]]] = {
            Command.QUERY: self._query,
            Command.INIT_DB: self._init_db,
            Command.FIELD_LIST: self._field_list,
            Command.STATISTICS: self._statistics,
            Command.PROCESS_KILL: self._process_kill,
            Command.PING: self._ping,
            Command.CHANGE_USER: self._change_user,
            Command.SET_OPTION: self._set_option,
            Command.RESET_CONNECTION: self._reset_connection,
            Command.STMT_PREPARE: self.prepared.prepare,
            Command.STMT_SEND_LONG_DATA: self.prepared.send_long_data,
            Command.STMT_EXECUTE: self.prepared.execute,
            Command.STMT_FETCH: self.prepared.fetch,
            Command.STMT_RESET: self.prepared.reset,
            Command.STMT_CLOSE: self.prepared.close,
        }

    @property
    def kept(self) -> int:
        """Bytes that are kept for later: prepared texts and long data."""
        return self.prepared.kept

    # --- Its life -----------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Serve the client until it leaves, is killed or refused. Does not close the stream."""
        self._task = asyncio.current_task()
        try:
            self.session.connected(self)
            if await self._signed_in():
                await self._answer_commands()
        except asyncio.CancelledError:
            if self._kill is not Kill.CONNECTION or self._task is None:
                raise
            self._task.uncancel()
            with suppress(ConnectionError):
                await self._answers.error(SqlError(errors.QUERY_INTERRUPTED, "The connection was killed."))
        except SqlError as error:
            await self._answers.error(error)
        except errors.PacketError as error:
            await self._answers.error(_malformed(error))
        except ConnectionError as error:
            log.info("connection %s closed: %s", self.connection_id, error)
        finally:
            self._task = None
            await self._room.aclose()
            await self.prepared.forget()
            await self.session.close()

    async def turn_away(self, error: SqlError) -> None:
        """Tell a client that there is no place for it, instead of the greeting."""
        await self._answers.error(error)

    def kill(self, kind: Kill = Kill.CONNECTION) -> None:
        """Stop the running statement, or the connection; a statement that does not run cannot be killed."""
        if self._task is not None and (kind is Kill.CONNECTION or self._busy):
            self._kill = kind
            self._task.cancel()

    # --- Sign-in ------------------------------------------------------------------------------------------------------

    async def _signed_in(self) -> bool:
        """Run the connection phase within its time; a client that is refused is told so and not served."""
        try:
            async with asyncio.timeout(self._limits.sign_in_s):
                await self._connection_phase()
        except TimeoutError:
            log.info("connection %s from %s did not sign in in time", self.connection_id, self.stream.peer)
        except SqlError as error:
            log.info("sign-in from %s refused: %s", self.stream.peer, error.message)
            await self._answers.error(error)
        except errors.PacketError as error:
            log.info("damaged handshake from %s: %s", self.stream.peer, error)
            await self._answers.error(_malformed("the handshake cannot be read"))
        else:
            return True
        return False

    async def _connection_phase(self) -> None:
        """Greeting, TLS if the client wants it, password (page Connection Phase)."""
        offered = OFFERED | (Capability.SSL if self._tls is not None else Capability(0))
        nonce = passwords.nonce()
        await self.stream.send(
            handshake.greeting(
                offered,
                version=self.session.version,
                connection_id=self.connection_id,
                nonce=nonce,
                status=self.session.status,
                method=passwords.CACHING_SHA2,
            )
        )
        most = self._limits.packet_before_sign_in
        response = handshake.read_response(await self.stream.read(), offered, most)
        if isinstance(response, TlsRequest):
            if self._tls is None:
                raise errors.PacketError("TLS was not offered.")
            await self.stream.start_tls(self._tls)
            response = handshake.read_response(await self.stream.read(), offered, most)
        if isinstance(response, TlsRequest):
            raise errors.PacketError("TLS was asked for twice.")
        self._answers.capabilities = response.capabilities
        await self._sign_in(response, nonce)

    async def _change_user(self, data: bytes) -> None:
        """COM_CHANGE_USER: whoever it was is forgotten first, with all it had, and any failure ends the connection."""
        charset = self.session.client_charset
        self.stream.most = most = self._limits.packet_before_sign_in
        try:
            self.control.sign_out(self)
            await self.prepared.forget()
            await self.session.forget()
            async with asyncio.timeout(self._limits.sign_in_s):
                request = handshake.read_change_user(data, self._answers.capabilities, charset, most)
                await self._sign_in(replace(request, scramble=b""), b"")  # always with a fresh nonce
        except SqlError as error:
            await self._answers.error(error)
            raise ConnectionClosedError("change of user refused") from error
        except TimeoutError as error:
            raise ConnectionClosedError("change of user took too long") from error
        except errors.PacketError as error:
            await self._answers.error(_malformed("the change of user cannot be read"))
            raise ConnectionClosedError("damaged change of user") from error
        except ConnectionError:
            raise
        except asyncio.CancelledError:
            self._kill = self._kill and Kill.CONNECTION  # there is no way back to who it was
            raise
        except Exception as error:
            log.exception("a change of user failed on connection %s", self.connection_id)
            await self._answers.error(_INTERNAL)
            raise ConnectionClosedError("change of user failed") from error

    async def _sign_in(self, request: SignIn, nonce: bytes) -> None:
        """Check the password by whichever method the client knows; a method that is not ours is switched."""
        account = await self._find_account(request.username)
        method, scramble = request.method or passwords.NATIVE, request.scramble
        if method not in passwords.METHODS or not scramble:
            method = passwords.NATIVE if method == passwords.NATIVE else passwords.CACHING_SHA2
            nonce = passwords.nonce()
            await self.stream.send(handshake.switch_method(method, nonce))
            scramble = await self.stream.read()
        hashes = account.hashes if account is not None else passwords.NOBODY
        if not passwords.matches(method, scramble, nonce, hashes) or account is None:
            await self._refuse(request, account)
        self.control.sign_in(self, account)
        if method == passwords.CACHING_SHA2:
            self.stream.add(handshake.more_data(passwords.FAST_PATH_SUCCEEDED))
        await self.session.reset()
        self.session.use_charset(request.charset)
        await self.session.sign_in(account, request.schema or None)
        self.session.username = request.username
        self.attributes = request.attributes
        self.stream.most = self._limits.packet
        await self._answers.ok()
        self.stream.outgoing.restart()

    async def _refuse(self, request: SignIn, account: Account | None) -> None:
        """Wait, and raise. Within the pause the refusal is noted: by its time a name that exists could be told."""
        pause = asyncio.sleep(self._limits.refused_pause_s)
        await (pause if account is None else asyncio.gather(pause, self.session.sign_in_refused(account)))
        name = request.username[:_SHOWN_OF_A_NAME]
        raise SqlError(errors.ACCESS_DENIED, f"Access denied for user {name!r}@{self.stream.peer!r}.")

    # --- Commands -----------------------------------------------------------------------------------------------------

    async def _answer_commands(self) -> None:
        """Answer commands one after the other until the client leaves (page Command Phase)."""
        while True:
            data = await self.stream.read()
            if not data or data[0] == Command.QUIT:
                return
            try:
                await self.control.turn(self)
                self._busy = True
                await self._answer(data)
            except asyncio.CancelledError:
                if self._kill is None or self._task is None:
                    raise
                self._task.uncancel()
                await self._answers.error(SqlError(errors.QUERY_INTERRUPTED, "The statement was killed."))
                if self._kill is Kill.CONNECTION:
                    return
                self._kill = None
            finally:
                self._busy = False
                self.stream.outgoing.restart()
                await self._room.aclose()

    async def _answer(self, data: bytes) -> None:
        handler = self._handlers.get(data[0])
        try:
            if handler is None:
                raise SqlError(errors.NOT_SUPPORTED_YET, f"Command {data[0]:#x} is not supported.")
            await handler(data[1:])
        except SqlError as error:
            await self._answers.error(error)
        except ValueError as error:  # a PacketError, or a text that is none
            log.info("command %#x of connection %s cannot be read: %r", data[0], self.connection_id, error)
            await self._answers.error(_malformed("the command cannot be read"))
        except ConnectionError:
            raise
        except Exception:
            log.exception("command %#x of connection %s failed", data[0], self.connection_id)
            await self._answers.error(_INTERNAL)

    async def _query(self, data: bytes) -> None:
        """COM_QUERY: one statement as text; its attributes are nobody's yet."""
        query = commands.read_query(data, self._answers.capabilities, self.session.client_charset)
        await self._answers.text(await self.session.execute(query.text, ()))

    async def _init_db(self, data: bytes) -> None:
        """COM_INIT_DB: the default schema."""
        schema = self.session.client_charset.decode(data)
        await self.session.use(schema)
        await self._answers.ok([Change(SessionTrack.SCHEMA, (schema,))])

    async def _field_list(self, data: bytes) -> None:
        """COM_FIELD_LIST, for the completion of command lines."""
        wanted = commands.read_field_list(data, self.session.client_charset)
        await self._answers.field_list(wanted.table, await self.session.columns(wanted.table, wanted.pattern))

    async def _statistics(self, data: bytes) -> None:
        """COM_STATISTICS, for the command `status` of command lines: a line of text, no OK."""
        await self.stream.send(self.session.results_charset.encode(self.session.statistics()))

    async def _process_kill(self, data: bytes) -> None:
        """COM_PROCESS_KILL, the older form of KILL."""
        await self.session.kill(commands.read_connection_id(data), query_only=False)
        await self._answers.ok()

    async def _ping(self, data: bytes) -> None:
        """COM_PING: somebody is there."""
        await self._answers.ok()

    async def _set_option(self, data: bytes) -> None:
        """COM_SET_OPTION: several statements in one text stay off."""
        if commands.read_option(data):
            raise SqlError(
                errors.NOT_SUPPORTED_YET, "Several statements in one text are not supported; send them one by one."
            )
        await self._answers.eof()

    async def _reset_connection(self, data: bytes) -> None:
        """COM_RESET_CONNECTION: same user; prepared statements and variables are gone."""
        await self.prepared.forget()
        await self.session.reset()
        await self._answers.ok([Change(SessionTrack.STATE_CHANGE, ("1",))])

    async def _reserve_room(self, size: int) -> None:
        """Wait until there is room for a packet of so many bytes. Raises ConnectionClosedError when there is none."""
        try:
            async with asyncio.timeout(self._limits.packet_s):
                await self._room.enter_async_context(self.control.room(self, size))
        except TimeoutError as error:
            raise ConnectionClosedError("other connections of the account have large packets under way") from error


def _malformed(reason: Any) -> SqlError:
    """A packet that breaks the protocol."""
    return SqlError(errors.MALFORMED_PACKET, f"The packet breaks the protocol: {reason}")
