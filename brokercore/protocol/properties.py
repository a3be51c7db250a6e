"""Message properties: `name U+0001 value U+0002` repeated, the names the protocol itself uses, and delay levels.

A delay level is a step of a later delivery: a producer asks for one by DELAY, and what a group failed on comes again by
them, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokercore.protocol.errors import MessageFormatError

MAX_PROPERTIES = 32767
"""Largest encoded property string in bytes: its length is a signed int16."""

KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
UNIQUE_KEY = "UNIQ_KEY"
DELAY = "DELAY"
TIMER_DELAY_SECONDS = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
START_DELIVER_TIME = "__STARTDELIVERTIME"
SHARDING_KEY = "__SHARDINGKEY"
INSTANCE_ID = "INSTANCE_ID"
RETRY_TOPIC = "RETRY_TOPIC"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
MIN_OFFSET = "MIN_OFFSET"
MAX_OFFSET = "MAX_OFFSET"
TRANSACTION_PREPARED = "TRAN_MSG"
PRODUCER_GROUP = "PGROUP"
SENDER_ACCOUNT = "__SENDER_ACCOUNT"
"""Of a half message, while it waits: the account that sent it, which alone may end it and is asked about it."""

TRANSACTION_ID = "__transactionId__"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
CHECK_IMMUNITY_TIME = "CHECK_IMMUNITY_TIME_IN_SECONDS"
MESSAGE_REGION = "MSG_REGION"
TRACE_SWITCH = "TRACE_ON"
CLUSTER = "CLUSTER"
MESSAGE_TYPE = "MSG_TYPE"
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TIME_TO_LIVE = "TTL"
TRACE_CONTEXT = "TRACE_CONTEXT"

SYSTEM_NAMES = frozenset(
    {
        KEYS, TAGS, WAIT, UNIQUE_KEY, DELAY, TIMER_DELAY_SECONDS,
        TIMER_DELAY_MS, TIMER_DELIVER_MS, START_DELIVER_TIME, SHARDING_KEY, INSTANCE_ID,
        RETRY_TOPIC, REAL_TOPIC, REAL_QUEUE_ID, ORIGIN_MESSAGE_ID, RECONSUME_TIME,
        MAX_RECONSUME_TIMES, MIN_OFFSET, MAX_OFFSET, TRANSACTION_PREPARED,
        PRODUCER_GROUP, TRANSACTION_ID, TRANSACTION_CHECK_TIMES, CHECK_IMMUNITY_TIME,
        TRANSACTION_PREPARED_QUEUE_OFFSET, MESSAGE_REGION, TRACE_SWITCH, CLUSTER,
        MESSAGE_TYPE, CORRELATION_ID, REPLY_TO_CLIENT, TIME_TO_LIVE, TRACE_CONTEXT,
        "BUYER_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "CONSUME_START_TIME", "POP_CK", "POP_CK_OFFSET",
        "1ST_POP_TIME", "DUP_INFO", "EXTEND_UNIQ_INFO", "ARRIVE_TIME", "PUSH_REPLY_TIME", "INNER_MULTI_QUEUE_OFFSET",
        "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY",
        "TIMER_DELAY_LEVEL", "__BORNHOST", "BORN_TIMESTAMP", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "__CRC32#",
    }
)  # fmt: skip
"""Properties that are the broker's business: a user can set none of them, and is shown none (MessageConst)."""

LEVEL_SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""How long each delay level waits; level 1 is the first."""

LEVELS = len(LEVEL_SECONDS)

MAX_DELAY_SECONDS = 40 * 86_400
"""The furthest a message may be scheduled (ONS: 40 days)."""

_UNITS = ((3600, "h"), (60, "m"), (1, "s"))


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The property string as UTF-8. Empty values are left out, as Java drops them on reading.

    Raises MessageFormatError for a separator inside a name or value and above 32767 bytes.
    """
    parts = []
    for name, value in properties.items():
        if not name or not value:
            continue
        if "\x01" in name or "\x02" in name or "\x01" in value or "\x02" in value:
            raise MessageFormatError(f"property {name!r} contains U+0001 or U+0002, which separate properties")
        parts.append(f"{name}\x01{value}\x02")
    data = "".join(parts).encode()
    if len(data) > MAX_PROPERTIES:
        raise MessageFormatError(f"properties of {len(data)} bytes are longer than {MAX_PROPERTIES} bytes")
    return data


def decode_text(data: bytes) -> str:
    """A property string as text. Raises MessageFormatError when it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise MessageFormatError("the property string is not UTF-8") from None


def decode_properties(data: bytes | str) -> dict[str, str]:
    """Read a property string as Java does: entries without name or value are dropped, the last of a name wins.

    Raises MessageFormatError when the bytes are not UTF-8.
    """
    if not isinstance(data, str):
        data = decode_text(data)
    properties: dict[str, str] = {}
    for entry in data.split("\x02"):
        name, separator, value = entry.partition("\x01")
        if separator and name and value and "\x01" not in value:
            properties[name] = value
    return properties


def levels_text() -> str:
    """The levels as a broker's configuration writes them: `1s 5s … 2h`."""
    return " ".join(_text(seconds) for seconds in LEVEL_SECONDS)


def _text(seconds: int) -> str:
    return next(f"{seconds // length}{unit}" for length, unit in _UNITS if seconds % length == 0)
