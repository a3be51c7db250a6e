"""From a state to another one: steps in the order in which they can be done, and a refusal for what cannot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from gantry_cli.errors import CliError
from gantry_cli.state.adoption import ADOPTION_RULE, NAMES, adoption_steps, forgetting
from gantry_cli.state.alarms import (
    RECIPIENT,
    RULE,
    changed_recipient,
    changed_rule,
    new_recipient,
    new_rule,
    recipient_gone,
    rule_gone,
)
from gantry_cli.state.files import (
    AUTOMATIC,
    DELIVERY_ORDERS,
    ORDER_TYPES,
    PERMISSIONS,
    QUEUE_DEFAULTS,
    RELATIONS,
    Bucket,
    Grant,
    Group,
    Instance,
    Job,
    Policy,
    Queue,
    QueueTopic,
    Rule,
    State,
    Subscription,
    Topic,
    Variable,
    word,
)
from gantry_cli.state.inflow import (
    GROUP,
    INFLOW,
    TRACKING,
    ConsumerGroup,
    changed_inflow_task,
    changed_tracking_task,
    inflow_task_gone,
    new_inflow_task,
    new_tracking_task,
    tracking_task_gone,
)
from gantry_cli.state.steps import (
    CHANGE,
    CREATE,
    DELETE,
    Call,
    Step,
    arrow,
    compared,
    difference,
    facts,
    field_of,
    part_of,
    refuse,
)
from gantry_cli.texts import _

DEFAULT_TPS = 100_000
# What depends on something comes behind it; room is made before something new needs it.
_ORDER = (
    ("policy", CREATE), ("policy", CHANGE),
    (RULE, DELETE),
    (INFLOW, DELETE), ("job", DELETE), ("variable", DELETE), ("rule", DELETE), (ADOPTION_RULE, DELETE),
    ("grant", DELETE), (NAMES, DELETE), ("group", DELETE), ("topic", DELETE), ("instance", DELETE),
    ("subscription", DELETE), ("topic of queues", DELETE), ("queue", DELETE),
    ("instance", CREATE), ("instance", CHANGE),
    (NAMES, CREATE), (ADOPTION_RULE, CREATE),
    ("topic", CREATE), ("topic", CHANGE), ("group", CREATE), ("group", CHANGE), ("grant", CHANGE), ("grant", CREATE),
    ("queue", CREATE), ("queue", CHANGE), ("topic of queues", CREATE), ("topic of queues", CHANGE),
    ("subscription", CHANGE), ("subscription", CREATE), ("bucket", CREATE), ("rule", CHANGE), ("rule", CREATE),
    ("variable", CREATE), ("variable", CHANGE), ("job", CREATE), ("job", CHANGE),
    (TRACKING, CREATE), (TRACKING, CHANGE), (GROUP, CREATE), (INFLOW, CREATE), (INFLOW, CHANGE),
    (GROUP, DELETE), (TRACKING, DELETE), (RECIPIENT, CREATE), (RECIPIENT, CHANGE), (RULE, CREATE), (RULE, CHANGE),
    (RECIPIENT, DELETE),  # which may have been the last one of a rule that has changed
    ("policy", DELETE),
)  # fmt: skip
#: How an entry that is new, that is there already, and that is not wanted any more become steps.
_Ways = tuple[Callable[[Any], Iterable[Step]], Callable[[Any, Any], Iterable[Step]], Callable[[Any], Iterable[Step]]]


def plan(wanted: State, found: State, *, prune: bool = False, prune_instances: bool = False) -> list[Step]:
    """The steps from `found` to `wanted`, none when nothing is to do.

    What the file does not name is deleted with `prune`, except instances, which need `prune_instances` too.
    Raises CliError with file and line for what cannot be changed.
    """
    _require_secrets(wanted, found)
    steps = [*_instances(wanted, found, prune, prune_instances)]
    for part, (make, change, gone) in _kinds(wanted, found, prune=prune).items():
        given = getattr(wanted, part), getattr(found, part)
        steps += compared(*given, make=make, change=change, gone=gone, prune=prune)
    return sorted(steps, key=lambda step: _ORDER.index((step.kind, step.sign)))


def _kinds(wanted: State, found: State, *, prune: bool) -> dict[str, _Ways]:
    """By the parts of a state, how an entry is made, changed and deleted; instances are told what is in them too."""
    groups = partial(_consumer_group, wanted, found)
    return {
        "queues": (_new_queue, _changed_queue, partial(_named_gone, "queue", "queue/delete", "queue")),
        "queue_topics": (
            _new_queue_topic,
            partial(_changed_queue_topic, prune=prune),
            partial(_named_gone, "topic of queues", "queueTopic/delete", "topic"),
        ),
        "buckets": (_new_bucket, partial(_rules, prune=prune), _bucket_gone),
        "job_variables": (
            _new_variable,
            _changed_variable,
            partial(_named_gone, "variable", "job/deleteVariable", "variable"),
        ),
        "jobs": (_new_job, _changed_job, partial(_named_gone, "job", "job/delete", "job")),
        "tracking_tasks": (new_tracking_task, partial(changed_tracking_task, prune=prune), tracking_task_gone),
        "inflow_tasks": (
            partial(new_inflow_task, groups=groups),
            partial(changed_inflow_task, groups=groups),
            inflow_task_gone,
        ),
        "alarm_recipients": (new_recipient, changed_recipient, recipient_gone),
        "alarm_rules": (new_rule, changed_rule, rule_gone),
        "policies": (_new_policy, _changed_policy, partial(_named_gone, "policy", "policy/delete", "policy")),
    }


def _named_gone(kind: str, operation: str, parameter: str, entry: Any) -> Iterator[Step]:
    yield Step(DELETE, kind, entry.name, ((operation, {parameter: entry.name}),))


def _consumer_group(wanted: State, found: State, task: str, name: str) -> ConsumerGroup | None:
    """As the file says, else as the server does."""
    for state in (wanted, found):
        for one in state.tracking_tasks or ():
            for group in one.groups or ():
                if (one.name, group.name) == (task, name):
                    return group
    return None


def _instances(wanted: State, found: State, prune: bool, prune_instances: bool) -> Iterator[Step]:
    def make(instance: Instance) -> Iterator[Step]:
        yield _new_instance(instance)
        yield from _within(instance, Instance(instance.name, topics=(), groups=()), prune)

    def change(instance: Instance, known: Instance) -> Iterator[Step]:
        yield from _changed_instance(instance, known)
        yield from _within(instance, known, prune)

    given = wanted.instances, found.instances
    yield from compared(*given, make=make, change=change, gone=_all_gone, prune=prune_instances)


def _within(instance: Instance, known: Instance, prune: bool) -> Iterator[Step]:
    yield from _topics(instance, known, prune)
    yield from _groups(instance, known, prune)
    yield from adoption_steps(instance, known, prune=prune)


def _new_instance(instance: Instance) -> Step:
    given = {
        "instanceName": instance.own_name,
        "cluster": instance.cluster,
        "independentNaming": "true" if instance.independent_naming else "false",
        "maxSendTps": str(instance.max_send_tps or DEFAULT_TPS),
        "maxReceiveTps": str(instance.max_receive_tps or DEFAULT_TPS),
        "topicCapacity": str(instance.topic_capacity or ""),
        "remark": instance.remark or "",
    }
    parameters = {name: value for name, value in given.items() if value}
    calls = (("instance/create", parameters),)
    return Step(CREATE, "instance", instance.name, calls, details=facts(parameters), region=instance.region)


def _changed_instance(instance: Instance, known: Instance) -> Iterator[Step]:
    fixed = {
        "independentNaming": (known.independent_naming, instance.independent_naming),
        "maxSendTps": (known.max_send_tps, instance.max_send_tps),
        "maxReceiveTps": (known.max_receive_tps, instance.max_receive_tps),
        "topicCapacity": (known.topic_capacity, instance.topic_capacity),
        "cluster": (known.cluster, instance.cluster or None),
    }
    for name, (old, new) in fixed.items():
        if new is not None and new != old:
            refuse(instance.where, field_of(name, "instance", instance.name), old, new)
    if instance.remark is not None and instance.remark != known.remark:
        calls = (("instance/update", {"remark": instance.remark}),)
        details = (arrow("remark", known.remark, instance.remark),)
        yield Step(CHANGE, "instance", instance.name, calls, instance.name, details)


def _topics(instance: Instance, known: Instance, prune: bool) -> Iterator[Step]:
    def make(topic: Topic) -> Iterator[Step]:
        if not topic.adopted:
            yield _new_topic(instance.name, topic)
        yield from _grants(instance.name, topic, Topic(topic.name, topic.order_type, grants=()), prune)

    def change(topic: Topic, old: Topic) -> Iterator[Step]:
        yield from _changed_topic(instance.name, topic, old)
        yield from _grants(instance.name, topic, old, prune)

    def gone(topic: Topic) -> Iterator[Step]:
        if not topic.adopted:
            yield _gone("topic", topic.name, instance.name, "topic/delete", topic=topic.name)

    yield from compared(instance.topics, known.topics, make=make, change=change, gone=gone, prune=prune)


def _new_topic(instance: str, topic: Topic) -> Step:
    parameters = {"topic": topic.name, "orderType": str(topic.order_type)}
    if topic.remark:
        parameters["remark"] = topic.remark
    calls = [("topic/create", parameters)]
    details = [f"orderType: {word(ORDER_TYPES, topic.order_type)}"]
    if topic.remark:
        details.append(f"remark: {topic.remark}")
    if topic.perm != PERMISSIONS["read-write"]:
        calls.append(("topic/update", {"topic": topic.name, "perm": str(topic.perm)}))
        details.append(f"perm: {word(PERMISSIONS, topic.perm)}")
    return Step(CREATE, "topic", topic.name, tuple(calls), instance, tuple(details))


def _changed_topic(instance: str, topic: Topic, old: Topic) -> Iterator[Step]:
    if topic.order_type != old.order_type:
        words = (word(ORDER_TYPES, old.order_type), word(ORDER_TYPES, topic.order_type))
        refuse(topic.where, field_of("orderType", "topic", topic.name), *words)
    if topic.remark != old.remark:
        refuse(topic.where, field_of("remark", "topic", topic.name), old.remark, topic.remark)
    if topic.perm != old.perm:
        calls = (("topic/update", {"topic": topic.name, "perm": str(topic.perm)}),)
        words = (word(PERMISSIONS, old.perm), word(PERMISSIONS, topic.perm))
        yield Step(CHANGE, "topic", topic.name, calls, instance, (arrow("perm", *words),))


def _grants(instance: str, topic: Topic, old: Topic, prune: bool) -> Iterator[Step]:
    def make(grant: Grant) -> Iterator[Step]:
        yield _grant(CREATE, instance, topic, grant, f"relation: {word(RELATIONS, grant.relation)}")

    def change(grant: Grant, known: Grant) -> Iterator[Step]:
        if known.kind != grant.kind:
            refuse(grant.where, _("kind of %(name)s") % {"name": grant.to}, known.kind, grant.kind)
        if known.relation != grant.relation:
            words = (word(RELATIONS, known.relation), word(RELATIONS, grant.relation))
            yield _grant(CHANGE, instance, topic, grant, arrow("relation", *words))

    def gone(grant: Grant) -> Iterator[Step]:
        yield _grant(DELETE, instance, topic, grant, "")

    given = topic.grants, old.grants
    yield from compared(*given, make=make, change=change, gone=gone, prune=prune, name=lambda grant: grant.to)


def _grant(sign: str, instance: str, topic: Topic, grant: Grant, detail: str) -> Step:
    which = {"topic": topic.name, "empowerUser": grant.to}
    operation = "empower/create" if grant.kind == "account" else "empower/createBySub"
    create = (operation, which | {"relation": str(grant.relation)})
    delete = ("empower/delete", which)
    calls = {CREATE: (create,), CHANGE: (delete, create), DELETE: (delete,)}[sign]
    name = _("on %(topic)s to account %(to)s") if grant.kind == "account" else _("on %(topic)s to user %(to)s")
    return Step(
        sign, "grant", name % {"topic": topic.name, "to": grant.to}, calls, instance, (detail,) if detail else ()
    )


def _groups(instance: Instance, known: Instance, prune: bool) -> Iterator[Step]:
    def make(group: Group) -> Iterator[Step]:
        if not group.adopted:
            yield _new_group(instance.name, group)

    def change(group: Group, old: Group) -> Iterator[Step]:
        if old.remark != group.remark:
            refuse(group.where, field_of("remark", "group", group.group_id), old.remark, group.remark)
        if old.delivery_order != group.delivery_order:
            order = {"groupId": group.group_id, "deliveryOrderType": DELIVERY_ORDERS[group.delivery_order]}
            details = (arrow("deliveryOrder", old.delivery_order, group.delivery_order),)
            yield Step(CHANGE, "group", group.group_id, (("group/update", order),), instance.name, details)

    def gone(group: Group) -> Iterator[Step]:
        if not group.adopted:
            yield _gone("group", group.group_id, instance.name, "group/delete", groupId=group.group_id)

    given = instance.groups, known.groups
    yield from compared(*given, make=make, change=change, gone=gone, prune=prune, name=lambda group: group.group_id)


def _new_group(instance: str, group: Group) -> Step:
    parameters = {"groupId": group.group_id} | ({"remark": group.remark} if group.remark else {})
    details = (f"remark: {group.remark}",) if group.remark else ()
    if group.delivery_order != AUTOMATIC:
        parameters["deliveryOrderType"] = DELIVERY_ORDERS[group.delivery_order]
        details = (*details, f"deliveryOrder: {group.delivery_order}")
    return Step(CREATE, "group", group.group_id, (("group/create", parameters),), instance, details)


def _all_gone(instance: Instance) -> Iterator[Step]:
    """An instance can be deleted when nothing is in it."""
    yield from forgetting(None, instance)
    for topic in instance.topics or ():
        if not topic.adopted:
            yield _gone("topic", topic.name, instance.name, "topic/delete", topic=topic.name)
    for group in instance.groups or ():
        if not group.adopted:
            yield _gone("group", group.group_id, instance.name, "group/delete", groupId=group.group_id)
    yield _gone("instance", instance.name, instance.name, "instance/delete")


def _gone(kind: str, name: str, instance: str, operation: str, **parameters: str) -> Step:
    return Step(DELETE, kind, name, ((operation, parameters),), instance)


def _new_queue(queue: Queue) -> Iterator[Step]:
    calls = (("queue/create", _queue(queue, QUEUE_DEFAULTS)),)
    yield Step(CREATE, "queue", queue.name, calls, details=_attributes(queue, QUEUE_DEFAULTS))


def _changed_queue(queue: Queue, old: Queue) -> Iterator[Step]:
    if old.attributes != queue.attributes:
        calls = (("queue/set", _queue(queue, old.attributes)),)
        yield Step(CHANGE, "queue", queue.name, calls, details=_attributes(queue, old.attributes))


def _queue(queue: Queue, known: dict[str, int | bool]) -> dict[str, str]:
    """The parameters of a call that gives the queue what differs from `known`."""
    changed = {name: value for name, value in queue.attributes.items() if value != known[name]}
    return {"queue": queue.name} | {name: str(value).lower() for name, value in changed.items()}


def _attributes(queue: Queue, known: dict[str, int | bool]) -> tuple[str, ...]:
    return tuple(
        f"{name}: {str(known[name]).lower()} → {str(value).lower()}"
        for name, value in queue.attributes.items()
        if value != known[name]
    )


def _new_queue_topic(topic: QueueTopic) -> Iterator[Step]:
    plain = QueueTopic(topic.name, subscriptions=())
    yield _queue_topic(CREATE, topic, plain)
    yield from _subscriptions(topic, plain, prune=False)


def _changed_queue_topic(topic: QueueTopic, old: QueueTopic, *, prune: bool) -> Iterator[Step]:
    if _topic_attributes(old) != _topic_attributes(topic):
        yield _queue_topic(CHANGE, topic, old)
    yield from _subscriptions(topic, old, prune)


def _queue_topic(sign: str, topic: QueueTopic, old: QueueTopic) -> Step:
    before, given = _topic_attributes(old), _topic_attributes(topic)
    details = tuple(arrow(name, before[name], given[name]) for name in given if given[name] != before[name])
    operation = "queueTopic/create" if sign == CREATE else "queueTopic/set"
    return Step(sign, "topic of queues", topic.name, ((operation, {"topic": topic.name} | given),), details=details)


def _topic_attributes(topic: QueueTopic) -> dict[str, str]:
    return {
        "maximumMessageSize": str(topic.maximum_message_size),
        "loggingEnabled": str(topic.is_logged).lower(),
    }


def _subscriptions(topic: QueueTopic, old: QueueTopic, prune: bool) -> Iterator[Step]:
    def make(one: Subscription) -> Iterator[Step]:
        yield _subscription(CREATE, topic, one)

    def change(one: Subscription, known: Subscription) -> Iterator[Step]:
        if (known.receiver, known.format) != (one.receiver, one.format):
            yield _subscription(CHANGE, topic, one)
        elif known != one:
            given = {"strategy": one.strategy, "tag": one.tag}
            details = tuple(
                arrow(name, getattr(known, name), value)
                for name, value in given.items()
                if value != getattr(known, name)
            )
            calls = (("queueTopic/setSubscription", {"topic": topic.name, "subscription": one.name} | given),)
            yield Step(CHANGE, "subscription", part_of(one.name, topic.name), calls, details=details)

    def gone(one: Subscription) -> Iterator[Step]:
        yield _subscription(DELETE, topic, one)

    given = topic.subscriptions, old.subscriptions
    yield from compared(*given, make=make, change=change, gone=gone, prune=prune)


def _subscription(sign: str, topic: QueueTopic, one: Subscription) -> Step:
    """What goes where, and as what, cannot be changed: a subscription that is to differ there ends and is made anew."""
    which = {"topic": topic.name, "subscription": one.name}
    given = {"receiver": one.receiver, "tag": one.tag, "strategy": one.strategy, "format": one.format}
    create = ("queueTopic/subscribe", which | {name: value for name, value in given.items() if value})
    delete = ("queueTopic/unsubscribe", which)
    calls = {CREATE: (create,), CHANGE: (delete, create), DELETE: (delete,)}[sign]
    details = () if sign == DELETE else facts({name: value for name, value in given.items() if value})
    return Step(sign, "subscription", part_of(one.name, topic.name), calls, details=details)


def _new_bucket(bucket: Bucket) -> Iterator[Step]:
    yield Step(CREATE, "bucket", bucket.name, (("bucket/create", {"bucket": bucket.name}),))
    yield from _rules(bucket, Bucket(bucket.name, ()), prune=False)


def _bucket_gone(bucket: Bucket) -> Iterator[Step]:
    """Buckets are made and never deleted: their files are not what a file of names could bring back."""
    yield from _rules(Bucket(bucket.name, ()), bucket, prune=True)


def _rules(bucket: Bucket, old: Bucket, *, prune: bool) -> Iterator[Step]:
    def make(rule: Rule) -> Iterator[Step]:
        yield _rule(CREATE, bucket, rule)

    def change(rule: Rule, known: Rule) -> Iterator[Step]:
        if known != rule:
            yield _rule(CHANGE, bucket, rule)

    def gone(rule: Rule) -> Iterator[Step]:
        yield _rule(DELETE, bucket, rule)

    yield from compared(bucket.rules, old.rules, make=make, change=change, gone=gone, prune=prune)


def _rule(sign: str, bucket: Bucket, rule: Rule) -> Step:
    """A rule that is to differ is deleted and made anew."""
    which = {"bucket": bucket.name, "rule": rule.name}
    given = {"queue": rule.queue, "events": ",".join(rule.events), "prefix": rule.prefix, "suffix": rule.suffix}
    create = ("bucket/createRule", which | {name: value for name, value in given.items() if value})
    delete = ("bucket/deleteRule", which)
    calls = {CREATE: (create,), CHANGE: (delete, create), DELETE: (delete,)}[sign]
    details = () if sign == DELETE else facts({name: value for name, value in given.items() if value})
    return Step(sign, "rule", part_of(rule.name, bucket.name), calls, details=details)


def _require_secrets(wanted: State, found: State) -> None:
    there = {secret.name for secret in found.job_secrets or ()}
    for secret in wanted.job_secrets or ():
        if secret.name not in there:
            said = _(
                "%(where)s: the secret %(name)s is not there, and no file has its value; save it first, by `gantry job "
                "putSecret --secret %(name)s --value @-` or on the page Secrets."
            )
            raise CliError(said % {"where": secret.where, "name": secret.name})


def _new_variable(variable: Variable) -> Iterator[Step]:
    yield _variable(CREATE, variable, f"value: {variable.value}")


def _changed_variable(variable: Variable, old: Variable) -> Iterator[Step]:
    if old.value != variable.value:
        yield _variable(CHANGE, variable, arrow("value", old.value, variable.value))


def _variable(sign: str, variable: Variable, detail: str) -> Step:
    given = {"variable": variable.name, "value": variable.value}
    return Step(sign, "variable", variable.name, (("job/putVariable", given),), details=(detail,))


def _new_job(job: Job) -> Iterator[Step]:
    create = ("job/create", {"job": job.name, "text": job.text})
    yield Step(CREATE, "job", job.name, (create, *_deploy(job), *_draft(job)), details=_text_of(job))


def _changed_job(job: Job, old: Job) -> Iterator[Step]:
    """A job that runs goes on with its version: the new one runs from its next start on."""
    if old.is_deployed and not job.is_deployed:
        refuse(job.where, _("job %(name)s") % {"name": job.name}, _("deployed"), _("not deployed"))
    if old != job:
        # What stays deployed is not deployed again, or a text that names something new would be judged for a draft.
        is_same = old.is_deployed and old.text == job.text
        kept: tuple[Call, ...] = (("job/update", {"job": job.name, "text": job.draft or job.text}),)
        calls = kept if is_same or not job.is_deployed else (*_deploy(job), *_draft(job))
        yield Step(CHANGE, "job", job.name, calls, details=difference(_text_of(old), _text_of(job)))


def _deploy(job: Job) -> tuple[Call, ...]:
    return (("job/deploy", {"job": job.name, "text": job.text}),) if job.is_deployed else ()


def _draft(job: Job) -> tuple[Call, ...]:
    return (("job/update", {"job": job.name, "text": job.draft}),) if job.draft else ()


def _text_of(job: Job) -> tuple[str, ...]:
    draft = (_("draft:"), *job.draft.splitlines()) if job.draft else ()
    return (_("deployed") if job.is_deployed else _("a draft"), *job.text.splitlines(), *draft)


def _new_policy(policy: Policy) -> Iterator[Step]:
    yield Step(CREATE, "policy", policy.name, (("policy/create", _policy(policy)),), details=_body(policy))


def _changed_policy(policy: Policy, old: Policy) -> Iterator[Step]:
    if old != policy:
        details = difference(_body(old), _body(policy))
        if old.description != policy.description:
            details = (arrow("description", old.description, policy.description), *details)
        yield Step(CHANGE, "policy", policy.name, (("policy/update", _policy(policy)),), details=details)


def _policy(policy: Policy) -> dict[str, str]:
    document = json.dumps(policy.document, ensure_ascii=False)
    return {"policy": policy.name, "description": policy.description, "document": document}


def _body(policy: Policy) -> tuple[str, ...]:
    return tuple(json.dumps(policy.document, indent=2, ensure_ascii=False, sort_keys=True).splitlines())
