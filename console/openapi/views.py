"""`/json/<resource>/<operation>`: GET or POST, signed, never by session cookie."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from console.openapi import calls, codes, envelope
from console.openapi.authentication import REGION, authenticate
from console.openapi.operations import OPERATIONS
from console.openapi.registry import Call, Operation
from console.web.errors import Refused
from console.web.http import Request


@csrf_exempt
@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def call(request: Request, path: str) -> HttpResponse:
    """Run one operation and answer with the envelope; only an unknown path is a 404."""
    operation = OPERATIONS.get(path)
    if operation is None:
        raise Http404("no such operation")
    outcome = calls.attempt(path, lambda: _run(request, operation))
    if isinstance(outcome, calls.Failure):
        return envelope.failure(outcome.symbol, outcome.message, request.request_id)
    return envelope.success(outcome, request.request_id)


def _run(request: Request, operation: Operation) -> Any:
    parameters = _merged(request)
    actor = authenticate(request, parameters)
    _check_region(request, parameters, operation)
    _check_headers(request, parameters)
    return calls.run(operation, Call(actor), parameters)


def _merged(request: Request) -> dict[str, str]:
    """Query string and form as one set; a name that comes twice is refused."""
    merged: dict[str, str] = {}
    for source in (request.GET, request.POST):
        for name, values in source.lists():
            if name in merged or len(values) != 1:
                raise Refused(codes.FIELD, f"The parameter {name} is given more than once.", name)
            merged[name] = str(values[0])
    return merged


def _check_region(request: Request, parameters: dict[str, str], operation: Operation) -> None:
    region = parameters.get(REGION, "")
    header = request.headers.get("x-acs-regionid", "")
    if region and header and region != header:
        raise Refused(codes.FIELD, f"_regionId is {region} but the header x-acs-regionid is {header}.", REGION)
    if not region:
        if operation.region_required:
            raise Refused(codes.FIELD, f"The parameter _regionId is missing; allowed is {settings.REGION}.", REGION)
        return
    if region != settings.REGION:
        raise Refused("BIZ_REGION_NOT_FOUND", f"The region {region} does not exist; allowed is {settings.REGION}.")


def _check_headers(request: Request, parameters: dict[str, str]) -> None:
    instance, header = parameters.get("instanceId", ""), request.headers.get("x-acs-instanceid", "")
    if instance and header and instance != header:
        raise Refused(codes.FIELD, f"instanceId is {instance} but the header x-acs-instanceid is {header}.")
    if request.headers.get("x-acs-resourcegroupid") and not request.headers.get("x-acs-organizationid"):
        raise Refused(codes.FIELD, "The header x-acs-resourcegroupid needs the header x-acs-organizationid.")
