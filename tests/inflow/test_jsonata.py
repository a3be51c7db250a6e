"""Expressions in JSONata make what those in JMESPath make, by the same rules and within the same bounds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from analytics.inflow.expressions import Expression, Language
from analytics.inflow.transform import TOPIC_FIELD, Event, Transformed, TransformFailed, route

pytestmark = pytest.mark.process


def change(number: int, operation: str = "INSERT", **more: Any) -> Event:
    """An event of a row change."""
    data = {"operation": operation, "tableName": "orders", "after": {"id": number, "lines": [1, 2]}}
    return {"id": f"e{number}", "source": "mysql://shop", "type": "dts:Change", "data": data | more}


BATCH = [change(1), change(2, "DELETE"), change(3)]


@contextmanager
def expression(text: str, batch_s: int = 5) -> Iterator[Expression]:
    opened = Expression(text, Language.JSONATA, batch_s=batch_s)
    try:
        yield opened
    finally:
        opened.close()


def applied(text: str, events: list[Event]) -> Transformed:
    with expression(text) as opened:
        return opened.apply(events)


@pytest.mark.parametrize(
    ("text", "made", "origins"),
    [
        ('{"id": id, "row": data.after.id}', [{"id": f"e{n}", "row": n} for n in (1, 2, 3)], [0, 1, 2]),
        ('$map(data.after.lines, function($line, $at) { {"id": $$.id & "/" & $at, "line": $line} })',
         [{"id": f"e{n}/{at}", "line": at + 1} for n in (1, 2, 3) for at in (0, 1)], [0, 0, 1, 1, 2, 2]),
        ('$merge([$, {"via": "gantry"}])', [{**one, "via": "gantry"} for one in BATCH], [0, 1, 2]),
        ('$ ~> |data|{"rows": $count(after.lines)}, ["after", "tableName"]|',
         [one | {"data": {"operation": one["data"]["operation"], "rows": 2}} for one in BATCH], [0, 1, 2]),
        ('data.operation != "DELETE" ? $', [BATCH[0], BATCH[2]], [0, 2]),
        ("data.nothing", [], []),
        ("null", [], []),
        ("[]", [], []),
        ("$", BATCH, [0, 1, 2]),
    ],
    ids=["mapping", "splitting", "enrichment", "changing", "dropping", "undefined", "null", "empty array", "as it is"],
)  # fmt: skip
def test_an_expression_makes_events_of_each_event(text: str, made: list[Event], origins: list[int]) -> None:
    found = applied(text, BATCH)
    assert (found.events, found.origins, found.failed) == (made, origins, {})


def test_an_expression_may_name_a_topic_for_each_event() -> None:
    found = applied(f'$merge([$, {{"{TOPIC_FIELD}": "orders-" & data.operation}}])', BATCH)
    assert [route(one) for one in found.events] == [(f"orders-{one['data']['operation']}", one) for one in BATCH]


def test_numbers_that_only_pass_stay_exact() -> None:
    values = {"id": 2**63 - 1, "minus": -(2**53) - 1, "more": 2**70, "small": 7, "part": 0.1, "yes": True}
    assert applied("$", [change(1, after=values)]).events == [change(1, after=values)]
    found = applied('{"ids": [data.after.id, data.after.id], "next": data.after.small + 1}', [change(1, after=values)])
    assert found.events == [{"ids": [2**63 - 1] * 2, "next": 8}]


def test_numbers_that_jsonata_cannot_tell_apart_are_not_mixed_up() -> None:
    events = [change(1, after={"a": 2**60, "b": 2**60 + 1}), change(2, after={"a": 2**60, "b": 3})]
    found = applied('{"a": data.after.a}', events)
    assert (found.events, list(found.failed)) == ([{"a": 2**60}], [0])
    assert f"{2**60} and {2**60 + 1} are one number in JSONata" in found.failed[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id", "made a string: an object, an array of objects or null is allowed"),
        ("data.after.lines", "made an array with a number"),
        ("false", "made a boolean"),
        ("$nobody($)", "character 1: Attempted to invoke a non-function"),
        ("data.tableName + 1", 'The left side of the "+" operator must evaluate to a number'),
        ('{"a": 1/0}', "Number out of range"),
        ('$error("no such thing")', "character 1: no such thing."),
        ('$pad("x", 9999999)', "A string would exceed the size limit"),
        ("[1..1000001]", "An array would exceed the size limit"),
        ('{"a": $pad("x", 5000000), "b": $pad("x", 5000000)}', "The result would exceed the size limit"),
        ("($f := function($n) { 1 + $f($n + 1) }; $f(0))", "Stack overflow"),
    ],
)
def test_an_event_of_which_nothing_allowed_is_made_fails_alone(text: str, reason: str) -> None:
    found = applied(f'id = "e2" ? ({text}) : {{"id": id}}', BATCH)
    assert ([one["id"] for one in found.events], list(found.failed)) == (["e1", "e3"], [1])
    assert reason in found.failed[1].replace("character 14", "character 1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a.", "character 3: Unexpected end of expression"),
        ("a ] b", "character 3: Syntax error"),
        ('"abc', "character 1: String literal must be terminated"),
        ("(" * 3000 + "a" + ")" * 3000, "nested too deeply"),
        ("merge(@, {a: 'b'})", "character 7"),
    ],
)
def test_a_text_that_is_no_expression_is_told_with_its_place(text: str, reason: str) -> None:
    with expression(text) as opened:
        for attempt in (opened.check, lambda: opened.apply(BATCH)):
            with pytest.raises(TransformFailed, match=reason) as failed:
                attempt()
            assert not failed.value.retryable


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "($f := function() { $f() }; $f())",
        f'$match("{"a" * 40}!", /^(a+)+$/)',
    ],
    ids=["runaway recursion", "catastrophic pattern"],
)
def test_what_takes_too_much_is_ended_and_the_next_batch_finds_another_process(text: str) -> None:
    with expression(f'data.burn ? ({text}) : {{"id": id}}', batch_s=1) as opened:
        opened.check()
        assert opened.apply(BATCH).events == [{"id": one["id"]} for one in BATCH]
        began = time.monotonic()
        with pytest.raises(TransformFailed, match=r"a processor .* or too much memory; .* event 2 of 3") as failed:
            opened.apply([change(1), change(2, burn=True), change(3)])
        assert time.monotonic() - began < 20
        assert (failed.value.index, failed.value.retryable) == (1, False)
        assert opened.apply(BATCH).events == [{"id": one["id"]} for one in BATCH]


def test_a_result_that_doubles_forty_times_is_the_failure_of_its_event_alone() -> None:
    """By the limit of a result, or by that of time or memory, whichever is reached first."""
    text = "$reduce([1..40], function($made, $at) { $merge([$made, {$string($at): $made}]) }, {})"
    with expression(f'data.burn ? ({text}) : {{"id": id}}', batch_s=1) as opened:
        opened.check()
        try:
            failed: list[int | None] = [*opened.apply([change(1), change(2, burn=True), change(3)]).failed]
        except TransformFailed as error:
            failed = [error.index]
        assert failed == [1]
        assert opened.apply(BATCH).events == [{"id": one["id"]} for one in BATCH]
