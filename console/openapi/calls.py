"""A call, the same for `/json/…` and for the RPC style: what it brings with it, and running its operation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import HttpRequest, QueryDict
from pydantic import TypeAdapter, ValidationError

from brokercore.client.errors import ClientError
from brokercore.smq.client import QueueServiceUnavailable
from console.accounts.actor import Actor
from console.accounts.organizations import Scope, scope_of
from console.audit.record import attempts as audit
from console.openapi import envelope, throttle
from console.openapi.envelope import Page
from console.openapi.registry import Call, Operation, Parameters
from console.web import full_disk
from console.web.errors import Refused

log = logging.getLogger(__name__)

FORM = "application/x-www-form-urlencoded"
MAX_BODY_BYTES = 1024 * 1024
"""Parameters are short texts; what is larger is no call."""
TOO_LARGE = f"The body is larger than {MAX_BODY_BYTES // 1024} KiB."

_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


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
        raise Refused(envelope.FIELD, "The parameters cannot be read: too many of them, or not UTF-8.") from error
    merged: dict[str, str] = {}
    for source in sources:
        for name, values in source.lists():
            if name in merged or len(values) != 1:
                raise Refused(envelope.FIELD, f"The parameter {name[:64]} is given more than once.", name)
            if "\0" in str(values[0]):
                raise Refused(envelope.FIELD, f"The parameter {name[:64]} has a NUL character.", name)
            merged[name] = str(values[0])
    return merged


def _has_form(request: HttpRequest) -> bool:
    """False without a body. Raises Refused for a body that is not a form."""
    if request.method != "POST" or not request.body:
        return False
    if request.content_type != FORM:
        shown = (request.content_type or "nothing")[:80]
        raise Refused(envelope.FIELD, f"The Content-Type is {shown}; a body of parameters is {FORM}.")
    return True


def scope(request: HttpRequest, actor: Actor) -> Scope:
    """What the headers of organization and resource set narrow the call to. Raises Refused."""
    organization = request.headers.get("x-acs-organizationid", "").strip()
    resource_set = request.headers.get("x-acs-resourcegroupid", "").strip()
    if not organization and not resource_set:
        return Scope()
    if not organization:
        message = "The header x-acs-resourcegroupid needs the header x-acs-organizationid."
        raise Refused(envelope.FIELD, message, "x-acs-organizationid")
    return scope_of(actor, organization, resource_set)


@dataclass(frozen=True)
class Failure:
    """Why a call was refused or failed: a symbol of `envelope.CODES` and one sentence for the caller."""

    symbol: str
    message: str


def attempt(path: str, work: Callable[[], Any]) -> Any | Failure:
    """The outcome of `work`, or the Failure that it ended with; what is unexpected is logged and not told."""
    try:
        return work()
    except Refused as refused:
        return Failure(refused.symbol, refused.message)
    except ValidationError as invalid:
        return Failure(envelope.FIELD, first_error(invalid))
    except PermissionDenied as denied:
        return Failure(envelope.PERMISSION, str(denied))
    except (ClientError, QueueServiceUnavailable) as error:
        log.warning("%s: call of a service behind it failed: %s", path, error)
        told = error.user_message if isinstance(error, ClientError) else str(error)
        return Failure(envelope.INVOKE, full_disk.reason(error) or told)
    except Exception as error:
        reason = full_disk.reason(error)
        if reason:
            log.warning("%s: %s", path, error)
        else:
            log.exception("%s failed", path)
        return Failure(envelope.SYSTEM, reason or "An unexpected error; the log has it.")


def run(operation: Operation, call: Call, parameters: Mapping[str, str]) -> Any | Page:
    """Count, validate, run, and turn the result into JSON values. Raises what `attempt` knows."""
    given = checked(operation, call, parameters)
    action, resource = attempted(operation, parameters)
    with audit.attempt(call.actor, action, resource, reads=not operation.changes):
        result = operation.handler(call, given)
    return in_json(result)


def checked(operation: Operation, call: Call, parameters: Mapping[str, str]) -> Parameters:
    """The parameters of a call, which is counted. Raises Refused BIZ_THROTTLED, ValidationError."""
    throttle.check_call(operation.limit, call.actor)
    return operation.parameters.model_validate(dict(parameters))


def attempted(operation: Operation, parameters: Mapping[str, str]) -> tuple[str, str]:
    """What the audit trail calls a call of which nothing else is recorded, and what it is about."""
    names = [parameters[name] for name in ("instanceId", "topic", "groupId", "queue", "job") if parameters.get(name)]
    return f"openapi.{operation.path}", "%".join(names)


def in_json(result: Any) -> Any | Page:
    """What a handler returned as JSON values."""
    if isinstance(result, Page):
        return Page([_plain(entry) for entry in result.entries], result.number, result.size, result.total)
    return _plain(result)


def _plain(value: Any) -> Any:
    return _ANYTHING.dump_python(value, mode="json", by_alias=True)


def first_error(invalid: ValidationError) -> str:
    """What is wrong with the parameters, in one sentence that tells none of their values."""
    error = invalid.errors(include_url=False, include_context=False)[0]
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "missing" or (error["type"] == "string_too_short" and not error["input"]):
        return f"The parameter {name} is missing."
    reason = error["msg"].removeprefix("Value error, ")
    return f"The parameter {name} is not valid: {reason}." if name else f"{reason[:1].upper()}{reason[1:]}."
