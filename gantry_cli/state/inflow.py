"""Change tracking tasks with their consumer groups, and inflow tasks, as a file has them.

No file has a password. One that `apply` needs stands in an environment variable: `passwordVariable` names it, and where
that says nothing it is GANTRY_PASSWORD_ and the name of the task, behind it that of the group, in capitals with
underscores. An inflow task names its source and its instances by their names, since IDs are the server's.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import yaml

from gantry_cli.errors import CliError
from gantry_cli.state.reader import Reader, each, not_one_of, optional_number, optional_text
from gantry_cli.state.steps import (
    CHANGE,
    CREATE,
    DELETE,
    Ids,
    Late,
    Step,
    arrow,
    compared,
    difference,
    facts,
    field_of,
    part_of,
    refuse,
)
from gantry_cli.texts import _

TRACKING, GROUP, INFLOW = "change tracking task", "consumer group", "inflow task"
#: Days that events are kept when nothing is said.
DAYS = 7
_ENCRYPTIONS = ("off", "required", "verified")
#: Fields of a task that say where its password is sent: with another one it is needed again.
_TO_WHOM = ("host", "port", "user", "tls", "ca")


@dataclass(frozen=True)
class ConsumerGroup:
    """A consumer group of a change tracking task."""

    name: str
    account: str
    password_variable: str = field(default="", compare=False)
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class TrackingTask:
    """A change tracking task; `groups` is None when nothing is said of them. A task is known by its name."""

    name: str
    kind: str
    host: str
    port: int
    user: str
    tables: tuple[str, ...]
    database: str = ""
    tls: str = "off"
    ca: str = ""
    snapshot: bool = False
    retention_days: int = DAYS
    groups: tuple[ConsumerGroup, ...] | None = None
    password_variable: str = field(default="", compare=False)
    task_id: str = field(default="", compare=False)
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class InflowTask:
    """An inflow task: its document, with names in the place of IDs."""

    name: str
    document: dict[str, Any]
    where: str = field(default="", compare=False)


#: The consumer group of a task and a group by their names; None where neither file nor server has it.
Groups = Callable[[str, str], ConsumerGroup | None]


def read_tracking_task(reader: Reader, node: yaml.Node) -> TrackingTask:
    """A task of a file. Raises CliError."""
    values = reader.mapping(
        node,
        needed=("name", "kind", "host", "port", "user", "tables"),
        known=("database", "tls", "ca", "snapshot", "retentionDays", "groups", "passwordVariable"),
    )
    tls = optional_text(reader, values.get("tls")) or "off"
    if tls not in _ENCRYPTIONS:
        raise CliError(not_one_of(reader.where(values["tls"]), tls, _ENCRYPTIONS))
    days = optional_number(reader, values.get("retentionDays"))
    return TrackingTask(
        name=reader.text(values["name"]),
        kind=reader.text(values["kind"]),
        host=reader.text(values["host"]),
        port=reader.integer(values["port"]),
        user=reader.text(values["user"]),
        tables=tuple(reader.text(entry) for entry in reader.entries(values["tables"])),
        database=optional_text(reader, values.get("database")),
        tls=tls,
        ca=optional_text(reader, values.get("ca")).strip(),
        snapshot=reader.boolean(values["snapshot"]) if "snapshot" in values else False,
        retention_days=DAYS if days is None else days,
        groups=each(reader, values.get("groups"), _read_group, lambda group: group.name, GROUP),
        password_variable=optional_text(reader, values.get("passwordVariable")),
        where=reader.where(node),
    )


def _read_group(reader: Reader, node: yaml.Node) -> ConsumerGroup:
    values = reader.mapping(node, needed=("name", "account"), known=("passwordVariable",))
    variable = optional_text(reader, values.get("passwordVariable"))
    return ConsumerGroup(reader.text(values["name"]), reader.text(values["account"]), variable, reader.where(node))


def read_inflow_task(reader: Reader, node: yaml.Node) -> InflowTask:
    """A task of a file, of which the server judges all but the name. Raises CliError."""
    document = reader.plain(node)
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise CliError(_("%(where)s: an inflow task is an object with a name.") % {"where": reader.where(node)})
    return InflowTask(document["name"], document, reader.where(node))


def tracking_task_of(row: Mapping[str, Any], groups: list[dict[str, Any]]) -> TrackingTask:
    """A task as the server tells it."""
    return TrackingTask(
        name=row["name"], kind=row["kind"], host=row["host"], port=row["port"], user=row["user"],
        tables=tuple(row["tables"]), database=row["database"], tls=row["tls"], ca=row["ca"], snapshot=row["snapshot"],
        retention_days=row["retentionDays"], task_id=row["task"],
        groups=tuple(ConsumerGroup(group["group"], group["account"]) for group in groups),
    )  # fmt: skip


def inflow_task_of(row: Mapping[str, Any], ids: Ids) -> InflowTask:
    """A task as the server tells it."""
    names = Ids(*({one: name for name, one in known.items()} for known in (ids.instances, ids.tracking_tasks)))
    return InflowTask(row["task"], _renamed(json.loads(row["document"]), names))


def tracking_document(task: TrackingTask) -> dict[str, Any]:
    """What a file says of the task; what holds the default is left out."""
    plain = TrackingTask(task.name, task.kind, task.host, task.port, task.user, task.tables)
    more = {
        name: getattr(task, part)
        for name, part in (
            ("database", "database"), ("tls", "tls"), ("ca", "ca"), ("snapshot", "snapshot"),
            ("retentionDays", "retention_days"),
        )
        if getattr(task, part) != getattr(plain, part)
    }  # fmt: skip
    given = {"name": task.name, "kind": task.kind, "host": task.host, "port": task.port, "user": task.user}
    groups = [{"name": group.name, "account": group.account} for group in task.groups or ()]
    return given | {"tables": list(task.tables)} | more | {"groups": groups}


def new_tracking_task(task: TrackingTask) -> Iterator[Step]:
    """The steps to a task that there is not yet. Raises CliError without its password."""
    given = _parameters(task)
    what = _("the change tracking task %(name)s") % {"name": task.name}
    password = _password(task.password_variable or variable_of(task.name), task.where, what)
    calls = (("tracking/create", {"name": task.name, "kind": task.kind} | given | {"password": password}),)
    yield Step(CREATE, TRACKING, task.name, calls, details=facts(_shown({"kind": task.kind} | given)))
    yield from (_new_group(task, group) for group in task.groups or ())


def changed_tracking_task(task: TrackingTask, old: TrackingTask, *, prune: bool) -> Iterator[Step]:
    """The steps from one task to another one. Raises CliError for what cannot be, or without a password."""
    for name in ("kind", "database"):
        if getattr(task, name) != getattr(old, name):
            refuse(task.where, field_of(name, TRACKING, task.name), getattr(old, name), getattr(task, name))
    before, given = _parameters(old), _parameters(task)
    changed = {name: value for name, value in given.items() if value != before[name]}
    if changed:
        details = tuple(arrow(name, _first_line(before[name]), _first_line(value)) for name, value in changed.items())
        if any(getattr(task, name) != getattr(old, name) for name in _TO_WHOM):
            what = _("another server of the change tracking task %(name)s") % {"name": task.name}
            changed["password"] = _password(task.password_variable or variable_of(task.name), task.where, what)
        calls = (("tracking/update", {"task": old.task_id} | changed),)
        yield Step(CHANGE, TRACKING, task.name, calls, details=details)
    yield from compared(
        task.groups,
        old.groups,
        make=lambda group: [_new_group(task, group)],
        change=partial(_unchanged_group, task),
        gone=lambda group: [_group_gone(old, group)],
        prune=prune,
    )


def _unchanged_group(task: TrackingTask, group: ConsumerGroup, known: ConsumerGroup) -> tuple[Step, ...]:
    if known.account != group.account:
        what = field_of("account", GROUP, part_of(group.name, task.name))
        refuse(group.where, what, known.account, group.account)
    return ()


def tracking_task_gone(task: TrackingTask) -> Iterator[Step]:
    """The step that deletes a task; its groups go with it."""
    yield Step(DELETE, TRACKING, task.name, (("tracking/delete", {"task": task.task_id}),))


def new_inflow_task(task: InflowTask, groups: Groups) -> Iterator[Step]:
    """The step to a task that there is not yet; it is not started. Raises CliError without a password."""
    login = _login(task, groups)
    given: dict[str, str | Late] = {"document": _document(task), "start": "false", **login}
    calls = (("inflow/create", given),)
    yield Step(CREATE, INFLOW, task.name, calls, details=_lines(task), source=_reads(task)[0])


def changed_inflow_task(task: InflowTask, old: InflowTask, groups: Groups) -> Iterator[Step]:
    """The step from one task to another one. Raises CliError without the password of another consumer group."""
    if old.document == task.document:
        return
    login = _login(task, groups) if _reads(task) != _reads(old) else {}
    given: dict[str, str | Late] = {"document": _document(task), **login}
    calls = (("inflow/update", given),)
    details = difference(_lines(old), _lines(task))
    yield Step(CHANGE, INFLOW, task.name, calls, details=details, source=_reads(task)[0])


def inflow_task_gone(task: InflowTask) -> Iterator[Step]:
    """The step that deletes a task."""
    yield Step(DELETE, INFLOW, task.name, (("inflow/delete", {"task": task.name}),))


def variable_of(*names: str, prefix: str = "GANTRY_PASSWORD_") -> str:
    """The environment variable that has what is secret of a thing of these names where nothing else is said."""
    return prefix + re.sub(r"[^A-Z0-9]", "_", "_".join(names).upper())


def _parameters(task: TrackingTask) -> dict[str, str]:
    return {
        "host": task.host,
        "port": str(task.port),
        "database": task.database,
        "user": task.user,
        "tables": ",".join(task.tables),
        "tls": task.tls,
        "ca": task.ca,
        "snapshot": str(task.snapshot).lower(),
        "retentionDays": str(task.retention_days),
    }


def _shown(given: dict[str, str]) -> dict[str, str]:
    return {name: _first_line(value) for name, value in given.items() if value}


def _first_line(text: str) -> str:
    lines = text.splitlines()
    return f"{lines[0]} …" if len(lines) > 1 else text


def _new_group(task: TrackingTask, group: ConsumerGroup) -> Step:
    password = _group_password(task.name, group, group.where)
    given: dict[str, str | Late] = {"group": group.name, "account": group.account, "password": password}
    given["task"] = _id_of(task.name)
    calls = (("tracking/createGroup", given),)
    return Step(CREATE, GROUP, part_of(group.name, task.name), calls, details=(f"account: {group.account}",))


def _group_gone(task: TrackingTask, group: ConsumerGroup) -> Step:
    calls = (("tracking/deleteGroup", {"task": task.task_id, "group": group.name}),)
    return Step(DELETE, GROUP, part_of(group.name, task.name), calls)


def _id_of(name: str) -> Late:
    return lambda ids: ids.tracking_tasks[name]


def _group_password(task: str, group: ConsumerGroup, where: str) -> str:
    variable = group.password_variable or variable_of(task, group.name)
    what = _("the consumer group %(name)s of %(task)s") % {"name": group.name, "task": task}
    return _password(variable, where, what)


def _password(variable: str, where: str, what: str) -> str:
    found = os.environ.get(variable, "")
    if not found:
        said = _(
            "%(where)s: the password of %(what)s is needed, and no file has it; put it into the environment variable "
            "%(variable)s."
        )
        raise CliError(said % {"where": where, "what": what, "variable": variable})
    return found


def _reads(task: InflowTask) -> tuple[str, str]:
    """The change tracking task and the consumer group by which it reads; empty for any other source."""
    source = task.document.get("source")
    source = source if isinstance(source, dict) else {}
    return str(source.get("task") or ""), str(source.get("group") or "")


def _login(task: InflowTask, groups: Groups) -> dict[str, str]:
    """Account and password of the group that the task is to hold; what there is not the server refuses."""
    name, group_name = _reads(task)
    group = groups(name, group_name) if name else None
    if group is None:
        return {}
    return {"account": group.account, "password": _group_password(name, group, task.where)}


def _document(task: InflowTask) -> Late:
    return lambda ids: json.dumps(_renamed(task.document, ids), ensure_ascii=False)


def _renamed(document: dict[str, Any], ids: Ids) -> dict[str, Any]:
    """The document with what `ids` calls its source and its instances; what they do not know stays."""
    found = copy.deepcopy(document)
    for part, name, known in (
        ("source", "task", ids.tracking_tasks),
        ("source", "instanceID", ids.instances),
        ("sink", "instanceID", ids.instances),
    ):
        place = found.get(part)
        if isinstance(place, dict) and isinstance(place.get(name), str):
            place[name] = known.get(place[name], place[name])
    return found


def _lines(task: InflowTask) -> tuple[str, ...]:
    return tuple(json.dumps(task.document, indent=2, ensure_ascii=False).splitlines())
