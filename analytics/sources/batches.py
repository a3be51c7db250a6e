"""Stored messages as Arrow batches: the columns of a table of schema `mq`."""

import itertools
from collections.abc import Iterable, Iterator

import pyarrow as pa

from brokercore.client import StoredMessage

#: Rows and body bytes of a batch: small enough to be given up soon when a statement is cancelled.
BATCH_ROWS = 4096
BATCH_BYTES = 8 * 1024**2

#: As Spark writes the schema; the console describes the same columns.
SCHEMA = (
    "broker string, queue int, offset bigint, message_id string, offset_message_id string, keys array<string>,"
    " tag string, properties map<string,string>, body string, body_binary binary, born_time timestamp,"
    " store_time timestamp, born_host string, reconsume_times int"
)
ARROW = pa.schema(
    [
        ("broker", pa.string()),
        ("queue", pa.int32()),
        ("offset", pa.int64()),
        ("message_id", pa.string()),
        ("offset_message_id", pa.string()),
        ("keys", pa.list_(pa.string())),
        ("tag", pa.string()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("body", pa.string()),
        ("body_binary", pa.binary()),
        ("born_time", pa.timestamp("us", "UTC")),
        ("store_time", pa.timestamp("us", "UTC")),
        ("born_host", pa.string()),
        ("reconsume_times", pa.int32()),
    ]
)


LARGEST_BODY = 8 << 20
"""Bytes that one body may unpack to; a client compresses what had 4 MiB at most."""


def batches(broker: str, lists: Iterable[list[StoredMessage]]) -> Iterator[pa.RecordBatch]:
    """The messages of one broker's queue, in batches of a few thousand."""
    held: list[tuple[StoredMessage, bytes]] = []
    size = 0
    for message in itertools.chain.from_iterable(lists):
        body = _unpacked(message)
        held.append((message, body))
        size += len(body)
        if len(held) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield _batch(broker, held)
            held, size = [], 0
    if held:
        yield _batch(broker, held)


def _batch(broker: str, rows: list[tuple[StoredMessage, bytes]]) -> pa.RecordBatch:
    """Messages and their unpacked bodies as one batch with the schema ARROW."""
    messages, bodies = zip(*rows, strict=True)
    columns = [
        [broker] * len(messages),
        [message.queue_id for message in messages],
        [message.queue_offset for message in messages],
        [message.unique_id or message.offset_message_id for message in messages],
        [message.offset_message_id for message in messages],
        [message.keys.split() or None for message in messages],
        [message.tags or None for message in messages],
        [list(message.properties.items()) for message in messages],
        [_text(body) for body in bodies],
        bodies,
        [message.born_timestamp * 1000 for message in messages],
        [message.store_timestamp * 1000 for message in messages],
        [f"{message.born_host[0]}:{message.born_host[1]}" for message in messages],
        [message.reconsume_times for message in messages],
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW)


def _unpacked(message: StoredMessage) -> bytes:
    """The body as it was produced; one that cannot be unpacked is given as it is stored, as the message page does."""
    try:
        return message.decoded_body(LARGEST_BODY)
    except ValueError:
        return message.body


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None
