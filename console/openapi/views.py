"""`/json/<resource>/<operation>`: GET or POST, signed, never by session cookie."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from console.accounts.http import Request
from console.openapi import calls, envelope
from console.openapi.authentication import REGION, authenticate, check_common
from console.openapi.calls import TOO_LARGE, merged, scope, too_large
from console.openapi.operations import OPERATIONS
from console.openapi.registry import Call, Operation
from console.web import regions
from console.web.errors import Refused


@csrf_exempt
@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def call(request: Request, path: str) -> HttpResponse:
    """Run one operation and answer with the envelope; only an unknown path is a 404, a body too large a 413."""
    operation = OPERATIONS.get(path)
    if operation is None:
        raise Http404("no such operation")
    if too_large(request):
        return _refused_as_too_large(request)
    try:
        outcome = calls.attempt(path, lambda: _run(request, operation))
    except RequestDataTooBig:
        return _refused_as_too_large(request)
    if isinstance(outcome, calls.Failure):
        return envelope.failure(outcome.symbol, outcome.message, request.request_id)
    return envelope.success(outcome, request.request_id)


def _run(request: Request, operation: Operation) -> Any:
    parameters = merged(request)
    check_common(parameters)
    region = _region(request, parameters, operation)
    actor = authenticate(request, parameters, operation)
    _check_region(request, region)
    _check_instance(request, parameters)
    return calls.run(operation, Call(actor, scope(request, actor), region), parameters)


def _region(request: Request, parameters: dict[str, str], operation: Operation) -> str:
    """The region asked for; empty where none is needed. Raises Refused when it is missing.

    Old callers say it by the address alone, or not at all, where GANTRY_API_DEFAULT_REGION lets them.
    """
    region = parameters.get(REGION, "")
    if not region and operation.region_required:
        if not settings.API_DEFAULT_REGION:
            raise Refused(envelope.FIELD, f"The parameter {REGION} is missing; {regions.allowed()}.", REGION)
        region = regions.of_host(request.get_host()) or regions.default()
    return region


def _check_region(request: Request, region: str) -> None:
    """The signed parameter counts, and is a region that there is; what is not signed must not say another one."""
    header, host = request.headers.get("x-acs-regionid", "").strip(), regions.of_host(request.get_host())
    if region and header and region != header:
        raise Refused(envelope.FIELD, f"{REGION} is {region} but the header x-acs-regionid is {header}.", REGION)
    if region or header:
        regions.checked(region or header, REGION)
    if region and host and region != host:
        message = f"{REGION} is {region} but the address is that of the region {host}."
        raise Refused(envelope.FIELD, message, REGION)


def _check_instance(request: Request, parameters: dict[str, str]) -> None:
    header = request.headers.get("x-acs-instanceid", "").strip()
    for name in ("instanceId", "InstanceId"):
        instance = parameters.get(name, "")
        if instance and header and instance != header:
            raise Refused(envelope.FIELD, f"{name} is {instance} but the header x-acs-instanceid is {header}.", name)


def _refused_as_too_large(request: Request) -> HttpResponse:
    return envelope.failure(envelope.FIELD, TOO_LARGE, request.request_id, status=413)
