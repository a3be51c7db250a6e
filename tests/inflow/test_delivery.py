"""What becomes of a batch of events on its way to messages, with a target and a clock of the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from analytics.inflow.delivery import (
    CUT,
    REASON,
    TASK,
    TRIES,
    Count,
    Delivery,
    Flow,
    Misset,
    Outgoing,
    RetryPolicy,
    Stopped,
    Undelivered,
    text_of,
)
from analytics.inflow.fields import MAX_BODY, Fields
from analytics.inflow.pattern import Pattern
from analytics.inflow.transform import Event, Transformed, TransformFailed

Refuse = Callable[[Sequence[Outgoing]], None]
EXPONENTIAL = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, *[512.0] * 167]


@dataclass
class Sent:
    """A target that keeps what it gets. `refuse` and `refuse_dead` may raise instead."""

    refuse: Refuse = lambda messages: None
    refuse_dead: Callable[[int], None] = lambda tries: None
    messages: list[Outgoing] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)
    dead: list[tuple[bytes, Mapping[str, str]]] = field(default_factory=list)
    dead_tries: int = 0

    def send(self, messages: Sequence[Outgoing]) -> None:
        self.requests.append(len(messages))
        try:
            self.refuse(messages)
        except Undelivered as error:
            self.messages += [messages[place] for place in sorted(error.done)]
            raise
        self.messages += messages

    def send_dead(self, body: bytes, properties: Mapping[str, str]) -> None:
        self.dead_tries += 1
        self.refuse_dead(self.dead_tries)
        self.dead.append((body, properties))

    @property
    def bodies(self) -> list[bytes]:
        return [one.message.body for one in self.messages]


@dataclass
class Clock:
    """Pauses that take no time, and what was told of them."""

    taken: list[float] = field(default_factory=list)
    told: list[tuple[int, str]] = field(default_factory=list)
    ends: int = 0
    after: Callable[[], None] = lambda: None

    def take(self, seconds: float, tries: int, reason: str) -> None:
        self.taken.append(seconds)
        self.told.append((tries, reason))
        self.after()

    def end(self) -> None:
        self.ends += 1


@dataclass
class Scripted:
    """A transform that does what the test says."""

    work: Callable[[Sequence[Event]], Transformed]
    batches: list[int] = field(default_factory=list)

    def apply(self, events: Sequence[Event]) -> Transformed:
        self.batches.append(len(events))
        return self.work(events)

    def close(self) -> None: ...


def event(number: int, table: str = "orders", **more: Any) -> bytes:
    found = {"id": f"e{number}", "subject": f"shop.{table}", "data": {"n": number, "tableName": table}}
    return json.dumps(found | more).encode()


BY_NUMBER = Fields.compile({"body": {"method": "data_extraction", "path": "$.data.n"}})
FLOW = Flow("orders-to-topic", BY_NUMBER)


def deliver(flow: Flow, batch: Sequence[bytes], target: Sent, clock: Clock | None = None) -> Delivery:
    with Delivery(flow, target, clock or Clock()) as delivery:
        delivery.deliver(batch)
    return delivery


def numbers(*found: int) -> list[bytes]:
    return [b"%d" % number for number in found]


def refusing(*bodies: bytes, may_pass: bool = False) -> Refuse:
    """Refuse each request that has one of these."""

    def refuse(messages: Sequence[Outgoing]) -> None:
        if any(one.message.body in bodies for one in messages):
            raise Undelivered("The broker does not take it.", may_pass=may_pass)

    return refuse


def away(times: int) -> Refuse:
    """Refuse so many requests."""
    left = [times]

    def refuse(messages: Sequence[Outgoing]) -> None:
        if left[0]:
            left[0] -= 1
            raise Undelivered("No broker answers.", may_pass=True)

    return refuse


def test_what_passes_the_pattern_is_built_and_delivered_in_its_order_and_the_rest_is_counted() -> None:
    flow = replace(FLOW, pattern=Pattern.compile('{"data": {"tableName": ["orders"]}}'))
    target = Sent()
    delivery = deliver(flow, [event(1), event(2, "items"), event(3)], target)
    assert target.bodies == numbers(1, 3)
    assert target.requests == [2]
    assert delivery.counts == {Count.READ: 3, Count.FILTERED: 1, Count.DELIVERED: 2}


def test_nothing_is_sent_of_an_empty_batch_and_of_one_of_which_nothing_passes() -> None:
    target = Sent()
    deliver(replace(FLOW, pattern=Pattern.compile('{"data": {"n": [7]}}')), [event(1)], target)
    deliver(FLOW, [], target)
    assert target.requests == []


def test_a_batch_is_sent_in_chunks_of_limited_number_and_size() -> None:
    target = Sent()
    delivery = deliver(FLOW, [event(number) for number in range(1200)], target)
    assert target.requests == [500, 500, 200]
    assert target.bodies == numbers(*range(1200))
    assert delivery.counts[Count.DELIVERED] == 1200
    whole = replace(FLOW, builder=Fields.compile({"body": {"method": "complete_data"}}))
    large = Sent()
    deliver(whole, [event(number, padding="x" * 400_000) for number in range(5)], large)
    assert large.requests == [2, 2, 1]


def test_messages_bear_the_topic_that_a_transform_names_without_its_field() -> None:
    def work(events: Sequence[Event]) -> Transformed:
        return Transformed([one | {"gantrytopic": f"to_{one['data']['n']}"} for one in events], [0, 1])

    whole = replace(
        FLOW, builder=Fields.compile({"body": {"method": "complete_data"}}), transform=Scripted(work),
        routes=frozenset(("to_1", "to_2")),
    )  # fmt: skip
    target = Sent()
    deliver(whole, [event(1), event(2)], target)
    assert [one.topic for one in target.messages] == ["to_1", "to_2"]
    assert [json.loads(body) for body in target.bodies] == [json.loads(event(1)), json.loads(event(2))]


def test_an_event_that_names_a_topic_which_is_no_route_fails() -> None:
    def work(events: Sequence[Event]) -> Transformed:
        return Transformed([one | {"gantrytopic": name} for one in events for name in ("elsewhere", None)], [0, 0])

    target = Sent()
    deliver(replace(FLOW, transform=Scripted(work), has_dead_letters=True), [event(1)], target)
    assert [one.topic for one in target.messages] == [None]
    ((body, properties),) = target.dead
    assert body == event(1)
    assert properties[REASON] == "The event names the topic elsewhere, which is none of the task's routes."


def test_messages_of_one_key_have_one_order_and_those_without_a_key_that_of_their_subject() -> None:
    keyed: dict[str, Any] = {"data": {"n": 1, "primaryKey": {"b": 2, "a": 1}}}
    batch = [event(1, **keyed), event(2), event(3, subject=None), event(4, data={"n": 4, "primaryKey": {}})]
    target = Sent()
    deliver(replace(FLOW, is_ordered=True), batch, target)
    orders = ['shop.orders {"a": 1, "b": 2}', "shop.orders", "all", "shop.orders"]
    assert [one.order for one in target.messages] == orders
    deliver(FLOW, batch, unordered := Sent())
    assert {one.order for one in unordered.messages} == {""}
    deliver(replace(FLOW, is_ordered=True), [event(1, **keyed, partitionkey="broker-a:2")], named := Sent())
    assert [one.order for one in named.messages] == ['shop.orders "broker-a:2"']


# Transforms


def test_a_transform_may_split_drop_and_fail_single_events() -> None:
    def work(events: Sequence[Event]) -> Transformed:
        halves = [events[0] | {"data": {"n": number}} for number in (10, 11)]
        return Transformed(halves, [0, 0], {2: "It has no total."})

    target = Sent()
    flow = replace(FLOW, transform=Scripted(work), has_dead_letters=True)
    delivery = deliver(flow, [event(1), event(2), event(3)], target)
    assert target.bodies == numbers(10, 11)
    (dead,) = target.dead
    assert dead == (event(3), {TASK: "orders-to-topic", REASON: "It has no total.", TRIES: "1"})
    counted = {Count.READ: 3, Count.TRANSFORMED: 2, Count.DELIVERED: 2, Count.FAILED: 1, Count.DEAD: 1}
    assert {name: count for name, count in delivery.counts.items() if count} == counted


def test_an_event_that_ends_a_transform_fails_alone_and_the_others_are_transformed_without_it() -> None:
    def work(events: Sequence[Event]) -> Transformed:
        bad = next((place for place, one in enumerate(events) if one["data"]["n"] in (2, 4)), None)
        if bad is not None:
            raise TransformFailed("It takes too long.", index=bad)
        return Transformed(list(events), list(range(len(events))))

    transform, target = Scripted(work), Sent()
    deliver(replace(FLOW, transform=transform, has_dead_letters=True), [event(n) for n in range(1, 6)], target)
    assert transform.batches == [5, 4, 3]
    assert target.bodies == numbers(1, 3, 5)
    assert [body for body, _ in target.dead] == [event(2), event(4)]


def test_a_batch_that_cannot_be_transformed_fails_as_a_whole() -> None:
    def work(events: Sequence[Event]) -> Transformed:
        raise TransformFailed("The answer is no JSON.")

    target, clock = Sent(), Clock()
    delivery = deliver(replace(FLOW, transform=Scripted(work)), [event(1), event(2)], target, clock)
    assert target.requests == [] and target.dead == [] and clock.taken == []
    assert delivery.counts[Count.FAILED] == delivery.counts[Count.DISCARDED] == 2


@pytest.mark.parametrize("times", [2, 9])
def test_a_function_that_does_not_answer_is_asked_again_by_the_policy(times: int) -> None:
    left = [times]

    def work(events: Sequence[Event]) -> Transformed:
        if left[0]:
            left[0] -= 1
            raise TransformFailed("It answered 503.", retryable=True)
        return Transformed(list(events), [None] * len(events))

    target, clock = Sent(), Clock()
    transform = Scripted(work)
    delivery = deliver(replace(FLOW, transform=transform, has_dead_letters=True), [event(1)], target, clock)
    assert len(transform.batches) == min(times + 1, 4)
    assert clock.told == [(tries, "It answered 503.") for tries in range(1, min(times, 3) + 1)]
    assert clock.ends >= 1
    assert delivery.counts[Count.RETRIED] == len(clock.taken)
    assert len(target.messages) == (times == 2)
    assert [properties[TRIES] for _, properties in target.dead] == ([] if times == 2 else ["4"])


def test_of_a_function_whose_events_have_other_ids_the_dead_letter_is_what_it_made() -> None:
    def work(events: Sequence[Event]) -> Transformed:
        return Transformed([{"id": "e1"}, {"id": "new", "data": {}}], [None, None])

    target = Sent()
    deliver(replace(FLOW, transform=Scripted(work), has_dead_letters=True), [event(1)], target)
    assert [body for body, _ in target.dead] == [event(1), b'{"id":"new","data":{}}']


# Retries


def test_the_policies_have_the_pauses_of_the_specification() -> None:
    assert list(RetryPolicy.EXPONENTIAL.pauses_s()) == EXPONENTIAL
    assert len(EXPONENTIAL) == RetryPolicy.EXPONENTIAL.retries == 176
    assert 86_000 < sum(EXPONENTIAL) < 86_400
    drawn = [pause for _ in range(200) for pause in RetryPolicy.BACKOFF.pauses_s()]
    assert len(drawn) == 600 and min(drawn) >= 10 and max(drawn) <= 20 and max(drawn) - min(drawn) > 5


@pytest.mark.parametrize("policy", RetryPolicy)
def test_what_may_pass_is_tried_again_until_it_has(policy: RetryPolicy) -> None:
    target, clock = Sent(away(policy.retries)), Clock()
    delivery = deliver(replace(FLOW, retry=policy, allows_faults=False), [event(1)], target, clock)
    assert target.bodies == numbers(1)
    assert len(clock.taken) == policy.retries
    assert clock.told[-1] == (policy.retries, "No broker answers.")
    assert clock.ends >= 1
    assert delivery.counts[Count.RETRIED] == policy.retries and delivery.counts[Count.DELIVERED] == 1


@pytest.mark.parametrize("policy", RetryPolicy)
def test_after_the_last_retry_what_is_left_fails_with_the_number_of_tries(policy: RetryPolicy) -> None:
    target, clock = Sent(refusing(b"1", may_pass=True)), Clock()
    delivery = deliver(replace(FLOW, retry=policy, has_dead_letters=True), [event(1), event(2)], target, clock)
    assert target.messages == []
    assert [(body, found[TRIES]) for body, found in target.dead] == [
        (event(1), f"{policy.retries + 1}"), (event(2), f"{policy.retries + 1}"),
    ]  # fmt: skip
    assert delivery.counts[Count.DEAD] == 2
    if policy is RetryPolicy.EXPONENTIAL:
        assert clock.taken == EXPONENTIAL


def test_only_what_was_not_taken_is_sent_again() -> None:
    failed = [False]

    def refuse(messages: Sequence[Outgoing]) -> None:
        if not failed[0]:
            failed[0] = True
            raise Undelivered("No broker answers.", may_pass=True, done=[0, 2])

    target = Sent(refuse)
    delivery = deliver(FLOW, [event(n) for n in range(4)], target)
    assert target.requests == [4, 2]
    assert target.bodies == numbers(0, 2, 1, 3)
    assert delivery.counts[Count.DELIVERED] == 4


def test_a_task_that_is_ended_in_a_pause_delivers_nothing_more() -> None:
    class EndedError(Exception):
        pass

    def end() -> None:
        raise EndedError

    target = Sent(away(1))
    with pytest.raises(EndedError):
        deliver(FLOW, [event(1)], target, clock := Clock(after=end))
    assert target.messages == [] and clock.ends == 1


# Faults


def test_one_bad_message_of_a_chunk_fails_alone() -> None:
    target, clock = Sent(refusing(b"37")), Clock()
    delivery = deliver(replace(FLOW, has_dead_letters=True), [event(n) for n in range(100)], target, clock)
    assert target.bodies == numbers(*(n for n in range(100) if n != 37))
    assert [body for body, _ in target.dead] == [event(37)]
    assert clock.taken == []
    assert len(target.requests) < 20
    assert delivery.counts[Count.FAILED] == 1 and delivery.counts[Count.DELIVERED] == 99


def test_faults_without_a_dead_letter_topic_discard_the_event_and_go_on() -> None:
    target = Sent(refusing(b"1"))
    delivery = deliver(FLOW, [event(0), event(1), event(2), event(3, data={}), b"[]", b"{"], target)
    assert target.bodies == numbers(0, 2)
    assert target.dead == []
    assert delivery.counts[Count.FAILED] == delivery.counts[Count.DISCARDED] == 4


def test_a_dead_letter_has_the_event_and_the_reason_without_control_characters() -> None:
    def refuse(messages: Sequence[Outgoing]) -> None:
        raise Undelivered("The broker said:\n\x01no. " + "x" * 2000, may_pass=False)

    target = Sent(refuse)
    deliver(replace(FLOW, has_dead_letters=True), [event(1)], target)
    ((body, properties),) = target.dead
    assert body == event(1)
    assert properties[REASON].startswith("The broker said:  no. xxx") and len(properties[REASON]) == 1000


def test_of_an_event_that_no_message_can_hold_the_dead_letter_has_the_attributes() -> None:
    def refuse(messages: Sequence[Outgoing]) -> None:
        raise Undelivered("It is too large.", may_pass=False)

    target = Sent(refuse)
    large = event(1, more="x" * MAX_BODY, time="2026-01-15T00:00:00Z")
    deliver(replace(FLOW, has_dead_letters=True), [large], target)
    ((body, properties),) = target.dead
    assert json.loads(body) == {"id": "e1", "subject": "shop.orders", "time": "2026-01-15T00:00:00Z"}
    assert properties[CUT] == str(len(large))


def test_prohibited_faults_stop_the_task_at_the_first_of_them() -> None:
    target = Sent(refusing(b"2"))
    delivery = Delivery(replace(FLOW, allows_faults=False, has_dead_letters=True), target, Clock())
    with pytest.raises(Stopped, match=r"the task allows no faults: The broker does not take it\."), delivery:
        delivery.deliver([event(n) for n in range(5)])
    assert target.bodies == numbers(0, 1)
    assert target.dead == []
    assert delivery.counts[Count.FAILED] == 1 and delivery.counts[Count.DELIVERED] == 2


def test_prohibited_faults_deliver_what_was_built_before_the_event_that_cannot_be() -> None:
    target = Sent()
    with pytest.raises(Stopped, match=r"allows no faults: body: "):
        deliver(replace(FLOW, allows_faults=False), [event(0), event(1), event(2, data={}), event(3)], target)
    assert target.bodies == numbers(0, 1)


def test_an_event_that_says_itself_what_is_wrong_with_it_is_a_dead_letter_without_that_word() -> None:
    target = Sent()
    flow = replace(FLOW, has_dead_letters=True, pattern=Pattern.compile('{"data": {"tableName": ["items"]}}'))
    delivery = deliver(flow, [event(1, "items"), event(2, gantryfault="It is no JSON.")], target)
    assert target.bodies == numbers(1)
    ((body, properties),) = target.dead
    assert (json.loads(body), properties[REASON]) == (json.loads(event(2)), "It is no JSON.")
    assert delivery.counts == {Count.READ: 2, Count.DELIVERED: 1, Count.FAILED: 1, Count.DEAD: 1}


@pytest.mark.parametrize("wrong", [b"{", event(2, gantryfault="It is no JSON.")])
def test_prohibited_faults_deliver_what_stands_before_an_event_that_cannot_be_read(wrong: bytes) -> None:
    target = Sent()
    with pytest.raises(Stopped, match=r"allows no faults: (The event|It) is no JSON"):
        deliver(replace(FLOW, allows_faults=False), [event(0), event(1), wrong, event(3)], target)
    assert target.bodies == numbers(0, 1)


def test_a_dead_letter_that_is_not_taken_stops_the_task_after_the_retries() -> None:
    def refuse_dead(tries: int) -> None:
        raise Undelivered("No broker answers.", may_pass=True)

    target, clock = Sent(refusing(b"1"), refuse_dead), Clock()
    with pytest.raises(Stopped, match=r"^A dead letter could not be kept: No broker .* Its event had failed: The brok"):
        deliver(replace(FLOW, has_dead_letters=True), [event(1)], target, clock)
    assert target.dead_tries == 4 and len(clock.taken) == 3


def test_a_dead_letter_is_tried_again_like_a_message() -> None:
    def refuse_dead(tries: int) -> None:
        if tries < 3:
            raise Undelivered("No broker answers.", may_pass=True)

    target = Sent(refusing(b"1"), refuse_dead)
    delivery = deliver(replace(FLOW, has_dead_letters=True), [event(1)], target)
    assert len(target.dead) == 1 and delivery.counts[Count.RETRIED] == 2


def test_a_task_that_is_set_wrongly_ends_and_no_event_has_failed() -> None:
    def refuse(messages: Sequence[Outgoing]) -> None:
        raise Misset("There is no topic orders.")

    target = Sent(refuse)
    delivery = Delivery(replace(FLOW, has_dead_letters=True), target, Clock())
    with pytest.raises(Misset, match="There is no topic orders"), delivery:
        delivery.deliver([event(1)])
    assert target.dead == [] and delivery.counts[Count.FAILED] == 0


class Slow(Sent):
    """A target whose first request is answered when the test says so."""

    def __init__(self, refuse: Refuse = lambda messages: None) -> None:
        super().__init__(refuse)
        self.answers, self.asked = threading.Event(), threading.Event()

    def send(self, messages: Sequence[Outgoing]) -> None:
        self.asked.set()
        assert self.answers.wait(20)
        super().send(messages)


def test_the_next_messages_are_built_while_a_request_is_answered_and_keep_their_order() -> None:
    target, built = Slow(), list[int]()

    class Watched:
        def build(self, event: Mapping[str, Any], text: bytes | None = None) -> Any:
            built.append(event["data"]["n"])
            if len(built) == 700:
                assert target.asked.wait(20) and not target.messages
                target.answers.set()
            return BY_NUMBER.build(event, text)

    with Delivery(replace(FLOW, builder=Watched()), target, Clock()) as delivery:
        for begin in range(0, 1100, 100):
            delivery.deliver([event(n) for n in range(begin, begin + 100)])
    assert target.bodies == numbers(*range(1100)) and target.requests == [500, 500, 100]
    assert delivery.counts == {Count.READ: 1100, Count.DELIVERED: 1100}


def test_a_request_that_fails_while_others_are_built_ends_the_task_before_them() -> None:
    """An event behind it that has failed on its own is nobody's dead letter yet: it comes again."""
    target = Slow(refusing(b"7"))
    batch = [event(n) for n in range(600)] + [b"{"]
    delivery = Delivery(replace(FLOW, allows_faults=False), target, Clock())
    threading.Timer(0.2, target.answers.set).start()
    with pytest.raises(Stopped, match="The broker does not take it"), delivery:
        delivery.deliver(batch[:550])
        delivery.deliver(batch[550:])
    assert target.bodies == numbers(*range(7))
    assert delivery.counts[Count.FAILED] == 1 and delivery.counts[Count.DELIVERED] == 7


def test_what_waits_to_be_sent_is_not_sent_where_the_batch_breaks() -> None:
    target = Sent()
    with pytest.raises(ZeroDivisionError), Delivery(FLOW, target, Clock()) as delivery:
        delivery.deliver([event(1)])
        raise ZeroDivisionError
    assert target.messages == []


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (b'{"id":"1","n":1.0,"t":"\xc3\xa4\\u00e4"}', b'{"id":"1","n":1.0,"t":"\xc3\xa4\\u00e4"}'),
        (b'{"id":"1","n":123456789012345678901}', b'{"id":"1","n":123456789012345678901}'),
        (b'{"id":"1","gantryfault":null,"n":1}', b'{"id":"1","n":1}'),
        (b'{"id":"1","gantrytopic":null,"n":1}', b'{"id":"1","n":1}'),
    ],
)
def test_an_event_that_nothing_changes_is_delivered_as_it_stands_in_the_log(text: bytes, body: bytes) -> None:
    deliver(replace(FLOW, builder=Fields.compile({"body": {"method": "complete_data"}})), [text], target := Sent())
    assert target.bodies == [body]


def test_what_is_no_json_for_every_reader_is_not_handed_on() -> None:
    target = Sent()
    whole = replace(FLOW, builder=Fields.compile({"body": {"method": "complete_data"}}), has_dead_letters=True)
    deliver(whole, [b'{"id":"1","n":NaN}', b'{"id":"2","t":"\\ud800"}'], target)
    assert target.bodies == [] and len(target.dead) == 2


def test_the_text_of_an_event_is_compact() -> None:
    assert text_of({"a": ["é", None]}) == '{"a":["é",null]}'.encode()
    assert text_of({"a": "\ud800"}) == b'{"a":"?"}'
