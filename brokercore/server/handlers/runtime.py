"""The broker itself as tools see and run it: its state (28, 45), its configuration (25, 26), maintenance.

The name server is a role of the broker: its configuration (318, 319) is here too. Of maintenance, what there is to do
is done, and what another kind of store would do is refused by name: a store in Redis has no commit log, no
consume-queue files, no RocksDB and no replicas. Requests about those get REQUEST_CODE_NOT_SUPPORTED with a sentence
that says what is there instead (docs/operate/mqadmin.md).
"""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable
from typing import Any

import orjson

from brokercore.names import SCHEDULE_TOPIC
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import VERSION, Command
from brokercore.protocol.properties import LEVELS, MAX_DELAY_SECONDS, levels_text
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import Connection
from brokercore.server.errors import Refusal
from brokercore.server.rights.authentication import Caller
from brokercore.server.settings import BOUNDS
from brokercore.server.statistics import BROKER_GET, BROKER_PUT, DAY, HOUR, MINUTE, PUT_BYTES
from brokercore.server.storage.retention import expire_messages
from brokercore.server.unsupported import REFUSED

logger = logging.getLogger(__name__)

_OK, _INVALID = ResponseCode.SUCCESS, ResponseCode.INVALID_PARAMETER
_VERSION_NAME = "V5_3_3"
_PERIODS = (10, MINUTE, 600)

_NOTHING_WAITS = dict.fromkeys(
    (
        "sendThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueHeadWaitTimeMills",
        "litePullThreadPoolQueueSize", "litePullThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueSize",
        "queryThreadPoolQueueHeadWaitTimeMills", "ackThreadPoolQueueSize", "ackThreadPoolQueueHeadWaitTimeMills",
        "endTransactionQueueSize", "endTransactionThreadPoolQueueSize", "putMessageFailedTimes", "timerReadBehind",
        "timerOffsetBehind", "timerCongestNum", "timerEnqueueTps", "timerDequeueTps", "dispatchMaxBuffer",
        "sendThreadPoolQueueCapacity", "pullThreadPoolQueueCapacity", "queryThreadPoolQueueCapacity",
        "ackThreadPoolQueueCapacity", "endTransactionThreadPoolQueueCapacity", "litePullThreadPoolQueueCapacity",
    ),
    "0",
)  # fmt: skip
"""Queues between the threads of a real broker: here requests are taken as they come, and tools want a number."""


def runtime(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_BROKER_RUNTIME_INFO: the keys of a real broker that tools show, and the embedded store's own."""
    put = broker.statistics.counter(BROKER_PUT, broker.settings.cluster_name)
    get = broker.statistics.counter(BROKER_GET, broker.settings.cluster_name)
    put_tps = " ".join(str(put.over(seconds).per_second) for seconds in _PERIODS)
    get_tps = " ".join(str(get.over(seconds).per_second) for seconds in _PERIODS)
    now = int(time.time() * 1000)
    queues = list(broker.store.by_number.values())
    first = min((queue.first_ms for queue in queues if queue.first_ms), default=0)
    used, limit = broker.store.used_bytes, broker.settings.store_max_bytes
    table = _NOTHING_WAITS | {
        "bootTimestamp": str(broker.started_ms),
        "brokerActive": "true",
        "brokerVersion": str(VERSION),
        "brokerVersionDesc": _VERSION_NAME,
        "commitLogDirCapacity": f"Total : {limit} bytes, Free : {max(0, limit - used)} bytes.",
        "commitLogDiskRatio": f"{used / limit:.4f}",
        "commitLogMaxOffset": str(sum(queue.max_offset for queue in queues)),
        "commitLogMinOffset": str(sum(queue.min_offset for queue in queues)),
        "consumeQueueDiskRatio": f"{used / limit:.4f}",
        "dispatchBehindBytes": "0",
        "earliestMessageTimeStamp": str(first or now),
        "getFoundTps": get_tps,
        "getMessageEntireTimeMax": str(broker.store.times.longest_read_ms),
        "getMissTps": "0.0 0.0 0.0",
        "getTotalTps": get_tps,
        "getTransferredTps": get_tps,
        "msgGetTotalTodayNow": str(get.total),
        "msgGetTotalTodayMorning": str(get.total - get.over(DAY).total),
        "msgGetTotalYesterdayMorning": "0",
        "msgPutTotalTodayNow": str(put.total),
        "msgPutTotalTodayMorning": str(put.total - put.over(DAY).total),
        "msgPutTotalYesterdayMorning": "0",
        "pageCacheLockTimeMills": "0",
        "pullThreadPoolQueueSize": str(broker.waiting.count),
        "putMessageAverageSize": f"{used / max(1, sum(q.max_offset - q.min_offset for q in queues)):.1f}",
        "putMessageDistributeTime": broker.store.times.distribution(),
        "putMessageEntireTimeMax": str(broker.store.times.longest_put_ms),
        "putMessageSizeTotal": str(sum(size for _, size in broker.statistics.totals(PUT_BYTES))),
        "putMessageTimesTotal": str(put.times),
        "putTps": put_tps,
        "remainHowManyDataToFlush": "0 B",
        "remainTransientStoreBufferNumbs": "0",
        "runtime": _duration(now - broker.started_ms),
        "startAcceptSendRequestTimeStamp": "0",
    }
    return command.response(_OK, body=orjson.dumps({"table": table | _own(broker)}))


def _own(broker: Broker) -> dict[str, str]:
    used, limit = broker.store.used_bytes, broker.settings.store_max_bytes
    put = broker.statistics.counter(BROKER_PUT, broker.settings.cluster_name)
    return {
        "gantryBrokers": " ".join(f"{name}={state}" for name, state in broker.registry.states.items()),
        "gantryConnections": str(len(broker.connections)),
        "gantryMessagesLastHour": str(put.over(HOUR).total),
        "gantryResidentBytes": str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024),
        "gantryRetentionHours": f"{broker.settings.retention_hours:g}",
        "gantryStoreMaxBytes": str(limit),
        "gantryStoreUsedBytes": str(used),
        "gantryTimersDelivered": str(broker.timers.delivered),
        "gantryWaitingPulls": str(broker.waiting.count),
    }


def delay_offsets(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_ALL_DELAY_OFFSET: how many messages each level has taken; those that wait are known by their time alone."""
    topic = broker.topics.get(SCHEDULE_TOPIC)
    queues = topic.queues[:LEVELS] if topic else []
    table = {str(queue.queue_id + 1): queue.max_offset for queue in queues}
    return command.response(
        _OK, body=orjson.dumps({"dataVersion": broker.topics.version.to_dict(), "offsetTable": table})
    )


def _duration(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"


def broker_configuration(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_BROKER_CONFIG: lines of `key=value`, under the names a real broker uses where it has them."""
    settings = broker.settings
    host, _, port = broker.address.rpartition(":")
    values = {
        "autoCreateSubscriptionGroup": "false",
        "autoCreateTopicEnable": "false",
        "brokerClusterName": settings.cluster_name,
        "brokerId": "0",
        "brokerIP1": host,
        "brokerName": settings.broker_name,
        "brokerPermission": "6",
        "brokerRole": "ASYNC_MASTER",
        "clientManageThreadPoolNums": "1",  # one event loop does all; tools expect the three numbers
        "enablePropertyFilter": "true",
        "fileReservedTime": str(max(1, round(settings.retention_hours))),
        "flushDiskType": "ASYNC_FLUSH",
        "listenPort": port,
        "maxMessageSize": str(4 << 20),
        "messageDelayLevel": levels_text(),
        "namesrvAddr": broker.address,
        "pullMessageThreadPoolNums": "1",
        "recallMessageEnable": "true",
        "regionId": settings.region,
        "sendMessageThreadPoolNums": "1",
        "timerMaxDelaySec": str(MAX_DELAY_SECONDS),
        "timerWheelEnable": "true",
        "transactionCheckInterval": str(1000 * settings.transaction_check_seconds),
        "useServerSideResetOffset": "true",
        "gantryCheckMessageType": "true" if settings.check_message_type else "false",
        "gantryStoreMaxBytes": str(settings.store_max_bytes),
    }
    version = orjson.dumps(broker.topics.version.to_dict()).decode()
    return command.response(_OK, ext={"version": version}, body=_properties(values))


def update_broker(broker: Broker, _connection: Connection, command: Command, caller: Caller) -> Command:
    """UPDATE_BROKER_CONFIG: what can change while the broker runs changes at once and holds until it ends."""
    changes: dict[str, Any] = {}
    for name, value in _given(command).items():
        if name not in _CHANGEABLE:
            allowed = ", ".join(sorted(_CHANGEABLE))
            raise Refusal(_INVALID, f"{name[:80]} cannot be changed while the broker runs; what can: {allowed}")
        setting, read = _CHANGEABLE[name]
        try:
            changes[setting] = read(value)
        except ValueError as error:
            raise Refusal(_INVALID, f"{name} is {value[:40]!r}: {error}") from None
    broker.reconfigure(**changes)
    logger.warning("%s set %s until the next start", caller.name, changes)
    return command.response(_OK)


def name_server_configuration(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_NAMESRV_CONFIG: the name server is a role of the broker and has few settings of its own."""
    values = {"listenPort": broker.settings.namesrv_port, "orderMessageEnable": "true", "supportActingMaster": "false"}
    return command.response(_OK, body=_properties({name: str(value) for name, value in values.items()}))


def update_name_server(_broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """UPDATE_NAMESRV_CONFIG: nothing of it can change while it runs."""
    names = ", ".join(_given(command))[:200]
    raise Refusal(_INVALID, f"{names} cannot be changed: the name server's settings are read when the broker starts")


def _given(command: Command) -> dict[str, str]:
    """The lines `key=value` of a body as Java's Properties are written; at least one."""
    try:
        lines = command.body.decode().splitlines()
    except UnicodeDecodeError:
        raise Refusal(_INVALID, "the configuration is not UTF-8") from None
    pairs = [line.partition("=") for line in lines if line.strip() and not line.startswith("#")]
    if not pairs:
        raise Refusal(_INVALID, "the request names no setting")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _properties(values: dict[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in values.items()).encode()


def _whole(setting: str, factor: int = 1) -> Callable[[str], int]:
    low, high = BOUNDS[setting]

    def read(value: str) -> int:
        if not value.isascii() or not value.isdecimal() or not low <= int(value[:20]) // factor <= high:
            raise ValueError(f"allowed are whole numbers from {low * factor} to {high * factor}")
        return int(value) // factor

    return read


def _truth(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError("allowed are true and false")
    return value == "true"


_CHANGEABLE: dict[str, tuple[str, Callable[[str], Any]]] = {
    "fileReservedTime": ("retention_hours", _whole("retention_hours")),
    "gantryCheckMessageType": ("check_message_type", _truth),
    "gantryStoreMaxBytes": ("store_max_bytes", _whole("store_max_bytes")),
    "transactionCheckInterval": ("transaction_check_seconds", _whole("transaction_check_seconds", 1000)),
}
"""Names in the configuration: the setting, and how its value is read."""


def nothing_to_clean(_broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """CLEAN_EXPIRED_CONSUMEQUEUE and CLEAN_UNUSED_TOPIC: a topic's queues come and go with it, nothing is left over."""
    return command.response(_OK)


async def expire_now(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """DELETE_EXPIRED_COMMITLOG: what is older than the retention time leaves now instead of within a minute."""
    await expire_messages(broker.store, broker.topics, broker.traces.most_bytes)
    return command.response(_OK)


def replication(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_BROKER_HA_STATUS: a master without replicas."""
    body = {
        "haClientRuntimeInfo": {},
        "haConnectionInfo": [],
        "inSyncSlaveNums": 0,
        "master": True,
        "masterCommitLogMaxOffset": sum(queue.max_offset for queue in broker.store.by_number.values()),
    }
    return command.response(_OK, body=orjson.dumps(body))


def no_unit_topics(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_UNIT_TOPIC_LIST and its two relatives: there are no units."""
    return command.response(_OK, body=orjson.dumps({"brokerAddr": broker.address, "topicList": []}))


def _refused(sentence: str) -> Callable[..., Command]:
    def refuse(_broker: Broker, _connection: Connection, _command: Command, _caller: Caller) -> Command:
        raise Refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, sentence)

    return refuse


HANDLERS: dict[int, Any] = {
    RequestCode.GET_BROKER_RUNTIME_INFO: runtime,
    RequestCode.GET_ALL_DELAY_OFFSET: delay_offsets,
    RequestCode.GET_BROKER_CONFIG: broker_configuration,
    RequestCode.UPDATE_BROKER_CONFIG: update_broker,
    RequestCode.GET_NAMESRV_CONFIG: name_server_configuration,
    RequestCode.UPDATE_NAMESRV_CONFIG: update_name_server,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: nothing_to_clean,
    RequestCode.CLEAN_UNUSED_TOPIC: nothing_to_clean,
    RequestCode.DELETE_EXPIRED_COMMITLOG: expire_now,
    RequestCode.GET_BROKER_HA_STATUS: replication,
    RequestCode.GET_UNIT_TOPIC_LIST: no_unit_topics,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: no_unit_topics,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: no_unit_topics,
    **{code: _refused(sentence) for code, sentence in REFUSED.items()},
}
