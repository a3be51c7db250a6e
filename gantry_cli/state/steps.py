"""One thing to do on the way from a state to another one, and how it is told."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from gantry_cli.errors import CliError
from gantry_cli.texts import _, kind_word

CREATE, CHANGE, DELETE = "+", "~", "-"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Ids:
    """What the server calls things that a file knows by their names; what is made meanwhile is put in."""

    instances: dict[str, str]
    tracking_tasks: dict[str, str]
    regions: dict[str, str] = field(default_factory=dict)
    """Of instances that are known with their region, by what they are known by."""


#: A parameter that is known only when the steps before are done.
Late = Callable[[Ids], str]
Call = tuple[str, Mapping[str, str | Late]]


@dataclass(frozen=True)
class Step:
    """One thing to do: `calls` are operations with their parameters, in order; all concern `instance` if it is set."""

    sign: str
    kind: str
    name: str
    calls: tuple[Call, ...] = field(repr=False)  # passwords stand in them
    instance: str = ""
    details: tuple[str, ...] = field(default=())
    source: str = ""
    """The change tracking task that has to have connected before."""
    region: str = ""
    """Where an instance is made, if regions are spoken of."""

    @property
    def title(self) -> str:
        """As in `topic orders`."""
        return _("%(kind)s %(name)s") % {"kind": kind_word(self.kind), "name": self.name}


def difference(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """What differs between texts, line by line."""
    lines = list(difflib.unified_diff(old, new, lineterm="", n=2))
    return tuple(line for line in lines[2:] if not line.startswith("@@"))


def facts(parameters: Mapping[str, str]) -> tuple[str, ...]:
    """What something new has, without its name, which stands before."""
    return tuple(f"{name}: {value}" for name, value in parameters.items() if name != "instanceName")


def arrow(name: str, old: object, new: object) -> str:
    """What a field is and what it becomes."""
    return f"{name}: {old or _('nothing')} → {new or _('nothing')}"


def refuse(where: str, what: str, old: object, new: object) -> NoReturn:
    """Raise CliError for what no operation can change."""
    said = _("%(where)s: the %(what)s cannot be changed (it is %(old)s, the file says %(new)s).")
    raise CliError(said % {"where": where, "what": what, "old": old or _("empty"), "new": new or _("empty")})


def field_of(field: str, kind: str, name: str) -> str:
    """What `refuse` is told of a field, as in `remark of the topic orders`."""
    return _("%(field)s of the %(kind)s %(name)s") % {"field": field, "kind": kind_word(kind), "name": name}


def part_of(name: str, owner: str) -> str:
    """What a step calls a thing that is known by its name in another one."""
    return _("%(name)s of %(owner)s") % {"name": name, "owner": owner}


def compared(
    wanted: Iterable[_T] | None,
    found: Iterable[_T] | None,
    *,
    make: Callable[[_T], Iterable[Step]],
    change: Callable[[_T, _T], Iterable[Step]],
    gone: Callable[[_T], Iterable[Step]],
    prune: bool,
    name: Callable[[_T], str] = lambda entry: str(getattr(entry, "name")),  # noqa: B009
) -> Iterator[Step]:
    """The steps from the entries of one list that are there to those that are wanted, each known by its name.

    `change` is told what is wanted and what is there. What is not wanted goes with `prune`; where nothing is said of
    the list, which is None, nothing happens.
    """
    if wanted is None:
        return
    there = {name(entry): entry for entry in found or ()}
    named = set()
    for entry in wanted:
        named.add(name(entry))
        old = there.get(name(entry))
        yield from make(entry) if old is None else change(entry, old)
    if prune:
        for key, entry in there.items():
            if key not in named:
                yield from gone(entry)
