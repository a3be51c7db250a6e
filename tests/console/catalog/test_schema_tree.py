"""What the tree and the completion of the editor show."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from console.catalog import schema_tree
from tests.support.sql_cast import Cast, allow

pytestmark = pytest.mark.django_db
ONE_TABLE = {
    "Version": "1",
    "Statement": [
        {"Effect": "Allow", "Action": "dla:SubmitQuery", "Resource": "acs:dla:*:*:demo/flights"},
        {"Effect": "Allow", "Action": "dla:QueryTask", "Resource": "*"},
    ],
}


def test_it_shows_what_the_caller_may_query(cast: Cast) -> None:
    assert schema_tree.schemas(cast.alice) == ["demo", "mq", "gantry"]
    assert schema_tree.tables(cast.alice, "demo").names == ["airlines", "flights"]
    bob = allow(cast.bob.person, ONE_TABLE)
    assert schema_tree.tables(bob, "demo").names == ["flights"]
    assert schema_tree.columns(bob, "demo", "airlines") == []
    assert [c.name for c in schema_tree.columns(bob, "demo", "FLIGHTS")] == ["carrier", "hour"]
    assert schema_tree.tables(cast.charlie, "demo").names == []


def test_a_long_list_says_that_there_is_more(cast: Cast) -> None:
    found = schema_tree.tables(cast.alice, "demo", "", 1)
    assert (found.names, found.more) == (["airlines"], True)
    assert schema_tree.tables(cast.alice, "demo", "LINES").names == ["airlines"]
    assert schema_tree.tables(cast.alice, "gantry", "a%").names == []
    assert schema_tree.tables(cast.alice, "gantry", "audit").names == ["audit"]


def test_a_topic_is_named_by_what_tells_it_from_others() -> None:
    names = ["flights", "MQ_INST_1_a%orders", "%RETRY%MQ_INST_1_a%GID_x", "%DLQ%CID_old", "pay%eu", "%DLQ%g%1"]
    shown = [(e.label, e.remark) for e in schema_tree.Tables("mq", names, more=False).entries]
    assert shown == [
        ("flights", ""),
        ("orders", "MQ_INST_1_a"),
        ("GID_x", "retry, MQ_INST_1_a"),
        ("CID_old", "dead letters"),
        ("pay%eu", ""),
        ("g%1", "dead letters"),
    ]


def test_names_are_quoted_where_they_must() -> None:
    assert schema_tree.quoted("flights") == "flights"
    assert schema_tree.quoted("MQ_INST_1_a%or`ders") == "`MQ_INST_1_a%or``ders`"


def test_completion_has_names_types_and_no_refused_function(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.alice.person)
    known = client.get(reverse("sql.names")).json()
    assert known["schemas"]["demo"]["flights"] == [["carrier", "string"], ["hour", "int"]]
    assert "reflect" in known["refused"] and "mq-topic" in known["options"]
    found = client.get(reverse("sql.names"), {"schema": "gantry", "q": "samp"}).json()
    assert found == {"tables": ["samples"]}
    columns = client.get(reverse("sql.names"), {"schema": "gantry", "table": "samples"}).json()["columns"]
    assert columns and all(len(column) == 2 for column in columns)


def test_the_tree_opens_tables_with_their_menu(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.alice.person)
    assert "flights" in client.get(reverse("sql.schema", args=["demo"])).text
    part = client.get(reverse("sql.columns", args=["demo", "flights"])).text
    assert "select * from demo.flights limit 100" in part and "show create table demo.flights" in part
    assert "No table" in client.get(reverse("sql.schema", args=["secret"])).text
