"""The OpenAPI document of the management API, made from the declarations of the operations and nothing else."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

from django.conf import settings
from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from console.openapi import codes
from console.openapi.operations import OPERATIONS
from console.openapi.registry import Operation
from console.openapi.wording import ENVELOPE, INTRODUCTION, common_parameters, example, security_schemes, symbols

VERSION = "3.8.1"
"""Of the vendor's product whose callers work unchanged."""
RPC_VERSION = "2019-02-14"
GANTRY_VERSION = "gantry-1"
FORM = "application/x-www-form-urlencoded"
COMMON_ERRORS = (
    codes.SIGNATURE, codes.PERMISSION, codes.FIELD, "BIZ_REGION_NOT_FOUND", "ONS_SERVICE_UNSUPPORTED", codes.INVOKE,
    codes.SYSTEM, "BIZ_THROTTLED",
)  # fmt: skip
"""What every operation can answer."""
_DEFINITION = "#/components/schemas/{model}"
_NOTHING = {"type": ["object", "null"], "maxProperties": 0, "description": "Nothing."}


def document() -> dict[str, Any]:
    """The whole document; paths are relative to the server that answers with it."""
    return copy.deepcopy(_built(frozenset(OPERATIONS)))


def api_version(operation: Operation) -> str:
    """What a call of an SDK names as the version: that of the RPC style where the operation exists there."""
    if operation.extension:
        return GANTRY_VERSION
    return RPC_VERSION if operation.rpc else VERSION


def errors_of(operation: Operation) -> list[str]:
    """The symbols that the operation can answer, its own first."""
    return [*operation.errors, *(symbol for symbol in COMMON_ERRORS if symbol not in operation.errors)]


@lru_cache(maxsize=2)
def _built(_paths: frozenset[str]) -> dict[str, Any]:
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
            "parameters": common_parameters(settings.REGION),
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
    listed = "\n".join(f"- `{symbol}` {codes.CODES[symbol].message}" for symbol in errors_of(operation))
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
