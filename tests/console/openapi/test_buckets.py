"""Buckets and their rules by the management API, at a running queue service."""

from __future__ import annotations

import pytest

from console.audit.models import Entry
from console.catalog import bucket_rules
from console.catalog.models import Bucket
from tests.console.openapi.caller import Caller
from tests.support.cast import Cast
from tests.support.queue_service import QueueServiceProcess

pytestmark = pytest.mark.django_db
RULE = {"bucket": "acme-lake", "rule": "csv", "queue": "orders", "events": "ObjectCreated:*, ObjectRemoved:*"}


@pytest.fixture(autouse=True)
def bucket(queues: QueueServiceProcess, cast: Cast, alice: Caller) -> Bucket:
    alice.data("queue/create", queue="orders")
    return Bucket.objects.create(tenant=cast.acme, name="acme-lake")


def test_a_rule_is_made_listed_and_deleted(alice: Caller) -> None:
    assert alice.symbol("bucket/createRule", **RULE, prefix="in/", suffix=".csv") == "SUCCESS"
    (told,) = alice.data("bucket/listRules", bucket="acme-lake")
    assert told.pop("createTime") > 0
    assert told == {
        "rule": "csv", "queue": "orders", "events": ["ObjectCreated:*", "ObjectRemoved:*"], "prefix": "in/",
        "suffix": ".csv", "waiting": 0, "delivered": 0, "failed": 0, "error": "",
    }  # fmt: skip
    assert alice.data("bucket/sendEventsAgain", bucket="acme-lake", rule="csv") == {"events": 0}
    assert alice.symbol("bucket/deleteRule", bucket="acme-lake", rule="csv") == "SUCCESS"
    assert alice.symbol("bucket/deleteRule", bucket="acme-lake", rule="csv") == "BIZ_RULE_NOT_FOUND"
    assert alice.data("bucket/listRules", bucket="acme-lake") == []
    actions = Entry.objects.filter(action__startswith="sql.bucket.rule.").values_list("action", "channel")
    assert set(actions) == {(f"sql.bucket.rule.{verb}", "api") for verb in ("create", "delete", "resend")}


def test_a_bucket_is_made_and_listed_to_those_who_may_see_it(alice: Caller, cast: Cast) -> None:
    assert alice.symbol("bucket/create", bucket="acme-more") == "SUCCESS"
    page = alice("bucket/list", bucket="ACME", pageSize="1", currentPage="2")
    assert ([row["bucket"] for row in page["data"]], page["total"]) == (["acme-more"], 2)
    assert page["data"][0]["createTime"] > 0
    for who in ("charlie", "nora"):
        assert Caller.of(cast.users[who])("bucket/list")["total"] == 0
    assert Caller.of(cast.charlie).symbol("bucket/create", bucket="acme-more") == "BIZ_BUCKET_EXISTED"
    for name in ("gantry-own", "Upper", "-a-", "ab"):
        answer = alice("bucket/create", bucket=name)
        assert (answer["status"], answer["dynamicMessage"][-1]) == ("BIZ_FIELD_CHECK_INVALID", ".")
    assert Entry.objects.get(action="sql.bucket.create").channel == "api"


@pytest.mark.parametrize(
    ("changed", "symbol", "said"),
    [
        ({"bucket": "nowhere"}, "BIZ_BUCKET_NOT_FOUND", "no bucket nowhere"),
        ({"queue": "nowhere"}, "BIZ_QUEUE_NOT_FOUND", "nowhere"),
        ({"events": "ObjectDownloaded:GetObject"}, "BIZ_FIELD_CHECK_INVALID", "ObjectCreated:PutObject"),
        ({"events": " , "}, "BIZ_FIELD_CHECK_INVALID", "at least one event"),
        ({"rule": "a b"}, "BIZ_FIELD_CHECK_INVALID", "rule's name"),
        ({"rule": "taken"}, "BIZ_RULE_EXISTED", "taken"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_symbol(
    alice: Caller, changed: dict[str, str], symbol: str, said: str
) -> None:
    assert alice.symbol("bucket/createRule", **RULE | {"rule": "taken"}) == "SUCCESS"
    answer = alice("bucket/createRule", **RULE | changed)
    assert (answer["status"], said in answer["dynamicMessage"]) == (symbol, True)


def test_a_bucket_has_as_many_rules_as_it_may(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_rules, "MOST_RULES", 1)
    assert alice.symbol("bucket/createRule", **RULE) == "SUCCESS"
    assert alice.symbol("bucket/createRule", **RULE | {"rule": "second"}) == "BIZ_RULE_QUOTA_EXCEEDED"
