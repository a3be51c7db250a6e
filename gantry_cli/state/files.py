"""What a file says and what a server has, in one form, so that both can be compared; and how a file is read.

A state file is YAML or JSON; every mistake in one is named with its line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from gantry_cli.errors import CliError

ORDER_TYPES = {"normal": 0, "partitionally-ordered": 1, "globally-ordered": 2, "transactional": 4, "delayed": 5}
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

_TAG = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"-?[0-9]{1,18}")
VERSION = 1
_LISTS = ("instances", "queues", "queueTopics", "buckets", "jobSecrets", "jobVariables", "jobs", "policies")
_T = TypeVar("_T")


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
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Group:
    """A group ID."""

    group_id: str
    remark: str = ""
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Instance:
    """An instance; what is None is not said, and left alone."""

    name: str
    independent_naming: bool = True
    max_send_tps: int | None = None
    max_receive_tps: int | None = None
    topic_capacity: int | None = None
    cluster: str = ""
    remark: str | None = None
    topics: tuple[Topic, ...] | None = None
    groups: tuple[Group, ...] | None = None
    instance_id: str = field(default="", compare=False)
    where: str = field(default="", compare=False)


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


class Reader:
    """Turns nodes of one file into values. Every method raises CliError with `file:line`."""

    def __init__(self, file: str) -> None:
        self._file = file

    def where(self, node: yaml.Node) -> str:
        """`file:line` of a node."""
        return f"{self._file}:{node.start_mark.line + 1}"

    def mapping(self, node: yaml.Node, *, needed: tuple[str, ...], known: tuple[str, ...]) -> dict[str, yaml.Node]:
        """The entries of an object, which has all of `needed`, and nothing but those and `known`."""
        if not isinstance(node, yaml.MappingNode):
            raise CliError(f"{self.where(node)}: an object is expected here, with {', '.join(needed)}.")
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self.text(key)
            if name in found:
                raise CliError(f"{self.where(key)}: {name} appears twice.")
            if name not in needed + known:
                raise CliError(f"{self.where(key)}: unknown field {name}{_guess(name, needed + known)}.")
            found[name] = value
        missing = [name for name in needed if name not in found]
        if missing:
            raise CliError(f"{self.where(node)}: {missing[0]} is missing.")
        return found

    def entries(self, node: yaml.Node) -> list[yaml.Node]:
        """The entries of a list; nothing after the colon is an empty one."""
        if isinstance(node, yaml.ScalarNode) and node.tag == _TAG + "null":
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise CliError(f"{self.where(node)}: a list is expected here.")
        return list(node.value)

    def text(self, node: yaml.Node) -> str:
        """A text as it is written; nothing is the empty one."""
        if not isinstance(node, yaml.ScalarNode):
            raise CliError(f"{self.where(node)}: a text is expected here.")
        return "" if node.tag == _TAG + "null" else str(node.value)

    def integer(self, node: yaml.Node) -> int:
        """A whole number."""
        text = self.text(node)
        if not _INTEGER.fullmatch(text):
            raise CliError(f"{self.where(node)}: {text!r} is not a whole number.")
        return int(text)

    def boolean(self, node: yaml.Node) -> bool:
        """true or false."""
        text = self.text(node)
        if text not in ("true", "false"):
            raise CliError(f"{self.where(node)}: {text!r} is neither true nor false.")
        return text == "true"

    def word(self, node: yaml.Node, words: dict[str, int]) -> int:
        """The number of one of the words; the number itself is understood too."""
        text = self.text(node)
        if text in words:
            return words[text]
        if _INTEGER.fullmatch(text) and int(text) in words.values():
            return int(text)
        raise CliError(f"{self.where(node)}: {text!r} is not one of {', '.join(words)}.")

    def plain(self, node: yaml.Node) -> Any:
        """The value as JSON knows it; what YAML takes for a date stays a text."""
        if isinstance(node, yaml.MappingNode):
            return {self.text(key): self.plain(value) for key, value in node.value}
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(value) for value in node.value]
        text, tag = str(node.value), node.tag.removeprefix(_TAG)
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() in ("true", "yes", "on")
        if tag == "int" and _INTEGER.fullmatch(text):
            return int(text)
        return float(text) if tag == "float" else text


def _guess(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; is {near[0]} meant" if near else f"; known are {', '.join(known)}"


def read(path: Path, text: str) -> State:
    """The state that the file describes. Raises CliError with file and line for what is wrong."""
    # In JSON a tab can stand between tokens only; YAML, whose subset it is otherwise, refuses it there.
    source = text.replace("\t", " ") if path.suffix == ".json" else text
    try:
        root = yaml.compose(source, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise CliError(f"{path}:{line}: {error.problem or 'this is not YAML'}.") from error
    except yaml.YAMLError as error:
        raise CliError(f"{path}: this is not YAML: {' '.join(str(error).split())}") from error
    reader = Reader(str(path))
    if root is None:
        raise CliError(f"{path}: the file is empty.")
    values = reader.mapping(root, needed=("version",), known=_LISTS)
    if reader.integer(values["version"]) != VERSION:
        raise CliError(f"{reader.where(values['version'])}: the version must be {VERSION}.")
    instances = _each(reader, values.get("instances"), _instance, lambda i: i.name, "instance")
    policies = _each(reader, values.get("policies"), _policy, lambda p: p.name, "policy")
    queues = _each(reader, values.get("queues"), _queue, lambda q: q.name, "queue")
    queue_topics = _each(reader, values.get("queueTopics"), _queue_topic, lambda t: t.name, "topic of queues")
    buckets = _each(reader, values.get("buckets"), _bucket, lambda b: b.name, "bucket")
    secrets = _each(reader, values.get("jobSecrets"), _secret, lambda s: s.name, "secret")
    variables = _each(reader, values.get("jobVariables"), _variable, lambda v: v.name, "variable")
    jobs = _each(reader, values.get("jobs"), _job, lambda j: j.name, "job")
    return State(instances, policies, queues, queue_topics, buckets, secrets, variables, jobs)


def _instance(reader: Reader, node: yaml.Node) -> Instance:
    values = reader.mapping(
        node,
        needed=("name",),
        known=(
            "independentNaming", "maxSendTps", "maxReceiveTps", "topicCapacity",
            "cluster", "remark", "topics", "groups",
        ),
    )  # fmt: skip
    return Instance(
        name=reader.text(values["name"]),
        independent_naming=reader.boolean(values["independentNaming"]) if "independentNaming" in values else True,
        max_send_tps=_number(reader, values.get("maxSendTps")),
        max_receive_tps=_number(reader, values.get("maxReceiveTps")),
        topic_capacity=_number(reader, values.get("topicCapacity")),
        cluster=_text(reader, values.get("cluster")),
        remark=reader.text(values["remark"]) if "remark" in values else None,
        topics=_each(reader, values.get("topics"), _topic, lambda t: t.name, "topic"),
        groups=_each(reader, values.get("groups"), _group, lambda g: g.group_id, "group"),
        where=reader.where(node),
    )


def _topic(reader: Reader, node: yaml.Node) -> Topic:
    values = reader.mapping(node, needed=("name",), known=("orderType", "perm", "remark", "grants"))
    return Topic(
        name=reader.text(values["name"]),
        order_type=reader.word(values["orderType"], ORDER_TYPES) if "orderType" in values else 0,
        perm=reader.word(values["perm"], PERMISSIONS) if "perm" in values else PERMISSIONS["read-write"],
        remark=_text(reader, values.get("remark")),
        grants=_each(reader, values.get("grants"), _grant, lambda g: g.to, "grant to"),
        where=reader.where(node),
    )


def _grant(reader: Reader, node: yaml.Node) -> Grant:
    values = reader.mapping(node, needed=("relation",), known=("account", "user"))
    named = [kind for kind in ("account", "user") if kind in values]
    if len(named) != 1:
        raise CliError(f"{reader.where(node)}: a grant names either an account or a user, by its ID.")
    to = reader.text(values[named[0]])
    if not to.isascii() or not to.isdecimal():
        raise CliError(f"{reader.where(values[named[0]])}: the ID of an account or a user is a number, not {to!r}.")
    return Grant(to, named[0], reader.word(values["relation"], RELATIONS), reader.where(node))


def _group(reader: Reader, node: yaml.Node) -> Group:
    values = reader.mapping(node, needed=("groupId",), known=("remark",))
    return Group(reader.text(values["groupId"]), _text(reader, values.get("remark")), reader.where(node))


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
    size = _number(reader, values.get("maximumMessageSize"))
    return QueueTopic(
        reader.text(values["name"]),
        TOPIC_BYTES if size is None else size,
        reader.boolean(values["loggingEnabled"]) if "loggingEnabled" in values else False,
        _each(reader, values.get("subscriptions"), _subscription, lambda s: s.name, "subscription"),
        reader.where(node),
    )


def _subscription(reader: Reader, node: yaml.Node) -> Subscription:
    values = reader.mapping(node, needed=("name", "receiver"), known=("tag", "strategy", "format"))
    given = {name: reader.text(value) for name, value in values.items()}
    return Subscription(**given, where=reader.where(node))


def _bucket(reader: Reader, node: yaml.Node) -> Bucket:
    values = reader.mapping(node, needed=("name",), known=("rules",))
    rules = _each(reader, values.get("rules"), _rule, lambda r: r.name, "rule")
    return Bucket(reader.text(values["name"]), rules, reader.where(node))


def _rule(reader: Reader, node: yaml.Node) -> Rule:
    values = reader.mapping(node, needed=("name", "queue", "events"), known=("prefix", "suffix"))
    events = {reader.text(entry) for entry in reader.entries(values["events"])}
    if not events:
        raise CliError(f"{reader.where(values['events'])}: a rule names at least one event.")
    return Rule(
        reader.text(values["name"]),
        reader.text(values["queue"]),
        tuple(sorted(events)),
        _text(reader, values.get("prefix")),
        _text(reader, values.get("suffix")),
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
        raise CliError(f"{reader.where(values['text'])}: the text of a job is not empty.")
    if "draft" in values and not is_deployed:
        raise CliError(f"{reader.where(values['draft'])}: the text of a job that is not deployed is its draft.")
    draft = _text(reader, values.get("draft"))
    return Job(reader.text(values["name"]), text, is_deployed, "" if draft == text else draft, reader.where(node))


def _policy(reader: Reader, node: yaml.Node) -> Policy:
    values = reader.mapping(node, needed=("name", "document"), known=("description",))
    document = reader.plain(values["document"])
    if not isinstance(document, dict):
        raise CliError(f"{reader.where(values['document'])}: the document of a policy is an object.")
    return Policy(reader.text(values["name"]), document, _text(reader, values.get("description")), reader.where(node))


def _each(
    reader: Reader,
    node: yaml.Node | None,
    make: Callable[[Reader, yaml.Node], _T],
    name: Callable[[_T], str],
    kind: str,
) -> tuple[_T, ...] | None:
    """The entries of a list, each name once; None when the list is not there."""
    if node is None:
        return None
    entries = [make(reader, entry) for entry in reader.entries(node)]
    _refuse_twins(entries, name, kind)
    return tuple(entries)


def _refuse_twins(entries: Iterable[Any], name: Callable[[Any], str], kind: str) -> None:
    seen: set[str] = set()
    for entry in entries:
        if name(entry) in seen:
            raise CliError(f"{entry.where}: the {kind} {name(entry)} appears twice.")
        seen.add(name(entry))


def _number(reader: Reader, node: yaml.Node | None) -> int | None:
    return reader.integer(node) if node is not None else None


def _text(reader: Reader, node: yaml.Node | None) -> str:
    return reader.text(node) if node is not None else ""
