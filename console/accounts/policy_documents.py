"""Policy documents as people write them: shown, checked line by line, and begun from an example."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from brokercore.policy import Examined, PolicyError, Problem, Statement, examine, parse_trust_policy
from console.accounts.models import Policy, Tenant

_NAMES: dict[str, tuple[str, ...]] = {
    "mq": (
        "PUB", "SUB", "QueryInstance", "CreateInstance", "UpdateInstance", "DeleteInstance",
        "QueryTopic", "CreateTopic", "UpdateTopic", "DeleteTopic", "Empower", "QueryGrant",
        "QueryGroup", "CreateGroup", "UpdateGroup", "DeleteGroup",
        "QueryMessage", "ResendDeadLetter", "ResetOffset", "QueryTrend",
    ),
    "mns": (
        "CreateQueue", "SetQueueAttributes", "GetQueueAttributes", "ListQueue", "DeleteQueue",
        "SendMessage", "ReceiveMessage", "PeekMessage", "DeleteMessage", "ChangeMessageVisibility",
        "CreateTopic", "SetTopicAttributes", "GetTopicAttributes", "ListTopic", "DeleteTopic", "PublishMessage",
        "Subscribe", "SetSubscriptionAttributes", "GetSubscriptionAttributes", "ListSubscriptionByTopic", "Unsubscribe",
        "GetAccountAttributes", "SetAccountAttributes", "OpenService",
    ),
    "dla": (
        "SubmitQuery", "QueryTask", "CancelQuery",
        "CreateSchema", "DropSchema", "CreateTable", "AlterTable", "DropTable", "InsertTable",
        "ListBuckets", "CreateBucket", "DeleteBucket", "ReadBucket", "WriteBucket", "ArchiveTopic",
        "GetBucketNotification", "PutBucketNotification",
        "QueryJob", "CreateJob", "UpdateJob", "DeleteJob", "StartJob", "StopJob", "DeleteJobSavepoint",
        "ListJobSecrets", "PutJobSecret", "DeleteJobSecret", "UseJobSecret",
    ),
    "dts": (
        "QueryTrackingTask", "CreateTrackingTask", "UpdateTrackingTask", "DeleteTrackingTask", "PauseTrackingTask",
        "ResumeTrackingTask", "QueryTrackingEvents", "CreateConsumerGroup", "DeleteConsumerGroup",
        "QueryInflowTask", "CreateInflowTask", "UpdateInflowTask", "DeleteInflowTask", "StartInflowTask",
        "StopInflowTask",
    ),
    "ram": (
        "ListUsers", "GetUser", "CreateUser", "UpdateUser", "DeleteUser", "UpdateLoginProfile", "UnbindMFADevice",
        "AttachPolicyToUser", "DetachPolicyFromUser",
        "ListAccessKeys", "UpdateAccessKey", "DeleteAccessKey",
        "ListGroups", "GetGroup", "CreateGroup", "UpdateGroup", "DeleteGroup",
        "AddUserToGroup", "RemoveUserFromGroup", "AttachPolicyToGroup", "DetachPolicyFromGroup",
        "ListPolicies", "GetPolicy", "CreatePolicy", "UpdatePolicy", "DeletePolicy", "SimulatePolicy",
        "ListRoles", "GetRole", "CreateRole", "UpdateRole", "DeleteRole",
        "AttachPolicyToRole", "DetachPolicyFromRole", "EndRoleSession",
        "GetSingleSignOn", "UpdateSingleSignOn",
    ),
    "cms": (
        "QueryAlarm", "PutAlarmRule", "DeleteAlarmRule", "AcknowledgeAlarm", "PutAlarmRecipient",
        "DeleteAlarmRecipient",
    ),
    "sts": ("AssumeRole",),
    "actiontrail": ("Read",),
}  # fmt: skip
ACTIONS: tuple[str, ...] = tuple(f"{service}:{name}" for service, names in _NAMES.items() for name in names)

_ORDER = ("Version", "Statement", "Effect", "Action", "Resource", "Principal", "Condition")


@lru_cache(maxsize=1024)
def matched(pattern: str) -> tuple[str, ...]:
    """The known actions that an action pattern of a policy stands for."""
    statement = Statement(True, (pattern,), ("*",))
    return tuple(action for action in ACTIONS if statement.matches_action_name(action))


def suggestions(pattern: str) -> list[str]:
    """Known actions that somebody may have meant by one that matches none."""
    by_name = {action.lower(): action for action in ACTIONS}
    near = get_close_matches(pattern.lower(), by_name, n=3, cutoff=0.6)
    if not near:
        tails = {action.partition(":")[2].lower(): action for action in ACTIONS}
        return [tails[t] for t in get_close_matches(pattern.partition(":")[2].lower(), tails, n=3, cutoff=0.6)]
    return [by_name[name] for name in near]


def _document(*actions: str) -> dict[str, Any]:
    return {"Version": "1", "Statement": [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]}


SYSTEM_POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "AliyunMQFullAccess": (gettext_noop("Everything in the message service"), _document("mq:*")),
    "AliyunMQReadOnlyAccess": (
        gettext_noop("See everything in the message service, change nothing"),
        _document("mq:Query*"),
    ),
    "AliyunMQPubOnlyAccess": (
        gettext_noop("Publish messages"),
        _document("mq:PUB", "mq:QueryInstance", "mq:QueryTopic"),
    ),
    "AliyunMQSubOnlyAccess": (
        gettext_noop("Subscribe to messages"),
        _document("mq:SUB", "mq:QueryInstance", "mq:QueryTopic", "mq:QueryGroup", "mq:CreateGroup"),
    ),
    "AliyunMNSFullAccess": (gettext_noop("Everything in the queue service"), _document("mns:*")),
    "AliyunMNSReadOnlyAccess": (
        gettext_noop("See queues, topics and their messages, change nothing"),
        _document("mns:Get*", "mns:List*", "mns:PeekMessage"),
    ),
    "AliyunDLAFullAccess": (gettext_noop("Submit and see SQL queries"), _document("dla:*")),
    "AliyunDTSFullAccess": (
        gettext_noop("Track changes of databases, and let them flow into topics"),
        _document("dts:*"),
    ),
    "AliyunDTSReadOnlyAccess": (
        gettext_noop("See change tracking and inflow tasks, without the rows in their events"),
        _document("dts:QueryTrackingTask", "dts:QueryInflowTask"),
    ),
    "AliyunCloudMonitorFullAccess": (gettext_noop("Make rules of alarms, and say who is told"), _document("cms:*")),
    "AliyunCloudMonitorReadOnlyAccess": (
        gettext_noop("See alarms and their rules, change nothing"),
        _document("cms:Query*"),
    ),
}


def ensure_system_policies() -> None:
    """Create or bring up to date the policies that belong to no tenant."""
    for name, (description, document) in SYSTEM_POLICIES.items():
        Policy.objects.update_or_create(
            tenant=None, name=name, defaults={"description": description, "document": document}
        )


def system_policy(name: str) -> Policy:
    """A system policy by name. Raises Policy.DoesNotExist."""
    return Policy.objects.get(tenant=None, name=name)


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
                text = _("%(account)s is another account; a policy never reaches beyond its own, %(uid)s.") % {
                    "account": account,
                    "uid": tenant.uid,
                }
                yield Problem(text, path)


def _about_action(pattern: str) -> str:
    if pattern.lower().startswith("platform:"):
        return _("platform: is for the platform's administrators; in an account it allows nothing.")
    if matched(pattern):
        return ""
    near = suggestions(pattern)
    text = _("There is no action %(pattern)s. Did you mean %(near)s?") if near else _("There is no action %(pattern)s.")
    return text % {"pattern": pattern[:60], "near": _(" or ").join(near)}


def _trust_warnings(found: Examined, tenant: Tenant) -> Iterator[Problem]:
    for number, row in enumerate(found.document["Statement"]):
        for path, name in _texts(row["Principal"].get("RAM", []), ("Statement", number, "Principal", "RAM")):
            account = name.split(":")[3]
            if account != tenant.uid and row["Effect"] == "Allow":
                yield Problem(
                    _("%(account)s is another account: it decides itself which of its users may assume the role.")
                    % {"account": account},
                    path,
                )


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
        "publish": (_("Publish to one topic"), _policy(topic, see)),
        "read-only": (_("Read only"), _policy({"Effect": "Allow", "Action": "mq:Query*", "Resource": "*"})),
        "one-instance": (
            _("One instance"),
            _policy({"Effect": "Allow", "Action": "mq:*", "Resource": [instance, f"{instance}%*"]}),
        ),
        "deny-delete": (
            _("Deny delete"),
            _policy(everything, {"Effect": "Deny", "Action": "mq:Delete*", "Resource": "*"}),
        ),
        "office": (
            _("Only from the office network"),
            _policy(everything, {"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": elsewhere}),
        ),
    }


def trust_examples(tenant: Tenant) -> dict[str, tuple[str, dict[str, Any]]]:
    """Trust policies to start from, by a short name, with a title."""

    def trusting(**principal: list[str]) -> dict[str, Any]:
        return _policy({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": principal})

    return {
        "account": (_("Users of this account"), trusting(RAM=[f"acs:ram::{tenant.uid}:root"])),
        "user": (_("One user"), trusting(RAM=[f"acs:ram::{tenant.uid}:user/NAME"])),
        "service": (_("The SQL service"), trusting(Service=["openanalytics.aliyuncs.com"])),
    }
