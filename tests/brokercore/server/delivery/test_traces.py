"""Message traces: every AccessKey may write them, not everybody may read them, and they stay small."""

from __future__ import annotations

from brokercore.names import TRACE_TOPIC
from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.server.delivery.traces import KEPT_PERCENT, TRACES_SHARE
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, broker_process, eventually

_PLACE = {"topic": TRACE_TOPIC, "queueId": 0}
_STORE = 4 << 20
PUBLISHES = {"Effect": "Allow", "Action": ["mq:PUB"], "Resource": "*"}


def test_a_tenant_writes_traces_and_only_the_platform_reads_them(broker: BrokerProcess, wire: Wire) -> None:
    key, message_id = (fresh("AK"), "secret"), fresh("ID")
    broker.allow(*key, {"boundary": ["acs:mq:*:*:MQ_INST_7_traces%*"], "statements": [PUBLISHES]})
    with Wire(broker.address, key) as tenant:
        eventually(lambda: tenant.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        assert tenant.call(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": TRACE_TOPIC}).code == 0
        assert tenant.publish(TRACE_TOPIC, b"Pub\x01...", properties(KEYS=message_id, UNIQ_KEY=fresh("T"))).code == 0
        query = {"topic": TRACE_TOPIC, "key": message_id, "maxNum": 8, "beginTimestamp": 0, "endTimestamp": 1 << 60}
        assert tenant.call(Code.QUERY_MESSAGE, query).code == ResponseCode.NO_PERMISSION
        assert tenant.publish(fresh()).code == ResponseCode.NO_PERMISSION
    assert b"Pub\x01..." in wire.ok(Code.QUERY_MESSAGE, query).body


def test_traces_take_a_share_of_the_store_and_the_oldest_make_room() -> None:
    with broker_process(gantry_store_max_bytes=str(_STORE)) as broker, Wire(broker.address) as wire:
        taken = 0
        while wire.publish(TRACE_TOPIC, bytes(4000)).code == 0:
            taken += 1
        assert 0.8 < taken * 4000 / (_STORE // TRACES_SHARE) < 1.1
        first = eventually(lambda: int(wire.ok(Code.GET_MIN_OFFSET, _PLACE).ext["offset"]))
        last = int(wire.ok(Code.GET_MAX_OFFSET, _PLACE).ext["offset"])
        assert last == taken
        assert 0.6 < (last - first) / last * 100 / KEPT_PERCENT < 1.4
        assert wire.publish(TRACE_TOPIC, bytes(4000)).code == 0
