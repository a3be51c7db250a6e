"""Alarm rules, and who they tell, as a file has them.

The URL of a webhook lets anybody post, so no file has it, nor the secret that signs: where `apply` needs one it stands
in an environment variable, which `addressVariable` and `secretVariable` name, else GANTRY_ADDRESS_ and GANTRY_SECRET_
with the name of the recipient in capitals with underscores. Instances stand by their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import yaml

from gantry_cli.errors import CliError
from gantry_cli.state.inflow import variable_of
from gantry_cli.state.reader import Reader, not_one_of, optional_number, optional_text
from gantry_cli.state.steps import CHANGE, CREATE, DELETE, Ids, Late, Step, arrow, facts
from gantry_cli.texts import _

RULE, RECIPIENT = "alarm rule", "recipient of alarms"
_BY_URL = ("webhook", "slack", "dingtalk", "feishu")
_KINDS = ("mail", *_BY_URL, "topic", "queue")
_PEOPLE = ("mail", "slack", "dingtalk", "feishu")
_ENGLISH = "en"
_ELSEWHERE = "/…"
"""What the server says in the place of all that stands behind the host of a URL."""


@dataclass(frozen=True)
class AlarmRecipient:
    """Who is told. `address` is that of mail, of a URL scheme and host; `signed` whether there is a secret.

    Programs are told in English, whatever `language` people are told in.
    """

    name: str
    kind: str
    address: str = ""
    signed: bool = False
    instance: str = ""
    topic: str = ""
    queue: str = ""
    language: str = _ENGLISH
    address_variable: str = field(default="", compare=False)
    secret_variable: str = field(default="", compare=False)
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class AlarmRule:
    """A rule, of all instances where it names none."""

    name: str
    condition: str
    recipients: tuple[str, ...]
    threshold: float = 0.0
    minutes: int = 0
    instance: str = ""
    names: str = "*"
    severity: str = "warning"
    repeat_minutes: int = 0
    quiet_from: str = ""
    quiet_until: str = ""
    zone: str = "UTC"
    enabled: bool = True
    where: str = field(default="", compare=False)


#: Fields of a rule as a file and the server call them.
_FIELDS = {
    "condition": "condition", "threshold": "threshold", "minutes": "minutes", "names": "names", "severity": "severity",
    "repeat_minutes": "repeatMinutes", "quiet_from": "quietFrom", "quiet_until": "quietUntil", "zone": "zone",
    "enabled": "enabled",
}  # fmt: skip


def read_recipient(reader: Reader, node: yaml.Node) -> AlarmRecipient:
    """A recipient of a file. Raises CliError."""
    known = ("address", "signed", "instance", "topic", "queue", "language", "addressVariable", "secretVariable")
    values = reader.mapping(node, needed=("name", "kind"), known=known)
    kind = reader.text(values["kind"])
    if kind not in _KINDS:
        raise CliError(not_one_of(reader.where(values["kind"]), kind, _KINDS))
    if "language" in values and kind not in _PEOPLE:
        said = _("%(where)s: programs are told in English, so a recipient of the kind %(kind)s has no language.")
        raise CliError(said % {"where": reader.where(values["language"]), "kind": kind})
    address = optional_text(reader, values.get("address"))
    if kind in _BY_URL and address and not address.endswith(_ELSEWHERE):
        variable = variable_of(reader.text(values["name"]), prefix="GANTRY_ADDRESS_")
        said = _(
            "%(where)s: the URL of a %(kind)s lets anybody post, so no file has it; put it into the environment "
            "variable %(variable)s, and here scheme and host with %(elsewhere)s at the most."
        )
        told = {"kind": kind, "variable": variable, "elsewhere": _ELSEWHERE}
        raise CliError(said % {"where": reader.where(values["address"]), **told})
    return AlarmRecipient(
        name=reader.text(values["name"]),
        kind=kind,
        address=_addresses(address) if kind == "mail" else address,
        signed="signed" in values and reader.boolean(values["signed"]),
        instance=optional_text(reader, values.get("instance")),
        topic=optional_text(reader, values.get("topic")),
        queue=optional_text(reader, values.get("queue")),
        language=optional_text(reader, values.get("language")) or _ENGLISH,
        address_variable=optional_text(reader, values.get("addressVariable")),
        secret_variable=optional_text(reader, values.get("secretVariable")),
        where=reader.where(node),
    )


def read_rule(reader: Reader, node: yaml.Node) -> AlarmRule:
    """A rule of a file, of which the server judges all but the form. Raises CliError."""
    values = reader.mapping(
        node,
        needed=("name", "condition", "recipients"),
        known=(*(name for name in _FIELDS.values() if name != "condition"), "instance"),
    )
    plain = AlarmRule("", "", ())
    texts = {
        name: reader.text(values[given]) if given in values else getattr(plain, name)
        for name, given in _FIELDS.items()
        if isinstance(getattr(plain, name), str) and name != "condition"
    }
    return AlarmRule(
        name=reader.text(values["name"]),
        condition=reader.text(values["condition"]),
        recipients=tuple(sorted(reader.text(entry) for entry in reader.entries(values["recipients"]))),
        threshold=_number(reader, values.get("threshold")),
        minutes=optional_number(reader, values.get("minutes")) or 0,
        repeat_minutes=optional_number(reader, values.get("repeatMinutes")) or 0,
        instance=optional_text(reader, values.get("instance")),
        enabled=reader.boolean(values["enabled"]) if "enabled" in values else True,
        where=reader.where(node),
        **texts,
    )


def recipient_of(row: Mapping[str, Any], instances: Mapping[str, str]) -> AlarmRecipient:
    """A recipient as the server tells it; `instances` has names by IDs."""
    return AlarmRecipient(
        row["recipient"],
        row["kind"],
        address=row["address"] if row["kind"] in ("mail", *_BY_URL) else "",
        signed=row["signed"],
        instance=instances.get(row["instanceId"], ""),
        topic=row["topic"],
        queue=row["queue"],
        language=row.get("language", _ENGLISH),
    )


def rule_of(row: Mapping[str, Any], instances: Mapping[str, str]) -> AlarmRule:
    """A rule as the server tells it; `instances` has names by IDs."""
    told = {name: row[given] for name, given in _FIELDS.items()}
    return AlarmRule(
        name=row["rule"],
        recipients=tuple(sorted(row["recipients"])),
        instance=instances.get(row["instanceId"], ""),
        **told,
    )


def recipient_document(recipient: AlarmRecipient) -> dict[str, Any]:
    """What a file says of it; what holds the default is left out."""
    told = {name: getattr(recipient, name) for name in ("address", "signed", "instance", "topic", "queue")}
    if recipient.language != _ENGLISH:
        told["language"] = recipient.language
    return {"name": recipient.name, "kind": recipient.kind} | {name: value for name, value in told.items() if value}


def rule_document(rule: AlarmRule) -> dict[str, Any]:
    """The same of a rule."""
    plain = AlarmRule(rule.name, "", ())
    told = {
        given: getattr(rule, name) for name, given in _FIELDS.items() if getattr(rule, name) != getattr(plain, name)
    }
    if isinstance(told.get("threshold"), float) and rule.threshold.is_integer():
        told["threshold"] = int(rule.threshold)
    instance = {"instance": rule.instance} if rule.instance else {}
    return {"name": rule.name} | told | instance | {"recipients": list(rule.recipients)}


def new_recipient(recipient: AlarmRecipient) -> Iterator[Step]:
    """The step to a recipient that there is not yet. Raises CliError without its URL or its secret."""
    yield Step(CREATE, RECIPIENT, recipient.name, (_put(recipient),), details=facts(_shown(recipient)))


def changed_recipient(recipient: AlarmRecipient, old: AlarmRecipient) -> Iterator[Step]:
    """The step from one to the other. Raises CliError without what another address needs."""
    if recipient.kind in _BY_URL and recipient.kind == old.kind and not recipient.address:
        recipient = replace(recipient, address=old.address)
    if recipient != old:
        before, shown = _shown(old), _shown(recipient)
        names = [name for name in {**before, **shown} if before.get(name) != shown.get(name)]
        details = tuple(arrow(name, before.get(name), shown.get(name)) for name in names)
        is_language_only = replace(recipient, language=old.language) == old
        yield Step(CHANGE, RECIPIENT, recipient.name, (_put(recipient, keeps=is_language_only),), details=details)


def recipient_gone(recipient: AlarmRecipient) -> Iterator[Step]:
    """The step that deletes it."""
    yield Step(DELETE, RECIPIENT, recipient.name, (("alarm/deleteRecipient", {"recipient": recipient.name}),))


def new_rule(rule: AlarmRule) -> Iterator[Step]:
    """The step to a rule that there is not yet."""
    yield Step(CREATE, RULE, rule.name, (_put_rule(rule),), details=facts(_said(rule)))


def changed_rule(rule: AlarmRule, old: AlarmRule) -> Iterator[Step]:
    """The step from one rule to another one."""
    if rule != old:
        before = _told(old)
        details = tuple(
            arrow(name, before[name], value) for name, value in _told(rule).items() if value != before[name]
        )
        yield Step(CHANGE, RULE, rule.name, (_put_rule(rule),), details=details)


def rule_gone(rule: AlarmRule) -> Iterator[Step]:
    """The step that deletes it; what fires by it ends."""
    yield Step(DELETE, RULE, rule.name, (("alarm/deleteRule", {"rule": rule.name}),))


def _put(recipient: AlarmRecipient, *, keeps: bool = False) -> tuple[str, dict[str, str | Late]]:
    """`keeps`: its address stays as the server has it, and so does its secret."""
    given: dict[str, str | Late] = {"recipient": recipient.name, "kind": recipient.kind}
    if recipient.kind in _PEOPLE:
        given["language"] = recipient.language
    if recipient.kind in _BY_URL and keeps:
        return "alarm/putRecipient", given
    if recipient.kind in _BY_URL:
        # A secret goes with its address, and so does the want of one.
        given["address"] = _of_environment(recipient, "address", recipient.address_variable)
        if recipient.signed:
            given["secret"] = _of_environment(recipient, "secret", recipient.secret_variable)
        return "alarm/putRecipient", given
    given |= {name: value for name in ("address", "topic", "queue") if (value := getattr(recipient, name))}
    if recipient.instance:
        given["instanceId"] = _id_of(recipient.instance)
    return "alarm/putRecipient", given


def _put_rule(rule: AlarmRule) -> tuple[str, dict[str, str | Late]]:
    told = _told(rule)
    given: dict[str, str | Late] = {name: value for name, value in told.items() if name != "instance"}
    given["rule"] = rule.name
    if rule.instance:
        given["instanceId"] = _id_of(rule.instance)
    return "alarm/putRule", given


def _told(rule: AlarmRule) -> dict[str, str]:
    told = {given: getattr(rule, name) for name, given in _FIELDS.items()}
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in told.items()}
    return texts | {
        "threshold": f"{rule.threshold:.15g}",
        "instance": rule.instance,
        "recipients": ", ".join(rule.recipients),
    }


def _said(rule: AlarmRule) -> dict[str, str]:
    return {name: value for name, value in _told(rule).items() if value}


def _shown(recipient: AlarmRecipient) -> dict[str, str]:
    document = {one.name: getattr(recipient, one.name) for one in fields(recipient) if one.compare}
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in document.items() if value}


def _id_of(name: str) -> Late:
    def find(ids: Ids) -> str:
        if name not in ids.instances:
            raise CliError(_("There is no instance %(name)s.") % {"name": name})
        return ids.instances[name]

    return find


def _of_environment(recipient: AlarmRecipient, what: str, variable: str) -> str:
    name = variable or variable_of(recipient.name, prefix=f"GANTRY_{what.upper()}_")
    found = os.environ.get(name, "")
    if not found:
        said = _(
            "%(where)s: the %(what)s of the recipient of alarms %(name)s is needed, and no file has it; put it into "
            "the environment variable %(variable)s."
        )
        raise CliError(said % {"where": recipient.where, "what": what, "name": recipient.name, "variable": name})
    return found


def _addresses(text: str) -> str:
    return ", ".join(text.replace(",", " ").split())


def _number(reader: Reader, node: yaml.Node | None) -> float:
    if node is None:
        return 0.0
    value = reader.plain(node)
    if isinstance(value, bool) or not isinstance(value, int | float):
        said = {"where": reader.where(node), "text": reader.text(node)}
        raise CliError(_("%(where)s: %(text)r is not a number.") % said)
    return float(value)
