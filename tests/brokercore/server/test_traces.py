"""Message traces: every AccessKey may write them, not everybody may read them, and they stay small."""

from __future__ import annotations

from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.server.retention import TRACES_SHARE
from brokercore.server.storage.topics import TRACE_TOPIC
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, broker_process, eventually

_PLACE = {"topic": TRACE_TOPIC, "queueId": 0}
_STORE = 4 << 20


def test_a_tenant_writes_traces_and_only_the_platform_reads_them(broker: BrokerProcess, wire: Wire) -> None:
    key, message_id = (fresh("AK"), "secret"), fresh("ID")
    broker.allow(*key, {"boundary": ["acs:mq:*:*:MQ_INST_7_traces%*"], "statements": []})
    with Wire(broker.address, key) as tenant:
        eventually(lambda: tenant.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        assert tenant.call(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": TRACE_TOPIC}).code == 0
        assert tenant.publish(TRACE_TOPIC, b"Pub\x01...", properties(KEYS=message_id, UNIQ_KEY=fresh("T"))).code == 0
        query = {"topic": TRACE_TOPIC, "key": message_id, "maxNum": 8, "beginTimestamp": 0, "endTimestamp": 1 << 60}
        assert tenant.call(Code.QUERY_MESSAGE, query).code == ResponseCode.NO_PERMISSION
        assert tenant.publish(fresh()).code == ResponseCode.NO_PERMISSION
    assert b"Pub\x01..." in wire.ok(Code.QUERY_MESSAGE, query).body


def test_traces_take_a_share_of_the_store_and_no_more() -> None:
    with broker_process(gantry_store_max_bytes=str(_STORE)) as broker, Wire(broker.address) as wire:
        count = 2 * _STORE // TRACES_SHARE // 4000
        for _ in range(count):
            wire.publish(TRACE_TOPIC, bytes(4000))
        wire.ok(Code.DELETE_EXPIRED_COMMITLOG)
        first = int(wire.ok(Code.GET_MIN_OFFSET, _PLACE).ext["offset"])
        last = int(wire.ok(Code.GET_MAX_OFFSET, _PLACE).ext["offset"])
        assert last == count
        assert 0.3 < first / last < 0.7
