"""From a state to another one: steps in the order in which they can be done, and a refusal for what cannot."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from gantry_cli.errors import CliError
from gantry_cli.state.files import (
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

CREATE, CHANGE, DELETE = "+", "~", "-"
DEFAULT_TPS = 5000
# What depends on something comes behind it; room is made before something new needs it.
_ORDER = (
    ("policy", CREATE), ("policy", CHANGE),
    ("job", DELETE), ("variable", DELETE), ("rule", DELETE),
    ("grant", DELETE), ("group", DELETE), ("topic", DELETE), ("instance", DELETE),
    ("subscription", DELETE), ("topic of queues", DELETE), ("queue", DELETE),
    ("instance", CREATE), ("instance", CHANGE),
    ("topic", CREATE), ("topic", CHANGE), ("group", CREATE), ("grant", CHANGE), ("grant", CREATE),
    ("queue", CREATE), ("queue", CHANGE), ("topic of queues", CREATE), ("topic of queues", CHANGE),
    ("subscription", CHANGE), ("subscription", CREATE), ("bucket", CREATE), ("rule", CHANGE), ("rule", CREATE),
    ("variable", CREATE), ("variable", CHANGE), ("job", CREATE), ("job", CHANGE),
    ("policy", DELETE),
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One thing to do: `calls` are operations with their parameters, in order; all concern `instance` if it is set."""

    sign: str
    kind: str
    name: str
    calls: tuple[tuple[str, dict[str, str]], ...]
    instance: str = ""
    details: tuple[str, ...] = field(default=())

    @property
    def title(self) -> str:
        """As in `topic orders`."""
        return f"{self.kind} {self.name}"


def plan(wanted: State, found: State, *, prune: bool = False, prune_instances: bool = False) -> list[Step]:
    """The steps from `found` to `wanted`, none when nothing is to do.

    What the file does not name is deleted with `prune`, except instances, which need `prune_instances` too.
    Raises CliError with file and line for what cannot be changed.
    """
    _require_secrets(wanted, found)
    steps = [
        *_instances(wanted, found, prune, prune_instances),
        *_queues(wanted, found, prune),
        *_queue_topics(wanted, found, prune),
        *_buckets(wanted, found, prune),
        *_variables(wanted, found, prune),
        *_jobs(wanted, found, prune),
        *_policies(wanted, found, prune),
    ]
    return sorted(steps, key=lambda step: _ORDER.index((step.kind, step.sign)))


def _instances(wanted: State, found: State, prune: bool, prune_instances: bool) -> Iterator[Step]:
    if wanted.instances is None:
        return
    there = {instance.name: instance for instance in found.instances or ()}
    for instance in wanted.instances:
        known = there.get(instance.name)
        if known is None:
            yield _new_instance(instance)
            known = Instance(instance.name, topics=(), groups=())
        else:
            yield from _changed_instance(instance, known)
        yield from _topics(instance, known, prune)
        yield from _groups(instance, known, prune)
    if prune_instances:
        named = {instance.name for instance in wanted.instances}
        for instance in there.values():
            if instance.name not in named:
                yield from _all_gone(instance)


def _new_instance(instance: Instance) -> Step:
    given = {
        "instanceName": instance.name,
        "cluster": instance.cluster,
        "independentNaming": "true" if instance.independent_naming else "false",
        "maxSendTps": str(instance.max_send_tps or DEFAULT_TPS),
        "maxReceiveTps": str(instance.max_receive_tps or DEFAULT_TPS),
        "topicCapacity": str(instance.topic_capacity or ""),
        "remark": instance.remark or "",
    }
    parameters = {name: value for name, value in given.items() if value}
    return Step(CREATE, "instance", instance.name, (("instance/create", parameters),), details=_facts(parameters))


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
            _refuse(instance.where, f"{name} of the instance {instance.name}", old, new)
    if instance.remark is not None and instance.remark != known.remark:
        calls = (("instance/update", {"remark": instance.remark}),)
        details = (_arrow("remark", known.remark, instance.remark),)
        yield Step(CHANGE, "instance", instance.name, calls, instance.name, details)


def _topics(instance: Instance, known: Instance, prune: bool) -> Iterator[Step]:
    if instance.topics is None:
        return
    there = {topic.name: topic for topic in known.topics or ()}
    for topic in instance.topics:
        old = there.get(topic.name)
        if old is None:
            yield _new_topic(instance.name, topic)
            old = Topic(topic.name, topic.order_type, grants=())
        else:
            yield from _changed_topic(instance.name, topic, old)
        yield from _grants(instance.name, topic, old, prune)
    named = {topic.name for topic in instance.topics}
    gone = [topic for topic in there.values() if prune and topic.name not in named]
    yield from (_gone("topic", topic.name, instance.name, "topic/delete", topic=topic.name) for topic in gone)


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
        _refuse(topic.where, f"orderType of the topic {topic.name}", *words)
    if topic.remark != old.remark:
        _refuse(topic.where, f"remark of the topic {topic.name}", old.remark, topic.remark)
    if topic.perm != old.perm:
        calls = (("topic/update", {"topic": topic.name, "perm": str(topic.perm)}),)
        words = (word(PERMISSIONS, old.perm), word(PERMISSIONS, topic.perm))
        yield Step(CHANGE, "topic", topic.name, calls, instance, (_arrow("perm", *words),))


def _grants(instance: str, topic: Topic, old: Topic, prune: bool) -> Iterator[Step]:
    if topic.grants is None:
        return
    there = {grant.to: grant for grant in old.grants or ()}
    for grant in topic.grants:
        known = there.get(grant.to)
        if known is not None and known.kind != grant.kind:
            _refuse(grant.where, f"the kind of {grant.to}", known.kind, grant.kind)
        if known is None:
            yield _grant(CREATE, instance, topic, grant, f"relation: {word(RELATIONS, grant.relation)}")
        elif known.relation != grant.relation:
            words = (word(RELATIONS, known.relation), word(RELATIONS, grant.relation))
            yield _grant(CHANGE, instance, topic, grant, _arrow("relation", *words))
    named = {grant.to for grant in topic.grants}
    gone = [grant for grant in there.values() if prune and grant.to not in named]
    yield from (_grant(DELETE, instance, topic, grant, "") for grant in gone)


def _grant(sign: str, instance: str, topic: Topic, grant: Grant, detail: str) -> Step:
    which = {"topic": topic.name, "empowerUser": grant.to}
    operation = "empower/create" if grant.kind == "account" else "empower/createBySub"
    create = (operation, which | {"relation": str(grant.relation)})
    delete = ("empower/delete", which)
    calls = {CREATE: (create,), CHANGE: (delete, create), DELETE: (delete,)}[sign]
    name = f"on {topic.name} to {grant.kind} {grant.to}"
    return Step(sign, "grant", name, calls, instance, (detail,) if detail else ())


def _groups(instance: Instance, known: Instance, prune: bool) -> Iterator[Step]:
    if instance.groups is None:
        return
    there = {group.group_id: group for group in known.groups or ()}
    for group in instance.groups:
        old = there.get(group.group_id)
        if old is None:
            yield _new_group(instance.name, group)
        elif old.remark != group.remark:
            _refuse(group.where, f"remark of the group {group.group_id}", old.remark, group.remark)
    named = {group.group_id for group in instance.groups}
    gone = [group for group in there if prune and group not in named]
    yield from (_gone("group", group, instance.name, "group/delete", groupId=group) for group in gone)


def _new_group(instance: str, group: Group) -> Step:
    parameters = {"groupId": group.group_id} | ({"remark": group.remark} if group.remark else {})
    details = (f"remark: {group.remark}",) if group.remark else ()
    return Step(CREATE, "group", group.group_id, (("group/create", parameters),), instance, details)


def _all_gone(instance: Instance) -> Iterator[Step]:
    """An instance can be deleted when nothing is in it."""
    for topic in instance.topics or ():
        yield _gone("topic", topic.name, instance.name, "topic/delete", topic=topic.name)
    for group in instance.groups or ():
        yield _gone("group", group.group_id, instance.name, "group/delete", groupId=group.group_id)
    yield _gone("instance", instance.name, instance.name, "instance/delete")


def _gone(kind: str, name: str, instance: str, operation: str, **parameters: str) -> Step:
    return Step(DELETE, kind, name, ((operation, parameters),), instance)


def _queues(wanted: State, found: State, prune: bool) -> Iterator[Step]:
    if wanted.queues is None:
        return
    there = {queue.name: queue for queue in found.queues or ()}
    for queue in wanted.queues:
        old = there.get(queue.name)
        if old is None:
            calls = (("queue/create", _queue(queue, QUEUE_DEFAULTS)),)
            yield Step(CREATE, "queue", queue.name, calls, details=_attributes(queue, QUEUE_DEFAULTS))
        elif old.attributes != queue.attributes:
            calls = (("queue/set", _queue(queue, old.attributes)),)
            yield Step(CHANGE, "queue", queue.name, calls, details=_attributes(queue, old.attributes))
    named = {queue.name for queue in wanted.queues}
    for name in there:
        if prune and name not in named:
            yield Step(DELETE, "queue", name, (("queue/delete", {"queue": name}),))


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


def _queue_topics(wanted: State, found: State, prune: bool) -> Iterator[Step]:
    if wanted.queue_topics is None:
        return
    there = {topic.name: topic for topic in found.queue_topics or ()}
    for topic in wanted.queue_topics:
        old = there.get(topic.name)
        sign, operation = (CREATE, "queueTopic/create") if old is None else (CHANGE, "queueTopic/set")
        old = old or QueueTopic(topic.name, subscriptions=())
        before, given = _topic_attributes(old), _topic_attributes(topic)
        if sign == CREATE or before != given:
            details = tuple(_arrow(name, before[name], given[name]) for name in given if given[name] != before[name])
            calls = ((operation, {"topic": topic.name} | given),)
            yield Step(sign, "topic of queues", topic.name, calls, details=details)
        yield from _subscriptions(topic, old, prune)
    named = {topic.name for topic in wanted.queue_topics}
    for name in there:
        if prune and name not in named:
            yield Step(DELETE, "topic of queues", name, (("queueTopic/delete", {"topic": name}),))


def _topic_attributes(topic: QueueTopic) -> dict[str, str]:
    return {
        "maximumMessageSize": str(topic.maximum_message_size),
        "loggingEnabled": str(topic.is_logged).lower(),
    }


def _subscriptions(topic: QueueTopic, old: QueueTopic, prune: bool) -> Iterator[Step]:
    if topic.subscriptions is None:
        return
    there = {one.name: one for one in old.subscriptions or ()}
    for one in topic.subscriptions:
        known = there.get(one.name)
        if known is None:
            yield _subscription(CREATE, topic, one)
        elif (known.receiver, known.format) != (one.receiver, one.format):
            yield _subscription(CHANGE, topic, one)
        elif known != one:
            given = {"strategy": one.strategy, "tag": one.tag}
            details = tuple(
                _arrow(name, getattr(known, name), value)
                for name, value in given.items()
                if value != getattr(known, name)
            )
            calls = (("queueTopic/setSubscription", {"topic": topic.name, "subscription": one.name} | given),)
            yield Step(CHANGE, "subscription", f"{one.name} of {topic.name}", calls, details=details)
    named = {one.name for one in topic.subscriptions}
    yield from (_subscription(DELETE, topic, one) for one in there.values() if prune and one.name not in named)


def _subscription(sign: str, topic: QueueTopic, one: Subscription) -> Step:
    """What goes where, and as what, cannot be changed: a subscription that is to differ there ends and is made anew."""
    which = {"topic": topic.name, "subscription": one.name}
    given = {"receiver": one.receiver, "tag": one.tag, "strategy": one.strategy, "format": one.format}
    create = ("queueTopic/subscribe", which | {name: value for name, value in given.items() if value})
    delete = ("queueTopic/unsubscribe", which)
    calls = {CREATE: (create,), CHANGE: (delete, create), DELETE: (delete,)}[sign]
    details = () if sign == DELETE else _facts({name: value for name, value in given.items() if value})
    return Step(sign, "subscription", f"{one.name} of {topic.name}", calls, details=details)


def _buckets(wanted: State, found: State, prune: bool) -> Iterator[Step]:
    """Buckets are made and never deleted: their files are not what a file of names could bring back."""
    if wanted.buckets is None:
        return
    there = {bucket.name: bucket for bucket in found.buckets or ()}
    for bucket in wanted.buckets:
        old = there.get(bucket.name)
        if old is None:
            old = Bucket(bucket.name, ())
            yield Step(CREATE, "bucket", bucket.name, (("bucket/create", {"bucket": bucket.name}),))
        yield from _rules(bucket, old, prune)
    named = {bucket.name for bucket in wanted.buckets}
    for name, bucket in there.items():
        if name not in named:
            yield from _rules(Bucket(name, ()), bucket, prune)


def _rules(bucket: Bucket, old: Bucket, prune: bool) -> Iterator[Step]:
    if bucket.rules is None:
        return
    there = {rule.name: rule for rule in old.rules or ()}
    for rule in bucket.rules:
        if rule.name not in there:
            yield _rule(CREATE, bucket, rule)
        elif there[rule.name] != rule:
            yield _rule(CHANGE, bucket, rule)
    named = {rule.name for rule in bucket.rules}
    yield from (_rule(DELETE, bucket, rule) for rule in there.values() if prune and rule.name not in named)


def _rule(sign: str, bucket: Bucket, rule: Rule) -> Step:
    """A rule that is to differ is deleted and made anew."""
    which = {"bucket": bucket.name, "rule": rule.name}
    given = {"queue": rule.queue, "events": ",".join(rule.events), "prefix": rule.prefix, "suffix": rule.suffix}
    create = ("bucket/createRule", which | {name: value for name, value in given.items() if value})
    delete = ("bucket/deleteRule", which)
    calls = {CREATE: (create,), CHANGE: (delete, create), DELETE: (delete,)}[sign]
    details = () if sign == DELETE else _facts({name: value for name, value in given.items() if value})
    return Step(sign, "rule", f"{rule.name} of {bucket.name}", calls, details=details)


def _require_secrets(wanted: State, found: State) -> None:
    there = {secret.name for secret in found.job_secrets or ()}
    for secret in wanted.job_secrets or ():
        if secret.name not in there:
            raise CliError(
                f"{secret.where}: the secret {secret.name} is not there, and no file has its value; save it first, "
                f"by `gantry job putSecret --secret {secret.name} --value @-` or on the page Secrets."
            )


def _variables(wanted: State, found: State, prune: bool) -> Iterator[Step]:
    if wanted.job_variables is None:
        return
    there = {variable.name: variable.value for variable in found.job_variables or ()}
    for variable in wanted.job_variables:
        old = there.get(variable.name)
        if old is None:
            yield _variable(CREATE, variable, f"value: {variable.value}")
        elif old != variable.value:
            yield _variable(CHANGE, variable, _arrow("value", old, variable.value))
    named = {variable.name for variable in wanted.job_variables}
    for name in there:
        if prune and name not in named:
            yield Step(DELETE, "variable", name, (("job/deleteVariable", {"variable": name}),))


def _variable(sign: str, variable: Variable, detail: str) -> Step:
    given = {"variable": variable.name, "value": variable.value}
    return Step(sign, "variable", variable.name, (("job/putVariable", given),), details=(detail,))


def _jobs(wanted: State, found: State, prune: bool) -> Iterator[Step]:
    """A job that runs goes on with its version: the new one runs from its next start on."""
    if wanted.jobs is None:
        return
    there = {job.name: job for job in found.jobs or ()}
    for job in wanted.jobs:
        old = there.get(job.name)
        given = {"job": job.name, "text": job.text}
        deploy = (("job/deploy", given),) if job.is_deployed else ()
        draft = (("job/update", {"job": job.name, "text": job.draft}),) if job.draft else ()
        if old is None:
            create = ("job/create", given)
            yield Step(CREATE, "job", job.name, (create, *deploy, *draft), details=_text_of(job))
        elif old.is_deployed and not job.is_deployed:
            _refuse(job.where, f"the job {job.name}", "deployed", "not deployed")
        elif old != job:
            # What stays deployed is not deployed again, or a text that names something new would be judged for a draft.
            is_same = old.is_deployed and old.text == job.text
            kept = (("job/update", {"job": job.name, "text": job.draft or job.text}),)
            calls = kept if is_same or not deploy else (*deploy, *draft)
            yield Step(CHANGE, "job", job.name, calls, details=_difference(_text_of(old), _text_of(job)))
    named = {job.name for job in wanted.jobs}
    for name in there:
        if prune and name not in named:
            yield Step(DELETE, "job", name, (("job/delete", {"job": name}),))


def _text_of(job: Job) -> tuple[str, ...]:
    draft = ("draft:", *job.draft.splitlines()) if job.draft else ()
    return ("deployed" if job.is_deployed else "a draft", *job.text.splitlines(), *draft)


def _policies(wanted: State, found: State, prune: bool) -> Iterator[Step]:
    if wanted.policies is None:
        return
    there = {policy.name: policy for policy in found.policies or ()}
    for policy in wanted.policies:
        old = there.get(policy.name)
        if old is None:
            yield Step(CREATE, "policy", policy.name, (("policy/create", _policy(policy)),), details=_body(policy))
        elif old != policy:
            details = _difference(_body(old), _body(policy))
            if old.description != policy.description:
                details = (_arrow("description", old.description, policy.description), *details)
            yield Step(CHANGE, "policy", policy.name, (("policy/update", _policy(policy)),), details=details)
    named = {policy.name for policy in wanted.policies}
    for name in there:
        if prune and name not in named:
            yield Step(DELETE, "policy", name, (("policy/delete", {"policy": name}),))


def _policy(policy: Policy) -> dict[str, str]:
    document = json.dumps(policy.document, ensure_ascii=False)
    return {"policy": policy.name, "description": policy.description, "document": document}


def _body(policy: Policy) -> tuple[str, ...]:
    return tuple(json.dumps(policy.document, indent=2, ensure_ascii=False, sort_keys=True).splitlines())


def _difference(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    lines = list(difflib.unified_diff(old, new, lineterm="", n=2))
    return tuple(line for line in lines[2:] if not line.startswith("@@"))


def _facts(parameters: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}: {value}" for name, value in parameters.items() if name != "instanceName")


def _arrow(name: str, old: object, new: object) -> str:
    return f"{name}: {old or 'nothing'} → {new or 'nothing'}"


def _refuse(where: str, what: str, old: object, new: object) -> None:
    raise CliError(f"{where}: the {what} cannot be changed (it is {old or 'empty'}, the file says {new or 'empty'}).")
