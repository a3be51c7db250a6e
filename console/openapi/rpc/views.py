"""The RPC style of the public cloud: `Action` and `Version` at the root of the endpoint, signed, never by session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods
from pydantic import ValidationError

from console.accounts.http import Request
from console.instances.queries import first_cluster
from console.openapi import calls, envelope
from console.openapi.calls import TOO_LARGE, scope, too_large
from console.openapi.envelope import Page
from console.openapi.operations import OPERATIONS
from console.openapi.registry import Call, Operation
from console.openapi.rpc import actions, authentication
from console.openapi.rpc.actions import ACTIONS, Action
from console.openapi.rpc.authentication import Signed
from console.openapi.rpc.responses import GatewayError, answer, of_symbol, shaped
from console.web import regions
from console.web.errors import Refused

_PAGE_SIZE = 100

Runner = Callable[[Call, Mapping[str, str]], dict[str, Any]]


def exists(name: str) -> bool:
    """True for an action whose operation is declared."""
    return name in ACTIONS and ACTIONS[name].path in OPERATIONS


def run(name: str, call: Call, given: Mapping[str, str]) -> dict[str, Any]:
    """The fields of the answer. Raises what `calls.attempt` knows."""
    action = ACTIONS[name]
    operation, parameters = OPERATIONS[action.path], translated(action, given, call.region)
    try:
        data = _all_pages(operation, call, parameters) if action.every_page else calls.run(operation, call, parameters)
    except ValidationError as invalid:
        raise _in_callers_words(action, invalid) from invalid
    except Refused as refused:
        if refused.field and refused.symbol == envelope.FIELD:
            message = refused.message.replace(
                f"parameter {refused.field} ", f"parameter {_name(action, refused.field)} "
            )
            raise Refused(refused.symbol, message, _name(action, refused.field)) from refused
        raise
    return shaped(name, action, data, given)


def translated(action: Action, given: Mapping[str, str], region: str = "") -> dict[str, str]:
    """The operation's parameters, asked for in `region`. Raises Refused for a value that has no counterpart here."""
    for name, value in action.only.items():
        if given.get(name, value) != value:
            raise Refused(envelope.FIELD, f"{name} is {given[name][:40]}; allowed is {value}.", name)
    parameters = {_wire(action, name): given[name] for name in action.fields if name in given}
    if action.path == "instance/create":
        parameters["cluster"] = _default_cluster(region)
    return parameters | dict(action.constants)


def _default_cluster(region: str) -> str:
    """The public cloud chooses the cluster; here it is the region's first one. Raises Refused where it has none."""
    cluster = first_cluster(region)
    if cluster is None and regions.are_several():
        raise Refused("BIZ_CLUSTER_NOT_FOUND", f"The region {region} has no cluster yet.", "RegionId")
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
    return Refused(envelope.FIELD, f"The parameter {name} is missing." if missing else f"{name}: {error['msg']}.", name)


@csrf_exempt
@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def call(request: Request) -> HttpResponse:
    """Run one action; whatever fails is `{"RequestId", "HostId", "Code", "Message"}` with a status of its own."""
    signed = None
    try:
        if too_large(request):
            raise GatewayError("RequestEntityTooLarge", TOO_LARGE)
        signed = authentication.read(request)
        runner = _runner(signed)
        caller = authentication.authenticate(request, signed)
    except GatewayError as error:
        return _refusal(request, signed, error.code, error.message, error.status)
    except Refused as refused:
        code, number = of_symbol(refused.symbol)
        return _refusal(request, signed, code, refused.message, number)
    outcome = calls.attempt(
        signed.action, lambda: runner(Call(caller, scope(request, caller), _region(request, signed)), signed.parameters)
    )
    if isinstance(outcome, calls.Failure):
        code, number = of_symbol(outcome.symbol)
        return _refusal(request, signed, code, outcome.message, number)
    return answer({"RequestId": request.request_id, **outcome}, root=f"{signed.action}Response", xml=signed.xml)


def _region(request: Request, signed: Signed) -> str:
    """The region asked for by `RegionId`, else by the address, else the default. Raises Refused.

    With one region it may be anything, since callers bring the one that they used before; STS is of none.
    """
    if not regions.are_several() or signed.version == actions.STS_VERSION:
        return regions.default()
    asked = signed.region
    host = regions.of_host(request.get_host())
    if asked and host and asked != host and asked in settings.REGIONS:
        raise Refused(envelope.FIELD, f"RegionId is {asked} but the address is that of the region {host}.", "RegionId")
    return regions.checked(asked or host or regions.default(), "RegionId")


def _runner(signed: Signed) -> Runner:
    """What runs the action. Raises GatewayError for a version or an action that is not there."""
    if signed.version not in (actions.MQ_VERSION, actions.STS_VERSION):
        message = (
            f"Version is {signed.version[:40]}; there are {actions.MQ_VERSION} and, for STS, {actions.STS_VERSION}."
        )
        raise GatewayError("InvalidVersion", message)
    if signed.version == actions.STS_VERSION and signed.action in actions.STS_ACTIONS:
        return actions.STS_ACTIONS[signed.action]
    if signed.version == actions.MQ_VERSION and signed.action in actions.OWN_ACTIONS:
        return actions.OWN_ACTIONS[signed.action]
    if signed.version == actions.MQ_VERSION and exists(signed.action):
        return lambda call, parameters: run(signed.action, call, parameters)
    why = actions.ABSENT.get(signed.action, "")
    message = f"There is no action {signed.action[:80]} in version {signed.version}{': ' if why else ''}{why}."
    raise GatewayError("InvalidAction.NotFound", message)


def _refusal(request: Request, signed: Signed | None, code: str, message: str, status_code: int) -> HttpResponse:
    body = {"RequestId": request.request_id, "HostId": request.get_host(), "Code": code, "Message": message}
    return answer(body, root="Error", xml=signed is not None and signed.xml, status=status_code)
