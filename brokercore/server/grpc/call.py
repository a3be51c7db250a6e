"""One gRPC call: who calls, on which line, until when."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import grpc

from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.grpc.messaging_pb2 import Code
from brokercore.server.errors import Refusal
from brokercore.server.grpc.connection import InnerConnection
from brokercore.server.grpc.signature import authenticate, key_id_of
from brokercore.server.grpc.status import Fault
from brokercore.server.limits import TooManyConnections

if TYPE_CHECKING:
    from brokercore.server.grpc.door import Door
    from brokercore.server.grpc.line import Line
    from brokercore.server.security import Caller

CLIENT_ID, LANGUAGE = "x-mq-client-id", "x-mq-language"
MAX_CLIENT_ID = 255

MOST_ENTRIES = 1000
"""Messages, or receipt handles, of one call: clients send one message, and acknowledge what one receive gave them."""

ANSWER_SECONDS = 1.0
"""How long a line that is closed has for its last answer."""


class Call(InnerConnection):
    """A call whose signature is right."""

    def __init__(self, door: Door, line: Line, caller: Caller, metadata: Mapping[str, str], client_id: str) -> None:
        super().__init__(door.broker, door.dispatch, caller, line)
        self.door, self.client_id = door, client_id
        self.came_on = line
        self.speaks(metadata.get(LANGUAGE, ""))
        self.seconds_left: float | None = None
        """Until the client gives up, when the call began; None when it waits for ever."""


def open_call(door: Door, context: grpc.aio.ServicerContext) -> Call:
    """The call that begins. Raises Fault, and Refusal when the account has no connection left."""
    line = door.lines.by_port.get(_port(context.peer()))
    if line is None:
        raise Fault(Code.UNAUTHORIZED, "calls come through the port that GANTRY_GRPC_PORT names")
    metadata = {name: value for name, value in context.invocation_metadata() or () if isinstance(value, str)}
    try:
        caller = authenticate(door.broker.security, metadata, line.peer[0])
        _vouch(door, line, caller)
    except (Fault, Refusal) as error:
        _note(door, line, metadata, error)
        raise
    client_id = metadata.get(CLIENT_ID, "").strip()
    if not client_id or len(client_id) > MAX_CLIENT_ID:
        raise Fault(Code.CLIENT_ID_REQUIRED, f"{CLIENT_ID} is missing, or longer than {MAX_CLIENT_ID} characters")
    call = Call(door, line, caller, metadata, client_id)
    call.seconds_left = context.time_remaining()
    return call


def _note(door: Door, line: Line, metadata: Mapping[str, str], error: Fault | Refusal) -> None:
    """Have a call that did not begin in the log, the figures and the audit trail."""
    key_id = key_id_of(metadata)
    told = error if isinstance(error, Refusal) else error.__cause__
    if not isinstance(told, Refusal) or not told.kind:
        if isinstance(error, Refusal):
            return  # an outage
        kind = "wrong_signature" if key_id else "unsigned"
        told = Refusal(ResponseCode.NO_PERMISSION, error.sentence, kind=kind)
    door.broker.refusals.note_call(line, "gRPC call", key_id, told)


def _vouch(door: Door, line: Line, caller: Caller) -> None:
    """The line is no stranger's any more, and counts as a connection of the account. Raises TooManyConnections."""
    if line.stranger:
        door.broker.gate.known(line)
    if caller.account is line.account:
        return
    try:
        door.broker.limits.connect(line, caller.account)
    except TooManyConnections:
        asyncio.get_running_loop().call_later(ANSWER_SECONDS, line.close)  # once this is said
        raise


def _port(peer: str) -> int:
    """The port of `ipv4:127.0.0.1:43210`."""
    port = peer.rpartition(":")[2]
    return int(port) if port.isdecimal() else -1
