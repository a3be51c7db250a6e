"""A state as a file, which `apply` reads again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import yaml

from gantry_cli.state.alarms import recipient_document, rule_document
from gantry_cli.state.files import (
    AUTOMATIC,
    LISTS,
    ORDER_TYPES,
    PERMISSIONS,
    QUEUE_DEFAULTS,
    RELATIONS,
    TOPIC_BYTES,
    VERSION,
    AdoptionRule,
    Bucket,
    Group,
    Instance,
    Job,
    Policy,
    Queue,
    QueueTopic,
    State,
    Subscription,
    Topic,
    word,
)
from gantry_cli.state.inflow import tracking_document


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, line by line."""

    def represent_text(self, text: str) -> yaml.Node:
        """A block where there are several lines."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _Dumper.represent_text)


def text(state: State, form: str) -> str:
    """The file, `yaml` or `json`."""
    document = as_document(state)
    if form == "json":
        return json.dumps(document, indent=2, ensure_ascii=False)
    dumped: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return dumped.rstrip()


def as_document(state: State) -> dict[str, Any]:
    """Plain objects; what holds the default is left out."""
    document: dict[str, Any] = {"version": VERSION}
    for name, one in LISTS.items():
        entries = getattr(state, one.part)
        if entries is not None:
            # A bucket without rules is nothing that a file could say.
            said = [entry for entry in entries if one.part != "buckets" or entry.rules]
            document[name] = [_DOCUMENTS[one.part](entry) for entry in said]
    return document


def _instance(instance: Instance) -> dict[str, Any]:
    given = {
        "name": instance.own_name,
        "region": instance.region,
        "cluster": instance.cluster,
        "independentNaming": instance.independent_naming,
        "maxSendTps": instance.max_send_tps,
        "maxReceiveTps": instance.max_receive_tps,
        "topicCapacity": instance.topic_capacity,
        "remark": instance.remark,
    }
    document: dict[str, Any] = {name: value for name, value in given.items() if value not in (None, "")}
    document["topics"] = [_topic(topic) for topic in instance.topics or ()]
    document["groups"] = [_group(group) for group in instance.groups or ()]
    if instance.adoption_rules is not None:
        document["adoptionRules"] = [_adoption_rule(rule) for rule in instance.adoption_rules]
    return document


def _adoption_rule(rule: AdoptionRule) -> dict[str, Any]:
    given = {"include": rule.include, "exclude": rule.exclude, "kind": rule.kind}
    return {name: value for name, value in given.items() if value}


def _topic(topic: Topic) -> dict[str, Any]:
    document: dict[str, Any] = {"name": topic.name, "orderType": word(ORDER_TYPES, topic.order_type)}
    if topic.perm != PERMISSIONS["read-write"]:
        document["perm"] = word(PERMISSIONS, topic.perm)
    if topic.remark:
        document["remark"] = topic.remark
    if topic.adopted:
        document["adopted"] = True
    if topic.grants:
        document["grants"] = [{g.kind: g.to, "relation": word(RELATIONS, g.relation)} for g in topic.grants]
    return document


def _group(group: Group) -> dict[str, Any]:
    order = {} if group.delivery_order == AUTOMATIC else {"deliveryOrder": group.delivery_order}
    adopted = {"adopted": True} if group.adopted else {}
    return {"groupId": group.group_id} | ({"remark": group.remark} if group.remark else {}) | order | adopted


def _queue(queue: Queue) -> dict[str, Any]:
    own = {name: value for name, value in queue.attributes.items() if value != QUEUE_DEFAULTS[name]}
    return {"name": queue.name} | own


def _queue_topic(topic: QueueTopic) -> dict[str, Any]:
    size = topic.maximum_message_size
    own: dict[str, Any] = {} if size == TOPIC_BYTES else {"maximumMessageSize": size}
    own |= {"loggingEnabled": True} if topic.is_logged else {}
    subscriptions = []
    for one in topic.subscriptions or ():
        plain = Subscription(one.name, one.receiver)
        given = {name: getattr(one, name) for name in ("tag", "strategy", "format")}
        more = {name: value for name, value in given.items() if value != getattr(plain, name)}
        subscriptions.append({"name": one.name, "receiver": one.receiver} | more)
    return {"name": topic.name} | own | {"subscriptions": subscriptions}


def _bucket(bucket: Bucket) -> dict[str, Any]:
    rules = []
    for rule in bucket.rules or ():
        more = {name: getattr(rule, name) for name in ("prefix", "suffix") if getattr(rule, name)}
        rules.append({"name": rule.name, "queue": rule.queue, "events": list(rule.events)} | more)
    return {"name": bucket.name, "rules": rules}


def _job(job: Job) -> dict[str, Any]:
    document: dict[str, Any] = {"name": job.name} | ({} if job.is_deployed else {"deployed": False})
    return document | {"text": job.text} | ({"draft": job.draft} if job.draft else {})


def _policy(policy: Policy) -> dict[str, Any]:
    described = {"description": policy.description} if policy.description else {}
    return {"name": policy.name} | described | {"document": policy.document}


_DOCUMENTS: dict[str, Callable[[Any], Any]] = {
    "instances": _instance,
    "queues": _queue,
    "queue_topics": _queue_topic,
    "buckets": _bucket,
    "job_secrets": lambda secret: secret.name,
    "job_variables": lambda variable: {"name": variable.name, "value": variable.value},
    "jobs": _job,
    "tracking_tasks": tracking_document,
    "inflow_tasks": lambda task: task.document,
    "alarm_recipients": recipient_document,
    "alarm_rules": rule_document,
    "policies": _policy,
}
