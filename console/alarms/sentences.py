"""What an alarm says, in the language of whoever reads it: its kind and its facts are kept, and said anew each time.

Facts are JSON: names, numbers, seconds, and what somebody else's program said, which nobody translates. What is of a
group or a topic has its `instance` too. Kinds are the conditions of rules, and TEST.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.pipelines.models import Kind, State
from console.web.languages import gettext_lazy, pgettext_lazy
from console.web.words import counted

Facts = Mapping[str, Any]

TEST = "test"
#: Of what a program of somebody else's said, characters.
MOST_SAID = 400

#: Reasons for which brokers refuse an account's requests that are limits of the account, and no want of rights.
LIMITS = {
    "messages_per_second": gettext_lazy("messages per second"),
    "bytes_per_second": gettext_lazy("bytes per second"),
    "stored_bytes": gettext_lazy("stored bytes"),
    "connections": gettext_lazy("connections"),
    "queues": gettext_lazy("queues"),
    "topics": gettext_lazy("topics"),
    "groups": gettext_lazy("groups"),
    "positions": gettext_lazy("positions"),
    "in_flight": gettext_lazy("in flight"),
    "traces": pgettext_lazy("limit", "traces"),
}


def sentence(kind: str, facts: Facts, kept: str = "") -> str:
    """What is said of these facts, in the current language; `kept` where they are not those of the kind.

    That is so of alarms that an older release has opened.
    """
    try:
        said = _SENTENCES[kind](facts)
    except (KeyError, TypeError, ValueError):
        return kept
    if "instance" in facts:
        return _("%(sentence)s (instance %(instance)s)") % {"sentence": said, "instance": facts["instance"]}
    return said


def _backlog(facts: Facts) -> str:
    return _("%(name)s has a backlog of %(messages)s") % {
        "name": facts["name"],
        "messages": counted(facts["number"], "message"),
    }


def _delay(facts: Facts) -> str:
    text = _("%(name)s is %(time)s or more behind") if facts.get("is_least") else _("%(name)s is %(time)s behind")
    return text % {"name": facts["name"], "time": duration(facts["seconds"])}


def _stalled(facts: Facts) -> str:
    number = facts["number"]
    return ngettext(
        "%(name)s consumes nothing, and %(shown)s message waits",
        "%(name)s consumes nothing, and %(shown)s messages wait",
        number,
    ) % {"name": facts["name"], "shown": f"{number:,}"}


def _offline(facts: Facts) -> str:
    number = facts["number"]
    if not number:
        return _("%(name)s is offline") % {"name": facts["name"]}
    return ngettext(
        "%(name)s is offline, and %(shown)s message waits",
        "%(name)s is offline, and %(shown)s messages wait",
        number,
    ) % {"name": facts["name"], "shown": f"{number:,}"}


def _dead_letters(facts: Facts) -> str:
    return _("%(letters)s of %(name)s within %(minutes)s") % {
        "letters": counted(facts["number"], "dead letter"),
        "name": facts["name"],
        "minutes": _minutes(facts["minutes"]),
    }


def _rate(facts: Facts) -> str:
    if not facts["rate"]:
        return _("%(name)s receives no messages") % {"name": facts["name"]}
    return _("%(name)s receives %(rate)s messages/s") % {"name": facts["name"], "rate": f"{facts['rate']:,.4g}"}


def _storage(facts: Facts) -> str:
    return _("Broker %(broker)s of %(cluster)s is %(percent)s %% full") % {
        "broker": facts["broker"],
        "cluster": facts["cluster"],
        "percent": facts["percent"],
    }


def _away(facts: Facts) -> str:
    if not facts.get("broker"):
        return _("Cluster %(cluster)s does not answer") % {"cluster": facts["cluster"]}
    return _("Broker %(broker)s of %(cluster)s does not answer") % {
        "broker": facts["broker"],
        "cluster": facts["cluster"],
    }


def _throttled(facts: Facts) -> str:
    number = facts["number"]
    return ngettext(
        "Clients of the instance %(name)s were held back %(shown)s time within %(minutes)s: they send or receive "
        "more than it may",
        "Clients of the instance %(name)s were held back %(shown)s times within %(minutes)s: they send or receive "
        "more than it may",
        number,
    ) % {"name": facts["name"], "shown": f"{number:,}", "minutes": _minutes(facts["minutes"])}


def _refused(facts: Facts) -> str:
    number = facts["number"]
    reasons = ", ".join(str(LIMITS.get(one, one)) for one in facts["reasons"])
    return ngettext(
        "%(shown)s request of %(account)s was refused for its limits within %(minutes)s: %(reasons)s",
        "%(shown)s requests of %(account)s were refused for its limits within %(minutes)s: %(reasons)s",
        number,
    ) % {
        "shown": f"{number:,}",
        "account": facts["account"],
        "minutes": _minutes(facts["minutes"]),
        "reasons": reasons,
    }


def _room(facts: Facts) -> str:
    return _("%(account)s stores %(percent)s %% of the bytes that it may at the brokers") % {
        "account": facts["account"],
        "percent": f"{facts['percent']:.0f}",
    }


def _pipeline(facts: Facts) -> str:
    told = {"what": _called(facts), "reason": facts["reason"]}
    return (_("%(what)s has failed: %(reason)s") if facts["reason"] else _("%(what)s has failed")) % told


def _stopped(facts: Facts) -> str:
    return _("%(what)s does not run: it is %(state)s") % {
        "what": _called(facts),
        "state": State(facts["state"]).label.lower(),
    }


def _pipeline_delay(facts: Facts) -> str:
    return _("%(name)s is %(time)s behind") % {"name": _called(facts), "time": duration(facts["seconds"])}


def _called(facts: Facts) -> str:
    text = _("SQL job %(name)s") if facts["kind"] == Kind.JOB else _("Inflow task %(name)s")
    return text % {"name": facts["name"]}


def _tracking(facts: Facts) -> str:
    return _("Changes of the database of %(name)s are not read: %(reason)s") % {
        "name": facts["name"],
        "reason": facts["reason"],
    }


def _tracking_delay(facts: Facts) -> str:
    return _("Changes of the database of %(name)s are kept %(time)s late") % {
        "name": facts["name"],
        "time": duration(facts["seconds"]),
    }


def _statements(facts: Facts) -> str:
    return _("%(statements)s failed within %(minutes)s") % {
        "statements": counted(facts["number"], "SQL statement"),
        "minutes": _minutes(facts["minutes"]),
    }


def _test(facts: Facts) -> str:
    return _("This is a test of %(recipient)s: alarms of %(account)s arrive here") % {
        "recipient": facts["recipient"],
        "account": facts["account"],
    }


def _minutes(minutes: int) -> str:
    return _("a minute") if minutes <= 1 else _("%(minutes)s minutes") % {"minutes": minutes}


def duration(seconds: float) -> str:
    """So many seconds as people say it: `30 s`, `18 min`, `5 hours`."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return _("%(seconds)s s") % {"seconds": rest}
    if minutes < 120:
        return _("%(minutes)s min") % {"minutes": minutes}
    return _("%(hours)s hours") % {"hours": minutes // 60}


#: By the values of `models.Condition`, which stands on this.
_SENTENCES: dict[str, Callable[[Facts], str]] = {
    "group.backlog": _backlog,
    "group.delay": _delay,
    "group.stalled": _stalled,
    "group.offline": _offline,
    "group.dead_letters": _dead_letters,
    "topic.above": _rate,
    "topic.below": _rate,
    "broker.storage": _storage,
    "broker.away": _away,
    "instance.throttled": _throttled,
    "account.throttled": _refused,
    "account.storage": _room,
    "pipeline.failed": _pipeline,
    "pipeline.stopped": _stopped,
    "pipeline.delay": _pipeline_delay,
    "tracking.failed": _tracking,
    "tracking.delay": _tracking_delay,
    "sql.failed": _statements,
    TEST: _test,
}
