"""The RPC style of the public cloud: `Action` and `Version` at the root of the endpoint, signed, never by session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from console.openapi import calls
from console.openapi.registry import Call
from console.openapi.requests import TOO_LARGE, scope, too_large
from console.openapi.rpc import authentication, names, running, signatures, status, sts
from console.openapi.rpc.errors import GatewayError, of_symbol
from console.openapi.rpc.responses import answer
from console.openapi.rpc.signatures import Signed
from console.web.errors import Refused
from console.web.http import Request

Runner = Callable[[Call, Mapping[str, str]], dict[str, Any]]


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
        signed = signatures.read(request)
        runner = _runner(signed)
        caller = authentication.authenticate(request, signed)
    except GatewayError as error:
        return _refusal(request, signed, error.code, error.message, error.status)
    except Refused as refused:
        code, number = of_symbol(refused.symbol)
        return _refusal(request, signed, code, refused.message, number)
    outcome = calls.attempt(signed.action, lambda: runner(Call(caller, scope(request, caller)), signed.parameters))
    if isinstance(outcome, calls.Failure):
        code, number = of_symbol(outcome.symbol)
        return _refusal(request, signed, code, outcome.message, number)
    return answer({"RequestId": request.request_id, **outcome}, root=f"{signed.action}Response", xml=signed.xml)


def _runner(signed: Signed) -> Runner:
    """What runs the action. Raises GatewayError for a version or an action that is not there."""
    if signed.version not in (names.VERSION, sts.VERSION):
        message = f"Version is {signed.version[:40]}; there are {names.VERSION} and, for STS, {sts.VERSION}."
        raise GatewayError("InvalidVersion", message)
    if signed.version == sts.VERSION and signed.action in sts.ACTIONS:
        return sts.ACTIONS[signed.action]
    if signed.version == names.VERSION and signed.action in status.ACTIONS:
        return status.ACTIONS[signed.action]
    if signed.version == names.VERSION and running.exists(signed.action):
        return lambda call, parameters: running.run(signed.action, call, parameters)
    why = names.ABSENT.get(signed.action, "")
    message = f"There is no action {signed.action[:80]} in version {signed.version}{': ' if why else ''}{why}."
    raise GatewayError("InvalidAction.NotFound", message)


def _refusal(request: Request, signed: Signed | None, code: str, message: str, status_code: int) -> HttpResponse:
    body = {"RequestId": request.request_id, "HostId": request.get_host(), "Code": code, "Message": message}
    return answer(body, root="Error", xml=signed is not None and signed.xml, status=status_code)
