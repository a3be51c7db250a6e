"""One operation of the OpenAPI document as people read it: parameters with their rules, fields of the result."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from console.openapi.document import FORM, document
from console.openapi.envelope import CODES

_TYPE_BOUNDS = (2**31 - 1, 2**63 - 1)
_DEPTH = 4
"""Results are nested this deep at most; a deeper one would refer to itself."""

_GLOSSARY = {
    "instanceId": "ID of the instance.",
    "instanceName": "Name of the instance.",
    "topic": "Name of the topic.",
    "groupId": "The group ID.",
    "remark": "The description.",
    "regionId": "ID of the region.",
    "taskId": "ID of the query task, for the next pages.",
    "maxPageCount": "Number of pages.",
    "currentPage": "The page that this is.",
}
"""Fields that say the same wherever they are, and need no words of their own in each declaration."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operation: `rule` in words, `choices` for a fixed set of values."""

    name: str
    type: str
    required: bool
    rule: str
    description: str
    choices: tuple[str, ...]
    default: str
    is_time: bool

    @property
    def figures(self) -> list[str]:
        """The numbers in the rule."""
        return re.findall(r"[0-9]+", self.rule)


@dataclass(frozen=True)
class Field:
    """A field of the result; `name` with dots and [] says where it is."""

    name: str
    type: str
    description: str


@dataclass(frozen=True)
class Reference:
    """All that is said of one operation."""

    path: str
    service: str
    summary: str
    description: str
    version: str
    rpc: str
    changes: bool
    extension: bool
    region_required: bool
    paging: str
    parameters: list[Parameter]
    fields: list[Field]
    errors: list[tuple[str, int, str]]

    @property
    def name(self) -> str:
        """The operation within its resource: `listInPage` of `topic/listInPage`."""
        return self.path.rpartition("/")[2]


def references() -> list[Reference]:
    """All operations, by service and path."""
    built = document()
    definitions = built["components"]["schemas"]
    found = [_reference(item["post"], definitions) for item in built["paths"].values()]
    return sorted(found, key=lambda reference: (reference.extension, reference.service, reference.path))


def reference(path: str) -> Reference | None:
    """The operation `/json/<path>`, or None."""
    built = document()
    item = built["paths"].get(f"/json/{path}")
    return _reference(item["post"], built["components"]["schemas"]) if item else None


def markdown_table() -> str:
    """The operations as the table of docs/use/management-api.md."""
    lines = ["| operation | what it does | changes | RPC action |", "| --- | --- | --- | --- |"]
    for entry in references():
        mark = " (ours)" if entry.extension else ""
        rpc = f"`{entry.rpc}`" if entry.rpc else ""
        lines.append(f"| `/json/{entry.path}`{mark} | {entry.summary} | {'yes' if entry.changes else ''} | {rpc} |")
    return "\n".join(lines)


def _reference(operation: dict[str, Any], definitions: dict[str, Any]) -> Reference:
    facts = operation["x-gantry"]
    form = operation.get("requestBody", {}).get("content", {}).get(FORM, {}).get("schema", {})
    required = form.get("required", [])
    success = operation["responses"]["200"]["content"]["application/json"]["schema"]["oneOf"][0]
    data = success["allOf"][1]["properties"]["data"]
    return Reference(
        path=facts["path"],
        service=facts["service"],
        summary=operation["summary"],
        description=operation["description"],
        version=facts["version"],
        rpc=facts["rpc"],
        changes=facts["changes"],
        extension=facts["extension"],
        region_required=facts["regionRequired"],
        paging=facts["paging"],
        parameters=sorted(
            (_parameter(n, s, n in required) for n, s in form.get("properties", {}).items()),
            key=lambda parameter: not parameter.required,
        ),
        fields=_fields("data", data, definitions, _DEPTH),
        errors=[(symbol, CODES[symbol].code, CODES[symbol].message) for symbol in facts["errors"]],
    )


def _parameter(name: str, schema: dict[str, Any], required: bool) -> Parameter:
    is_time = schema.get("format") == "epoch-ms"
    choices = tuple(str(value) for value in schema.get("enum", [schema["const"]] if "const" in schema else []))
    if schema.get("type") == "boolean":
        choices = ("true", "false")
    default = schema.get("default", "")
    return Parameter(
        name=name,
        type=_type(schema),
        required=required,
        rule=_rule(schema, is_time),
        description=schema.get("description", ""),
        choices=choices,
        default=str(default).lower() if isinstance(default, bool) else str(default),
        is_time=is_time,
    )


def _rule(schema: dict[str, Any], is_time: bool) -> str:
    """The constraints in words."""
    said = []
    if "enum" in schema:
        said.append("one of " + ", ".join(str(value) for value in schema["enum"]))
    most = schema.get("maximum")
    # A bound of the type is no rule that anybody meets.
    said += _range(schema.get("minimum"), most if most not in _TYPE_BOUNDS else None, "") if not is_time else []
    said += _range(schema.get("minLength"), schema.get("maxLength"), " characters")
    if "pattern" in schema:
        said.append(f"form {schema['pattern']}")
    if is_time:
        said.append("milliseconds since the epoch")
    return "; ".join(said)


def _range(least: Any, most: Any, unit: str) -> list[str]:
    if least is None and most is None:
        return []
    if least is not None and most is not None:
        return [f"{least} to {most}{unit}"]
    return [f"at least {least}{unit}" if least is not None else f"at most {most}{unit}"]


def _type(schema: dict[str, Any]) -> str:
    kind = schema.get("type") or ("integer" if all(isinstance(v, int) for v in schema.get("enum", [""])) else "string")
    kinds = [k for k in (kind if isinstance(kind, list) else [kind]) if k != "null"]
    return {"integer": "Integer", "number": "Float", "boolean": "Boolean", "array": "List", "object": "Object"}.get(
        kinds[0] if kinds else "", "String"
    )


def _fields(name: str, schema: dict[str, Any], definitions: dict[str, Any], depth: int) -> list[Field]:
    """The schema's own line and those of what is inside."""
    described = schema.get("description", "") or _GLOSSARY.get(name.rpartition(".")[2], "")
    inner = _resolved(schema, definitions)
    kind = _type(inner)
    found = [Field(name, kind, described or inner.get("description", ""))]
    if depth == 0:
        return found
    if kind == "List":
        items = _resolved(inner.get("items", {}), definitions)
        if items.get("properties"):
            return found + _inside(f"{name}[]", items, definitions, depth)
        return [Field(f"{name}[]", _type(items), found[0].description)]
    return found + _inside(name, inner, definitions, depth)


def _inside(name: str, schema: dict[str, Any], definitions: dict[str, Any], depth: int) -> list[Field]:
    return [
        field
        for key, value in schema.get("properties", {}).items()
        for field in _fields(f"{name}.{key}", value, definitions, depth - 1)
    ]


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema itself, behind a reference and without the variant null."""
    variants = [v for v in schema.get("anyOf", []) if v.get("type") != "null"]
    if len(variants) == 1:
        schema = variants[0]
    if "$ref" in schema:
        resolved: dict[str, Any] = definitions[schema["$ref"].rpartition("/")[2]]
        return resolved
    return schema
