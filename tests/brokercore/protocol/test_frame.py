"""Frames: a length word, then that many bytes."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokercore.protocol import command
from brokercore.protocol.command import MAX_FRAME, FrameReader
from brokercore.protocol.errors import FrameError


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


@given(st.lists(st.binary(min_size=4, max_size=60), max_size=8), st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_it_finds_the_same_frames_however_the_stream_is_cut(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(framed(payload) for payload in payloads)
    reader, frames, position, turn = FrameReader(), [], 0, 0
    while position < len(stream):
        size = cuts[turn % len(cuts)]
        frames += reader.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    assert frames == payloads
    assert reader.pending == 0


def test_it_waits_for_the_rest_of_a_frame() -> None:
    reader = FrameReader()
    assert reader.feed(framed(b"abcdef")[:7]) == []
    assert reader.pending == 7
    assert reader.feed(b"def") == [b"abcdef"]


@given(st.lists(st.integers(1, 60_000), min_size=1, max_size=4), st.lists(st.integers(1, 30_000), min_size=1))
def test_it_finds_large_frames_however_the_stream_is_cut(sizes: list[int], cuts: list[int]) -> None:
    payloads = [bytes([number + 1]) * (size + 3) for number, size in enumerate(sizes)]
    stream = b"".join(framed(payload) for payload in payloads)
    reader, frames, position, turn = FrameReader(), [], 0, 0
    while position < len(stream):
        size = cuts[turn % len(cuts)]
        frames += reader.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    assert [bytes(command) for command in frames] == payloads
    assert reader.pending == 0


def test_many_small_pieces_of_a_frame_take_no_more_memory_than_the_frame() -> None:
    reader, size = FrameReader(), 1 << 20
    tracemalloc.start()
    reader.feed(size.to_bytes(4, "big"))
    for _ in range(0, size - 16, 8):
        reader.feed(b"12345678"[:8])
    # Of the reader alone: threads that other tests left at work take memory too.
    taken = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, command.__file__)])
    tracemalloc.stop()
    used = sum(trace.size for trace in taken.traces)
    assert size / 2 < used < 2 * size


def test_it_refuses_a_length_above_the_limit_before_the_payload_arrives() -> None:
    with pytest.raises(FrameError, match=str(MAX_FRAME + 1)):
        FrameReader().feed((MAX_FRAME + 1).to_bytes(4, "big"))


def test_it_refuses_a_length_above_the_limit_behind_a_good_frame() -> None:
    with pytest.raises(FrameError):
        FrameReader(limit=8).feed(framed(b"good") + framed(b"far too long"))


@pytest.mark.parametrize("length", [0, 3])
def test_it_refuses_a_frame_without_header_word(length: int) -> None:
    with pytest.raises(FrameError):
        FrameReader().feed(length.to_bytes(4, "big"))
