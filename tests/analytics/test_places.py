"""Places that accounts share: the next one always finds one."""

from __future__ import annotations

import threading
import time

from analytics.confined import Places


def now() -> float:
    return time.monotonic()


def test_a_holder_has_all_but_one() -> None:
    places = Places(3)
    assert [places.acquire("mallory", now()) for _ in range(3)] == [True, True, False]
    assert places.acquire("bob", now())
    assert not places.acquire("alice", now()), "all three are taken"
    for holder in ("mallory", "mallory", "bob"):
        places.release(holder)
    assert places.are_free


def test_who_waits_gets_the_place_that_gets_free() -> None:
    places = Places(2)
    assert places.acquire("mallory", now())
    threading.Timer(0.2, places.release, ["mallory"]).start()
    assert places.acquire("mallory", now() + 30)


def test_no_more_threads_of_a_holder_wait_than_may() -> None:
    places = Places(2, most_waiting=1)
    assert places.acquire("mallory", now())
    waiting = threading.Thread(target=places.acquire, args=("mallory", now() + 60))
    waiting.start()
    while not places._waiting["mallory"]:
        time.sleep(0.01)
    began = now()
    assert not places.acquire("mallory", now() + 60)
    assert now() - began < 30, "at once"
    assert places.acquire("bob", now() + 60), "another holder's do not count"
    places.release("mallory")
    waiting.join(60)
    assert not waiting.is_alive()
