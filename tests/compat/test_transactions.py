"""Transactional messages: committed ones come, rolled back ones never, open ones are asked for."""

from __future__ import annotations

from tests.compat.long_runs import LONG_SECONDS, Transaction
from tests.compat.world import World
from tests.support.broker import eventually


def test_ons_client_commits_rolls_back_and_commits_after_a_check(
    world: World, transaction_runs: dict[str, Transaction]
) -> None:
    run = transaction_runs["Ons"]
    run.consumer.wait_received(["commit", "unknown"], LONG_SECONDS)
    # Apache RocketMQ may ask about one whose end it has only just been told.
    checked = next(event for event in run.producer.named("checked") if event["body"] == "unknown")
    assert checked["topic"] == run.topic
    assert world.deliveries(run.consumer.bodies()) == ["commit", "unknown"]
    eventually(lambda: world.message_count(run.topic) == len(run.consumer.bodies()))


def test_rocketmq_client_commits_rolls_back_and_rolls_back_after_a_check(
    world: World, transaction_runs: dict[str, Transaction]
) -> None:
    run = transaction_runs["Apache"]
    run.consumer.wait_received(["commit"], LONG_SECONDS)
    asked = run.producer.named
    run.producer.wait_until(lambda: "unknown" in {e["body"] for e in asked("checked")}, "a check", LONG_SECONDS)
    assert world.deliveries(run.consumer.bodies()) == ["commit"]
    eventually(lambda: world.message_count(run.topic) == len(run.consumer.bodies()))


def test_a_half_message_keeps_its_id(transaction_runs: dict[str, Transaction]) -> None:
    run = transaction_runs["Ons"]
    run.consumer.wait_received(["commit"], LONG_SECONDS)
    sent_ids = {e["body"]: e["id"] for e in run.producer.named("sent")}
    received_ids = {e["body"]: e["id"] for e in run.consumer.named("received")}
    assert received_ids["commit"] == sent_ids["commit"]
