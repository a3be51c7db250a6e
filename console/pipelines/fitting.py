"""Whether the state of one plan can be that of another: what Spark would refuse at the start is told before. Pure.

Spark keeps positions by the order of an insert's sources, and what it has grouped or joined by the columns of the query
that does so, of which it leaves out those that nothing above it asks for. An insert without state may change as it
likes while it reads the same; one that is new begins anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _

from analytics.pipelines.plan import Column, Insert, Plan, Source, ends

_STATEFUL = re.compile(r"\b(?:GROUP BY|DISTINCT|JOIN|UNION)\b")
_AGGREGATES = re.compile(r"\b(?:COUNT|SUM|AVG|MIN|MAX|COLLECT_LIST|LISTAGG|STDDEV\w*|VAR\w*)\(")
#: Texts and names, in which words mean nothing.
_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|`[^`]*`")
_STAR = re.compile(r"(?<!COUNT\()\*")
_NAME = re.compile(r"`([^`]+)`")
_CONDITION = re.compile(r" WHERE .*?(?= GROUP BY | HAVING |$)")
#: By connector, the options that say where the rows lie.
_PLACES = {
    "mns": ("endpoint", "queueName"),
    "mq": ("endpoint", "topic", "instanceID"),
    "filesystem": ("path", "source.monitor-interval"),
}


def misfit(old: Plan, new: Plan) -> str:
    """Why the checkpoint of one plan cannot be that of another, in a sentence; empty when it can."""
    if old.settings.mode != new.settings.mode:
        return _("The one version streams and the other is a batch; start from nothing.")
    earlier = dict(zip(old.checkpoints(), old.inserts, strict=True))
    for key, insert in zip(new.checkpoints(), new.inserts, strict=True):
        if key in earlier and (reason := _reason(_Chain(old, earlier[key]), _Chain(new, insert))):
            return _("%(reason)s; start from nothing.") % {"reason": reason}
    return ""


def _reason(old: _Chain, new: _Chain) -> str:
    where = _("The INSERT INTO %(sink)s of line %(line)s") % {"sink": new.insert.sink, "line": new.insert.line}
    if [one.name.lower() for one in old.sources] != [one.name.lower() for one in new.sources]:
        return _("%(where)s reads %(sources)s, and read %(sources2)s before, so its position does not fit") % {
            "where": where,
            "sources": _listed(new.sources),
            "sources2": _listed(old.sources),
        }
    pairs = list(zip(old.sources, new.sources, strict=True))
    if reason := next(filter(None, (_moved(before, after) for before, after in pairs)), ""):
        return reason
    if old.state != new.state:
        return _("%(where)s groups or joins otherwise than before, so its state does not fit") % {"where": where}
    for before, after in pairs if new.state else ():
        if (old.named_in(before), before.watermark is None) != (new.named_in(after), after.watermark is None):
            return _(
                "%(where)s groups or joins rows of %(after)s, whose columns are others now, so its state does not fit"
            ) % {"where": where, "after": after.name}
    return ""


def _moved(before: Source, after: Source) -> str:
    if before.connector != after.connector:
        return _(
            "Table %(after)s was read from %(connector)s and is read from %(connector2)s now, so its "
            "position does not fit"
        ) % {"after": after.name, "connector": before.connector, "connector2": after.connector}
    for name in _PLACES.get(after.connector, ()):
        if before.options.get(name) != after.options.get(name):
            return _("Table %(after)s has another %(name)s than before, so its position does not fit") % {
                "after": after.name,
                "name": name,
            }
    return ""


def _listed(sources: tuple[Source, ...]) -> str:
    return ", ".join(one.name for one in sources) or _("no table that streams")


@dataclass(frozen=True, slots=True)
class _Query:
    sql: str
    #: It keeps state, or what reads it does.
    counts: bool


class _Chain:
    """An insert with all that it reads, from its own query down to the sources."""

    def __init__(self, plan: Plan, insert: Insert) -> None:
        self.insert = insert
        self._views = {view.name.lower(): view.sql for view in plan.views}
        self._sources = {source.name.lower(): source for source in plan.sources}
        self._found: list[Source] = []
        #: Where any of them keeps state, all queries. Conditions on rows may change, but for those on what has state.
        self.state = self._state(list(self._down(insert.sql, counts=False)))
        #: Tables that stream, in the order in which Spark meets them.
        self.sources = tuple(self._found)

    @staticmethod
    def _state(queries: list[_Query]) -> tuple[str, ...]:
        if not any(one.counts for one in queries):
            return ()
        return tuple(_unfiltered(one.sql) if one.counts else one.sql for one in queries)

    def named_in(self, source: Source) -> list[Column]:
        """The columns of a table that queries with state may name."""
        written = " ".join(self.state)
        names = {name.lower() for name in _NAME.findall(written)}
        has_star = bool(_STAR.search(written))
        return [column for column in source.columns if has_star or column.computed or column.name.lower() in names]

    def _down(self, sql: str, *, counts: bool) -> Iterator[_Query]:
        counts = counts or bool(_STATEFUL.search(sql) or _AGGREGATES.search(sql))
        yield _Query(sql, counts)
        for name in dict.fromkeys(found.lower() for found in _NAME.findall(sql)):
            if name in self._views:
                yield from self._down(self._views[name], counts=counts)
            elif name in self._sources and self._sources[name] not in self._found and not _ends(self._sources[name]):
                self._found.append(self._sources[name])


def _ends(source: Source) -> bool:
    return ends(source.connector, source.options)


def _unfiltered(sql: str) -> str:
    """The query without its condition on rows; as it is where it has queries inside."""
    quoted: list[str] = []

    def take(found: re.Match[str]) -> str:
        quoted.append(found[0])
        return f"\0{len(quoted) - 1}\0"

    bare = _QUOTED.sub(take, sql)
    if bare.count("SELECT") > 1:
        return sql
    return re.sub(r"\0(\d+)\0", lambda found: quoted[int(found[1])], _CONDITION.sub("", bare))
