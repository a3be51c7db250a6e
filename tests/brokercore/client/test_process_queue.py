"""What offset may be committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brokercore.client.process_queue import MAX_CACHED_BYTES, MAX_CACHED_MESSAGES, ProcessQueue
from brokercore.protocol.message import StoredMessage
from brokercore.protocol.message_queue import MessageQueue

QUEUE = MessageQueue("t", "b", 0)


def message(offset: int) -> StoredMessage:
    return StoredMessage("t", queue_offset=offset, total_size=10)


def test_the_first_unfinished_message_holds_the_offset_back() -> None:
    item = ProcessQueue(QUEUE, 5)
    assert item.commit_offset == 5
    item.add([message(5), message(6), message(8)], 9)
    item.finish(6)
    assert (item.commit_offset, item.pull_offset) == (5, 9)
    item.finish(5)
    assert item.commit_offset == 8
    item.finish(8)
    assert item.commit_offset == 9


def test_filtered_messages_are_committed_over() -> None:
    item = ProcessQueue(QUEUE, 0)
    item.add([], 100)
    assert item.commit_offset == 100


def test_it_is_full_at_its_limit() -> None:
    item = ProcessQueue(QUEUE, 0)
    item.add([message(offset) for offset in range(MAX_CACHED_MESSAGES)], MAX_CACHED_MESSAGES)
    full = item.is_full
    item.finish(0)
    assert (full, item.is_full) == (True, False)
    assert item.info()["cachedMsgCount"] == MAX_CACHED_MESSAGES - 1


def test_few_large_messages_fill_it_too() -> None:
    """Some 4 MB each, a thousand of them would be the memory of a machine."""
    item, size = ProcessQueue(QUEUE, 0), MAX_CACHED_BYTES // 4
    item.add([StoredMessage("t", queue_offset=offset, total_size=size) for offset in range(3)], 3)
    states = [item.is_full]
    item.add([StoredMessage("t", queue_offset=3, total_size=size)], 4)
    states.append(item.is_full)
    item.finish(2)
    states.append(item.is_full)
    assert states == [False, True, False]


@given(st.permutations(range(6)))
def test_nothing_unfinished_is_ever_below_the_commit_offset(order: list[int]) -> None:
    item = ProcessQueue(QUEUE, 0)
    item.add([message(offset) for offset in range(6)], 6)
    left = set(range(6))
    for offset in order:
        item.finish(offset)
        left.discard(offset)
        assert item.commit_offset == min(left, default=6)
