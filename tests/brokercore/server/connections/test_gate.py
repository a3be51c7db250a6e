"""The gate: how many connections there may be, and what a look at slow peers does."""

from __future__ import annotations

import asyncio
import resource

from brokercore.protocol.command import MAX_FRAME
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.fairness import Rounds
from brokercore.server.connections.gate import (
    FRAME_SECONDS,
    READ_SECONDS,
    STRANGER_FRAME,
    STRANGERS_HOLD,
    Gate,
    most_connections,
)
from brokercore.server.connections.write_batching import Turn


class Peer(Connection):
    """A connection without a socket, which tells that it was closed."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(
            lambda *_: None, lambda _: None, Turn(asyncio.get_running_loop()), Rounds(asyncio.get_running_loop()), gate
        )
        self.closed = False

    def abort(self) -> None:
        self.closed = True


def test_one_connection_too_many_is_closed_at_once() -> None:
    async def scene() -> None:
        gate = Gate()
        gate.most = 1
        first, second = Peer(gate), Peer(gate)
        assert gate.enter(first, 0)
        gate.known(first)
        assert not gate.enter(second, 1)
        assert (first.closed, second.closed, gate.refused, gate.strangers) == (False, True, 1, 0)

    asyncio.run(scene())


def test_strangers_make_room_for_each_other_and_never_take_that_of_others() -> None:
    async def scene() -> None:
        gate = Gate()
        gate.most = 8
        strangers = [Peer(gate) for _ in range(3)]
        for number, stranger in enumerate(strangers):
            assert gate.enter(stranger, number)
        assert [stranger.closed for stranger in strangers] == [True, False, False]
        assert (gate.refused, gate.turned_out, gate.strangers) == (0, 1, 2)

    asyncio.run(scene())


def test_a_stranger_has_small_frames_until_it_is_known() -> None:
    async def scene() -> None:
        gate = Gate()
        peer = Peer(gate)
        gate.enter(peer, 0)
        assert (peer._reader.limit, gate.strangers) == (STRANGER_FRAME, 1)
        gate.known(peer)
        assert (peer._reader.limit, peer.stranger, gate.strangers) == (MAX_FRAME, False, 0)

    asyncio.run(scene())


def test_the_stranger_that_has_been_there_longest_makes_room() -> None:
    async def scene() -> None:
        gate = Gate()
        peers = [Peer(gate) for _ in range(3)]
        for peer in peers:
            gate.enter(peer, 0)
        gate.holds(peers[1], STRANGERS_HOLD - 10)
        gate.holds(peers[2], 20)
        assert [peer.closed for peer in peers] == [False, True, False]
        gate.holds(peers[2], STRANGERS_HOLD)
        assert not peers[2].closed

    asyncio.run(scene())


def test_a_look_closes_who_does_not_finish_or_does_not_read() -> None:
    async def scene() -> None:
        gate = Gate()
        slow, deaf, fine = Peer(gate), Peer(gate), Peer(gate)
        for peer in (slow, deaf, fine):
            peer.opened_at = asyncio.get_running_loop().time()
            gate.enter(peer, 0)
            gate.known(peer)
        now = asyncio.get_running_loop().time()
        slow.frame_began, deaf.unread_since = now - FRAME_SECONDS - 1, now - READ_SECONDS - 1
        gate.sweep({slow, deaf, fine})
        assert (slow.closed, deaf.closed, fine.closed) == (True, True, False)

    asyncio.run(scene())


def test_the_limit_of_open_files_is_raised_as_far_as_it_goes() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(256, before[0] // 2), before[1]))
        most = most_connections()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert hard in (soft, resource.RLIM_INFINITY)
        assert 0 < most < soft
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
