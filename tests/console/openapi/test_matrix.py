"""Who is answered what by every operation, and that no operation is missing from the table."""

from __future__ import annotations

import pytest
from django.db import transaction

from console.accounts import services as accounts
from console.accounts.actor import Actor
from console.audit.models import Entry
from console.openapi.operations import OPERATIONS
from console.topics.models import Grant, Group
from tests.console.openapi.matrix import MATRIX, SIGNS
from tests.console.openapi.stage import ROLES, Stage
from tests.support.cast import PASSWORD

VENDORS = {path for path, found in OPERATIONS.items() if not found.extension}


def test_it_has_a_row_for_every_operation() -> None:
    assert set(MATRIX) == VENDORS, "add rows to tests/console/openapi/matrix.py"


@pytest.mark.parametrize("path", MATRIX)
def test_it_answers_everybody_as_the_table_says(path: str, stage: Stage) -> None:
    answers = []
    for role in ROLES:
        caller, parameters = stage.caller(role), stage.valid(path, role)
        # What one role changes is undone before the next one comes.
        with transaction.atomic():
            status = caller.symbol(path, **parameters)
            transaction.set_rollback(True)
        signs = {symbol: sign for sign, symbol in SIGNS.items()}
        answers.append(signs.get(status, "."))
    assert " ".join(answers) == MATRIX[path]


def test_it_records_each_refused_attempt(stage: Stage) -> None:
    stage.caller("rita").symbol("topic/update", **stage.valid("topic/update"))
    entry = Entry.objects.get(actor="rita@acme", result="refused")
    assert (entry.action, entry.resource, entry.channel) == (
        "mq:UpdateTopic",
        f"acs:mq:*:*:{stage.instance_id}%orders",
        "api",
    )
    assert entry.access_key_id == stage.caller("rita").access_key_id


OPEN_TO_ALL = {"region/list", "cluster/list"}
"""What tells nothing of anybody's."""


@pytest.mark.parametrize("path", sorted(VENDORS - OPEN_TO_ALL))
def test_a_platform_administrators_key_opens_no_accounts_operation(path: str, stage: Stage) -> None:
    stage.users["petra"] = stage.cast.petra
    assert stage.caller("petra").symbol(path, **stage.valid(path)) == "AUTH_PERMISSION_DENIED"


def test_a_group_is_its_makers_and_its_accounts(stage: Stage) -> None:
    bob, alice, rita = stage.caller("bob"), stage.caller("alice"), stage.caller("rita")
    mine = {"instanceId": stage.instance_id, "groupId": "GID_of_bob"}
    assert bob.symbol("group/create", **mine) == "SUCCESS"
    assert alice.symbol("group/subDetail", **mine) == "SUCCESS"
    assert rita.symbol("group/subDetail", **mine) == "AUTH_PERMISSION_DENIED"
    kept = {"instanceId": stage.instance_id, "groupId": "GID_of_alice"}
    assert alice.symbol("group/create", **kept) == "SUCCESS"
    assert bob.symbol("group/subDetail", **kept) == "AUTH_PERMISSION_DENIED"
    names = [row["groupId"] for row in bob.data("group/list", instanceId=stage.instance_id)]
    assert names == ["GID_of_bob", "GID_orders"]
    Group.objects.filter(group_id="GID_of_alice").update(shared=True)
    assert bob.symbol("group/subDetail", **kept) == "SUCCESS"


def test_a_granted_topic_is_there_as_far_as_the_grant_goes(stage: Stage) -> None:
    alice, there = stage.caller("alice"), {"instanceId": stage.cast.charlies.instance_id}
    lent = there | {"topic": "lent"}
    assert alice.data("topic/get", **lent)["relation"] == 4
    page = alice("topic/listInPage", **there)
    assert ([row["topic"] for row in page["data"]], page["total"]) == (["lent"], 1)
    assert page["data"][0]["owner"] == stage.users["charlie"].tenant.uid  # type: ignore[union-attr]
    assert alice.symbol("topic/get", **there, topic="private") == "BIZ_TOPIC_NOT_FOUND"
    assert alice.symbol("message/getByKey", **lent, key="k") == "BIZ_NO_MESSAGE"
    assert alice.symbol("topic/listNames", **there) == "BIZ_INSTANCE_NOT_FOUND"
    for path in ("topic/update", "topic/delete"):
        assert alice.symbol(path, **lent, perm="4") == "AUTH_PERMISSION_DENIED"
    assert alice.symbol("empower/list", **lent) == "EMPOWER_OWNER_CHECK_ERROR"
    Grant.objects.update(relation=2)
    assert alice.data("topic/get", **lent)["relation"] == 2
    assert alice.symbol("message/getByKey", **lent, key="k") == "AUTH_PERMISSION_DENIED"
    assert "records" in alice.data("trend/topicInputTps", **lent, beginTime="0", endTime="60000", period="1", type="0")


def test_a_grantee_makes_its_own_group_beside_the_topic(stage: Stage) -> None:
    alice, charlie = stage.caller("alice"), stage.caller("charlie")
    mine = {"instanceId": stage.cast.charlies.instance_id, "groupId": "GID_guest"}
    assert alice.data("group/create", **mine)["groupId"] == "GID_guest"
    assert alice.data("group/list", instanceId=mine["instanceId"])[0]["owner"] == stage.cast.acme.uid
    assert charlie.symbol("group/delete", **mine) == "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER"
    assert charlie.symbol("group/create", **mine) == "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER"
    assert charlie.data("group/list", instanceId=mine["instanceId"]) == []
    assert alice.symbol("consumer/resetoffset", **mine, topic="lent", type="0") == "SUCCESS"
    assert alice.symbol("group/delete", **mine) == "SUCCESS"
    Grant.objects.all().delete()
    assert alice.symbol("group/create", **mine) == "BIZ_INSTANCE_NOT_FOUND"


def test_a_ram_user_with_a_grant_reaches_that_topic_alone(stage: Stage) -> None:
    stage.caller("alice").data("empower/createBySub", **stage.valid("empower/createBySub") | {"relation": "4"})
    nora = stage.caller("nora")
    assert nora.data("topic/get", instanceId=stage.instance_id, topic="orders")["relation"] == 4
    assert [one["topic"] for one in nora.data("topic/listInPage", instanceId=stage.instance_id)] == ["orders"]
    assert [one["instanceId"] for one in nora.data("instance/list")] == [stage.instance_id]
    mine = {"instanceId": stage.instance_id, "groupId": "GID_of_nora"}
    assert nora.symbol("group/create", **mine) == "SUCCESS"
    assert [one["groupId"] for one in nora.data("group/list", instanceId=stage.instance_id)] == ["GID_of_nora"]
    assert nora.symbol("topic/create", instanceId=stage.instance_id, topic="not-hers") == "AUTH_PERMISSION_DENIED"
    assert nora.symbol("group/delete", **mine) == "SUCCESS"
    other = accounts.create_user(actor=Actor(user=stage.users["charlie"]), name="carl", password=PASSWORD, policies=[])
    foreign = stage.valid("empower/createBySub") | {"empowerUser": other.uid}
    assert stage.caller("alice").symbol("empower/createBySub", **foreign) == "BIZ_FIELD_CHECK_INVALID"
