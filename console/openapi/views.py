"""`/json/<resource>/<operation>`: GET or POST, signed, never by session cookie."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpResponse, QueryDict
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from console.accounts.actor import Actor
from console.accounts.organizations import scope_of
from console.openapi import calls, codes, envelope
from console.openapi.authentication import REGION, authenticate, check_common
from console.openapi.operations import OPERATIONS
from console.openapi.registry import Call, Operation, Scope
from console.web.errors import Refused
from console.web.http import Request

FORM = "application/x-www-form-urlencoded"
MAX_BODY_BYTES = 1024 * 1024
"""Parameters are short texts; what is larger is no call."""


@csrf_exempt
@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def call(request: Request, path: str) -> HttpResponse:
    """Run one operation and answer with the envelope; only an unknown path is a 404, a body too large a 413."""
    operation = OPERATIONS.get(path)
    if operation is None:
        raise Http404("no such operation")
    if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BODY_BYTES:
        return _too_large(request)
    try:
        outcome = calls.attempt(path, lambda: _run(request, operation))
    except RequestDataTooBig:
        return _too_large(request)
    if isinstance(outcome, calls.Failure):
        return envelope.failure(outcome.symbol, outcome.message, request.request_id)
    return envelope.success(outcome, request.request_id)


def _run(request: Request, operation: Operation) -> Any:
    parameters = _merged(request)
    check_common(parameters)
    region = _region(parameters, operation)
    actor = authenticate(request, parameters, any_case=operation.any_case)
    _check_region(request, region)
    _check_instance(request, parameters)
    return calls.run(operation, Call(actor, _scope(request, actor)), parameters)


def _merged(request: Request) -> dict[str, str]:
    """Query string and form as one set; a name that comes twice is refused, and so is a form of another kind."""
    try:
        sources = (request.GET, request.POST if _has_form(request) else QueryDict())
    except RequestDataTooBig:
        raise
    except (BadRequest, SuspiciousOperation) as error:
        raise Refused(codes.FIELD, "The parameters cannot be read: too many of them, or not UTF-8.") from error
    merged: dict[str, str] = {}
    for source in sources:
        for name, values in source.lists():
            if name in merged or len(values) != 1:
                raise Refused(codes.FIELD, f"The parameter {name[:64]} is given more than once.", name)
            if "\0" in str(values[0]):
                raise Refused(codes.FIELD, f"The parameter {name[:64]} has a NUL character.", name)
            merged[name] = str(values[0])
    return merged


def _has_form(request: Request) -> bool:
    """False without a body. Raises Refused for a body that is not a form."""
    if request.method != "POST" or not request.body:
        return False
    if request.content_type != FORM:
        shown = (request.content_type or "nothing")[:80]
        raise Refused(codes.FIELD, f"The Content-Type is {shown}; a body of parameters is {FORM}.")
    return True


def _region(parameters: dict[str, str], operation: Operation) -> str:
    """The region asked for; empty where none is needed. Raises Refused when it is missing."""
    region = parameters.get(REGION, "")
    if not region and operation.region_required:
        if not settings.API_DEFAULT_REGION:
            raise Refused(codes.FIELD, f"The parameter {REGION} is missing; allowed is {settings.REGION}.", REGION)
        region = settings.REGION
    return region


def _check_region(request: Request, region: str) -> None:
    header = request.headers.get("x-acs-regionid", "").strip()
    if region and header and region != header:
        raise Refused(codes.FIELD, f"{REGION} is {region} but the header x-acs-regionid is {header}.", REGION)
    named = region or header
    if named and named != settings.REGION:
        message = f"The region {named} does not exist; allowed is {settings.REGION}."
        raise Refused("BIZ_REGION_NOT_FOUND", message, REGION)


def _check_instance(request: Request, parameters: dict[str, str]) -> None:
    header = request.headers.get("x-acs-instanceid", "").strip()
    for name in ("instanceId", "InstanceId"):
        instance = parameters.get(name, "")
        if instance and header and instance != header:
            raise Refused(codes.FIELD, f"{name} is {instance} but the header x-acs-instanceid is {header}.", name)


def _scope(request: Request, actor: Actor) -> Scope:
    """What the headers of organization and resource set narrow the call to. Raises Refused."""
    organization = request.headers.get("x-acs-organizationid", "").strip()
    resource_set = request.headers.get("x-acs-resourcegroupid", "").strip()
    if not organization and not resource_set:
        return Scope()
    if not organization:
        message = "The header x-acs-resourcegroupid needs the header x-acs-organizationid."
        raise Refused(codes.FIELD, message, "x-acs-organizationid")
    return Scope(*scope_of(actor, organization, resource_set))


def _too_large(request: Request) -> HttpResponse:
    message = f"The body is larger than {MAX_BODY_BYTES // 1024} KiB."
    return envelope.failure(codes.FIELD, message, request.request_id, status=413)
