"""Alarms of the account, the rules that find them, and who is told."""

from __future__ import annotations

from datetime import time
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from console.accounts.crypto import decrypt
from console.alarms import access, prometheus, queries, services
from console.alarms.models import Alarm, Condition, Recipient, RecipientKind, Rule, Severity
from console.alarms.services import MOST_MINUTES, RecipientValues, RuleValues
from console.openapi.envelope import Page, cut, in_symbols, milliseconds
from console.openapi.operations import lookup
from console.openapi.registry import (
    NOTHING,
    Boolean,
    Call,
    Choice,
    Nothing,
    Parameters,
    Positive,
    Result,
    operation,
)
from console.web.errors import Refused

_SERVICE = "Alarm"
_SYMBOLS = {
    "NAME_TAKEN": "BIZ_ALARM_STATE_INVALID",
    "ALARM_STATE": "BIZ_ALARM_STATE_INVALID",
    "RECIPIENT_USED": "BIZ_ALARM_STATE_INVALID",
    "ALARM_TEST": "BIZ_ALARM_STATE_INVALID",
    "ALARM_RULE_LIMIT": "BIZ_ALARM_QUOTA_EXCEEDED",
    "ALARM_RECIPIENT_LIMIT": "BIZ_ALARM_QUOTA_EXCEEDED",
}
_MISSES = ("BIZ_ALARM_NOT_FOUND",)

Name = Annotated[str, Field(min_length=1, max_length=64)]
RuleName = Annotated[Name, Field(description="Name of the rule.", examples=["orders behind"])]
RecipientName = Annotated[Name, Field(description="Name of the recipient.", examples=["on call"])]
At = Annotated[str, Field(pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9])?$", description="HH:MM, in the rule's zone.")]
Conditions = Literal[
    "group.backlog", "group.delay", "group.stalled", "group.offline", "group.dead_letters", "topic.above",
    "topic.below", "instance.throttled", "account.throttled", "account.storage", "broker.storage", "broker.away",
    "pipeline.failed", "pipeline.stopped", "pipeline.delay", "tracking.failed", "tracking.delay", "sql.failed",
]  # fmt: skip


class AlarmList(Parameters):
    state: Annotated[Literal["firing", "ended"], Field(description="What fires, or what has ended.")] = "firing"
    text: Annotated[str, Field(max_length=64, description="Part of a rule's name or of the sentence.")] = ""
    currentPage: Positive = Field(default=1, description="The page, from 1.")
    pageSize: Annotated[int, Field(ge=1, le=100), Choice] = Field(default=20, description="Alarms a page, 1 to 100.")


class AlarmOnly(Parameters):
    alarm: Annotated[int, Field(ge=1), Choice, Field(description="Number of the alarm.", examples=[17])]


class RuleOnly(Parameters):
    rule: RuleName


class RulePut(RuleOnly):
    condition: Annotated[Conditions, Field(description="What is watched.", examples=["group.backlog"])]
    recipients: Annotated[
        str, Field(max_length=2048, description="Names of who is told, separated by commas.", examples=["on call"])
    ]
    threshold: Annotated[float, Field(ge=0, le=1e15, description="In the condition's unit.", examples=[1000])] = 0
    minutes: Annotated[
        int,
        Field(ge=0, le=MOST_MINUTES),
        Choice,
        Field(description="For how long it holds before somebody is told; of what is counted, within how long."),
    ] = 0
    instanceId: Annotated[
        str, Field(max_length=64, description="Of groups, topics and clients held back; empty: all instances.")
    ] = ""
    names: Annotated[str, Field(max_length=512, description="Patterns with * and ?, separated by spaces.")] = "*"
    severity: Annotated[Literal["critical", "warning", "note"], Field(description="How bad it is.")] = "warning"
    repeatMinutes: Annotated[
        int,
        Field(ge=0, le=MOST_MINUTES),
        Choice,
        Field(description="After how long what fires and nobody has acknowledged is told again, from 5; 0: never."),
    ] = 0
    quietFrom: At = ""
    quietUntil: At = ""
    zone: Annotated[str, Field(max_length=64, description="Time zone of the quiet hours.")] = "UTC"
    enabled: Annotated[Boolean, Field(description="Whether it is evaluated.")] = True


class RecipientOnly(Parameters):
    recipient: RecipientName


class RecipientPut(RecipientOnly):
    kind: Annotated[
        Literal["mail", "webhook", "slack", "dingtalk", "feishu", "topic", "queue"],
        Field(description="How it is told.", examples=["webhook"]),
    ]
    address: Annotated[
        str,
        Field(
            max_length=2048,
            description="Addresses of mail, or the URL. It is never told again whole; left empty, it stays.",
            examples=["https://hooks.example.com/alarms"],
        ),
    ] = ""
    secret: Annotated[
        str,
        StringConstraints(strip_whitespace=False, max_length=256),
        Field(description="Signs what is sent. It is never told again; it stays with its address."),
    ] = ""
    instanceId: Annotated[str, Field(max_length=64, description="Of the topic.")] = ""
    language: Annotated[
        Literal["", "en", "zh-hans"],
        Field(description="Of mail and chats; programs are told in English. Left empty, it stays; of a new one: en."),
    ] = ""
    topic: Annotated[str, Field(max_length=255, description="A topic of the account.")] = ""
    queue: Annotated[str, Field(max_length=255, description="A queue of the account.")] = ""


class AlarmDo(Result):
    """An alarm. Times are milliseconds since the epoch."""

    alarm: int = Field(description="Its number.")
    rule: str
    condition: str
    severity: str
    subject: str = Field(description="Of what, the same for the same thing.")
    sentence: str
    value: float | None
    beginTime: int = Field(description="When the condition began to hold.")
    fireTime: int
    endTime: int | None = Field(description="null while it fires.")
    acknowledgedBy: str = Field(description="Who sees to it; empty while nobody does.")


class RuleDo(Result):
    """An alarm rule."""

    rule: str
    condition: str
    threshold: float
    unit: str = Field(description="Of the threshold; empty where the condition has none.")
    minutes: int
    instanceId: str = Field(description="Empty: all instances.")
    names: str
    severity: str
    repeatMinutes: int = Field(description="0: it is told once.")
    quietFrom: str
    quietUntil: str
    zone: str
    enabled: bool
    firing: int = Field(description="Alarms of it that fire.")
    recipients: list[str]
    createTime: int = Field(description="Milliseconds since the epoch.")


class RecipientDo(Result):
    """Who is told, without what is secret."""

    recipient: str
    kind: str
    address: str = Field(description="Of a URL the host only.")
    instanceId: str = Field(description="Of a topic; else empty.")
    topic: str
    queue: str
    signed: bool = Field(description="Whether there is a secret.")
    language: str = Field(description="In which people are told; en where programs are.")
    rules: int = Field(description="Rules that tell it.")
    lastState: str = Field(description="Of the last notice: PENDING, SENDING, SUCCESS or FAILURE; else empty.")
    lastError: str = Field(description="Why the last attempt failed; else empty.")


@operation(
    "alarm/list",
    service=_SERVICE,
    summary="Alarms that fire, or that have ended",
    description="The latest first. Ended alarms are kept for 90 days.",
    parameters=AlarmList,
    result=AlarmDo,
    paged=True,
    needs=(access.QUERY,),
    extension=True,
)
def list_alarms(call: Call, parameters: AlarmList) -> Page:
    tenant = access.alarms(call.actor, access.QUERY)
    if parameters.state == "firing":
        found = queries.firing(tenant, text=parameters.text)
    else:
        found = queries.history(tenant, text=parameters.text)
    return Page.of(parameters, [_alarm(one) for one in cut(parameters, found)], found.count())


@operation(
    "alarm/acknowledge",
    service=_SERVICE,
    summary="Say that one sees to an alarm",
    parameters=AlarmOnly,
    result=Nothing,
    needs=(access.ACKNOWLEDGE,),
    changes=True,
    errors=(*_MISSES, "BIZ_ALARM_STATE_INVALID"),
    extension=True,
)
def acknowledge(call: Call, parameters: AlarmOnly) -> dict[str, Any]:
    tenant = access.alarms(call.actor, access.ACKNOWLEDGE)
    found = queries.alarm(tenant, parameters.alarm)
    if found is None:
        raise _missing(f"There is no alarm {parameters.alarm}.", "alarm")
    with in_symbols(_SYMBOLS):
        services.acknowledge(actor=call.actor, alarm=found)
    return NOTHING


@operation(
    "alarm/rules",
    service=_SERVICE,
    summary="Alarm rules",
    description="By name.",
    result=list[RuleDo],
    needs=(access.QUERY,),
    extension=True,
)
def rules(call: Call, parameters: Parameters) -> list[RuleDo]:
    return [_rule(one) for one in queries.rules(access.alarms(call.actor, access.QUERY))]


@operation(
    "alarm/prometheusRules",
    service=_SERVICE,
    summary="Alarm rules as a file for Prometheus",
    description="Those that are on, each an alert on `gantry_alarms_firing` of `/metrics`. YAML.",
    result=str,
    needs=(access.QUERY,),
    extension=True,
)
def prometheus_rules(call: Call, parameters: Parameters) -> str:
    return prometheus.rules_file(access.alarms(call.actor, access.QUERY))


@operation(
    "alarm/putRule",
    service=_SERVICE,
    summary="Make an alarm rule, or change the one of that name",
    description="What is left out is as in a new rule. With another condition, instance or names what fires ends.",
    parameters=RulePut,
    result=RuleDo,
    needs=(access.PUT,),
    changes=True,
    errors=(*_MISSES, "BIZ_INSTANCE_NOT_FOUND", "BIZ_ALARM_QUOTA_EXCEEDED"),
    extension=True,
)
def put_rule(call: Call, parameters: RulePut) -> RuleDo:
    old = queries.rule_named(call.actor.tenant, parameters.rule)
    if old is None:
        access.alarms(call.actor, access.PUT)
    else:
        old = access.rule(call.actor, old.pk, access.PUT)
    values = _values(call, parameters)
    with in_symbols(_SYMBOLS):
        if old is None:
            services.create_rule(actor=call.actor, values=values)
        else:
            services.change_rule(actor=call.actor, rule=old, values=values)
    return _rule(queries.rules(call.actor.tenant).get(name=parameters.rule))


@operation(
    "alarm/deleteRule",
    service=_SERVICE,
    summary="Delete an alarm rule",
    description="What it told stays in the history.",
    parameters=RuleOnly,
    result=Nothing,
    needs=(access.DELETE,),
    changes=True,
    errors=_MISSES,
    extension=True,
)
def delete_rule(call: Call, parameters: RuleOnly) -> dict[str, Any]:
    found = queries.rule_named(call.actor.tenant, parameters.rule)
    if found is None:
        access.alarms(call.actor, access.DELETE)
        raise _missing(f"There is no alarm rule {parameters.rule}.", "rule")
    services.delete_rule(actor=call.actor, rule=access.rule(call.actor, found.pk, access.DELETE))
    return NOTHING


@operation(
    "alarm/recipients",
    service=_SERVICE,
    summary="Who alarms are told to",
    description="By name, each with what became of the last notice.",
    result=list[RecipientDo],
    needs=(access.QUERY,),
    extension=True,
)
def recipients(call: Call, parameters: Parameters) -> list[RecipientDo]:
    return [_recipient(one) for one in queries.with_last_notices(access.alarms(call.actor, access.QUERY))]


@operation(
    "alarm/putRecipient",
    service=_SERVICE,
    summary="Make somebody who is told, or change the one of that name",
    parameters=RecipientPut,
    result=Nothing,
    needs=(access.PUT_RECIPIENT,),
    changes=True,
    errors=("BIZ_INSTANCE_NOT_FOUND", "BIZ_ALARM_QUOTA_EXCEEDED"),
    extension=True,
)
def put_recipient(call: Call, parameters: RecipientPut) -> dict[str, Any]:
    old = queries.recipient_named(call.actor.tenant, parameters.recipient)
    if old is None:
        access.recipients(call.actor, access.PUT_RECIPIENT)
    else:
        old = access.recipient(call.actor, old.pk, access.PUT_RECIPIENT)
    values = RecipientValues(
        name=parameters.recipient,
        kind=RecipientKind(parameters.kind),
        address=parameters.address,
        secret=parameters.secret,
        instance=lookup.own_instance(call, parameters.instanceId, "mq:QueryInstance")
        if parameters.instanceId
        else None,
        topic=parameters.topic,
        queue=parameters.queue,
        language=parameters.language,
    )
    with in_symbols(_SYMBOLS):
        if old is None:
            services.create_recipient(actor=call.actor, values=values)
        else:
            services.change_recipient(actor=call.actor, recipient=old, values=values)
    return NOTHING


@operation(
    "alarm/deleteRecipient",
    service=_SERVICE,
    summary="Delete who is told",
    description="It leaves the rules that tell it; the last one of a rule stays.",
    parameters=RecipientOnly,
    result=Nothing,
    needs=(access.DELETE_RECIPIENT,),
    changes=True,
    errors=(*_MISSES, "BIZ_ALARM_STATE_INVALID"),
    extension=True,
)
def delete_recipient(call: Call, parameters: RecipientOnly) -> dict[str, Any]:
    found = _named(call, parameters.recipient, access.DELETE_RECIPIENT)
    with in_symbols(_SYMBOLS):
        services.delete_recipient(actor=call.actor, recipient=found)
    return NOTHING


@operation(
    "alarm/test",
    service=_SERVICE,
    summary="Send a test to who is told",
    description="At most every 30 seconds; `alarm/recipients` tells what became of it.",
    parameters=RecipientOnly,
    result=Nothing,
    needs=(access.PUT_RECIPIENT,),
    changes=True,
    errors=(*_MISSES, "BIZ_ALARM_STATE_INVALID"),
    extension=True,
)
def test(call: Call, parameters: RecipientOnly) -> dict[str, Any]:
    found = _named(call, parameters.recipient, access.PUT_RECIPIENT)
    with in_symbols(_SYMBOLS):
        services.test_recipient(actor=call.actor, recipient=found)
    return NOTHING


def _named(call: Call, name: str, action: str) -> Recipient:
    found = queries.recipient_named(call.actor.tenant, name)
    if found is None:
        access.recipients(call.actor, action)
        raise _missing(f"There is no recipient {name}.", "recipient")
    return access.recipient(call.actor, found.pk, action)


def _values(call: Call, parameters: RulePut) -> RuleValues:
    names = [name.strip() for name in parameters.recipients.split(",") if name.strip()]
    there = {one.name: one for one in queries.recipients(call.actor.tenant)}
    if unknown := [name for name in names if name not in there]:
        raise _missing(f"There is no recipient {unknown[0]}.", "recipients")
    instance_id = parameters.instanceId
    return RuleValues(
        name=parameters.rule,
        condition=Condition(parameters.condition),
        instance=lookup.own_instance(call, instance_id, "mq:QueryTrend") if instance_id else None,
        names=parameters.names,
        threshold=parameters.threshold,
        minutes=parameters.minutes,
        severity=Severity(parameters.severity),
        repeat_minutes=parameters.repeatMinutes,
        quiet_from=_time(parameters.quietFrom),
        quiet_until=_time(parameters.quietUntil),
        zone=parameters.zone,
        enabled=parameters.enabled,
        recipients=[there[name] for name in dict.fromkeys(names)],
    )


def _time(text: str) -> time | None:
    return time.fromisoformat(text) if text else None


def _missing(sentence: str, field: str) -> Refused:
    return Refused("BIZ_ALARM_NOT_FOUND", sentence, field)


def _alarm(alarm: Alarm) -> AlarmDo:
    return AlarmDo(
        alarm=alarm.pk,
        rule=alarm.rule_name,
        condition=alarm.condition,
        severity=alarm.severity,
        subject=alarm.subject,
        sentence=alarm.sentence,
        value=alarm.value,
        beginTime=milliseconds(alarm.began_at),
        fireTime=milliseconds(alarm.fired_at or alarm.began_at),
        endTime=milliseconds(alarm.ended_at) if alarm.ended_at else None,
        acknowledgedBy=alarm.acknowledged_by,
    )


def _rule(rule: Rule) -> RuleDo:
    return RuleDo(
        rule=rule.name,
        condition=rule.condition,
        threshold=rule.threshold,
        unit=str(rule.watched.unit),
        minutes=rule.minutes,
        instanceId=rule.instance.instance_id if rule.instance else "",
        names=rule.names,
        severity=rule.severity,
        repeatMinutes=rule.repeat_minutes,
        quietFrom=f"{rule.quiet_from:%H:%M}" if rule.quiet_from else "",
        quietUntil=f"{rule.quiet_until:%H:%M}" if rule.quiet_until else "",
        zone=rule.zone,
        enabled=rule.enabled,
        firing=rule.firing,  # type: ignore[attr-defined]
        recipients=sorted(one.name for one in queries.recipients_of(rule)),
        createTime=milliseconds(rule.created_at),
    )


def _address(recipient: Recipient) -> str:
    """All of mail, however many; else what pages show."""
    if recipient.kind == RecipientKind.MAIL:
        return ", ".join(decrypt(recipient.address_encrypted).split())
    return recipient.shown


def _recipient(recipient: Recipient) -> RecipientDo:
    last = recipient.last  # type: ignore[attr-defined]
    return RecipientDo(
        recipient=recipient.name,
        kind=recipient.kind,
        address=_address(recipient),
        instanceId=recipient.instance.instance_id if recipient.instance else "",
        topic=recipient.topic,
        queue=recipient.queue,
        signed=bool(recipient.secret_encrypted),
        language=recipient.language,
        rules=recipient.used,  # type: ignore[attr-defined]
        lastState=last.status if last else "",
        lastError=last.error if last else "",
    )
