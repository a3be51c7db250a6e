"""What differs between the database and the brokers of a cluster. Pure: told both sides, asks nobody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from brokercore.names import REPLY_SUFFIX, TOOLS_PREFIXES, group_of, is_system_group, is_system_topic
from console.instances.broker import CONSOLE_GROUP

OnBrokers = Mapping[str, Mapping[str, Mapping[str, object]]]
"""Broker name → physical name → settings, named as in `Expected.settings`."""


class Kind(StrEnum):
    """What drifts."""

    TOPIC = "topic"
    GROUP = "group"


class State(StrEnum):
    """How it drifted: a broker lost it, it has other settings, or it is unknown to the database."""

    MISSING = "missing"
    DIFFERENT = "different"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True)
class Expected:
    """A row of the database as a broker should have it; `settings` by the name that the page shows."""

    physical_name: str
    name: str
    instance_id: str
    tenant_id: int
    settings: Mapping[str, object]
    everywhere: bool = True
    """Whether each broker should have it, or just one."""
    adopted: bool = False
    """Whether it was taken over as it was: then only what no broker has any more is drift."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The instance in whose namespace an unknown name lies."""

    instance_id: str
    tenant_id: int


@dataclass(frozen=True, slots=True)
class Difference:
    """One topic or group that differs, of an account. `adopted`: it was taken over from the cluster as it was."""

    kind: Kind
    state: State
    physical_name: str
    name: str
    instance_id: str
    tenant_id: int
    details: tuple[str, ...]
    adopted: bool = False


def compare(
    kind: Kind, expected: Iterable[Expected], on_brokers: OnBrokers, owners: Mapping[str, Owner]
) -> list[Difference]:
    """The differences of one cluster, by physical name. `owners` are the instances with a namespace, by id.

    What lies in nobody's namespace and belongs to no row is nobody's, and no drift (docs/operate/adoption.md).
    """
    rows = {row.physical_name: row for row in expected}
    found = [difference for row in rows.values() if (difference := _of_row(kind, row, on_brokers)) is not None]
    unknown: dict[str, list[str]] = {}
    for broker_name, there in on_brokers.items():
        for name in there:
            namespace, separator, _unused = name.partition("%")
            if separator and namespace in owners and name not in rows and not _is_system(name, on_brokers):
                unknown.setdefault(name, []).append(broker_name)
    found += [_of_unknown(kind, name, brokers, owners) for name, brokers in unknown.items()]
    return sorted(found, key=lambda difference: difference.physical_name)


def _of_row(kind: Kind, row: Expected, on_brokers: OnBrokers) -> Difference | None:
    missing = [name for name, there in on_brokers.items() if row.physical_name not in there]
    if (row.adopted or not row.everywhere) and len(missing) < len(on_brokers):
        missing = []
    told = {name: there[row.physical_name] for name, there in on_brokers.items() if row.physical_name in there}
    details: list[str] = []
    for broker_name, actual in told.items():
        for setting, wanted in row.settings.items():
            if setting not in actual or actual[setting] == wanted:
                continue
            if row.adopted and any(other.get(setting) == wanted for other in told.values()):
                continue
            details.append(f"{setting}: {wanted} here, {actual[setting]} on {broker_name}")
    if missing:
        details.insert(0, f"not on {', '.join(sorted(missing))}")
    if not details:
        return None
    state = State.MISSING if missing else State.DIFFERENT
    return Difference(
        kind, state, row.physical_name, row.name, row.instance_id, row.tenant_id, tuple(details), row.adopted
    )


def _of_unknown(kind: Kind, physical_name: str, brokers: list[str], owners: Mapping[str, Owner]) -> Difference:
    namespace, _unused, name = physical_name.partition("%")
    owner = owners[namespace]
    return Difference(
        kind,
        State.EXTRA,
        physical_name,
        name,
        owner.instance_id,
        owner.tenant_id,
        (f"on {', '.join(sorted(brokers))}, not in the database",),
    )


def _is_system(name: str, on_brokers: OnBrokers) -> bool:
    """What brokers and tools keep for themselves: a topic named after each broker and one after the cluster, too."""
    return (
        is_system_topic(name)
        or is_system_group(name)
        or name == CONSOLE_GROUP
        or name.startswith(TOOLS_PREFIXES)
        or bool(group_of(name))
        or name in on_brokers
        or name.endswith(("Cluster", REPLY_SUFFIX))
    )
