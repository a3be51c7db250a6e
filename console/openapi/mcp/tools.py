"""The operations of the management API as tools: what a caller is shown of them, and a call of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import orjson
from django.conf import settings
from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import ValidationError

from brokercore.policy import CREATOR
from console.accounts.actor import ADOPTION, Actor
from console.accounts.http import Request
from console.audit import record
from console.audit.record import attempts as audit
from console.openapi import calls, envelope
from console.openapi.document import FORM, document
from console.openapi.envelope import Page
from console.openapi.operations import OPERATIONS
from console.openapi.registry import Call, Operation
from console.topics import access as topics
from console.web import regions
from console.web.errors import Refused

_ADDITIVE = ("create", "add", "subscribe", "send", "publish", "resend", "adopt", "acknowledge", "test")
"""How the names of operations begin that change nothing which is there already."""
_OF_GROUPS = {"groupId", "GroupId"}
_REGION = "regionId"


def operation_of(name: str) -> Operation | None:
    """The operation behind a tool's name."""
    return OPERATIONS.get(name.replace("_", "/", 1))


def listed(actor: Actor, services: Collection[str] = ()) -> list[Tool]:
    """The tools that the actor's policies could allow, by name; with `services` those of these services alone."""
    has_groups = topics.uses_groups_without_policy(actor)
    wanted = [one for one in OPERATIONS.values() if not services or one.service in services]
    tools = _tools(tuple(settings.REGIONS))
    return sorted(
        (tools[one.path] for one in wanted if _could(actor, one, has_groups=has_groups)), key=lambda tool: tool.name
    )


def _could(actor: Actor, operation: Operation, *, has_groups: bool) -> bool:
    place = ADOPTION if operation.path.startswith(ADOPTION) else ""
    of_groups = has_groups and not _OF_GROUPS.isdisjoint(operation.parameters.model_fields)
    return all(
        any(
            actor.could(action, place) or (of_groups and CREATOR.matches_action_name(action))
            for action in need.split("|")
        )
        for need in operation.needs
    )


@lru_cache(maxsize=2)
def _tools(known_regions: tuple[str, ...]) -> dict[str, Tool]:
    """The tool of each operation, by the operation's path."""
    paths = document()["paths"]
    return {
        path: _tool(operation, paths[f"/json/{path}"]["post"], known_regions) for path, operation in OPERATIONS.items()
    }


def _tool(operation: Operation, declared: Mapping[str, Any], known_regions: tuple[str, ...]) -> Tool:
    """Of several regions the tool of what depends on them has one more parameter."""
    region: dict[str, Any] = {}
    if len(known_regions) > 1 and operation.is_regional:
        said = f"The region: nothing is found but what is there. Left out: {known_regions[0]}."
        region = {_REGION: {"type": "string", "enum": list(known_regions), "description": said}}
    form = declared.get("requestBody", {}).get("content", {}).get(FORM, {}).get("schema", {})
    resource, _, verb = operation.path.partition("/")
    sentences = [
        f"{operation.summary}.",
        operation.description,
        f"(RPC action {operation.rpc})" if operation.rpc else "",
    ]
    return Tool(
        name=f"{resource}_{verb}",
        title=operation.summary,
        description=" ".join(sentence for sentence in sentences if sentence),
        input_schema={
            "type": "object",
            "properties": form.get("properties", {}) | region,
            "required": form.get("required", []),
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(
            read_only_hint=not operation.changes,
            destructive_hint=operation.changes and not verb.startswith(_ADDITIVE),
            open_world_hint=False,
        ),
    )


def called(request: Request, actor: Actor, operation: Operation, arguments: Mapping[str, object]) -> CallToolResult:
    """What became of a call: data and request ID, or as an error the symbol and one sentence."""
    outcome = calls.attempt(operation.path, lambda: _run(request, actor, operation, arguments))
    if isinstance(outcome, calls.Failure):
        symbol = envelope.told(outcome.symbol, strict=settings.API_STRICT_CODES)
        told = {"code": envelope.CODES[symbol].code, "status": symbol, "message": outcome.message}
        return _result(told | {"requestId": request.request_id}, f"{symbol}: {outcome.message}", is_error=True)
    if isinstance(outcome, Page):
        told = {
            "data": outcome.entries,
            "currentPage": outcome.number,
            "pageSize": outcome.size,
            "total": outcome.total,
        }
    else:
        told = {"data": outcome}
    told["requestId"] = request.request_id
    return _result(told, orjson.dumps(told).decode())


def _result(told: dict[str, Any], text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=told, is_error=is_error)


def _run(request: Request, actor: Actor, operation: Operation, arguments: Mapping[str, object]) -> Any:
    """As `calls.run`, but that every call leaves an entry in the audit trail, whatever it does and becomes."""
    action, resource = calls.attempted(operation, {n: v for n, v in arguments.items() if isinstance(v, str)})
    with audit.attempt(actor, action, resource) as journal:
        texts = _texts(operation, arguments)
        region = texts.pop(_REGION, "") or regions.of_host(request.get_host()) or regions.default()
        call = Call(actor, calls.scope(request, actor), regions.checked(region, _REGION))
        try:
            given = calls.checked(operation, call, texts)
        except ValidationError as invalid:
            raise Refused(envelope.FIELD, calls.first_error(invalid)) from invalid
        result = operation.handler(call, given)
        if not journal.entries:
            record.conclude(actor, action, resource, "success", {})
    return calls.in_json(result)


def _texts(operation: Operation, arguments: Mapping[str, object]) -> dict[str, str]:
    """The arguments as parameters, which are texts; null is left out. Raises Refused.

    A name that there is not is refused, and not ignored as in a call from a program: models make names up.
    """
    known = _tools(tuple(settings.REGIONS))[operation.path].input_schema["properties"]
    unknown = next((name for name in arguments if name not in known), None)
    if unknown is not None:
        names = ", ".join(known) or "none"
        raise Refused(envelope.FIELD, f"There is no parameter {unknown[:64]}; there are {names}.", unknown)
    return {name: _text(name, value) for name, value in arguments.items() if value is not None}


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if not isinstance(value, str | int | float):
        kind = "an array" if isinstance(value, list) else "an object"
        raise Refused(envelope.FIELD, f"The parameter {name} is {kind}; give it as a text.", name)
    if "\0" in str(value):
        raise Refused(envelope.FIELD, f"The parameter {name} has a NUL character.", name)
    return str(value)
