"""Questions that a client has to answer: running info (307), consume directly (309), its offsets (221, 223)."""

from __future__ import annotations

from brokercore.protocol.bodies.stats import offsets_from_json
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import LenientJsonError
from brokercore.protocol.fastjson import dumps_object_keyed, dumps_with
from brokercore.protocol.ids import pack_host, parse_offset_message_id
from brokercore.protocol.message import decode_stored
from brokercore.server import permissions
from brokercore.server.broker import Broker
from brokercore.server.clients import Client
from brokercore.server.connection import Connection
from brokercore.server.errors import Refusal
from brokercore.server.headers import text
from brokercore.server.security import Caller

RELAY_SECONDS = 10
"""How long a client may take; then the caller gets CONSUME_MSG_TIMEOUT."""

_PRIVATE = ("AccessKey", "Signature", "SecurityToken", "OnsChannel")


async def running_info(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_CONSUMER_RUNNING_INFO, with the stack traces of the client's threads when asked (jstackEnable)."""
    ext = command.ext
    client = _online(broker, text(ext, "consumerGroup"), text(ext, "clientId"))
    return await _ask(client, command, b"")


async def consume_directly(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """CONSUME_MESSAGE_DIRECTLY: one message, named by its offset id, is handed to one client."""
    ext = command.ext
    client = _online(broker, text(ext, "consumerGroup"), text(ext, "clientId"))
    host, port, offset = parse_offset_message_id(text(ext, "msgId"))  # a body of the caller's is no message of a topic
    elsewhere = broker.registry.is_other(pack_host(host, port))
    async with connection.reads:  # until it is answered: the message is held as long
        frame = None if elsewhere else await broker.store.message_at(offset)
        topic = decode_stored(frame)[0].topic if frame is not None else ""
        seen = any(permissions.may(caller, connection, action, topic) for action in permissions.READS_MESSAGE)
        if frame is None or not seen:  # one sentence for both: the refusal would name another account's topic
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"the message {ext['msgId']} does not exist")
        return await _ask(client, command, frame)


async def client_status(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS: the offsets each client of a group works with."""
    ext = command.ext
    group, wanted = text(ext, "group"), ext.get("clientAddr")
    online = broker.clients.online(group)
    if online is None:
        raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, f"No Any Consumer online in the consumer group: [{group}]")
    tables: dict[str, bytes] = {}
    for client in list(online.members.values()):
        if wanted and wanted not in (client.client_id, client.connection.address):
            continue
        question = {"topic": text(ext, "topic"), "group": group}
        answer = await _request(client, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, question, b"")
        try:
            offsets = offsets_from_json(answer.body, "messageQueueTable") if answer.body else {}
        except LenientJsonError as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"client {client.client_id} answered: {error}") from error
        tables[client.client_id] = dumps_object_keyed((queue.to_dict(), offset) for queue, offset in offsets.items())
    body = dumps_with({"messageQueueTable": {}}, {"consumerTable": dumps_with({}, tables)})
    return command.response(ResponseCode.SUCCESS, body=body)


async def own_status(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_CONSUMER_STATUS_FROM_CLIENT, for one client of the group."""
    ext = command.ext
    client = _online(broker, text(ext, "group"), ext.get("clientId") or ext.get("clientAddr") or "")
    return await _ask(client, command, b"")


def _online(broker: Broker, group: str, client_id: str) -> Client:
    online = broker.clients.online(group)
    client = online.find(client_id) if online else None
    if client is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
    return client


async def _ask(client: Client, command: Command, body: bytes) -> Command:
    """Pass a request on, without the caller's credentials, and its answer back."""
    ext = {name: value for name, value in command.ext.items() if name not in _PRIVATE}
    answer = await _request(client, command.code, ext, body)
    return command.response(answer.code, answer.remark, answer.ext, answer.body)


async def _request(client: Client, code: int, ext: dict[str, str], body: bytes) -> Command:
    try:
        return await client.connection.request(code, ext, body, seconds=RELAY_SECONDS)
    except TimeoutError:
        raise Refusal(
            ResponseCode.CONSUME_MSG_TIMEOUT, f"client {client.client_id} did not answer within {RELAY_SECONDS} s"
        ) from None


HANDLERS = {
    RequestCode.GET_CONSUMER_RUNNING_INFO: running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: consume_directly,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: client_status,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: own_status,
}
