"""Policy documents as people write them: shown, checked line by line, and begun from an example."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from brokercore.policy import Examined, PolicyError, Problem, examine, parse_trust_policy
from console.accounts import actions
from console.accounts.models import Tenant

_ORDER = ("Version", "Statement", "Effect", "Action", "Resource", "Principal", "Condition")


@dataclass(frozen=True, slots=True)
class Checked:
    """What the editor shows below a document: problems keep it from being stored, warnings do not."""

    problems: list[Problem]
    warnings: list[Problem]
    statements: int


def formatted(document: Any) -> str:
    """The document as text, two spaces a level, its fields in the usual order (a database may keep another one)."""
    return json.dumps(_ordered(document), indent=2, ensure_ascii=False)


def check(text: str, tenant: Tenant, *, trust: bool = False) -> Checked:
    """Problems and warnings of a text, each with its line."""
    found = examine(text, trust=trust)
    if found.problems:
        return Checked(found.problems, [], 0)
    warn = _trust_warnings if trust else _warnings
    warnings = [found.locate(w) for w in warn(found, tenant)]
    return Checked([], sorted(warnings, key=lambda w: (w.line, w.column)), len(found.document["Statement"]))


def trusted_names(document: Any) -> list[str]:
    """Whom a trust policy lets in: services and RAM principals, without repetition."""
    try:
        statements = parse_trust_policy(document)
    except PolicyError:
        return []
    names = (name for s in statements if s.allow for name in (*s.services, *s.principals))
    return list(dict.fromkeys(names))


def _warnings(found: Examined, tenant: Tenant) -> Iterator[Problem]:
    for number, row in enumerate(found.document["Statement"]):
        for path, pattern in _texts(row["Action"], ("Statement", number, "Action")):
            if wrong := _about_action(pattern):
                yield Problem(wrong, path)
        for path, pattern in _texts(row["Resource"], ("Statement", number, "Resource")):
            account = pattern.split(":", 4)[3] if pattern.count(":") >= 4 else ""
            if account.isdigit() and account != tenant.uid:
                text = f"{account} is another account; a policy never reaches beyond its own, {tenant.uid}."
                yield Problem(text, path)


def _about_action(pattern: str) -> str:
    if pattern.lower().startswith("platform:"):
        return "platform: is for the platform's administrators; in an account it allows nothing."
    if actions.matched(pattern):
        return ""
    near = actions.suggestions(pattern)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"No action here is called {pattern[:60]}.{hint}"


def _trust_warnings(found: Examined, tenant: Tenant) -> Iterator[Problem]:
    for number, row in enumerate(found.document["Statement"]):
        for path, name in _texts(row["Principal"].get("RAM", []), ("Statement", number, "Principal", "RAM")):
            account = name.split(":")[3]
            if account != tenant.uid and row["Effect"] == "Allow":
                yield Problem(f"{account} is another account: it decides itself which of its users come in.", path)


def _texts(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield path, value
    else:
        for index, one in enumerate(value):
            yield (*path, index), one


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
        return {name: _ordered(value[name]) for name in names}
    return [_ordered(one) for one in value] if isinstance(value, list) else value


def _policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "1", "Statement": list(statements)}


def examples(tenant: Tenant) -> dict[str, tuple[str, dict[str, Any]]]:
    """Documents to start from, by a short name, with a title."""
    instance = f"acs:mq:*:*:MQ_INST_{tenant.uid}_XXXXXXXX"
    everything = {"Effect": "Allow", "Action": "mq:*", "Resource": "*"}
    topic = {"Effect": "Allow", "Action": ["mq:PUB", "mq:QueryTopic"], "Resource": f"{instance}%my-topic"}
    see = {"Effect": "Allow", "Action": "mq:QueryInstance", "Resource": instance}
    elsewhere = {"NotIpAddress": {"acs:SourceIp": ["203.0.113.0/24"]}}
    return {
        "publish": ("Publish to one topic", _policy(topic, see)),
        "read-only": ("Read only", _policy({"Effect": "Allow", "Action": "mq:Query*", "Resource": "*"})),
        "one-instance": (
            "One instance",
            _policy({"Effect": "Allow", "Action": "mq:*", "Resource": [instance, f"{instance}%*"]}),
        ),
        "deny-delete": (
            "Deny delete",
            _policy(everything, {"Effect": "Deny", "Action": "mq:Delete*", "Resource": "*"}),
        ),
        "office": (
            "Only from the office network",
            _policy(everything, {"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": elsewhere}),
        ),
    }


def trust_examples(tenant: Tenant) -> dict[str, tuple[str, dict[str, Any]]]:
    """Trust policies to start from, by a short name, with a title."""

    def trusting(**principal: list[str]) -> dict[str, Any]:
        return _policy({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": principal})

    return {
        "account": ("Users of this account", trusting(RAM=[f"acs:ram::{tenant.uid}:root"])),
        "user": ("One user", trusting(RAM=[f"acs:ram::{tenant.uid}:user/NAME"])),
        "service": ("The SQL service", trusting(Service=["openanalytics.aliyuncs.com"])),
    }
