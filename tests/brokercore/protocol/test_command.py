"""Commands: JSON and ROCKETMQ headers."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokercore.protocol.command import JSON, ROCKETMQ, Command, decode
from brokercore.protocol.errors import FrameError
from tests.brokercore.protocol import captured

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)


def frame(header: bytes, body: bytes = b"", serialize: int = JSON) -> bytes:
    return ((serialize << 24) | len(header)).to_bytes(4, "big") + header + body


@given(
    st.builds(
        Command,
        code=st.integers(0, 30000),
        opaque=INT32,
        flag=st.integers(0, 3),
        language=st.sampled_from(["JAVA", "PYTHON", "GO"]),
        remark=st.one_of(st.none(), TEXT.filter(bool)),
        ext=st.dictionaries(TEXT, TEXT, max_size=5),
        body=st.binary(max_size=50),
        serialize=st.sampled_from([JSON, ROCKETMQ]),
    )
)
def test_a_command_comes_back_as_it_was(command: Command) -> None:
    encoded = command.encode()
    assert int.from_bytes(encoded[:4], "big") == len(encoded) - 4
    assert decode(encoded[4:]) == command


def test_it_reads_a_captured_java_request() -> None:
    command = decode(frame(captured.SEND_REQUEST_HEADER, b"hello"))
    assert (command.code, command.opaque, command.language, command.version) == (310, 4, "JAVA", 479)
    assert command.ext["i"].startswith("KEYS\x01key1 key2\x02")
    assert command.body == b"hello"
    assert not command.is_response


def test_it_reads_a_captured_binary_header() -> None:
    command = decode(frame(captured.ROUTE_BINARY_HEADER, serialize=ROCKETMQ))
    assert (command.code, command.language, command.version) == (105, "JAVA", 479)
    assert command.ext == {"topic": "TopicSql"}
    assert command.remark is None


def test_it_writes_the_binary_header_java_writes() -> None:
    command = Command(105, language="JAVA", ext={"topic": "TopicSql"}, serialize=ROCKETMQ)
    assert command.encode()[8:] == captured.ROUTE_BINARY_HEADER


def test_it_reads_headers_with_nulls_numbers_and_missing_keys() -> None:
    header = b'{"code":"34","opaque":3,"extFields":{"a":1,"b":null,"c":true,"d":"x"},"remark":null,"unknown":[]}'
    command = decode(frame(header))
    assert (command.code, command.opaque, command.flag) == (34, 3, 0)
    assert command.ext == {"a": "1", "c": "true", "d": "x"}


def test_a_response_echoes_opaque_and_is_json_even_to_a_binary_request() -> None:
    response = Command(105, opaque=77, serialize=ROCKETMQ).response(17, "no route", {"a": "b"}, b"body")
    assert (response.opaque, response.is_response, response.serialize) == (77, True, JSON)


def test_head_and_body_written_apart_are_the_whole_frame() -> None:
    command = Command(0, 5, 1, ext={"a": "b"}, body=b"long body")
    assert command.encode_head(len(command.body)) + command.body == command.encode()


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\0\0\0\x05{}",
        b"\2\0\0\2{}",
        frame(b"[]"),
        frame(b"{"),
        frame(b'{"code":[]}'),
        frame(b'{"code":"x"}'),
        frame(b'{"code":1,"opaque":99999999999}'),
        frame(b'{"extFields":5}'),
        frame(b"\xff\xfe"),
        frame(b"[" * 5000),
        frame(b"\0" * 10, serialize=ROCKETMQ),
        frame(captured.ROUTE_BINARY_HEADER[:-1], serialize=ROCKETMQ),
        frame(captured.ROUTE_BINARY_HEADER[:13] + b"\x7f\xff\xff\xff" + b"\0" * 8, serialize=ROCKETMQ),
    ],
)
def test_it_refuses_what_is_no_command(broken: bytes) -> None:
    with pytest.raises(FrameError):
        decode(broken)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_but_frame_errors(data: bytes) -> None:
    for candidate in (data, frame(data), frame(data, serialize=ROCKETMQ)):
        try:
            decode(candidate)
        except FrameError:
            continue


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXT,
    lambda x: st.lists(x) | st.dictionaries(TEXT, x),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["code", "opaque", "flag", "version", "language", "remark", "extFields"]), JSON_VALUES
    )
)
def test_any_json_header_is_read_or_refused(header: dict[str, object]) -> None:
    try:
        command = decode(frame(orjson.dumps(header)))
    except FrameError:
        return
    assert all(isinstance(value, str) for value in command.ext.values())
    assert command.encode()
