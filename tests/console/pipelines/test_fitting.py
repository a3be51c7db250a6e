"""Whether the state of one plan is taken for that of another, by their texts; tests/pipelines asks Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analytics.pipelines.plan import Column, Insert, Plan, Settings, Sink, Source, View, Watermark
from console.pipelines.fitting import misfit
from tests.console.pipelines.conftest import plan_of

GROUPED = "SELECT COUNT(*) FROM `s` GROUP BY WINDOW(`t`, '1 minute')"


def grouped(kind: str, *, watermark: Watermark | None = None, **more: str) -> Plan:
    """A plan that groups by a column of a type, beside others."""
    columns = tuple(Column(name, one) for name, one in {"a": kind, **more}.items())
    source = Source("s", "datagen", columns, watermark)
    return replace(plan_of("SELECT COUNT(*) FROM `s` GROUP BY `a`"), sources=(source,))


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        (plan_of(), plan_of("SELECT `a` + 1 FROM `s` WHERE `a` > 1"), True),
        (plan_of(GROUPED), plan_of(GROUPED), True),
        (plan_of(GROUPED), plan_of(GROUPED.replace("1 minute", "2 minutes")), False),
        (plan_of(GROUPED), plan_of(GROUPED.replace("GROUP", "WHERE `a` > 1 GROUP")), True),
        (plan_of(GROUPED), plan_of(GROUPED.replace("COUNT(*)", "SUM(`a`)")), False),
        (plan_of(), plan_of("SELECT COUNT(*) FROM `s`"), False),
        (
            plan_of(f"{GROUPED}, `b`", views=(View("b", "SELECT `a` FROM `s`"),)),
            plan_of(f"{GROUPED}, `b`", views=(View("b", "SELECT `a` FROM `s` WHERE `a` IN ('x WHERE y')"),)),
            True,
        ),
        (
            plan_of("SELECT COUNT(*) FROM `v` GROUP BY `a`", views=(View("v", "SELECT `a` FROM `s`"),)),
            plan_of("SELECT COUNT(*) FROM `v` GROUP BY `a`", views=(View("v", "SELECT `a` + 1 AS `a` FROM `s`"),)),
            False,
        ),
        (grouped("int"), grouped("bigint"), False),
        (grouped("int", b="int"), grouped("int", b="bigint"), True),
        (grouped("int"), grouped("int", watermark=Watermark("a", 1)), False),
        (
            plan_of("SELECT `x` FROM `v`", views=(View("v", GROUPED),)),
            plan_of("SELECT 1 FROM `v`", views=(View("v", GROUPED),)),
            False,
        ),
        (
            plan_of("SELECT `x` FROM `v`", views=(View("v", GROUPED),)),
            plan_of("SELECT `x` FROM `v`", views=(View("v", "SELECT DISTINCT 1"),)),
            False,
        ),
        (plan_of(settings=Settings(mode="batch")), plan_of(), False),
    ],
)
def test_state_fits_where_what_keeps_it_is_the_same(old: Plan, new: Plan, fits: bool) -> None:
    assert (misfit(old, new) == "") is fits


def test_the_position_of_another_connector_does_not_fit() -> None:
    old = plan_of()
    new = Plan((Source("s", "mq", old.sources[0].columns),), old.sinks, (), old.inserts)
    assert "was read from datagen and is read from mq now" in misfit(old, new)


@pytest.mark.parametrize(("connector", "option"), [("mns", "queueName"), ("mq", "topic"), ("filesystem", "path")])
def test_the_position_in_another_queue_topic_or_folder_does_not_fit(connector: str, option: str) -> None:
    def of(place: str) -> Plan:
        options = {option: place, "source.monitor-interval": 1}
        return replace(plan_of(), sources=(Source("s", connector, plan_of().sources[0].columns, options=options),))  # type: ignore[arg-type]

    assert misfit(of("x"), of("x")) == ""
    assert misfit(of("x"), of("y")) == (
        f"Table s has another {option} than before, so its position does not fit; start from nothing."
    )


def test_the_position_in_other_tables_does_not_fit() -> None:
    old, s = plan_of(), plan_of().sources[0]
    new = replace(old, sources=(s, replace(s, name="r")), inserts=(Insert("o", "SELECT `a` FROM `r`", line=3),))
    assert misfit(old, new) == (
        "The INSERT INTO o of line 3 reads r, and read s before, so its position does not fit; start from nothing."
    )


def test_the_position_in_rows_that_keep_coming_is_none_in_rows_that_end() -> None:
    old, s = plan_of(), plan_of().sources[0]
    new = replace(old, sources=(replace(s, options={"number-of-rows": 5}),))
    assert misfit(new, new) == ""
    assert "reads no table that streams, and read s before" in misfit(old, new)


def test_inserts_may_come_and_go_and_change_their_places() -> None:
    old = plan_of(GROUPED)
    other = Insert("p", "SELECT COUNT(*) FROM `s` GROUP BY `a`")
    both = replace(old, sinks=(*old.sinks, Sink("p", "print", old.sinks[0].columns)), inserts=(other, *old.inserts))
    assert misfit(old, both) == misfit(both, old) == ""
    assert (old.checkpoints(), both.checkpoints()) == (("insert-o",), ("insert-p", "insert-o"))


def test_inserts_into_one_table_and_queries_alone_are_told_by_their_order() -> None:
    sinks = (Sink("o", "print", (Column("a", "int"),)), Sink("select_3", "print", ()), Sink("select_9", "print", ()))
    inserts = tuple(Insert(name, "SELECT 1") for name in ("o", "select_3", "O", "select_9"))
    assert Plan((), sinks, (), inserts).checkpoints() == ("insert-o", "select", "insert-o-2", "select-2")
