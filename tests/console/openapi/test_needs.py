"""What operations say that they need is what they ask for: each is called by somebody who may do nothing."""

from __future__ import annotations

import json
from typing import Any

from django.db import transaction

from console.accounts.policy_documents import ACTIONS
from console.audit.models import Entry
from console.openapi.document import FORM, document
from console.openapi.operations import OPERATIONS
from tests.console.openapi.stage import VALID, Stage

ELSEWHERE = {"vpc:SwitchTunnel"}
"""What no policy of a service contains."""
BY_WHAT_THERE_IS = {"bucket/list", "sql/submit", "sql/query", "sql/explain"}
"""These answer with what one may see, or ask for what the statement needs."""
BELOW_A_RULE = {"tracking/createGroup": {"password": "Correct-horse-7"}}
"""What a parameter must be besides what its schema says of others."""


def test_each_asks_for_what_it_says_that_it_needs(stage: Stage) -> None:
    nora = stage.caller("nora")
    for path in sorted(OPERATIONS.keys() - BY_WHAT_THERE_IS):
        needs = [set(need.split("|")) for need in OPERATIONS[path].needs]
        with transaction.atomic():
            status = nora.symbol(path, method="post", **parameters(path, stage))
            refused = Entry.objects.filter(actor="nora@acme", result="refused").values_list("action", flat=True)
            asked = [action for action in refused if not action.startswith("openapi.")]
            transaction.set_rollback(True)
        assert (status == "AUTH_PERMISSION_DENIED", len(asked)) == (bool(needs), bool(needs)), (path, status, asked)
        assert all(any(action in need for need in needs) for action in asked), (path, asked)


def test_the_actions_are_known() -> None:
    named = {action for one in OPERATIONS.values() for need in one.needs for action in need.split("|")}
    assert {action for action in named if not action.startswith("platform:")} <= {*ACTIONS} | ELSEWHERE


def parameters(path: str, stage: Stage) -> dict[str, str]:
    """What the operation accepts; things of tests that are not there are asked for after the right."""
    if path in VALID:
        return stage.valid(path)
    body = document()["paths"][f"/json/{path}"]["post"].get("requestBody", {})
    schema: dict[str, Any] = body.get("content", {}).get(FORM, {}).get("schema", {})
    given = {name: _some(name, schema["properties"][name]) for name in schema.get("required", [])}
    there = {"instanceId": stage.instance_id, "InstanceId": stage.instance_id}
    there |= {"groupId": "GID_orders", "GroupId": "GID_orders", "topic": "orders"}
    given |= {name: value for name, value in there.items() if name in schema.get("properties", {})}
    return given | BELOW_A_RULE.get(path, {})


def _some(name: str, schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return str(schema["enum"][0])
    if schema.get("type") == "integer":
        return str(max(schema.get("minimum", 1), 1))
    if schema.get("type") == "boolean":
        return "false"
    return json.dumps({"name": "some"}) if name == "document" else "some"
