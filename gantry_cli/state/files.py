"""What a file says and what a server has, in one form, so that both can be compared; and how a file is read.

A state file is YAML or JSON; every mistake in one is named with its line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from gantry_cli.errors import CliError
from gantry_cli.state.alarms import AlarmRecipient, AlarmRule, read_recipient, read_rule
from gantry_cli.state.inflow import InflowTask, TrackingTask, read_inflow_task, read_tracking_task
from gantry_cli.state.reader import Reader, each, optional_number, optional_text
from gantry_cli.texts import _

ORDER_TYPES = {"normal": 0, "partitionally-ordered": 1, "globally-ordered": 2, "transactional": 4, "delayed": 5}
AUTOMATIC = "automatic"
DELIVERY_ORDERS = {AUTOMATIC: "Auto", "orderly": "Orderly", "concurrently": "Concurrently"}
PERMISSIONS = {"read-write": 6, "read-only": 4, "write-only": 2}
RELATIONS = {"publish": 2, "subscribe": 4, "both": 6}

#: Attributes of queues by what they hold when nothing is said.
QUEUE_DEFAULTS: dict[str, int | bool] = {
    "visibilityTimeout": 30,
    "messageRetentionPeriod": 345_600,
    "delaySeconds": 0,
    "pollingWaitSeconds": 0,
    "maximumMessageSize": 65_536,
    "loggingEnabled": False,
}

#: Bytes of a message to a topic of queues, at most, when nothing is said.
TOPIC_BYTES = 65_536

VERSION = 1


def word(words: dict[str, int], number: int) -> str:
    """The word for a number, or the number for one that has none."""
    return next((name for name, value in words.items() if value == number), str(number))


@dataclass(frozen=True)
class Grant:
    """The right of an account or a RAM user to a topic."""

    to: str
    kind: str
    """`account` or `user`."""
    relation: int
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Topic:
    """A topic; `grants` is None when nothing is said of them."""

    name: str
    order_type: int
    perm: int = 6
    remark: str = ""
    grants: tuple[Grant, ...] | None = None
    adopted: bool = False
    """Whether the cluster had it before: it is taken over as it is, and forgotten instead of deleted."""
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Group:
    """A group ID."""

    group_id: str
    remark: str = ""
    delivery_order: str = AUTOMATIC
    adopted: bool = False
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class AdoptionRule:
    """Names that fit belong to an instance without namespace, those that come later too; `kind` is empty for both."""

    include: str
    exclude: str = ""
    kind: str = ""
    number: int = field(default=0, compare=False)
    where: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """What it says."""
        patterns = {"include": self.include, "exclude": self.exclude}
        said = _("%(include)s but not %(exclude)s") % patterns if self.exclude else self.include
        if not self.kind:
            return said
        return (_("%(patterns)s (topics)") if self.kind == "topic" else _("%(patterns)s (groups)")) % {"patterns": said}


@dataclass(frozen=True)
class Instance:
    """An instance; what is None is not said, and left alone.

    `name` is what it is known by: where a region is said, that stands before its own name, as in `eu-2/stock`.
    """

    name: str
    independent_naming: bool = True
    max_send_tps: int | None = None
    max_receive_tps: int | None = None
    topic_capacity: int | None = None
    cluster: str = ""
    region: str = ""
    remark: str | None = None
    topics: tuple[Topic, ...] | None = None
    groups: tuple[Group, ...] | None = None
    adoption_rules: tuple[AdoptionRule, ...] | None = None
    instance_id: str = field(default="", compare=False)
    where: str = field(default="", compare=False)

    @property
    def own_name(self) -> str:
        """The name that it has in its region."""
        return self.name.removeprefix(f"{self.region}/") if self.region else self.name

    def placed(self, region: str) -> Instance:
        """The same in a region; with an empty one nothing is said of regions."""
        return replace(self, name=known_as(region, self.own_name), region=region)


def known_as(region: str, name: str) -> str:
    """What an instance of a region is known by."""
    return f"{region}/{name}" if region else name


@dataclass(frozen=True)
class Policy:
    """A policy of the account's own."""

    name: str
    document: dict[str, Any]
    description: str = ""
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Queue:
    """A queue with all of its attributes."""

    name: str
    attributes: dict[str, int | bool] = field(default_factory=lambda: dict(QUEUE_DEFAULTS))
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Subscription:
    """Who gets what is published to a topic of queues: a queue of the account by its name, or a URL."""

    name: str
    receiver: str
    tag: str = ""
    strategy: str = "BACKOFF_RETRY"
    format: str = "XML"
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class QueueTopic:
    """A topic of queues; `subscriptions` is None when nothing is said of them."""

    name: str
    maximum_message_size: int = TOPIC_BYTES
    is_logged: bool = False
    subscriptions: tuple[Subscription, ...] | None = None
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Rule:
    """A rule by which a bucket tells a queue of its files; `events` in the order of the alphabet."""

    name: str
    queue: str
    events: tuple[str, ...]
    prefix: str = ""
    suffix: str = ""
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Bucket:
    """A bucket of the lake with its rules; `rules` is None when nothing is said of them."""

    name: str
    rules: tuple[Rule, ...] | None = None
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Secret:
    """A secret of SQL jobs, of which nobody but the server knows more than the name."""

    name: str
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Variable:
    """A variable of SQL jobs."""

    name: str
    value: str
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Job:
    """A SQL job: the text of its deployed version, or its draft when it is not deployed.

    `draft` is what has been written since it was deployed; empty when that is nothing.
    """

    name: str
    text: str
    is_deployed: bool = True
    draft: str = ""
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class State:
    """All of it; what is None is not said, and left alone."""

    instances: tuple[Instance, ...] | None = None
    policies: tuple[Policy, ...] | None = None
    queues: tuple[Queue, ...] | None = None
    queue_topics: tuple[QueueTopic, ...] | None = None
    buckets: tuple[Bucket, ...] | None = None
    job_secrets: tuple[Secret, ...] | None = None
    job_variables: tuple[Variable, ...] | None = None
    jobs: tuple[Job, ...] | None = None
    tracking_tasks: tuple[TrackingTask, ...] | None = None
    inflow_tasks: tuple[InflowTask, ...] | None = None
    alarm_recipients: tuple[AlarmRecipient, ...] | None = None
    alarm_rules: tuple[AlarmRule, ...] | None = None


def read(path: Path, text: str) -> State:
    """The state that the file describes. Raises CliError with file and line for what is wrong."""
    # In JSON a tab can stand between tokens only; YAML, whose subset it is otherwise, refuses it there.
    source = text.replace("\t", " ") if path.suffix == ".json" else text
    try:
        root = yaml.compose(source, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        said = {"where": f"{path}:{line}", "problem": error.problem or _("this is not YAML")}
        raise CliError(_("%(where)s: %(problem)s.") % said) from error
    except yaml.YAMLError as error:
        said = {"where": str(path), "problem": " ".join(str(error).split())}
        raise CliError(_("%(where)s: this is not YAML: %(problem)s") % said) from error
    reader = Reader(str(path))
    if root is None:
        raise CliError(_("%(where)s: the file is empty.") % {"where": path})
    values = reader.mapping(root, needed=("version",), known=tuple(LISTS))
    if reader.integer(values["version"]) != VERSION:
        told = {"where": reader.where(values["version"]), "version": VERSION}
        raise CliError(_("%(where)s: the version must be %(version)s.") % told)
    found: dict[str, Any] = {
        one.part: each(reader, values.get(name), one.read, lambda entry: str(entry.name), one.kind)
        for name, one in LISTS.items()
    }
    return State(**found)


def _instance(reader: Reader, node: yaml.Node) -> Instance:
    values = reader.mapping(
        node,
        needed=("name",),
        known=(
            "independentNaming", "maxSendTps", "maxReceiveTps", "topicCapacity",
            "cluster", "region", "remark", "topics", "groups", "adoptionRules",
        ),
    )  # fmt: skip
    region = optional_text(reader, values.get("region"))
    read = Instance(
        name=known_as(region, reader.text(values["name"])),
        region=region,
        independent_naming=reader.boolean(values["independentNaming"]) if "independentNaming" in values else True,
        max_send_tps=optional_number(reader, values.get("maxSendTps")),
        max_receive_tps=optional_number(reader, values.get("maxReceiveTps")),
        topic_capacity=optional_number(reader, values.get("topicCapacity")),
        cluster=optional_text(reader, values.get("cluster")),
        remark=reader.text(values["remark"]) if "remark" in values else None,
        topics=each(reader, values.get("topics"), _topic, lambda t: t.name, "topic"),
        groups=each(reader, values.get("groups"), _group, lambda g: g.group_id, "group"),
        adoption_rules=each(reader, values.get("adoptionRules"), _adoption_rule, lambda r: r.name, "adoption rule"),
        where=reader.where(node),
    )
    adopted = [topic.where for topic in read.topics or () if topic.adopted]
    adopted += [group.where for group in read.groups or () if group.adopted]
    adopted += [rule.where for rule in read.adoption_rules or ()]
    if adopted and read.independent_naming:
        raise CliError(
            _("%(where)s: names as a cluster has them need an instance with independentNaming: false.")
            % {"where": adopted[0]}
        )
    return read


def _adoption_rule(reader: Reader, node: yaml.Node) -> AdoptionRule:
    values = reader.mapping(node, needed=("include",), known=("exclude", "kind"))
    kind = optional_text(reader, values.get("kind"))
    if kind not in ("", "topic", "group"):
        said = {"where": reader.where(values["kind"]), "kind": kind}
        raise CliError(_("%(where)s: the kind is topic or group, not %(kind)r.") % said)
    patterns = (optional_text(reader, values.get(name)) for name in ("include", "exclude"))
    include, exclude = (" ".join(text.replace(",", " ").split()) for text in patterns)
    return AdoptionRule(include, exclude, kind, where=reader.where(node))


def _topic(reader: Reader, node: yaml.Node) -> Topic:
    values = reader.mapping(node, needed=("name",), known=("orderType", "perm", "remark", "grants", "adopted"))
    return Topic(
        name=reader.text(values["name"]),
        order_type=reader.word(values["orderType"], ORDER_TYPES) if "orderType" in values else 0,
        perm=reader.word(values["perm"], PERMISSIONS) if "perm" in values else PERMISSIONS["read-write"],
        remark=optional_text(reader, values.get("remark")),
        grants=each(reader, values.get("grants"), _grant, lambda g: g.to, "grant to"),
        adopted="adopted" in values and reader.boolean(values["adopted"]),
        where=reader.where(node),
    )


def _grant(reader: Reader, node: yaml.Node) -> Grant:
    values = reader.mapping(node, needed=("relation",), known=("account", "user"))
    named = [kind for kind in ("account", "user") if kind in values]
    if len(named) != 1:
        said = _("%(where)s: a grant names either an account or a user, by its ID.")
        raise CliError(said % {"where": reader.where(node)})
    to = reader.text(values[named[0]])
    if not to.isascii() or not to.isdecimal():
        said = _("%(where)s: the ID of an account or a user is a number, not %(given)r.")
        raise CliError(said % {"where": reader.where(values[named[0]]), "given": to})
    return Grant(to, named[0], reader.word(values["relation"], RELATIONS), reader.where(node))


def _group(reader: Reader, node: yaml.Node) -> Group:
    values = reader.mapping(node, needed=("groupId",), known=("remark", "deliveryOrder", "adopted"))
    order = reader.text(values["deliveryOrder"]) if "deliveryOrder" in values else AUTOMATIC
    if order not in DELIVERY_ORDERS:
        said = {"where": reader.where(node), "text": order, "words": ", ".join(DELIVERY_ORDERS)}
        raise CliError(_("%(where)s: %(text)r is none of %(words)s.") % said)
    remark = optional_text(reader, values.get("remark"))
    adopted = "adopted" in values and reader.boolean(values["adopted"])
    return Group(reader.text(values["groupId"]), remark, order, adopted, reader.where(node))


def _queue(reader: Reader, node: yaml.Node) -> Queue:
    values = reader.mapping(node, needed=("name",), known=tuple(QUEUE_DEFAULTS))
    attributes = dict(QUEUE_DEFAULTS)
    for name, default in QUEUE_DEFAULTS.items():
        if name in values:
            read = reader.boolean if isinstance(default, bool) else reader.integer
            attributes[name] = read(values[name])
    return Queue(reader.text(values["name"]), attributes, reader.where(node))


def _queue_topic(reader: Reader, node: yaml.Node) -> QueueTopic:
    known = ("maximumMessageSize", "loggingEnabled", "subscriptions")
    values = reader.mapping(node, needed=("name",), known=known)
    size = optional_number(reader, values.get("maximumMessageSize"))
    return QueueTopic(
        reader.text(values["name"]),
        TOPIC_BYTES if size is None else size,
        reader.boolean(values["loggingEnabled"]) if "loggingEnabled" in values else False,
        each(reader, values.get("subscriptions"), _subscription, lambda s: s.name, "subscription"),
        reader.where(node),
    )


def _subscription(reader: Reader, node: yaml.Node) -> Subscription:
    values = reader.mapping(node, needed=("name", "receiver"), known=("tag", "strategy", "format"))
    given = {name: reader.text(value) for name, value in values.items()}
    return Subscription(**given, where=reader.where(node))


def _bucket(reader: Reader, node: yaml.Node) -> Bucket:
    values = reader.mapping(node, needed=("name",), known=("rules",))
    rules = each(reader, values.get("rules"), _rule, lambda r: r.name, "rule")
    return Bucket(reader.text(values["name"]), rules, reader.where(node))


def _rule(reader: Reader, node: yaml.Node) -> Rule:
    values = reader.mapping(node, needed=("name", "queue", "events"), known=("prefix", "suffix"))
    events = {reader.text(entry) for entry in reader.entries(values["events"])}
    if not events:
        raise CliError(_("%(where)s: a rule names at least one event.") % {"where": reader.where(values["events"])})
    return Rule(
        reader.text(values["name"]),
        reader.text(values["queue"]),
        tuple(sorted(events)),
        optional_text(reader, values.get("prefix")),
        optional_text(reader, values.get("suffix")),
        reader.where(node),
    )


def _secret(reader: Reader, node: yaml.Node) -> Secret:
    return Secret(reader.text(node), reader.where(node))


def _variable(reader: Reader, node: yaml.Node) -> Variable:
    values = reader.mapping(node, needed=("name", "value"), known=())
    return Variable(reader.text(values["name"]), reader.text(values["value"]), reader.where(node))


def _job(reader: Reader, node: yaml.Node) -> Job:
    values = reader.mapping(node, needed=("name", "text"), known=("deployed", "draft"))
    is_deployed = reader.boolean(values["deployed"]) if "deployed" in values else True
    text = reader.text(values["text"])
    if not text.strip():
        raise CliError(_("%(where)s: the text of a job is not empty.") % {"where": reader.where(values["text"])})
    if "draft" in values and not is_deployed:
        said = _("%(where)s: the text of a job that is not deployed is its draft.")
        raise CliError(said % {"where": reader.where(values["draft"])})
    draft = optional_text(reader, values.get("draft"))
    return Job(reader.text(values["name"]), text, is_deployed, "" if draft == text else draft, reader.where(node))


def _policy(reader: Reader, node: yaml.Node) -> Policy:
    values = reader.mapping(node, needed=("name", "document"), known=("description",))
    document = reader.plain(values["document"])
    if not isinstance(document, dict):
        said = _("%(where)s: the document of a policy is an object.")
        raise CliError(said % {"where": reader.where(values["document"])})
    return Policy(
        reader.text(values["name"]), document, optional_text(reader, values.get("description")), reader.where(node)
    )


@dataclass(frozen=True)
class StateList:
    """A list of a file: the part of `State` that it is, and how its entries are read."""

    part: str
    kind: str
    read: Callable[[Reader, yaml.Node], Any]


#: By their names in a file, in the order in which an export has them.
LISTS = {
    "instances": StateList("instances", "instance", _instance),
    "queues": StateList("queues", "queue", _queue),
    "queueTopics": StateList("queue_topics", "topic of queues", _queue_topic),
    "buckets": StateList("buckets", "bucket", _bucket),
    "jobSecrets": StateList("job_secrets", "secret", _secret),
    "jobVariables": StateList("job_variables", "variable", _variable),
    "jobs": StateList("jobs", "job", _job),
    "trackingTasks": StateList("tracking_tasks", "change tracking task", read_tracking_task),
    "inflowTasks": StateList("inflow_tasks", "inflow task", read_inflow_task),
    "alarmRecipients": StateList("alarm_recipients", "recipient of alarms", read_recipient),
    "alarmRules": StateList("alarm_rules", "alarm rule", read_rule),
    "policies": StateList("policies", "policy", _policy),
}
