"""A state as the text of a file."""

from __future__ import annotations

import json
from typing import Any

import yaml

from cli.state.files import VERSION
from cli.state.model import ORDER_TYPES, PERMISSIONS, RELATIONS, Group, Instance, Policy, State, Topic, word


def text(state: State, form: str) -> str:
    """The file, `yaml` or `json`."""
    document = as_document(state)
    if form == "json":
        return json.dumps(document, indent=2, ensure_ascii=False)
    dumped: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return dumped.rstrip()


def as_document(state: State) -> dict[str, Any]:
    """Plain objects; what holds the default is left out."""
    document: dict[str, Any] = {"version": VERSION}
    if state.instances is not None:
        document["instances"] = [_instance(instance) for instance in state.instances]
    if state.policies is not None:
        document["policies"] = [_policy(policy) for policy in state.policies]
    return document


def _instance(instance: Instance) -> dict[str, Any]:
    given = {
        "name": instance.name,
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
    return document


def _topic(topic: Topic) -> dict[str, Any]:
    document: dict[str, Any] = {"name": topic.name, "orderType": word(ORDER_TYPES, topic.order_type)}
    if topic.perm != PERMISSIONS["read-write"]:
        document["perm"] = word(PERMISSIONS, topic.perm)
    if topic.remark:
        document["remark"] = topic.remark
    if topic.grants:
        document["grants"] = [{g.kind: g.to, "relation": word(RELATIONS, g.relation)} for g in topic.grants]
    return document


def _group(group: Group) -> dict[str, Any]:
    return {"groupId": group.group_id} | ({"remark": group.remark} if group.remark else {})


def _policy(policy: Policy) -> dict[str, Any]:
    described = {"description": policy.description} if policy.description else {}
    return {"name": policy.name} | described | {"document": policy.document}
