"""Running one operation: the same for `/json/…` and for the RPC style. What goes wrong becomes a Failure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from pydantic import TypeAdapter, ValidationError

from brokercore.client.errors import ClientError
from console.audit import attempts as audit
from console.openapi import codes, throttle
from console.openapi.envelope import Page
from console.openapi.registry import Call, Operation
from console.web import full_disk
from console.web.errors import Refused

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """Why a call was refused or failed: a symbol of `codes.CODES` and one sentence for the caller."""

    symbol: str
    message: str


def attempt(path: str, work: Callable[[], Any]) -> Any | Failure:
    """The outcome of `work`, or the Failure that it ended with; what is unexpected is logged and not told."""
    try:
        return work()
    except Refused as refused:
        return Failure(refused.symbol, refused.message)
    except ValidationError as invalid:
        return Failure(codes.FIELD, _first_error(invalid))
    except PermissionDenied as denied:
        return Failure(codes.PERMISSION, str(denied))
    except ClientError as error:
        log.warning("%s: broker call failed: %s", path, error)
        return Failure(codes.INVOKE, full_disk.reason(error) or error.user_message)
    except Exception as error:
        reason = full_disk.reason(error)
        if reason:
            log.warning("%s: %s", path, error)
        else:
            log.exception("%s failed", path)
        return Failure(codes.SYSTEM, reason or "An unexpected error; the log has it.")


def run(operation: Operation, call: Call, parameters: Mapping[str, str]) -> Any | Page:
    """Count, validate, run, and turn the result into JSON values. Raises what `attempt` knows."""
    throttle.check_call(operation, call.actor)
    given = operation.parameters.model_validate(dict(parameters))
    names = [parameters[name] for name in ("instanceId", "topic", "groupId") if parameters.get(name)]
    with audit.attempt(call.actor, f"openapi.{operation.path}", "%".join(names), reads=not operation.changes):
        result = operation.handler(call, given)
    if isinstance(result, Page):
        return Page([_plain(entry) for entry in result.entries], result.number, result.size, result.total)
    return _plain(result)


_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


def _plain(value: Any) -> Any:
    return _ANYTHING.dump_python(value, mode="json", by_alias=True)


def _first_error(invalid: ValidationError) -> str:
    error = invalid.errors(include_url=False, include_context=False)[0]
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "missing" or (error["type"] == "string_too_short" and not error["input"]):
        return f"The parameter {name} is missing."
    reason = error["msg"].removeprefix("Value error, ")
    return f"The parameter {name} is not valid: {reason}." if name else f"{reason[:1].upper()}{reason[1:]}."
