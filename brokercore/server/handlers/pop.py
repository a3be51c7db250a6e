"""POP consumption: 200050 to 200055 and 200151, and who consumes so (400 to 402) (docs/operate/broker.md, "POP")."""

from __future__ import annotations

import base64
import binascii
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import orjson

from brokercore.names import is_retry_topic
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import MessageFormatError, SubscriptionError
from brokercore.protocol.fastjson import integer as whole
from brokercore.protocol.fastjson import objects, read_object
from brokercore.protocol.fastjson import text as member
from brokercore.protocol.ids import Receipt, message_offsets, start_offsets
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import MOST_WATCHED, Connection
from brokercore.server.connections.headers import boolean, integer, text
from brokercore.server.delivery.filtering import wanted_frames
from brokercore.server.delivery.ordering import in_order
from brokercore.server.errors import Refusal
from brokercore.server.handlers.offsets import existing_topic
from brokercore.server.handlers.pull import MAX_MESSAGES, readable, receiving, wait_seconds
from brokercore.server.pop.request import Popped, PopRequest
from brokercore.server.rights import permissions
from brokercore.server.rights.authentication import Caller
from brokercore.server.rights.named_resources import acknowledged_topic, named_in
from brokercore.server.storage.groups import POP, PULL
from brokercore.server.storage.offsets import Place
from brokercore.server.storage.topics import Topic

LEAST_INVISIBLE_MS, MOST_INVISIBLE_MS = 100, 12 * 3600 * 1000

MAX_ACKNOWLEDGED = 4096
"""Messages that one BATCH_ACK_MESSAGE may name."""

_OK, _INVALID = ResponseCode.SUCCESS, ResponseCode.INVALID_PARAMETER


async def pop(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command | None:
    """POP_MESSAGE: messages that nobody else of the group gets until their invisible time is over."""
    ext = command.ext
    request = _request(broker, connection, command, caller)
    if len(connection.on_close) >= MOST_WATCHED:
        return command.response(ResponseCode.POLLING_FULL, "too much waits on this connection", _head(request, []))
    connection.on_close[request] = request.give_up
    try:
        found = await request.run(wait_seconds(ext, "pollTime", caller))
    finally:
        connection.on_close.pop(request, None)
    if not connection.is_open:
        request.put_back(found)
        return None
    if not found:
        return command.response(ResponseCode.POLLING_TIMEOUT, "no message within the polling time", _head(request, []))
    answer = command.response(_OK, ext=_head(request, found))
    size = sum(len(popped.frame) for popped in found)
    topic = request.topic.config.topic
    broker.statistics.handed_out(broker.settings.cluster_name, topic, request.group, len(found), size)
    connection.send_frames(answer, [popped.frame for popped in found], size)
    return None


def _request(broker: Broker, connection: Connection, command: Command, caller: Caller) -> PopRequest:
    ext = command.ext
    group, name = text(ext, "consumerGroup"), text(ext, "topic")
    topic = readable(broker, group, name)
    try:
        wanted = wanted_frames(ext.get("expType") or "TAG", ext.get("exp"))
    except SubscriptionError as error:
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error

    def check() -> None:
        permissions.check(connection, command, broker.security.current(caller))
        readable(broker, group, name)

    return PopRequest(
        broker,
        connection.reads,
        group,
        topic,
        [topic.queues[number] for number in _queue_ids(topic, integer(ext, "queueId", -1))],
        max(1, min(integer(ext, "maxMsgNums", MAX_MESSAGES), MAX_MESSAGES)),
        _invisible_ms(ext),
        wanted,
        boolean(ext, "order") or in_order(broker, group, topic),
        integer(ext, "initMode", 0) == 1,
        check,
        caller.account,
        receiving(broker, caller, name),
    )


def _queue_ids(topic: Topic, queue_id: int) -> list[int]:
    count = topic.config.read_queues
    if queue_id >= count or queue_id < -1:
        message = f"queue {queue_id} does not exist: topic {topic.config.topic} has {count} queues"
        raise Refusal(ResponseCode.INVALID_PARAMETER, message)
    return list(range(count)) if queue_id == -1 else [queue_id]


def _invisible_ms(ext: dict[str, str]) -> int:
    given = integer(ext, "invisibleTime")
    if not LEAST_INVISIBLE_MS <= given <= MOST_INVISIBLE_MS:
        message = f"the invisible time is {given} ms; allowed are {LEAST_INVISIBLE_MS} to {MOST_INVISIBLE_MS}"
        raise Refusal(ResponseCode.INVALID_PARAMETER, message)
    return given


def _head(request: PopRequest, found: list[Popped]) -> dict[str, str]:
    offsets: dict[int, list[int]] = defaultdict(list)
    for popped in found:
        offsets[popped.queue_id].append(popped.offset)
    ordered = {queue_id: sorted(numbers) for queue_id, numbers in offsets.items()}
    return {
        "popTime": str(request.popped_ms),
        "invisibleTime": str(request.invisible_ms),
        "reviveQid": "0",
        "restNum": str(request.rest()),
        "startOffsetInfo": start_offsets({queue_id: numbers[0] for queue_id, numbers in ordered.items()}),
        "msgOffsetInfo": message_offsets(ordered),
    }


async def acknowledge(broker: Broker, connection: Connection, command: Command, _caller: Caller) -> Command:
    """ACK_MESSAGE. The receipt handle of an earlier delivery ends nothing: the message is somebody else's by now."""
    place, receipt = _receipt(broker, command)
    if _is_late(broker, connection, place, receipt):
        return _too_late(command)
    if not await broker.flights.acknowledge(place, receipt.offset, receipt.popped_ms):
        return _given_out_again(command)
    _wake(broker, place)
    return command.response(_OK)


def _wake(broker: Broker, place: Place) -> None:
    """After an acknowledgement: who waits for a queue in order may have what comes next, when nothing holds it up."""
    topic, state = broker.topics.get(place[1]), broker.flights.find(place)
    queue = topic.queues[place[2]] if topic else None
    if queue is None or state is None or not queue.waiters:
        return
    now = int(time.time() * 1000)
    if state.are_all_due(now) and (state.flights or state.next_offset < queue.max_offset):
        broker.waiting.wake(queue)


async def change_invisible_time(broker: Broker, connection: Connection, command: Command, _caller: Caller) -> Command:
    """CHANGE_MESSAGE_INVISIBLETIME: the message is visible again so long from now; it has a new receipt handle."""
    place, receipt = _receipt(broker, command)
    given = integer(command.ext, "invisibleTime")
    if not 0 <= given <= MOST_INVISIBLE_MS:
        message = f"the invisible time is {given} ms; allowed are 0 to {MOST_INVISIBLE_MS}"
        raise Refusal(ResponseCode.INVALID_PARAMETER, message)
    if _is_late(broker, connection, place, receipt):
        return _too_late(command)
    now = max(int(time.time() * 1000), receipt.popped_ms + 1)
    visible_ms = now + max(1, given)  # never in the same ms again: its receipt handles could not be told apart
    if not await broker.flights.change(place, receipt.offset, receipt.popped_ms, visible_ms, now):
        return _given_out_again(command)
    broker.waiting.wake(broker.topics.get(place[1]).queues[place[2]])  # type: ignore[union-attr]
    return command.response(_OK, ext={"popTime": str(now), "invisibleTime": str(given), "reviveQid": "0"})


def _receipt(broker: Broker, command: Command) -> tuple[tuple[str, str, int], Receipt]:
    ext = command.ext
    group, name, queue_id = text(ext, "consumerGroup"), acknowledged_topic(ext), integer(ext, "queueId")
    try:
        receipt = Receipt.parse(text(ext, "extraInfo"))
    except MessageFormatError as error:
        raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from error
    topic = broker.topics.get(name)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
    if (receipt.queue_id, receipt.offset) != (queue_id, integer(ext, "offset")) or receipt.broker_name != broker.name:
        raise Refusal(ResponseCode.INVALID_PARAMETER, "the receipt handle is of another message")
    if not 0 <= queue_id < len(topic.queues):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"queue {queue_id} of topic {name} does not exist")
    return (group, name, queue_id), receipt


def _is_late(broker: Broker, connection: Connection, place: Place, receipt: Receipt) -> bool:
    return connection.minds_late_handles and broker.flights.is_late(place, receipt, int(time.time() * 1000))


def _too_late(command: Command) -> Command:
    return command.response(
        ResponseCode.NO_MESSAGE, "the receipt handle is expired: the invisible time of its message is over"
    )


def _given_out_again(command: Command) -> Command:
    return command.response(
        ResponseCode.NO_MESSAGE, "the receipt handle holds no more: the message was given out again"
    )


async def notification(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """NOTIFICATION: whether there is something to pop, asked with patience."""
    command.ext.setdefault("invisibleTime", str(LEAST_INVISIBLE_MS))
    request = _request(broker, connection, command, caller)
    has_message = await request.wait_for_message(wait_seconds(command.ext, "pollTime", caller))
    return command.response(_OK, ext={"hasMsg": str(has_message).lower(), "pollingFull": "false"})


async def peek(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command | None:
    """PEEK_MESSAGE: what a pop would get now. Nobody's turn changes; the messages have no receipt handles."""
    command.ext.setdefault("invisibleTime", str(LEAST_INVISIBLE_MS))
    request = _request(broker, connection, command, caller)
    if request.rate is not None and request.rate.seconds_to_wait():
        raise request.rate.refusal()
    async with connection.reads:
        found = await request.look()
    request.received(len(found))
    head = _head(request, found) | {"invisibleTime": "0"}
    if not found:
        return command.response(ResponseCode.PULL_NOT_FOUND, "nothing is visible now", head)
    frames = [popped.frame for popped in found]
    connection.send_frames(command.response(_OK, ext=head), frames, sum(map(len, frames)))
    return None


def polling_info(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """POLLING_INFO: how many requests wait on a topic's queues."""
    topic = readable(broker, text(command.ext, "consumerGroup"), text(command.ext, "topic"))
    waiting = {waiter for queue in topic.queues for waiter in queue.waiters if isinstance(waiter, PopRequest)}
    group = command.ext["consumerGroup"]
    return command.response(_OK, ext={"pollingNum": str(sum(request.group == group for request in waiting))})


async def set_mode(broker: Broker, _connection: Connection, command: Command, caller: Caller) -> Command:
    """SET_MESSAGE_REQUEST_MODE: a group's clients pop or pull a topic from now on."""
    fields = read_object(command.body)
    group, topic, mode = (member(fields, name) for name in ("consumerGroup", "topic", "mode"))
    if mode not in (POP, PULL):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"the mode is {mode[:40]!r}; allowed are {POP} and {PULL}")
    if is_retry_topic(topic):
        raise Refusal(ResponseCode.NO_PERMISSION, "a retry topic is always pulled")
    readable(broker, group, topic)
    if mode == POP != broker.request_modes.get(group, topic):
        broker.limits.add_positions(caller.account, group, 1)
    await broker.request_modes.set(group, topic, mode)
    return command.response(_OK)


def all_modes(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """GET_ALL_MESSAGE_REQUEST_MODE: who pops, of the groups the caller may see; everybody else pulls."""
    table: dict[str, dict[str, dict[str, object]]] = defaultdict(dict)
    for group, topic in broker.request_modes.popping():
        if permissions.may_see_group(caller, connection, group):
            row = {"consumerGroup": group, "mode": POP, "popShareQueueNum": 0, "topic": topic}
            table[topic][group] = row
    return command.response(_OK, body=orjson.dumps({"messageRequestModeMap": table}))


async def assignment(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """QUERY_ASSIGNMENT: which queues of all brokers a client works on; who pops gets each broker's, as queue -1."""
    fields = read_object(command.body)
    group, name, client_id = (member(fields, field) for field in ("consumerGroup", "topic", "clientId"))
    configs = {} if broker.registry.alone else await broker.registry.topic(name)
    topic = broker.topics.get(name)
    if topic is not None:
        configs[broker.name] = topic.config
    online = broker.clients.online(group)
    if online is None:
        return command.response(_OK, body=orjson.dumps({"messageQueueAssignments": []}))
    mode = broker.request_modes.get(group, name)
    queues = [
        (holder, queue_id)
        for holder, config in sorted(configs.items())
        for queue_id in ([-1] if mode == POP else range(config.read_queues))
    ]
    if mode == PULL and member(fields, "messageModel", "CLUSTERING") == "CLUSTERING":
        members = sorted({client.client_id for client in online.members.values()})
        queues = _share(queues, members, client_id)
    assignments = [
        {"messageQueue": {"brokerName": holder, "queueId": queue_id, "topic": name}, "mode": mode}
        for holder, queue_id in queues
    ]
    return command.response(_OK, body=orjson.dumps({"messageQueueAssignments": assignments}))


def _share(queues: list[tuple[str, int]], members: list[str], client_id: str) -> list[tuple[str, int]]:
    """The client's part when all are dealt out evenly, in order (Java's AllocateMessageQueueAveragely)."""
    if client_id not in members:
        return []
    place, (each, more) = members.index(client_id), divmod(len(queues), len(members))
    start = place * each + min(place, more)
    return queues[start : start + each + (place < more)]


async def acknowledge_batch(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """BATCH_ACK_MESSAGE, as proxies send it.

    Each entry names a delivery (popTime) and, by a bit set on its first offset, the messages of a queue.
    NO_MESSAGE when any of them was given out again since; the others are acknowledged all the same.
    """
    fields = read_object(command.body)
    if member(fields, "brokerName", broker.name) != broker.name:
        raise Refusal(
            _INVALID, f"the messages are of broker {member(fields, 'brokerName')[:127]}, not of {broker.name}"
        )
    places = [(_batch_place(broker, entry), entry) for entry in objects(fields, "acks")]
    sets = [(place, whole(entry, "so"), whole(entry, "pt"), _bits(entry)) for place, entry in places]
    count = sum([bits.bit_count() for _, _, _, bits in sets])
    if count > MAX_ACKNOWLEDGED:
        raise Refusal(_INVALID, f"{count} messages: allowed are {MAX_ACKNOWLEDGED} in one request")
    wanted = [(place, start + offset, popped) for place, start, popped, bits in sets for offset in _places_of(bits)]
    late = 0
    for place, offset, popped_ms in wanted:
        late += not await broker.flights.acknowledge(place, offset, popped_ms)
    for place in {place for place, _, _ in wanted}:
        _wake(broker, place)
    if late:
        return command.response(ResponseCode.NO_MESSAGE, f"{late} of {len(wanted)} messages were given out again")
    return command.response(ResponseCode.SUCCESS)


def _batch_place(broker: Broker, entry: dict[str, Any]) -> Place:
    group, name = named_in(entry)
    topic, queue_id = existing_topic(broker, name), whole(entry, "q", -1)
    if not 0 <= queue_id < len(topic.queues):
        raise Refusal(_INVALID, f"queue {queue_id} of topic {name} does not exist")
    return group, name, queue_id


def _bits(entry: dict[str, Any]) -> int:
    """The bit set of an entry (java.util.BitSet, its bytes in Base64)."""
    try:
        bits = base64.b64decode(member(entry, "b"), validate=True)
    except (ValueError, binascii.Error):
        raise Refusal(_INVALID, "the bit set of an acknowledgement is not Base64") from None
    if len(bits) > MAX_ACKNOWLEDGED // 8:
        raise Refusal(_INVALID, f"the bit set of an acknowledgement has {len(bits)} bytes")
    return int.from_bytes(bits, "little")


def _places_of(bits: int) -> Iterator[int]:
    """The place of each bit that is set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


HANDLERS = {
    RequestCode.POP_MESSAGE: pop,
    RequestCode.ACK_MESSAGE: acknowledge,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: change_invisible_time,
    RequestCode.NOTIFICATION: notification,
    RequestCode.PEEK_MESSAGE: peek,
    RequestCode.POLLING_INFO: polling_info,
    RequestCode.SET_MESSAGE_REQUEST_MODE: set_mode,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: all_modes,
    RequestCode.QUERY_ASSIGNMENT: assignment,
    RequestCode.BATCH_ACK_MESSAGE: acknowledge_batch,
}
