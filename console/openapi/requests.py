"""What both styles of the API read from a request: one set of parameters, and what the headers narrow it to."""

from __future__ import annotations

from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.http import HttpRequest, QueryDict

from console.accounts.actor import Actor
from console.accounts.organizations import scope_of
from console.openapi import codes
from console.openapi.registry import Scope
from console.web.errors import Refused

FORM = "application/x-www-form-urlencoded"
MAX_BODY_BYTES = 1024 * 1024
"""Parameters are short texts; what is larger is no call."""
TOO_LARGE = f"The body is larger than {MAX_BODY_BYTES // 1024} KiB."


def too_large(request: HttpRequest) -> bool:
    """True when the body is announced as larger than any call's."""
    return int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BODY_BYTES


def merged(request: HttpRequest) -> dict[str, str]:
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


def _has_form(request: HttpRequest) -> bool:
    """False without a body. Raises Refused for a body that is not a form."""
    if request.method != "POST" or not request.body:
        return False
    if request.content_type != FORM:
        shown = (request.content_type or "nothing")[:80]
        raise Refused(codes.FIELD, f"The Content-Type is {shown}; a body of parameters is {FORM}.")
    return True


def scope(request: HttpRequest, actor: Actor) -> Scope:
    """What the headers of organization and resource set narrow the call to. Raises Refused."""
    organization = request.headers.get("x-acs-organizationid", "").strip()
    resource_set = request.headers.get("x-acs-resourcegroupid", "").strip()
    if not organization and not resource_set:
        return Scope()
    if not organization:
        message = "The header x-acs-resourcegroupid needs the header x-acs-organizationid."
        raise Refused(codes.FIELD, message, "x-acs-organizationid")
    return Scope(*scope_of(actor, organization, resource_set))
