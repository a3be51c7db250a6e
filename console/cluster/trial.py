"""Trying a cluster before anybody relies on it: one sentence a step, and nothing is changed there.

What the account may do is told by what the brokers answer to reading, and by what they say of its user. What only a
change could tell is left open.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _

from brokercore.client import Admin
from brokercore.client.admin.acl import AclEntry, user_subject
from brokercore.client.errors import ClientError, NoPermission, QueryNotFound, RequestNotSupported, TopicNotExist
from brokercore.client.session import parse_name_servers
from brokercore.names import is_system_topic
from console.instances import broker
from console.instances.models import Cluster
from console.web.languages import gettext_lazy
from console.web.words import counted

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
    (gettext_lazy("make and change topics"), "Topic", "Create"),
    (gettext_lazy("make and change groups"), "Group", "Create"),
    (gettext_lazy("reset offsets of groups"), "Group", "Update"),
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
        yield Step(
            Outcome.FAILED, _("The brokers are not known: %(user_message)s") % {"user_message": error.user_message}
        )
        return
    if not masters:
        yield Step(Outcome.FAILED, _("The name servers know no broker."))
        return
    yield Step(
        Outcome.FINE,
        _("The name servers know %(masters)s: %(names)s.")
        % {"masters": counted(len(masters), "broker"), "names": ", ".join(sorted(masters))},
    )
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
        return Step(
            Outcome.FAILED,
            _("The name server %(server)s does not answer: %(user_message)s")
            % {"server": server, "user_message": error.user_message},
        )
    return Step(Outcome.FINE, _("The name server %(server)s answers.") % {"server": server})


def _broker(admin: Admin, name: str, address: str) -> Step:
    try:
        version = admin.brokers.version(name)
    except NoPermission as error:
        return Step(
            Outcome.FAILED,
            _("%(name)s at %(address)s refuses the account: %(user_message)s")
            % {"name": name, "address": address, "user_message": error.user_message},
        )
    except ClientError as error:
        return Step(
            Outcome.FAILED,
            _("%(name)s at %(address)s does not answer: %(user_message)s")
            % {"name": name, "address": address, "user_message": error.user_message},
        )
    return Step(
        Outcome.FINE,
        _("%(name)s at %(address)s answers, with version %(version)s.")
        % {"name": name, "address": address, "version": version or _("unknown")},
    )


def _rights(cluster: Cluster, admin: Admin, masters: dict[str, str]) -> Iterator[Step]:
    """Action by action, of all brokers that answer."""
    yield _asked(_("read routes and settings"), lambda: _read_settings(admin, masters))
    told = {name: _rights_on(cluster, admin, name, address) for name, address in masters.items()}
    yield _users(told)
    for words, kind, action in _CHANGES:
        yield _change(words, kind, action, told)
    yield _search(admin)


def _asked(words: str, ask: Callable[[], None]) -> Step:
    try:
        ask()
    except NoPermission as error:
        return Step(
            Outcome.FAILED,
            _("The account may not %(words)s: %(user_message)s") % {"words": words, "user_message": error.user_message},
        )
    except ClientError as error:
        return Step(
            Outcome.OPEN,
            _("Whether the account may %(words)s is not known: %(user_message)s")
            % {"words": words, "user_message": error.user_message},
        )
    return Step(Outcome.FINE, _("The account may %(words)s.") % {"words": words})


def _read_settings(admin: Admin, masters: dict[str, str]) -> None:
    admin.topics.names()
    for name in masters:
        admin.brokers.config(name)


def _rights_on(cluster: Cluster, admin: Admin, name: str, address: str) -> _Rights:
    """By the settings of a broker, and by what it says of the account's user."""
    if cluster.embedded:
        return _Rights(everything=_("these brokers are this installation's own"))
    try:
        config = admin.brokers.config(name)
    except ClientError as error:
        return _Rights(
            unknown=_("%(name)s does not tell its settings: %(user_message)s")
            % {"name": name, "user_message": error.user_message}
        )
    asks_who, asks_what = (config.get(key) for key in ("authenticationEnabled", "authorizationEnabled"))
    if asks_who == "false" and config.get("aclEnable", "false") == "false":
        return _Rights(everything=_("%(name)s asks nobody who they are") % {"name": name})
    if asks_who == "true" and asks_what == "false":
        return _Rights(everything=_("%(name)s asks who somebody is, and not what they may") % {"name": name})
    return _listed_rights(broker.reach_of(cluster).access_key_id, admin, name, address)


def _listed_rights(key: str, admin: Admin, name: str, address: str) -> _Rights:
    if not key:
        return _Rights(unknown=_("%(name)s asks for an account, and there is none") % {"name": name})
    try:
        user = admin.acl.users(address).get(key)
        if user is not None and user.user_type == _SUPER:
            return _Rights(everything=_("it is a super user on %(name)s") % {"name": name})
        listed = admin.acl.lists(address).get(user_subject(key))
    except RequestNotSupported:
        return _Rights(unknown=_("%(name)s has no ACL 2.0 that would tell") % {"name": name})
    except NoPermission as error:
        return _Rights(
            unknown=_("%(name)s does not tell its users: %(user_message)s")
            % {"name": name, "user_message": error.user_message},
            is_normal=True,
        )
    except ClientError as error:
        return _Rights(
            unknown=_("%(name)s does not tell its users: %(user_message)s")
            % {"name": name, "user_message": error.user_message}
        )
    return _Rights(entries=tuple(listed.entries) if listed is not None else ())


def _users(told: dict[str, _Rights]) -> Step:
    """Only a super user may keep users and lists."""
    if refused := [name for name, one in told.items() if one.entries is not None or one.is_normal]:
        return Step(
            Outcome.FAILED,
            _("The account may not keep users and lists: it is no super user on %(refused)s.")
            % {"refused": ", ".join(refused)},
        )
    if unknown := [one.unknown.rstrip(".") for one in told.values() if one.unknown]:
        return Step(
            Outcome.OPEN,
            _("Whether the account may keep users and lists is not known: %(unknown)s.") % {"unknown": unknown[0]},
        )
    return Step(
        Outcome.FINE,
        _("The account may keep users and lists: %(everything)s.")
        % {"everything": next(iter(told.values())).everything},
    )


def _change(words: str, kind: str, action: str, told: dict[str, _Rights]) -> Step:
    lacking = [name for name, one in told.items() if one.entries is not None and not one.allows(kind, action)]
    if lacking:
        needed = _("%(action)s on %(kind)s:*") % {"action": action, "kind": kind}
        return Step(
            Outcome.FAILED,
            _("The account may not %(words)s: its list on %(lacking)s does not allow %(needed)s.")
            % {"words": words, "lacking": ", ".join(lacking), "needed": needed},
        )
    if unknown := [one.unknown for one in told.values() if one.unknown]:
        reason = unknown[0].rstrip(".")
        return Step(
            Outcome.OPEN,
            _("Whether the account may %(words)s was not tried, since that is a change: %(reason)s.")
            % {"words": words, "reason": reason},
        )
    reason = next((one.everything for one in told.values() if one.everything), _("its list allows it"))
    return Step(Outcome.FINE, _("The account may %(words)s: %(reason)s.") % {"words": words, "reason": reason})


def _search(admin: Admin) -> Step:
    words = _("search messages")
    try:
        topic = next((name for name in sorted(admin.topics.names()) if _is_of_people(name)), None)
    except ClientError as error:
        return Step(
            Outcome.OPEN,
            _("Whether the account may %(words)s is not known: %(user_message)s")
            % {"words": words, "user_message": error.user_message},
        )
    if topic is None:
        return Step(
            Outcome.OPEN,
            _("Whether the account may %(words)s was not tried: there is no topic yet.") % {"words": words},
        )

    def search() -> None:
        try:
            admin.messages.query(topic, _NO_KEY, max_messages=1)
        except (QueryNotFound, TopicNotExist):
            return

    return _asked(words, search)


def _is_of_people(topic: str) -> bool:
    return not is_system_topic(topic) and not topic.startswith(("%RETRY%", "%DLQ%"))
