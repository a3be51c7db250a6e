"""The graph of a job's operators."""

from __future__ import annotations

import re

import pytest

from analytics.pipelines.plan import Column, Insert, Plan, Sink, Source, View
from analytics.pipelines.reports import InsertReport, Report
from console.jobs.graph import named_tables, of_plan

A = Column("a", "int")
PLAN = Plan(
    sources=(Source("s", "datagen", (A,)), Source("q", "mns", (A,), format="json")),
    sinks=(Sink("o", "print", (A,)), Sink("p", "blackhole", (A,))),
    views=(
        View("v", "SELECT `a` FROM `s` JOIN `demo`.`flights` AS `f` ON `s`.`a` = `f`.`a`"),
        View("w", "SELECT * FROM `v`"),
    ),
    inserts=(Insert("o", "SELECT `q`.`a` FROM `w`, `q`", line=9), Insert("p", "SELECT `a` FROM `S`", line=12)),
    tables=(("demo", "flights"),),
)
REPORT = Report(
    (InsertReport("o", 9, batch=3, rows_in=70, rows_out=7), InsertReport("p", 12, batch=3, rows_in=60, rows_out=60)),
    {"source:s": 60, "source:q": 10, "view:v": 50, "view:w": 50},
)


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT `a` FROM `s`", ["s"]),
        ("SELECT `s` FROM `t` WHERE 'from x' = `u`", ["t"]),
        ("SELECT * FROM `a` AS `x`, `b` `y`, c z, `d`", ["a", "b", "c", "d"]),
        ("SELECT * FROM `a` LEFT JOIN `Demo`.`B` ON `a`.`k` = `B`.`k`", ["a", "demo.b"]),
        ("SELECT * FROM (SELECT `k`, `m` FROM `a`) AS `n` WHERE `x` IN (SELECT `y` FROM `b`)", ["a", "b"]),
        ("SELECT * FROM `with``quote` UNION ALL SELECT * FROM `b`", ["with`quote", "b"]),
    ],
)
def test_tables_of_a_query_are_those_behind_from_and_join(sql: str, named: list[str]) -> None:
    assert list(named_tables(sql)) == named


def test_a_way_goes_by_nodes_and_never_through_one() -> None:
    """Points of a way that is straight in a column lie between the nodes of that column."""
    graph = of_plan(PLAN)
    straight = [
        (float(x), float(y), int(run))
        for edge in graph.edges
        for x, y, run in re.findall(r"([\d.]+) ([\d.]+) h (\d+)", edge.path)
    ]
    assert len(straight) == 4  # from q to one INSERT and from s to the other, each past two views
    for x, y, run in straight:
        crossed = [one for one in graph.nodes if x < one.x + graph.node_width and one.x < x + run]
        assert crossed
        assert not [one for one in crossed if one.y <= y <= one.y + graph.node_height]


def test_operators_read_what_their_queries_name() -> None:
    nodes = {node.key: node for node in of_plan(PLAN).nodes}
    assert {key: node.reads for key, node in nodes.items()} == {
        "source:s": (),
        "source:q": (),
        "table:demo.flights": (),
        "view:v": ("s", "demo.flights"),
        "view:w": ("v",),
        "insert:0": ("w", "q"),
        "insert:1": ("s",),
        "sink:o": ("INSERT, line 9",),
        "sink:p": ("INSERT, line 12",),
    }
    assert nodes["source:q"].detail == "mns, json"
    assert {node.rows_in for node in nodes.values()} | {node.rows_out for node in nodes.values()} == {None}


def test_rows_of_a_report_stand_at_operators_and_ways() -> None:
    graph = of_plan(PLAN, REPORT)
    rows = {node.key: (node.rows_in, node.rows_out) for node in graph.nodes}
    assert rows["source:s"] == (None, 60)
    assert rows["view:v"] == (60, 50)
    assert rows["view:w"] == (50, 50)
    assert rows["insert:0"] == (60, 7)
    assert rows["sink:o"] == (7, None)
    assert rows["sink:p"] == (60, None)
    assert sorted(edge.rows for edge in graph.edges if edge.rows is not None) == [7, 10, 50, 50, 60, 60, 60]


def test_an_insert_that_tells_nothing_has_the_rows_of_its_operator_and_no_zeros() -> None:
    """A batch job's INSERT before it is written."""
    report = Report((InsertReport("o", 9), InsertReport("p", 12)), {"insert:1": 60})
    rows = {node.key: (node.rows_in, node.rows_out) for node in of_plan(PLAN, report).nodes}
    assert (rows["insert:0"], rows["insert:1"]) == ((None, None), (None, 60))
    assert (rows["sink:o"], rows["sink:p"]) == ((None, None), (60, None))


def test_the_drawing_goes_from_left_to_right_and_nothing_stands_on_another() -> None:
    graph = of_plan(PLAN)
    nodes = {node.key: node for node in graph.nodes}
    columns = [nodes[key].x for key in ("source:s", "view:v", "view:w", "insert:0", "sink:o")]
    assert columns == sorted(set(columns))
    assert len({(node.x, node.y) for node in graph.nodes}) == len(graph.nodes)
    for node in graph.nodes:
        assert 0 <= node.x <= graph.width - graph.node_width
        assert 0 <= node.y <= graph.height - graph.node_height


def test_two_inserts_into_one_table_meet_there() -> None:
    plan = Plan((Source("s", "datagen", (A,)),), (Sink("o", "print", (A,)),), (), (
        Insert("o", "SELECT `a` FROM `s`", line=3), Insert("O", "SELECT `a` FROM `s`", line=4),
    ))  # fmt: skip
    (sink,) = [node for node in of_plan(plan).nodes if node.kind == "sink"]
    assert sink.reads == ("INSERT, line 3", "INSERT, line 4")
