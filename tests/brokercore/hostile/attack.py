"""What an attacker says: values, bodies and bytes that no client sends."""

from __future__ import annotations

import json
import secrets
import socket
import struct
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.support.broker import BrokerProcess

INSTANCE = "MQ_INST_1_hostile1"
TENANT = "LTAIhostile", secrets.token_urlsafe(20)
TOPIC, GROUP = f"{INSTANCE}%orders", f"{INSTANCE}%GID_orders"

#: Every example is a conversation with a running broker: what counts is how many of them fit into some seconds.
bounded = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=False, database=None)

FIELDS = """
a b c d e f g h i j k l m n topic consumerGroup group groupName producerGroup queueId queueOffset
maxMsgNums maxMsgBytes sysFlag commitOffset subscription suspendTimeoutMillis subVersion expressionType
offset timestamp boundaryType extraInfo invisibleTime pollTime bornTime initMode expType exp order
attemptId originMsgId unitMode originTopic delayLevel maxReconsumeTimes commitLogOffset
tranStateTableOffset commitOrRollback fromTransactionCheck msgId transactionId clientId clientID
jstackEnable namespace key value readQueueNums writeQueueNums perm topicFilterType topicSysFlag
attributes srcGroup destGroup isForce statsName statsKey beginTimestamp endTimestamp maxNum
_UNIQUE_KEY_QUERY index count isOrder brokerName recallHandle flag bornTimestamp properties
reconsumeTimes batch cluster setZeroIfNotFound readable clientAddr cleanOffset lo bname defaultTopic
defaultTopicQueueNums
""".split()  # noqa: SIM905 (words are easier to read than a list of texts)

numbers = st.one_of(
    st.integers(-3, 40),
    st.sampled_from(
        [2**15, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64, -(2**31), -(2**63), 10**30]
    ),
)
odd_texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", " ", "\x00", "\x01\x02", "%", "a" * 300, "é" * 200, "١٢", "²", "-", "@", "a@b@c", "-,+,=", "+a=b"]
    ),
    st.sampled_from(["1e9", "0x10", "1_0", "+1", "nan", "true", "TRUE", "null", "a || b", "a AND (b", "SQL92", "TAG"]),
    st.sampled_from(
        ["%RETRY%", f"%RETRY%{GROUP}", f"%DLQ%{GROUP}", "RMQ_SYS_TRACE_TOPIC", "SCHEDULE_TOPIC_XXXX", "TBW102"]
    ),
    st.sampled_from(["AQ==", "v1", "0" * 32, "F" * 32, "F" * 56, "0 1 2 0 0 broker-a 0 0", "ORDER_TOPIC_CONFIG"]),
    st.sampled_from(["broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC"]),
)
values = st.one_of(st.sampled_from([TOPIC, GROUP]), numbers.map(str), odd_texts)
fields = st.dictionaries(st.sampled_from(FIELDS), values, max_size=14)

_PROPERTIES = """
KEYS TAGS UNIQ_KEY DELAY TIMER_DELIVER_MS TIMER_DELAY_SEC TIMER_DELAY_MS TRAN_MSG PGROUP
__STARTDELIVERTIME __SHARDINGKEY RETRY_TOPIC REAL_TOPIC REAL_QID ORIGIN_MESSAGE_ID TTL CLUSTER
CORRELATION_ID REPLY_TO_CLIENT MSG_TYPE CHECK_IMMUNITY_TIME_IN_SECONDS WAIT MSG_REGION POP_CK
""".split()  # noqa: SIM905 (words are easier to read than a list of texts)
properties = st.dictionaries(
    st.sampled_from(_PROPERTIES),
    values,
    max_size=6,
).map(lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()))

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.floats(), values),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(odd_texts, inner, max_size=3)),
    max_leaves=6,
)
_MEMBERS = """
clientID clientId consumerDataSet producerDataSet groupName subscriptionDataSet topic subString
subVersion tagsSet codeSet consumerGroup mqSet queueId brokerName acks c t q so b pt mode topicConfigList
groupConfigList topicName readQueueNums writeQueueNums perm attributes retryMaxTimes retryQueueNums
subscriptionData expressionType messageModel heartbeatFingerprint
""".split()  # noqa: SIM905 (words are easier to read than a list of texts)
objects = st.recursive(
    st.dictionaries(st.sampled_from(_MEMBERS), json_values, max_size=6),
    lambda inner: st.dictionaries(
        st.sampled_from(_MEMBERS), st.one_of(json_values, inner, st.lists(inner, max_size=2)), max_size=6
    ),
    max_leaves=4,
)
bodies = st.one_of(
    st.just(b""),
    st.binary(max_size=60),
    objects.map(lambda value: json.dumps(value).encode()),
    objects.map(lambda value: json.dumps(value).encode()[:-2]),
    st.sampled_from(
        [b"[" * 10_000, b'{"a":' * 10_000, b'{{"queueId":0}:1}', b"{0:1}", b"null", b"[]", b'""', b"\xff\xfe"]
    ),
    st.sampled_from([b'{"clientID":"\\ud800"}', b'{"clientID":1e999}', b'{"queueId":99999999999999999999}']),
)


def batch_body(*messages: tuple[int, bytes, bytes], cut: int = 0) -> bytes:
    """The body of a batch: flag, body and properties of each message; without its last `cut` bytes."""
    body = b"".join(
        struct.pack(">iiiii", 22 + len(text) + len(given), 0, 0, flag, len(text))
        + text
        + struct.pack(">h", len(given))
        + given
        for flag, text, given in messages
    )
    return body[: len(body) - cut]


def raw(address: str) -> socket.socket:
    """A connection that says what it is told to."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def frame(header: bytes, body: bytes = b"", *, kind: int = 0, **said: Any) -> bytes:
    """A frame; `said` may name a `length` or a `header_length` other than the real one."""
    header_length, length = said.get("header_length", len(header)), said.get("length", 4 + len(header) + len(body))
    return struct.pack(">II", length, (kind << 24) | header_length) + header + body


def is_closed(connection: socket.socket, seconds: float) -> bool:
    """True when the broker closes the connection within so long; what it says before is thrown away."""
    connection.settimeout(seconds)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def metrics_port(victim: BrokerProcess) -> str:
    """The port that the log names; after a restart it is another one."""
    return victim.log.split("figures and health on port ")[-1].split()[0]
