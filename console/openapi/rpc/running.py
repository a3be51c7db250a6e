"""Runs the operation behind an action: parameters in its words, result in the words of the public cloud."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from console.instances.models import Cluster
from console.openapi import calls, codes
from console.openapi.envelope import Page
from console.openapi.operations import OPERATIONS
from console.openapi.registry import Call, Operation
from console.openapi.rpc.names import ACTIONS, Action
from console.openapi.rpc.responses import shaped
from console.web.errors import Refused

_PAGE_SIZE = 100


def exists(name: str) -> bool:
    """True for an action whose operation is declared."""
    return name in ACTIONS and ACTIONS[name].path in OPERATIONS


def run(name: str, call: Call, given: Mapping[str, str]) -> dict[str, Any]:
    """The fields of the answer. Raises what `calls.attempt` knows."""
    action = ACTIONS[name]
    operation, parameters = OPERATIONS[action.path], translated(action, given)
    try:
        data = _all_pages(operation, call, parameters) if action.every_page else calls.run(operation, call, parameters)
    except ValidationError as invalid:
        raise _in_callers_words(action, invalid) from invalid
    except Refused as refused:
        if refused.field and refused.symbol == codes.FIELD:
            message = refused.message.replace(
                f"parameter {refused.field} ", f"parameter {_name(action, refused.field)} "
            )
            raise Refused(refused.symbol, message, _name(action, refused.field)) from refused
        raise
    return shaped(name, action, data, given)


def translated(action: Action, given: Mapping[str, str]) -> dict[str, str]:
    """The operation's parameters. Raises Refused for a value that has no counterpart here."""
    for name, value in action.only.items():
        if given.get(name, value) != value:
            raise Refused(codes.FIELD, f"{name} is {given[name][:40]}; allowed is {value}.", name)
    parameters = {_wire(action, name): given[name] for name in action.fields if name in given}
    if action.path == "instance/create":
        parameters["cluster"] = _default_cluster()
    return parameters | dict(action.constants)


def _default_cluster() -> str:
    """The public cloud chooses the cluster; here it is the first one of the region."""
    cluster = Cluster.objects.order_by("pk").first()
    return cluster.name if cluster else ""


def _all_pages(operation: Operation, call: Call, parameters: Mapping[str, str]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for number in range(1, 1_000_000):
        wanted = {**parameters, "currentPage": str(number), "pageSize": str(_PAGE_SIZE)}
        page = calls.run(operation, call, wanted)
        if not isinstance(page, Page):
            raise TypeError(f"{operation.path} is declared as paged but answers no page")
        entries += page.entries
        if len(page.entries) < _PAGE_SIZE or len(entries) >= page.total:
            break
    return entries


def _wire(action: Action, name: str) -> str:
    return action.sent_as.get(name, name[:1].lower() + name[1:])


def _name(action: Action, wire: str) -> str:
    """The caller's name of an operation's parameter."""
    return next((name for name in action.fields if _wire(action, name) == wire), wire)


def _in_callers_words(action: Action, invalid: ValidationError) -> Refused:
    error = invalid.errors(include_url=False, include_context=False)[0]
    name = ".".join(_name(action, str(part)) for part in error["loc"])
    missing = error["type"] == "missing"
    return Refused(codes.FIELD, f"The parameter {name} is missing." if missing else f"{name}: {error['msg']}.", name)
