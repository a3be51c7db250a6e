"""What the OpenAPI document says of every operation alike: envelope, common parameters, how to sign."""

from __future__ import annotations

from typing import Any

from console.openapi.authentication import REGION, TIMESTAMP, TOKEN
from console.openapi.codes import CODES
from console.openapi.signature import ACCESS_KEY, SIGNATURE

SIGNING = f"""\
1. Take all parameters of the call, common ones and its own, but `{SIGNATURE}`.
2. Sort them by name in byte order: capitals, then `_`, then small letters.
3. Join the values, with nothing between them.
4. Make the HMAC-SHA1 of that text in UTF-8 with the AccessKey secret, and write it in Base64.
5. Send it as `{SIGNATURE}`, URL-encoded like every other value."""

INTRODUCTION = f"""\
One GET or POST a call, parameters in the query string or as a form. The answer is an envelope with HTTP status 200
for everything that reaches the API; `success` and `code` in it tell how the call went.

How to sign:

{SIGNING}
"""

_FIELDS: dict[str, Any] = {
    "success": {"type": "boolean"},
    "code": {"type": "integer", "description": "200, or the number of the failure."},
    "status": {"type": "string", "description": "`SUCCESS`, or the symbol of the failure."},
    "message": {"type": "string", "description": "A fixed text for each symbol."},
    "data": {"description": "What the operation returns; null for a failure."},
    "currentPage": {"type": "integer", "minimum": 0, "description": "Page of a paged list, else 0."},
    "pageSize": {"type": "integer", "minimum": 0, "description": "Entries a page of a paged list, else 0."},
    "total": {"type": "integer", "minimum": 0, "description": "Entries in all of a paged list, else 0."},
    "dynamicCode": {"type": "string", "description": "The symbol of the failure, else empty."},
    "dynamicMessage": {"type": "string", "description": "The sentence that says what is wrong, else empty."},
    "requestId": {"type": "string", "description": "Also in the header X-Request-Id, the log and the audit."},
    "helpUrl": {"type": ["string", "null"]},
}


def _envelope(description: str, **own: Any) -> dict[str, Any]:
    properties = {name: schema | own.get(name, {}) for name, schema in _FIELDS.items()}
    return {"type": "object", "description": description, "properties": properties, "required": list(_FIELDS)}


ENVELOPE: dict[str, Any] = {
    "Success": _envelope(
        "The call did what it should.",
        success={"const": True},
        code={"const": 200},
        status={"const": "SUCCESS"},
    ),
    "Failure": _envelope(
        "The call was refused or failed.",
        success={"const": False},
        status={"$ref": "#/components/schemas/Symbol"},
        dynamicCode={"$ref": "#/components/schemas/Symbol"},
        data={"type": "null"},
    ),
}


def symbols() -> dict[str, Any]:
    """Every symbol that a failure can carry, with its number and its text."""
    listed = "\n".join(f"- `{symbol}` {code.code}: {code.message}" for symbol, code in CODES.items())
    return {"type": "string", "enum": list(CODES), "description": f"Symbols of failures:\n\n{listed}"}


def example(symbol: str) -> dict[str, Any]:
    """The envelope of a failure with this symbol."""
    return {
        "success": False, "code": CODES[symbol].code, "status": symbol, "message": CODES[symbol].message, "data": None,
        "currentPage": 0, "pageSize": 0, "total": 0, "dynamicCode": symbol,
        "dynamicMessage": "One sentence that says what is wrong.",
        "requestId": "7c1e0f0a-55d1-4a0a-9c53-0f6a2f5f9b10", "helpUrl": None,
    }  # fmt: skip


def common_parameters(region: str) -> dict[str, Any]:
    """The parameters that every operation takes; `region` is that of this deployment."""
    text = {"type": "string"}
    clock = "The caller's clock, milliseconds since the epoch; two underscores."
    return {
        "Timestamp": _common(TIMESTAMP, clock, {"type": "integer", "minimum": 1, "format": "epoch-ms"}, required=True),
        "Region": _common(REGION, "The region.", text | {"examples": [region], "default": region}, required=True),
        "OptionalRegion": _common(REGION, "The region; not needed here.", text | {"examples": [region]}),
        "Token": _common(TOKEN, "The security token of a temporary AccessKey.", text),
    }


def _common(name: str, description: str, schema: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "description": description, "schema": schema}


def security_schemes() -> dict[str, Any]:
    """An AccessKey ID and a signature; OpenAPI has no word for how the second is computed."""
    return {
        "accessKey": {"type": "apiKey", "in": "query", "name": ACCESS_KEY, "description": "The AccessKey ID."},
        "signature": {"type": "apiKey", "in": "query", "name": SIGNATURE, "description": SIGNING},
    }
