"""The broker about itself: runtime table (28) and delay offsets (45)."""

from __future__ import annotations

import resource
import time

import orjson

from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import VERSION, Command
from brokercore.server.broker import Broker
from brokercore.server.connection import Connection
from brokercore.server.security import Caller
from brokercore.server.statistics import BROKER_GET, BROKER_PUT, DAY, HOUR, MINUTE
from brokercore.server.storage.topics import DELAY_LEVELS, SCHEDULE_TOPIC

_VERSION_NAME = "V5_3_3"
_PERIODS = (10, MINUTE, 600)

_NOTHING_WAITS = dict.fromkeys(
    (
        "sendThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueHeadWaitTimeMills",
        "litePullThreadPoolQueueSize", "litePullThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueSize",
        "queryThreadPoolQueueHeadWaitTimeMills", "ackThreadPoolQueueSize", "ackThreadPoolQueueHeadWaitTimeMills",
        "endTransactionQueueSize", "endTransactionThreadPoolQueueSize", "putMessageFailedTimes", "timerReadBehind",
        "timerOffsetBehind", "timerCongestNum", "timerEnqueueTps", "timerDequeueTps",
    ),
    "0",
)  # fmt: skip
"""Queues between the threads of a real broker: here requests are taken as they come, and tools show a number."""


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
        "putMessageTimesTotal": str(put.times),
        "putTps": put_tps,
        "remainHowManyDataToFlush": "0 B",
        "remainTransientStoreBufferNumbs": "0",
        "runtime": _duration(now - broker.started_ms),
        "startAcceptSendRequestTimeStamp": "0",
    }
    return command.response(ResponseCode.SUCCESS, body=orjson.dumps({"table": table | _own(broker)}))


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
    queues = topic.queues[:DELAY_LEVELS] if topic else []
    table = {str(queue.queue_id + 1): queue.max_offset for queue in queues}
    return command.response(
        ResponseCode.SUCCESS, body=orjson.dumps({"dataVersion": broker.topics.version.to_dict(), "offsetTable": table})
    )


def _duration(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"


HANDLERS = {
    RequestCode.GET_BROKER_RUNTIME_INFO: runtime,
    RequestCode.GET_ALL_DELAY_OFFSET: delay_offsets,
}
