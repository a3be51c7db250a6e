"""The OpenAPI document of the management API, made from the declarations of the operations and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.conf import settings
from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from console.openapi import envelope
from console.openapi.authentication import ACCESS_KEY, REGION, SIGNATURE, TIMESTAMP, TOKEN
from console.openapi.envelope import CODES
from console.openapi.operations import OPERATIONS
from console.openapi.registry import Operation

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

VERSION = "3.8.1"
"""Of the vendor's product whose callers work unchanged."""
RPC_VERSION = "2019-02-14"
GANTRY_VERSION = "gantry-1"
FORM = "application/x-www-form-urlencoded"
COMMON_ERRORS = (
    envelope.SIGNATURE, envelope.PERMISSION, envelope.FIELD, "BIZ_REGION_NOT_FOUND", "ONS_SERVICE_UNSUPPORTED",
    envelope.INVOKE, envelope.SYSTEM, "BIZ_THROTTLED", "BIZ_CLUSTER_READ_ONLY",
)  # fmt: skip
"""What every operation can answer."""
_DEFINITION = "#/components/schemas/{model}"
_NOTHING = {"type": ["object", "null"], "maxProperties": 0, "description": "Nothing."}


def _envelope(description: str, **own: Any) -> dict[str, Any]:
    properties = {name: schema | own.get(name, {}) for name, schema in _FIELDS.items()}
    return {"type": "object", "description": description, "properties": properties, "required": list(_FIELDS)}


ENVELOPE: dict[str, Any] = {
    "Success": _envelope(
        "The call succeeded.",
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


def common_parameters(regions: Sequence[str]) -> dict[str, Any]:
    """The parameters that every operation takes; `regions` are those of this deployment, the default first."""
    text = {"type": "string"}
    region = text | ({"enum": list(regions)} if len(regions) > 1 else {}) | {"examples": [regions[0]]}
    which = "The region: nothing is found but what is there." if len(regions) > 1 else "The region."
    clock = "The caller's clock, milliseconds since the epoch; two underscores."
    return {
        "Timestamp": _common(TIMESTAMP, clock, {"type": "integer", "minimum": 1, "format": "epoch-ms"}, required=True),
        "Region": _common(REGION, which, region | {"default": regions[0]}, required=True),
        "OptionalRegion": _common(REGION, "The region; not needed here.", region),
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


def document() -> dict[str, Any]:
    """The whole document; paths are relative to the server that answers with it."""
    return copy.deepcopy(_built(frozenset(OPERATIONS), tuple(settings.REGIONS)))


def api_version(operation: Operation) -> str:
    """What a call of an SDK names as the version: that of the RPC style where the operation exists there."""
    if operation.extension:
        return GANTRY_VERSION
    return RPC_VERSION if operation.rpc else VERSION


def errors_of(operation: Operation) -> list[str]:
    """The symbols that the operation can answer, its own first."""
    return [*operation.errors, *(symbol for symbol in COMMON_ERRORS if symbol not in operation.errors)]


@lru_cache(maxsize=2)
def _built(_paths: frozenset[str], known_regions: tuple[str, ...]) -> dict[str, Any]:
    schemas, definitions = _schemas()
    services = sorted({operation.service for operation in OPERATIONS.values()})
    return {
        "openapi": "3.1.0",
        "info": {"title": "Gantry management API", "version": VERSION, "description": INTRODUCTION},
        "servers": [{"url": "/"}],
        "tags": [{"name": service} for service in services],
        "security": [{"accessKey": [], "signature": []}],
        "paths": {f"/json/{path}": _path_item(o, schemas) for path, o in sorted(OPERATIONS.items())},
        "components": {
            "schemas": definitions | ENVELOPE | {"Symbol": symbols()},
            "parameters": common_parameters(known_regions),
            "securitySchemes": security_schemes(),
        },
    }


def _schemas() -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The schemas of every operation's parameters (`in <path>`) and data (`out <path>`), and what they refer to."""
    wanted: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = []
    for path, operation in OPERATIONS.items():
        wanted.append((f"in {path}", "validation", TypeAdapter(operation.parameters)))
        if operation.result is not None:
            wanted.append((f"out {path}", "serialization", TypeAdapter(operation.result)))
    built, root = TypeAdapter.json_schemas(wanted, ref_template=_DEFINITION)
    definitions = root.get("$defs", {})
    schemas: dict[str, dict[str, Any]] = {name: dict(schema) for (name, _), schema in built.items()}
    for path, operation in OPERATIONS.items():
        parameters = schemas[f"in {path}"]
        if "$ref" in parameters:
            schemas[f"in {path}"] = definitions[parameters["$ref"].rpartition("/")[2]]
        if operation.result is None:
            schemas[f"out {path}"] = _NOTHING
    inputs = {operation.parameters.__name__ for operation in OPERATIONS.values()}
    return schemas, {name: schema for name, schema in definitions.items() if name not in inputs}


def _path_item(operation: Operation, schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    parameters = schemas[f"in {operation.path}"]
    properties = {name: _on_the_wire(name, schema) for name, schema in parameters.get("properties", {}).items()}
    required = [name for name in parameters.get("required", []) if name in properties]
    shared = {
        "tags": [operation.service],
        "summary": operation.summary,
        "description": operation.description,
        "responses": {"200": _answer(operation, schemas[f"out {operation.path}"])},
        "x-gantry": _facts(operation, properties),
    }
    name = operation.path.replace("/", ".")
    query = [_parameter(n, schema, n in required) for n, schema in properties.items()]
    form = {"type": "object", "properties": properties, "required": required}
    post: dict[str, Any] = {"operationId": name} | shared
    if properties:
        post["requestBody"] = {"content": {FORM: {"schema": form}}, "required": bool(required)}
    region = "Region" if operation.region_required else "OptionalRegion"
    return {
        "parameters": [{"$ref": f"#/components/parameters/{common}"} for common in ("Timestamp", region, "Token")],
        "get": {"operationId": f"{name}.get"} | shared | {"parameters": query},
        "post": post,
    }


def _parameter(name: str, schema: dict[str, Any], required: bool) -> dict[str, Any]:
    built = {"name": name, "in": "query", "required": required, "schema": schema}
    if "description" in schema:
        built["description"] = schema["description"]
    return built


def _on_the_wire(name: str, declared: dict[str, Any]) -> dict[str, Any]:
    """A parameter as text can carry it: there is no null, and a default of nothing says nothing."""
    schema = {key: value for key, value in declared.items() if key != "title"}
    variants = [variant for variant in schema.pop("anyOf", []) if variant.get("type") != "null"]
    if len(variants) == 1:
        schema |= variants[0]
    elif variants:
        schema["anyOf"] = variants
    if schema.get("default") in (None, ""):
        schema.pop("default", None)
    if schema.get("type") == "integer" and name.lower().endswith(("time", "timestamp")):
        schema["format"] = "epoch-ms"
    return schema


def _facts(operation: Operation, properties: dict[str, Any]) -> dict[str, Any]:
    """What OpenAPI has no word for and our command line and API Tool use."""
    task = next((name for name in properties if name.lower() == "taskid"), "")
    return {
        "path": operation.path,
        "service": operation.service,
        "changes": operation.changes,
        "paging": "pages" if operation.paged else "task" if task else "",
        "rpc": operation.rpc,
        "version": api_version(operation),
        "extension": operation.extension,
        "regionRequired": operation.region_required,
        "regional": operation.is_regional,
        "errors": errors_of(operation),
    }


def _answer(operation: Operation, data: dict[str, Any]) -> dict[str, Any]:
    entries = {"type": "array", "items": data} if operation.paged else data
    success = {
        "allOf": [
            {"$ref": "#/components/schemas/Success"},
            {"type": "object", "properties": {"data": entries}, "required": ["data"]},
        ]
    }
    listed = "\n".join(f"- `{symbol}` {envelope.CODES[symbol].message}" for symbol in errors_of(operation))
    return {
        "description": f"The envelope; `success` tells. Symbols of failures:\n\n{listed}",
        "content": {
            "application/json": {
                "schema": {"oneOf": [success, {"$ref": "#/components/schemas/Failure"}]},
                "examples": {
                    "failure": {"summary": "A refusal", "value": example(errors_of(operation)[0])},
                },
            }
        },
    }
