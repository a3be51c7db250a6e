"""The shares of a round: one account's flood waits, everybody else goes on."""

from __future__ import annotations

import asyncio
from functools import partial

from brokercore.server.connections.fairness import (
    ALONE_SECONDS,
    LINES_SECONDS,
    MOST_UNSTORED_BYTES,
    PART_SECONDS,
    ROUND_SECONDS,
    Rounds,
    Share,
)


def crowded() -> Rounds:
    """Rounds in which several accounts ask for something."""
    loop = asyncio.get_running_loop()
    rounds = Rounds(loop)
    rounds.others(Share(), loop.time())
    return rounds


async def test_who_has_used_its_share_up_waits_for_the_next_round() -> None:
    rounds, share, taken = crowded(), Share(), asyncio.Event()
    rounds.spent(share, ROUND_SECONDS)
    assert share.is_used_up
    rounds.wait(share, taken.set)
    assert share.is_used_up, "whoever comes now is not served before those who wait"
    await taken.wait()
    assert not share.is_used_up


async def test_whoever_asks_for_little_is_not_looked_after_at_all() -> None:
    rounds, share = crowded(), Share()
    rounds.spent(share, ROUND_SECONDS / 4)
    assert not share.is_used_up
    assert not rounds._scheduled, "a round of its own would cost more than the request"


async def test_whoever_waits_has_its_turn_whatever_took_its_share() -> None:
    rounds, share, taken = crowded(), Share(), asyncio.Event()
    share.left -= 2 * ROUND_SECONDS  # as a request does on a connection whose share is another one so far
    rounds.wait(share, taken.set)
    async with asyncio.timeout(5):
        await taken.wait()


async def test_a_request_that_took_long_is_paid_for_in_the_following_rounds() -> None:
    rounds, share, order = crowded(), Share(), list[str]()
    rounds.spent(share, 5 * ROUND_SECONDS)
    rounds.wait(share, partial(order.append, "account"))
    for _ in range(10):
        await asyncio.sleep(0)
        order.append("others")
    assert 4 <= order.index("account") < 10


async def test_accounts_in_the_line_are_served_by_turns_however_many_wait_for_one() -> None:
    rounds, many, one, order = crowded(), Share(), Share(), list[str]()
    done = asyncio.Event()

    def take(share: Share, name: str) -> None:
        order.append(name)
        rounds.spent(share, PART_SECONDS)
        if name == "one":
            done.set()

    for _ in range(100):
        rounds.wait(many, partial(take, many, "many"))
    rounds.wait(one, partial(take, one, "one"))
    await done.wait()
    assert order[:2] == ["many", "one"]


async def test_the_lines_of_all_accounts_together_leave_a_round_in_bounds() -> None:
    loop = asyncio.get_running_loop()
    rounds, shares = crowded(), [Share() for _ in range(50)]
    served = [0]

    def take(share: Share) -> None:
        served[0] += 1
        until = loop.time() + PART_SECONDS
        while loop.time() < until:
            pass
        rounds.spent(share, PART_SECONDS)

    for share in shares:
        rounds.wait(share, partial(take, share))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 0 < served[0] <= 2 * LINES_SECONDS / PART_SECONDS


async def test_an_account_that_is_alone_has_longer_rounds() -> None:
    rounds, share = Rounds(asyncio.get_running_loop()), Share()
    rounds.spent(share, ROUND_SECONDS)
    await asyncio.sleep(0)
    assert share.left == ALONE_SECONDS


async def test_what_fails_in_the_line_keeps_nobody_else_waiting() -> None:
    rounds, share, taken = crowded(), Share(), asyncio.Event()

    def fail() -> None:
        raise ValueError("this peer is odd")

    rounds.wait(share, fail)
    rounds.wait(share, taken.set)
    await taken.wait()


async def test_a_call_that_was_given_up_while_it_waited_takes_nobodys_turn() -> None:
    rounds, share = crowded(), Share()
    rounds.spent(share, ROUND_SECONDS)
    given_up = asyncio.ensure_future(rounds.turn(share, PART_SECONDS))
    await asyncio.sleep(0)
    given_up.cancel()
    await rounds.turn(share, PART_SECONDS)


async def test_an_account_whose_large_messages_are_on_their_way_waits_for_them_without_turning_the_loop() -> None:
    rounds, share, taken = crowded(), Share(), asyncio.Event()
    share.unstored = MOST_UNSTORED_BYTES + 1
    assert share.is_used_up
    rounds.wait(share, taken.set)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not taken.is_set()
    assert not rounds._scheduled, "there is nothing to do until Redis answers"
    rounds.stored(share, 1)
    await taken.wait()
