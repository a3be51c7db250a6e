"""Trying a cluster before anybody relies on it: one sentence a step, and nothing is changed there.

What the account may do is told by what the brokers answer to reading, and by what they say of its user. What only a
change could tell is left open.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from brokercore.client import Admin
from brokercore.client.admin.acl import AclEntry, user_subject
from brokercore.client.errors import ClientError, NoPermission, QueryNotFound, RequestNotSupported, TopicNotExist
from brokercore.client.session import parse_name_servers
from brokercore.names import is_system_topic
from console.instances import broker
from console.instances.models import Cluster

_TIMEOUT_MS = 3000
_SUPER = "Super"
_NO_KEY = "gantry-looks-whether-it-may-search"
"""A key that no message has."""


class Outcome(enum.StrEnum):
    """How a step went."""

    FINE = "fine"
    FAILED = "failed"
    OPEN = "open"


@dataclass(frozen=True)
class Step:
    """One sentence; `open` where nothing but a change could tell."""

    outcome: Outcome
    text: str


@dataclass(frozen=True)
class _Rights:
    """What one broker says of the account's rights: everything, by its list, or nothing (`entries` None)."""

    everything: str = ""
    entries: tuple[AclEntry, ...] | None = None
    unknown: str = ""
    is_normal: bool = False
    """Whether the broker keeps its users from the account, which it does from all but super users."""

    def allows(self, kind: str, action: str) -> bool:
        """Whether the list lets the account do this to whatever there is of this kind."""
        fits = [
            one
            for one in self.entries or ()
            if one.resource in (f"{kind}:*", "*") and {action, "All"} & set(one.actions) and not one.source_ips
        ]
        return bool(fits) and all(one.decision.lower() == "allow" for one in fits)


#: What the console does there: by its name for people, the kind of resource, and the action of ACL 2.0.
_CHANGES = (
    ("make and change topics", "Topic", "Create"),
    ("make and change groups", "Group", "Create"),
    ("reset offsets of groups", "Group", "Update"),
)


def tried(cluster: Cluster) -> list[Step]:
    """Try to reach a cluster, saved or not, with its account and certificates. Nothing is raised: each step says it."""
    looked_at = copy.copy(cluster)
    looked_at.read_only = True  # whatever the trial does wrong, nothing but reading gets out
    try:
        admin = broker.new_admin(looked_at, timeout_ms=_TIMEOUT_MS)
    except broker.UnusableError as error:
        return [Step(Outcome.FAILED, error.user_message)]
    with admin:
        return list(_steps(looked_at, admin))


def _steps(cluster: Cluster, admin: Admin) -> Iterator[Step]:
    servers = parse_name_servers(cluster.namesrv)
    answering = 0
    for server in servers:
        step = _name_server(cluster, server)
        answering += step.outcome is Outcome.FINE
        yield step
    if not answering:
        return
    try:
        masters = admin.brokers.masters()
    except ClientError as error:
        yield Step(Outcome.FAILED, f"The brokers are not known: {error.user_message}")
        return
    if not masters:
        yield Step(Outcome.FAILED, "The name servers know no broker.")
        return
    yield Step(Outcome.FINE, f"The name servers know {_counted(len(masters), 'broker')}: {', '.join(sorted(masters))}.")
    answers: list[str] = []
    for name, address in sorted(masters.items()):
        step = _broker(admin, name, address)
        if step.outcome is Outcome.FINE:
            answers.append(name)
        yield step
    if answers:
        yield from _rights(cluster, admin, {name: masters[name] for name in answers})


def _name_server(cluster: Cluster, server: str) -> Step:
    alone = copy.copy(cluster)
    alone.namesrv = server
    try:
        with broker.new_admin(alone, timeout_ms=_TIMEOUT_MS) as admin:
            admin.brokers.cluster()
    except ClientError as error:
        return Step(Outcome.FAILED, f"The name server {server} does not answer: {error.user_message}")
    return Step(Outcome.FINE, f"The name server {server} answers.")


def _broker(admin: Admin, name: str, address: str) -> Step:
    try:
        version = admin.brokers.version(name)
    except NoPermission as error:
        return Step(Outcome.FAILED, f"{name} at {address} refuses the account: {error.user_message}")
    except ClientError as error:
        return Step(Outcome.FAILED, f"{name} at {address} does not answer: {error.user_message}")
    return Step(Outcome.FINE, f"{name} at {address} answers, with version {version or 'unknown'}.")


def _rights(cluster: Cluster, admin: Admin, masters: dict[str, str]) -> Iterator[Step]:
    """Action by action, of all brokers that answer."""
    yield _asked("read routes and settings", lambda: _read_settings(admin, masters))
    told = {name: _rights_on(cluster, admin, name, address) for name, address in masters.items()}
    yield _users(told)
    for words, kind, action in _CHANGES:
        yield _change(words, kind, action, told)
    yield _search(admin)


def _asked(words: str, ask: Callable[[], None]) -> Step:
    try:
        ask()
    except NoPermission as error:
        return Step(Outcome.FAILED, f"The account may not {words}: {error.user_message}")
    except ClientError as error:
        return Step(Outcome.OPEN, f"Whether the account may {words} is not known: {error.user_message}")
    return Step(Outcome.FINE, f"The account may {words}.")


def _read_settings(admin: Admin, masters: dict[str, str]) -> None:
    admin.topics.names()
    for name in masters:
        admin.brokers.config(name)


def _rights_on(cluster: Cluster, admin: Admin, name: str, address: str) -> _Rights:
    """By the settings of a broker, and by what it says of the account's user."""
    if cluster.embedded:
        return _Rights(everything="these brokers are this installation's own")
    try:
        config = admin.brokers.config(name)
    except ClientError as error:
        return _Rights(unknown=f"{name} does not tell its settings: {error.user_message}")
    asks_who, asks_what = (config.get(key) for key in ("authenticationEnabled", "authorizationEnabled"))
    if asks_who == "false" and config.get("aclEnable", "false") == "false":
        return _Rights(everything=f"{name} asks nobody who they are")
    if asks_who == "true" and asks_what == "false":
        return _Rights(everything=f"{name} asks who somebody is, and not what they may")
    return _listed_rights(broker.reach_of(cluster).access_key_id, admin, name, address)


def _listed_rights(key: str, admin: Admin, name: str, address: str) -> _Rights:
    if not key:
        return _Rights(unknown=f"{name} asks for an account, and there is none")
    try:
        user = admin.acl.users(address).get(key)
        if user is not None and user.user_type == _SUPER:
            return _Rights(everything=f"it is a super user on {name}")
        listed = admin.acl.lists(address).get(user_subject(key))
    except RequestNotSupported:
        return _Rights(unknown=f"{name} has no ACL 2.0 that would tell")
    except NoPermission as error:
        return _Rights(unknown=f"{name} does not tell its users: {error.user_message}", is_normal=True)
    except ClientError as error:
        return _Rights(unknown=f"{name} does not tell its users: {error.user_message}")
    return _Rights(entries=tuple(listed.entries) if listed is not None else ())


def _users(told: dict[str, _Rights]) -> Step:
    """Only a super user may keep users and lists."""
    if refused := [name for name, one in told.items() if one.entries is not None or one.is_normal]:
        return Step(
            Outcome.FAILED, f"The account may not keep users and lists: it is no super user on {', '.join(refused)}."
        )
    if unknown := [one.unknown.rstrip(".") for one in told.values() if one.unknown]:
        return Step(Outcome.OPEN, f"Whether the account may keep users and lists is not known: {unknown[0]}.")
    return Step(Outcome.FINE, f"The account may keep users and lists: {next(iter(told.values())).everything}.")


def _change(words: str, kind: str, action: str, told: dict[str, _Rights]) -> Step:
    lacking = [name for name, one in told.items() if one.entries is not None and not one.allows(kind, action)]
    if lacking:
        needed = f"{action} on {kind}:*"
        return Step(
            Outcome.FAILED, f"The account may not {words}: its list on {', '.join(lacking)} does not allow {needed}."
        )
    if unknown := [one.unknown for one in told.values() if one.unknown]:
        reason = unknown[0].rstrip(".")
        return Step(Outcome.OPEN, f"Whether the account may {words} was not tried, since that is a change: {reason}.")
    reason = next((one.everything for one in told.values() if one.everything), "its list allows it")
    return Step(Outcome.FINE, f"The account may {words}: {reason}.")


def _search(admin: Admin) -> Step:
    words = "search messages"
    try:
        topic = next((name for name in sorted(admin.topics.names()) if _is_of_people(name)), None)
    except ClientError as error:
        return Step(Outcome.OPEN, f"Whether the account may {words} is not known: {error.user_message}")
    if topic is None:
        return Step(Outcome.OPEN, f"Whether the account may {words} was not tried: there is no topic yet.")

    def search() -> None:
        try:
            admin.messages.query(topic, _NO_KEY, max_messages=1)
        except (QueryNotFound, TopicNotExist):
            return

    return _asked(words, search)


def _is_of_people(topic: str) -> bool:
    return not is_system_topic(topic) and not topic.startswith(("%RETRY%", "%DLQ%"))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
