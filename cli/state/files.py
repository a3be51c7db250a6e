"""A state file, YAML or JSON: every mistake is named with its line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from cli.errors import CliError
from cli.state.model import (
    ORDER_TYPES,
    PERMISSIONS,
    RELATIONS,
    Grant,
    Group,
    Instance,
    Policy,
    State,
    Topic,
)
from cli.state.nodes import Reader

VERSION = 1
_T = TypeVar("_T")


def read(path: Path, text: str) -> State:
    """The state that the file describes. Raises CliError with file and line for what is wrong."""
    # In JSON a tab can stand between tokens only; YAML, whose subset it is otherwise, refuses it there.
    source = text.replace("\t", " ") if path.suffix == ".json" else text
    try:
        root = yaml.compose(source, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise CliError(f"{path}:{line}: {error.problem or 'this is no YAML'}.") from error
    except yaml.YAMLError as error:
        raise CliError(f"{path}: this is no YAML: {' '.join(str(error).split())}") from error
    reader = Reader(str(path))
    if root is None:
        raise CliError(f"{path}: the file is empty.")
    values = reader.mapping(root, needed=("version",), known=("instances", "policies"))
    if reader.integer(values["version"]) != VERSION:
        raise CliError(f"{reader.where(values['version'])}: the version must be {VERSION}.")
    instances = _each(reader, values.get("instances"), _instance, lambda i: i.name, "instance")
    policies = _each(reader, values.get("policies"), _policy, lambda p: p.name, "policy")
    return State(instances, policies)


def _instance(reader: Reader, node: yaml.Node) -> Instance:
    values = reader.mapping(
        node,
        needed=("name",),
        known=(
            "independentNaming", "maxSendTps", "maxReceiveTps", "topicCapacity",
            "cluster", "remark", "topics", "groups",
        ),
    )  # fmt: skip
    return Instance(
        name=reader.text(values["name"]),
        independent_naming=reader.boolean(values["independentNaming"]) if "independentNaming" in values else True,
        max_send_tps=_number(reader, values.get("maxSendTps")),
        max_receive_tps=_number(reader, values.get("maxReceiveTps")),
        topic_capacity=_number(reader, values.get("topicCapacity")),
        cluster=_text(reader, values.get("cluster")),
        remark=reader.text(values["remark"]) if "remark" in values else None,
        topics=_each(reader, values.get("topics"), _topic, lambda t: t.name, "topic"),
        groups=_each(reader, values.get("groups"), _group, lambda g: g.group_id, "group"),
        where=reader.where(node),
    )


def _topic(reader: Reader, node: yaml.Node) -> Topic:
    values = reader.mapping(node, needed=("name",), known=("orderType", "perm", "remark", "grants"))
    return Topic(
        name=reader.text(values["name"]),
        order_type=reader.word(values["orderType"], ORDER_TYPES) if "orderType" in values else 0,
        perm=reader.word(values["perm"], PERMISSIONS) if "perm" in values else PERMISSIONS["read-write"],
        remark=_text(reader, values.get("remark")),
        grants=_each(reader, values.get("grants"), _grant, lambda g: g.to, "grant to"),
        where=reader.where(node),
    )


def _grant(reader: Reader, node: yaml.Node) -> Grant:
    values = reader.mapping(node, needed=("relation",), known=("account", "user"))
    named = [kind for kind in ("account", "user") if kind in values]
    if len(named) != 1:
        raise CliError(f"{reader.where(node)}: a grant names either an account or a user, by its ID.")
    to = reader.text(values[named[0]])
    if not to.isascii() or not to.isdecimal():
        raise CliError(f"{reader.where(values[named[0]])}: the ID of an account or a user is a number, not {to!r}.")
    return Grant(to, named[0], reader.word(values["relation"], RELATIONS), reader.where(node))


def _group(reader: Reader, node: yaml.Node) -> Group:
    values = reader.mapping(node, needed=("groupId",), known=("remark",))
    return Group(reader.text(values["groupId"]), _text(reader, values.get("remark")), reader.where(node))


def _policy(reader: Reader, node: yaml.Node) -> Policy:
    values = reader.mapping(node, needed=("name", "document"), known=("description",))
    document = reader.plain(values["document"])
    if not isinstance(document, dict):
        raise CliError(f"{reader.where(values['document'])}: the document of a policy is an object.")
    return Policy(reader.text(values["name"]), document, _text(reader, values.get("description")), reader.where(node))


def _each(
    reader: Reader,
    node: yaml.Node | None,
    make: Callable[[Reader, yaml.Node], _T],
    name: Callable[[_T], str],
    kind: str,
) -> tuple[_T, ...] | None:
    """The entries of a list, each name once; None when the list is not there."""
    if node is None:
        return None
    entries = [make(reader, entry) for entry in reader.entries(node)]
    _refuse_twins(entries, name, kind)
    return tuple(entries)


def _refuse_twins(entries: Iterable[Any], name: Callable[[Any], str], kind: str) -> None:
    seen: set[str] = set()
    for entry in entries:
        if name(entry) in seen:
            raise CliError(f"{entry.where}: the {kind} {name(entry)} is there twice.")
        seen.add(name(entry))


def _number(reader: Reader, node: yaml.Node | None) -> int | None:
    return reader.integer(node) if node is not None else None


def _text(reader: Reader, node: yaml.Node | None) -> str:
    return reader.text(node) if node is not None else ""
