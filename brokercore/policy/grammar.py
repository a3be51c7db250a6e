"""The grammar of policies and trust policies: one set of rules for documents with and without text.

`problems` walks a document and yields what is wrong with the way to it; `examine` adds lines and columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from brokercore.policy.conditions import CONDITION_KEYS, KEYS_OF, Condition, check_value
from brokercore.policy.json_positions import JsonError, Path, Positions, Problem, read
from brokercore.policy.statements import Statement, TrustStatement

MAX_BYTES = 6144
"""Longest document, as JSON without spaces in UTF-8: the limit of RAM for custom policies."""
_MAX_TEXT = 65_536
"""Longest text that is looked at, with all its spaces."""

_ACTION = re.compile(r"\*|[A-Za-z0-9*?-]+:[A-Za-z0-9*?_-]+")
_RESOURCE = re.compile(r"\*|acs:[A-Za-z0-9*?-]+:[A-Za-z0-9*?-]*:[0-9*?]*:.+")
_PRINCIPAL = re.compile(r"acs:ram::\d{1,20}:(?:root|(?:user|role)/[A-Za-z0-9._-]+)")
_SERVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,126}[A-Za-z0-9])?")
_HINTS = {
    "NotAction": " Write the actions under Action, and exceptions as a statement with Effect Deny.",
    "NotResource": " Write the resources under Resource, and exceptions as a statement with Effect Deny.",
    "Principal": " Only the trust policy of a role has it.",
}
ASSUME_ROLE = "sts:AssumeRole"

_Rule = Callable[[str], str]
"""What is wrong with one text, as the rest of a sentence; empty for nothing."""


class PolicyError(ValueError):
    """A policy document breaks the grammar; the text names the statement and the field."""


def parse_policy(document: Mapping[str, Any], source: str = "") -> tuple[Statement, ...]:
    """Statements of a RAM policy document.

    Raises PolicyError when the document is not of the grammar: Version "1", Statement a list, each with Effect
    Allow or Deny, Action and Resource as text or list of texts, and an optional Condition.
    """
    _refuse(problems(document))
    return tuple(
        Statement(
            allow=row["Effect"] == "Allow",
            actions=_values(row["Action"]),
            resources=_values(row["Resource"]),
            conditions=_conditions(row),
            source=source,
        )
        for row in document["Statement"]
    )


def parse_rows(rows: Iterable[Mapping[str, Any]] | None) -> tuple[Statement, ...]:
    """Statements of a published row of the table of AccessKeys; each may carry the name of its policy as `Source`."""
    return tuple(statement for statements in rows_in_steps(rows) for statement in statements)


def rows_in_steps(rows: Iterable[Mapping[str, Any]] | None) -> Iterator[tuple[Statement, ...]]:
    """The same, one row a step: all rows of one AccessKey together may take a tenth of a second."""
    for row in rows or ():
        fields = dict(row)
        source = str(fields.pop("Source", ""))
        yield parse_policy({"Version": "1", "Statement": [fields]}, source)


def parse_trust_policy(document: Mapping[str, Any]) -> tuple[TrustStatement, ...]:
    """Statements of a role's trust policy. Raises PolicyError when the document is not of the grammar."""
    _refuse(problems(document, trust=True))
    return tuple(
        TrustStatement(
            allow=row["Effect"] == "Allow",
            services=_values(row["Principal"].get("Service", [])),
            principals=_values(row["Principal"].get("RAM", [])),
            conditions=_conditions(row),
        )
        for row in document["Statement"]
    )


@dataclass(frozen=True)
class Examined:
    """A document as somebody typed it: its value (None when it is no JSON), and what is wrong, line by line."""

    document: Any
    problems: list[Problem]
    _positions: Positions

    def locate(self, problem: Problem) -> Problem:
        """The problem with the line and column of its path."""
        return self._positions.locate(problem)


def examine(text: str, *, trust: bool = False) -> Examined:
    """Read a policy, or a trust policy, from JSON text, with all that is wrong with it."""
    positions = Positions(text, {(): 0})
    if len(text) > _MAX_TEXT:
        return Examined(None, [positions.at(0, f"The text has more than {_MAX_TEXT:,} characters.")], positions)
    try:
        document, positions = read(text)
    except JsonError as error:
        return Examined(None, [positions.at(error.offset, error.message)], positions)
    found = [
        positions.at(offset, f'The field "{path[-1]}" appears twice here.', path) for path, offset in positions.twice
    ]
    found += [positions.locate(p) for p in validate(document, trust=trust)]
    return Examined(document, sorted(found, key=lambda p: (p.line, p.column)), positions)


def validate(document: Any, *, trust: bool = False) -> list[Problem]:
    """What is wrong with a document that is to be stored: the grammar, and its size."""
    found = list(problems(document, trust=trust))
    size = len(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace"))
    if size > MAX_BYTES:
        found.append(Problem(f"The document has {size:,} bytes without spaces; at most {MAX_BYTES:,} are allowed."))
    return found


def problems(document: Any, *, trust: bool = False) -> Iterator[Problem]:
    """What breaks the grammar in a policy, or in a trust policy, in the order of the document."""
    if not isinstance(document, Mapping):
        yield Problem("The document must be an object with Version and Statement.")
        return
    yield from _unknown_fields(document, ("Version", "Statement"), (), "The document")
    if document.get("Version") != "1":
        yield Problem('Version must be "1".', ("Version",))
    rows = document.get("Statement")
    if not isinstance(rows, list) or not rows:
        yield Problem("Statement must be a list with at least one statement.", ("Statement",))
        return
    for index, row in enumerate(rows):
        yield from _statement(index, row, trust=trust)


def _statement(index: int, row: Any, *, trust: bool) -> Iterator[Problem]:
    path: Path = ("Statement", index)
    name = f"Statement {index + 1}"
    if not isinstance(row, Mapping):
        yield Problem(f"{name} must be an object.", path)
        return
    last = "Principal" if trust else "Resource"
    yield from _unknown_fields(row, ("Effect", "Action", last, "Condition"), path, name)
    if row.get("Effect") not in ("Allow", "Deny"):
        yield Problem(f"{name}: Effect must be Allow or Deny.", (*path, "Effect"))
    if trust:
        yield from _texts(row.get("Action"), (*path, "Action"), f"{name}: Action", _trust_action)
        yield from _principal(row.get("Principal"), (*path, "Principal"), name)
    else:
        yield from _texts(row.get("Action"), (*path, "Action"), f"{name}: Action", _action)
        yield from _texts(row.get("Resource"), (*path, "Resource"), f"{name}: Resource", _resource)
    if "Condition" in row:
        yield from _condition(row["Condition"], (*path, "Condition"), name)


def _unknown_fields(row: Mapping[str, Any], known: Sequence[str], path: Path, name: str) -> Iterator[Problem]:
    for field in row:
        if field not in known:
            near = get_close_matches(field, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else _HINTS.get(field, "")
            yield Problem(f"{name} has the unknown field {_short(field)}.{hint}", (*path, field), at_field=True)


def _texts(value: Any, path: Path, name: str, rule: _Rule) -> Iterator[Problem]:
    """Problems of a text or a list of texts, each by the rule."""
    if isinstance(value, list) and value:
        rows = [((*path, index), one) for index, one in enumerate(value)]
    else:
        rows = [(path, value)]
    for where, one in rows:
        if not isinstance(one, str) or not one:
            yield Problem(f"{name} must be a text or a list of texts, and none of them empty.", where)
        elif wrong := rule(one):
            yield Problem(f"{name}: {wrong}", where)


def _action(text: str) -> str:
    if _ACTION.fullmatch(text):
        return ""
    return f'"{_short(text)}" is not an action. Write service:Name, as in mq:PUB or mq:Query*, or *.'


def _trust_action(text: str) -> str:
    return "" if text == ASSUME_ROLE else f'"{_short(text)}" is not allowed in a trust policy, only {ASSUME_ROLE} has.'


def _resource(text: str) -> str:
    if _RESOURCE.fullmatch(text) and text.isprintable():
        return ""
    return f'"{_short(text)}" is not a resource. Write acs:service:region:account:name, as in acs:mq:*:*:*, or *.'


def _principal(value: Any, path: Path, name: str) -> Iterator[Problem]:
    if not isinstance(value, Mapping) or not value:
        yield Problem(f"{name}: Principal must be an object with RAM or Service.", path)
        return
    yield from _unknown_fields(value, ("RAM", "Service"), path, f"{name}: Principal")
    for kind, rule in (("RAM", _ram_principal), ("Service", _service)):
        if kind in value:
            yield from _texts(value[kind], (*path, kind), f"{name}: {kind}", rule)


def _ram_principal(text: str) -> str:
    if _PRINCIPAL.fullmatch(text) and text.isprintable():
        return ""
    return (
        f'"{_short(text)}" is not a principal. Write acs:ram::<account>:root for a whole account, '
        "acs:ram::<account>:user/<name> or acs:ram::<account>:role/<name>, without wildcards."
    )


def _service(text: str) -> str:
    return (
        ""
        if _SERVICE.fullmatch(text)
        else f'"{_short(text)}" is not the name of a service, such as openanalytics.aliyuncs.com.'
    )


def _condition(value: Any, path: Path, name: str) -> Iterator[Problem]:
    if not isinstance(value, Mapping) or not value:
        yield Problem(f"{name}: Condition must be an object with at least one operator, or be left out.", path)
        return
    for operator, keys in value.items():
        where = (*path, operator)
        if operator not in KEYS_OF:
            near = get_close_matches(operator, KEYS_OF, n=1)
            hint = f" Did you mean {near[0]}?" if near else f" The condition operators are {', '.join(KEYS_OF)}."
            yield Problem(f"{name}: there is no operator {_short(operator)}.{hint}", where, at_field=True)
        elif not isinstance(keys, Mapping) or not keys:
            yield Problem(f"{name}: {operator} must be an object with at least one key.", where)
        else:
            for key, values in keys.items():
                yield from _condition_key(operator, key, values, (*where, key), name)


def _condition_key(operator: str, key: str, values: Any, path: Path, name: str) -> Iterator[Problem]:
    if key not in KEYS_OF[operator]:
        if key in CONDITION_KEYS:
            wrong = f"{operator} cannot compare {key}, only {' and '.join(KEYS_OF[operator])}."
        else:
            wrong = f"there is no condition key {_short(key)}. The condition keys are {', '.join(CONDITION_KEYS)}."
        yield Problem(f"{name}: {wrong}", path, at_field=True)
        return

    def rule(text: str) -> str:
        try:
            check_value(operator, text)
        except ValueError as error:
            return f"{_short(str(error), 160)}."
        return ""

    yield from _texts(_with_words(values) if operator == "Bool" else values, path, f"{name}: {operator}", rule)


def _conditions(row: Mapping[str, Any]) -> tuple[Condition, ...]:
    return tuple(
        (operator, key, _values(_with_words(values)))
        for operator, keys in row.get("Condition", {}).items()
        for key, values in keys.items()
    )


def _values(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _with_words(value: Any) -> Any:
    """JSON's own true and false, as `Bool` takes them too, as the texts that they stand for."""
    if isinstance(value, bool):
        return str(value).lower()
    return [_with_words(one) for one in value] if isinstance(value, list) else value


def _refuse(found: Iterator[Problem]) -> None:
    for problem in found:
        raise PolicyError(problem.message)


def _short(text: str, most: int = 60) -> str:
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
