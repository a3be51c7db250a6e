"""The stored message frame."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokercore.protocol.errors import DecompressionError, MessageFormatError
from brokercore.protocol.ids import pack_host
from brokercore.protocol.message import (
    COMPRESSED_ZLIB,
    MAGIC_V2,
    StoredMessage,
    decode_stored,
    encode_stored,
)
from tests.brokercore.protocol import captured

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=12)
LONG = st.integers(0, 2**62)

MESSAGES = st.builds(
    StoredMessage,
    topic=st.text("abcXYZ%_-09", min_size=1, max_size=200),
    body=st.binary(max_size=100),
    properties=st.dictionaries(WORDS, WORDS, max_size=4),
    queue_id=st.integers(0, 1000),
    flag=st.integers(0, 100),
    queue_offset=LONG,
    physical_offset=LONG,
    born_timestamp=LONG,
    born_host=st.just(("10.1.2.3", 4567)),
    store_timestamp=LONG,
    store_host=st.just(("127.0.0.1", 10911)),
    reconsume_times=st.integers(0, 20),
    prepared_transaction_offset=LONG,
)
COMPARED = [name for name in StoredMessage.__dataclass_fields__ if name not in {"body_crc", "magic", "total_size"}]


@given(st.lists(MESSAGES, max_size=4))
def test_messages_come_back_as_they_were(messages: list[StoredMessage]) -> None:
    encoded = b"".join(message.encode() for message in messages)
    decoded = decode_stored(encoded)
    assert len(decoded) == len(messages)
    for before, after in zip(messages, decoded, strict=True):
        assert [getattr(after, name) for name in COMPARED] == [getattr(before, name) for name in COMPARED]
        assert after.body_crc == zlib.crc32(before.body) & 0x7FFFFFFF
        assert (after.magic == MAGIC_V2) == (len(before.topic) > 127)


def test_it_reads_a_captured_frame() -> None:
    (message,) = decode_stored(captured.STORED_FRAME)
    assert (message.topic, message.body, message.queue_id) == ("TopicA", b"async", 3)
    assert (message.queue_offset, message.physical_offset) == (0, 0x111)
    assert (message.born_host, message.store_host) == (("127.0.0.1", 53042), ("127.0.0.2", 20911))
    assert message.offset_message_id == "7F000002000051AF0000000000000111"
    assert message.body_crc == zlib.crc32(b"async") & 0x7FFFFFFF
    assert (message.tags, message.properties["MSG_REGION"]) == ("tagC", "DefaultRegion")


def test_ipv6_hosts_are_written_as_unknown_because_ons_client_misreads_them() -> None:
    message = StoredMessage("t", b"b", born_host=("2001:db8::1", 80))
    assert decode_stored(message.encode())[0].born_host == ("0.0.0.0", 80)
    assert pack_host("no address", 1) == b"\0\0\0\0\0\0\0\1"


def test_a_compressed_body_is_unpacked_and_kept_as_sent() -> None:
    message = StoredMessage("t", zlib.compress(b"x" * 5000), sys_flag=COMPRESSED_ZLIB)
    (read,) = decode_stored(message.encode())
    assert read.decoded_body() == b"x" * 5000
    assert len(read.body) < 100
    with pytest.raises(DecompressionError, match="4999"):
        read.decoded_body(limit=4999)


def test_a_copy_does_not_share_properties() -> None:
    message = StoredMessage("t", properties={"a": "1"})
    copied = message.copy(topic="u")
    copied.properties["a"] = "2"
    assert (message.properties, copied.topic) == ({"a": "1"}, "u")


def test_it_refuses_properties_that_do_not_fit() -> None:
    with pytest.raises(MessageFormatError):
        encode_stored(b"t", b"", b"x" * 32768)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_but_format_errors(data: bytes) -> None:
    try:
        decode_stored(data)
    except MessageFormatError:
        return
    assert data == b""


@given(MESSAGES, st.data())
def test_a_damaged_frame_is_read_or_refused(message: StoredMessage, data: st.DataObject) -> None:
    encoded = bytearray(message.encode())
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_stored(encoded[: data.draw(st.integers(0, len(encoded)))])
    except MessageFormatError:
        return
