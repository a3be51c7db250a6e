"""The mapping against the SDKs, the declared operations and the documentation: none can drift from the others."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from alibabacloud_ons20190214 import models
from alibabacloud_ons20190214.client import Client

from console.openapi.operations import OPERATIONS
from console.openapi.rpc import actions, views
from console.openapi.rpc.actions import ABSENT, ACTIONS, Action

DOCUMENT = Path(__file__).parents[4] / "docs" / "use" / "rpc.md"
SDK_ACTIONS = set(re.findall(r"action = '(\w+)'", inspect.getsource(Client)))


def test_every_action_of_the_sdk_is_there_or_known_to_be_absent() -> None:
    assert ACTIONS.keys() | actions.OWN_ACTIONS.keys() | ABSENT.keys() == SDK_ACTIONS
    assert not ACTIONS.keys() & ABSENT.keys()


def test_every_action_has_its_operation_and_every_operation_its_action() -> None:
    declared = {path: operation.rpc for path, operation in OPERATIONS.items() if operation.rpc}
    for name in ACTIONS:
        assert views.exists(name), name
    for path, name in declared.items():
        assert ACTIONS[name].path == path


@pytest.mark.parametrize(("name", "action"), ACTIONS.items())
def test_every_parameter_is_one_of_the_operation(name: str, action: Action) -> None:
    parameters = OPERATIONS[action.path].parameters.model_fields
    known = parameters.keys() | {f.alias for f in parameters.values() if f.alias}
    missing = {action.sent_as.get(n, n[:1].lower() + n[1:]) for n in action.fields} - known
    assert not missing, (name, missing)


@pytest.mark.parametrize(("name", "action"), ACTIONS.items())
def test_every_parameter_of_the_sdk_is_passed_on_or_known(name: str, action: Action) -> None:
    request = getattr(models, f"{name}Request", None)
    if request is None:
        assert not action.fields
        return
    theirs = set(re.findall(r"result\['(\w+)'\]", inspect.getsource(request.to_map)))
    assert theirs - {"Tag"} <= set(action.fields) | action.only.keys() | set(action.ignored)


def test_the_document_lists_what_exists_and_what_does_not() -> None:
    exists, _, absent = DOCUMENT.read_text().partition("## Actions")[2].partition("## Not there")
    rows = dict(re.findall(r"^\| `(\w+)` \| `?([^`|]+)`? \|", exists, re.MULTILINE))
    assert rows == (
        {name: f"/json/{action.path}" for name, action in ACTIONS.items()}
        | dict.fromkeys(actions.OWN_ACTIONS | actions.STS_ACTIONS, "none")
    )
    assert dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", absent, re.MULTILINE)) == ABSENT
