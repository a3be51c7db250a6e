"""The operations of a server, from its OpenAPI document; the last one is kept, so that help works offline."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gantry_cli import config
from gantry_cli.errors import UNREACHABLE, CliError
from gantry_cli.texts import _

FRESH_SECONDS = 3600
"""A document that is younger is not asked for again."""
_SHORT = 4096
"""Characters of a text that people type on a command line."""
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Parameter:
    """One parameter: `kind` is text, integer, boolean or time; `choices` for a fixed set."""

    name: str
    kind: str
    required: bool
    description: str
    choices: tuple[str, ...]
    rule: str
    is_long: bool = False
    """A text that may be a file's: a statement, a body, a secret."""


@dataclass(frozen=True)
class Operation:
    """One operation; `paging` is pages, task or empty."""

    path: str
    summary: str
    description: str
    changes: bool
    paging: str
    region_required: bool
    errors: tuple[str, ...]
    parameters: tuple[Parameter, ...]

    @property
    def service(self) -> str:
        """The first part of the path: `topic` of `topic/listInPage`."""
        return self.path.partition("/")[0]

    @property
    def name(self) -> str:
        """The second part of the path."""
        return self.path.partition("/")[2]


class Catalog:
    """Operations by path."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.operations = {
            item["post"]["x-gantry"]["path"]: _operation(item["post"]) for item in document["paths"].values()
        }

    def services(self) -> list[str]:
        """The services, by name."""
        return sorted({operation.service for operation in self.operations.values()})

    def of(self, service: str) -> list[Operation]:
        """The operations of a service, by name."""
        found = [o for o in self.operations.values() if o.service == service]
        return sorted(found, key=lambda operation: operation.name)


def load(profile: config.Profile, *, offline: bool = False, renew: bool = False) -> Catalog:
    """The operations of the profile's server: the kept ones while they are fresh or the server does not answer.

    `offline` (shell completion) asks the server for nothing, `renew` always does. Raises CliError when there are none.
    """
    kept = _kept(_file(profile))
    fresh = kept is not None and time.time() - kept["fetched_at"] < FRESH_SECONDS
    if kept is None or (not offline and (renew or not fresh)):
        kept = _renewed(profile, kept, offline=offline)
    try:
        return Catalog(json.loads(kept["document"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = _("%(url)s does not list its operations as Gantry does.") % {"url": profile.url}
        raise CliError(said, UNREACHABLE) from error


def _renewed(profile: config.Profile, kept: dict[str, Any] | None, *, offline: bool) -> dict[str, Any]:
    from gantry_cli import transport  # httpx is slow to load, and completion has to be quick

    if offline:
        raise CliError(_("No list of operations is stored yet."), UNREACHABLE)
    try:
        fetched = transport.fetch_document(profile, kept["etag"] if kept else "")
    except CliError as error:
        if kept is not None:
            return kept
        said = _("%(error)s No list of its operations is stored either.") % {"error": error.message}
        raise CliError(said, error.status) from error
    document = fetched.text or (kept or {}).get("document", "")
    return _keep(_file(profile), {"fetched_at": time.time(), "etag": fetched.etag, "document": document})


def _file(profile: config.Profile) -> Path:
    return config.cache_folder() / f"{hashlib.sha256(profile.url.encode()).hexdigest()[:24]}.json"


def _kept(file: Path) -> dict[str, Any] | None:
    """The kept document; one that cannot be read is as good as none."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) and {"fetched_at", "etag", "document"} <= set(kept) else None


def _keep(file: Path, kept: dict[str, Any]) -> dict[str, Any]:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new_file = file.with_suffix(f".{os.getpid()}")
        new_file.write_text(json.dumps(kept), encoding="utf-8")
        new_file.replace(file)
    except OSError:
        return kept  # a folder that cannot be written costs the next command one question to the server
    return kept


def _operation(declared: dict[str, Any]) -> Operation:
    facts = declared["x-gantry"]
    form = declared.get("requestBody", {}).get("content", {}).get(_FORM, {}).get("schema", {})
    required = form.get("required", [])
    return Operation(
        path=facts["path"],
        summary=declared["summary"],
        description=declared["description"],
        changes=facts["changes"],
        paging=facts["paging"],
        region_required=facts["regionRequired"],
        errors=tuple(facts["errors"]),
        parameters=tuple(_parameter(n, s, n in required) for n, s in form.get("properties", {}).items()),
    )


def _parameter(name: str, schema: dict[str, Any], required: bool) -> Parameter:
    choices = tuple(str(value) for value in schema.get("enum", [schema["const"]] if "const" in schema else []))
    kind = {"integer": "integer", "boolean": "boolean"}.get(str(schema.get("type")), "text")
    if schema.get("format") == "epoch-ms":
        kind = "time"
    if kind == "boolean":
        choices = ("true", "false")
    is_long = kind == "text" and int(schema.get("maxLength", 0)) > _SHORT
    return Parameter(name, kind, required, schema.get("description", ""), choices, _rule(schema), is_long)


def _rule(schema: dict[str, Any]) -> str:
    rules = (
        ("minimum", _("at least %(value)s")),
        ("maximum", _("at most %(value)s")),
        ("default", _("default %(value)s")),
    )
    said = [rule % {"value": schema[key]} for key, rule in rules if key in schema]
    return ", ".join(said).replace("True", "true").replace("False", "false")
