"""A pipeline in the words of analytics: its plan, and beside it what its starter may read and write at this moment.

Only a worker calls `spec_of`: what it returns has the values of secrets, and Gantry's own key for queues and topics of
the account. That key goes to Gantry's own services and nowhere else: a table has it only where the text names neither
an address nor a key, and only once the permission decision has let the starter use that queue or topic.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.translation import gettext as _

from analytics.inflow.task_sinks import HTTP
from analytics.lake import Place, parse_location
from analytics.pipelines import checkpoints
from analytics.pipelines.plan import EVENT, Plan, Sink, Source, Value
from analytics.specs import Decide, TableSpec
from brokercore.names import wrap
from brokercore.policy import mq_resource
from console.accounts.access import require
from console.accounts.actor import Actor, acting_later
from console.accounts.models import Tenant
from console.catalog import locations, targets
from console.catalog import queries as catalog
from console.feeds import queries as feeds
from console.instances import broker
from console.instances.models import Cluster
from console.pipelines import access, addresses, event_logs, queries, services
from console.pipelines.lifecycle import Lease
from console.pipelines.models import Pipeline, StartFrom, Version
from console.queues import access as queues
from console.topics.access import is_reachable, received_grants
from console.topics.models import Group, Topic
from console.web.errors import Refused

if TYPE_CHECKING:
    from analytics.pipelines.runner import Start

Options = Mapping[str, Value]
SUBSCRIBE, PUBLISH = "mq:SUB", "mq:PUB"
_GIVEN_SECRETS = ("accessKeySecret", "accessKey", "functionKey", "deadAccessKey")

#: What is shorter is in any sentence by chance.
_SHORTEST_HIDDEN = 4
_LONGEST_REASON = 4_000


def spec_of(lease: Lease) -> Start:
    """What the engine is told. Raises Refused and PermissionDenied, for what a further start is refused too."""
    from analytics.pipelines.runner import Start

    pipeline = _pipeline(lease)
    plan = plan_of(pipeline, pipeline.started_version)
    starter = starter_of(pipeline)
    secrets = secrets_of(starter, plan)
    origins = {StartFrom.CHECKPOINT: checkpoints.CHECKPOINT, StartFrom.NOTHING: checkpoints.NOTHING}
    if pipeline.savepoint is not None:
        origin = f"{checkpoints.SAVEPOINT}{pipeline.savepoint.name}"
    else:
        origin = origins.get(StartFrom(pipeline.start_from), checkpoints.CHECKPOINT)
    tables = given(starter, plan)
    return Start(
        pipeline=name_of(pipeline),
        tenant=pipeline.tenant.uid,
        plan=plan,
        location=queries.location_of(pipeline),
        number=lease.fence,
        origin=origin,
        secrets=secrets,
        tables=_tables(starter, plan.tables),
        decide=_decider(starter, tables),
        given=_together(tables, addresses.judged(plan)),
        begun=pipeline.started_at.isoformat() if pipeline.started_at is not None else "",
    )


def brokers_of(spec: Start) -> set[str]:
    """`host:port` of the brokers that its tables are given, and of their name servers, as far as those answer now.

    What a text names itself is not among them: to that the engine connects where its ports allow it, and for none of
    it does it start again.
    """
    names = ("endpoint", "deadEndpoint")
    told = {str(options[name]) for options in spec.given.values() for name in names if name in options}
    return {one for cluster in Cluster.objects.filter(namesrv__in=told) for one in broker.addresses_of(cluster)}


def name_of(pipeline: Pipeline) -> str:
    """What the engine knows it by."""
    return f"{pipeline.tenant.uid}-{pipeline.pk}"


def hidden(spec: Start) -> dict[str, str]:
    """What no reason of a failure may tell: values of secrets and of keys that were given, and what stands for each."""
    found = {value: f"${{secret_values.{name}}}" for name, value in spec.secrets.items()}
    for options in spec.given.values():
        found |= {str(options[name]): f"({name})" for name in _GIVEN_SECRETS if name in options}
    return {value: name for value, name in found.items() if len(value) >= _SHORTEST_HIDDEN}


def without(hidden: Mapping[str, str], text: str) -> str:
    """A text with what stands for the values in their places; of a long one the beginning."""
    for value in sorted(hidden, key=len, reverse=True):  # one may be a part of another
        text = text.replace(value, hidden[value])
    return text[:_LONGEST_REASON]


def require_still(lease: Lease) -> None:
    """Ask again while it runs. Raises Refused and PermissionDenied when its starter may not run it any more."""
    pipeline = _pipeline(lease)
    plan = plan_of(pipeline, pipeline.started_version)
    starter = starter_of(pipeline)
    secrets_of(starter, plan)
    given(starter, plan)


def plan_of(pipeline: Pipeline, version: Version | None) -> Plan:
    """The plan of one of its versions. Raises Refused for one of another version of the product, and without any."""
    if version is None:
        raise Refused(
            "NOT_DEPLOYED", _("%(pipeline)s has no version yet; deploy its draft first.") % {"pipeline": pipeline.name}
        )
    try:
        return Plan.from_json(version.plan)
    except ValueError as error:
        raise Refused(
            "PLAN_OUTDATED", _("%(error)s Deploy %(pipeline)s again.") % {"error": error, "pipeline": pipeline.name}
        ) from error


def starter_of(pipeline: Pipeline) -> Actor:
    """Who started it, with the rights of now. Raises Refused for who was disabled or deleted since."""
    starter = acting_later(
        tenant=pipeline.tenant,
        user=pipeline.creator,
        role=pipeline.role,
        source_ip=pipeline.source_ip,
        secure=pipeline.secure_transport,
        request_id=str(pipeline.pk),
    )
    if starter is None:
        raise Refused(
            "STARTER_GONE",
            _("%(requester)s, who started %(pipeline)s, was disabled or deleted. Another user must start it.")
            % {"requester": pipeline.requester, "pipeline": pipeline.name},
        )
    return starter


def secrets_of(starter: Actor, plan: Plan) -> dict[str, str]:
    """The values of the secrets that the plan names.

    Raises Refused with one sentence for a secret that there is not and one that the starter may not use.
    """
    access.require_secrets(starter, plan.secrets)
    return services.secret_values(starter.tenant, plan.secrets)


def given(starter: Actor, plan: Plan) -> dict[str, dict[str, Value]]:
    """Address and key for each table of the account's own, by the table's name in small letters.

    Asks for every right that the plan takes beside the catalog's tables: on queues, topics, groups and folders. Raises
    Refused for what is not there, and PermissionDenied.
    """
    found: dict[str, dict[str, Value]] = {}
    tables: list[Source | Sink] = [*plan.sources, *plan.sinks]
    for table in tables:
        options = table.options
        if table.connector == "mns" and "accessKeyId" not in options:
            found[table.name.lower()] = _own_queue(starter, options)
        elif table.connector == "mq" and "accessId" not in options:
            found[table.name.lower()] = _own_topic(starter, table, options)
        elif table.connector == "filesystem":
            _require_folder(starter, table, options)
        elif table.connector == "events":
            found[table.name.lower()] = {"log": _log(starter, options)}
        elif table.connector == "inflow":
            found[table.name.lower()] = _inflow(starter, table, options)
            _require_tables(starter, plan.tables)
    return found


def readable(actor: Actor, named: Sequence[tuple[str, str]]) -> tuple[dict[str, list[TableSpec]], Decide | None]:
    """The tables of the catalog that a task's query names, and what decides about their files. Raises Refused."""
    _require_tables(actor, named)
    return _tables(actor, named), _decider(actor, {})


def _require_tables(starter: Actor, named: Sequence[tuple[str, str]]) -> None:
    """The tables of the catalog that a task's query names, which its starter may query. Raises Refused."""
    if not named:
        return
    readable = {
        (schema.lower(), table.name.lower())
        for schema, tables in catalog.readable_schemas(starter).items()
        for table in tables
    }
    for schema, table in named:
        if (schema.lower(), table.lower()) not in readable:
            sentence = _("There is no table %(schema)s.%(table)s that may be queried.") % {
                "schema": schema,
                "table": table,
            }
            raise Refused("TABLE_NOT_FOUND", sentence, "transform.sql")


def _log(starter: Actor, options: Options) -> str:
    """The event log of a source: that of the named task, or a folder of the account's that the starter may read.

    A log of the task's own, of a task that is not made yet, is none so far.
    """
    if "feed" in options:
        feed = feeds.feed(starter.tenant, str(options["feed"]))
        return "" if feed is None else feeds.log_of(feed)
    if "task" in options:
        return event_logs.require_source(starter, str(options["task"])).log
    if "log" not in options:
        raise Refused("SOURCE_MISSING", _("The source names no change tracking task."), "source.task")
    return locations.checked(starter, str(options["log"]), locations.READ)


def _together(*tables: Mapping[str, Options]) -> dict[str, dict[str, Value]]:
    """What tables are given from several sides."""
    names = {name for found in tables for name in found}
    return {name: {key: value for found in tables for key, value in found.get(name, {}).items()} for name in names}


def _inflow(starter: Actor, sink: Sink, options: Options) -> dict[str, Value]:
    """What the sink of an inflow task needs beside its document (`analytics.pipelines.inflow_targets`)."""
    task = json.loads(str(options["task"]))
    found: dict[str, Value] = {}
    if (task.get("transform") or {}).get("kind") == "function" or task["sink"].get("kind") == HTTP:
        found = {
            "functionKey": function_key(starter.tenant),
            "networks": ",".join(map(str, settings.SMQ_PUSH_ALLOW)),
        }
    return found | _messages(starter, task, options) | _dead_letters(starter, task, options)


def _messages(starter: Actor, task: Mapping[str, Any], options: Options) -> dict[str, Value]:
    """How the topic or the queue of a task is reached; nothing of one that has its own key, and of an endpoint."""
    if "queue" in options and "accessKeyId" not in options:
        return _queue_given(starter, ("mns:SendMessage",), str(options["queue"]))
    if "topic" not in options or "accessId" in options:
        return {}
    namespace = str(options.get("instanceID", ""))
    topic = _writable(starter, wrap(namespace, str(options["topic"])), "sink.topic")
    if dead_letters := task.get("deadLetterTopic"):
        _writable(starter, wrap(namespace, dead_letters), "deadLetterTopic")
    for route in task["sink"].get("routes", ()):
        _writable(starter, wrap(namespace, route), "sink.routes")
    return _reached(topic.instance.cluster)


def _dead_letters(starter: Actor, task: Mapping[str, Any], options: Options) -> dict[str, Value]:
    """How they are reached where they go to no topic beside that of the sink."""
    if queue := task.get("deadLetterQueue"):
        given = _queue_given(starter, ("mns:SendMessage",), queue)
        names = {"endpoint": "deadEndpoint", "accessKeyId": "deadAccessId", "accessKeySecret": "deadAccessKey"}
        return {names.get(name, "deadAccount"): value for name, value in given.items()}
    if "topic" in options or not task.get("deadLetterTopic"):
        return {}
    topic = _writable(starter, wrap(task.get("deadLetterInstance", ""), task["deadLetterTopic"]), "deadLetterTopic")
    reached = _reached(topic.instance.cluster)
    return {f"dead{name[:1].upper()}{name[1:]}": value for name, value in reached.items()}


def _writable(starter: Actor, name: str, field: str) -> Topic:
    """The topic to which the starter may publish; `field` is what a refusal is about."""
    topic = find_topic(starter, name)
    if topic is None:
        raise Refused("TOPIC_NOT_FOUND", _no_topic(name), field)
    broker.require_writable(topic.instance.cluster)
    require(starter, PUBLISH, mq_resource(topic.physical_name), owner=topic.instance.tenant)
    return topic


def function_key(tenant: Tenant) -> str:
    """What the requests to functions of an account's tasks are signed with: the same for all of them, made of ours."""
    return hmac.new(settings.MASTER_KEY.encode(), f"inflow-function {tenant.uid}".encode(), "sha256").hexdigest()


def _decider(starter: Actor, given: Mapping[str, Options]) -> Decide | None:
    """What the starter may read of the lake; the logs that were given are none of the account's buckets."""
    decide = locations.decider(starter, locations.READ)
    logs = {parse_location(str(options["log"])) for options in given.values() if options.get("log")}
    if decide is None or not logs:
        return decide
    asked = decide

    def decide_others(places: Iterable[Place]) -> None:
        asked([place for place in places if place not in logs])

    return decide_others


def _own_queue(starter: Actor, options: Options) -> dict[str, Value]:
    return _queue_given(starter, ("mns:ReceiveMessage", "mns:DeleteMessage"), str(options["queueName"]))


def _queue_given(starter: Actor, actions: Sequence[str], name: str) -> dict[str, Value]:
    for action in actions:
        queues.require_queue(starter, action, name)
    return {
        "endpoint": settings.SMQ_ADDRESS,
        "accessKeyId": settings.BROKER_ACCESS_KEY_ID,
        "accessKeySecret": settings.BROKER_ACCESS_KEY_SECRET,
        "account": starter.tenant.uid,
    }


def _own_topic(starter: Actor, table: Source | Sink, options: Options) -> dict[str, Value]:
    name = wrap(str(options.get("instanceID", "")), str(options["topic"]))
    topic = find_topic(starter, name)
    if topic is None:
        raise _missing("topic", name, table)
    # A sink sends, and a source keeps the offsets of its group.
    broker.require_writable(topic.instance.cluster)
    action = SUBSCRIBE if isinstance(table, Source) else PUBLISH
    require(starter, action, mq_resource(topic.physical_name), owner=topic.instance.tenant)
    if isinstance(table, Source):
        _require_group(starter, table, options, topic.instance.cluster)
    return _reached(topic.instance.cluster)


def find_topic(starter: Actor, name: str) -> Topic | None:
    """The topic of that physical name, of the starter's account or granted to it.

    A name without a namespace may be on several clusters: the account's own topic comes before a granted one, and of
    several that on the cluster that was there first.
    """
    named = Topic.objects.select_related("instance__tenant", "instance__cluster").filter(physical_name=name)
    named = named.order_by("cluster")
    own = named.filter(instance__tenant=starter.tenant).first()
    return own or named.filter(pk__in=received_grants(starter).values("topic")).first()


def _require_group(starter: Actor, table: Source, options: Options, cluster: Cluster) -> None:
    name = wrap(str(options.get("instanceID", "")), str(options["consumerGroup"]))
    owned = Group.objects.select_related("owner", "creator").filter(owner=starter.tenant, physical_name=name)
    group = owned.filter(cluster=cluster).first()
    if group is None or not is_reachable(starter, group):
        raise _missing("group", name, table)
    require(starter, SUBSCRIBE, mq_resource(group.physical_name), owner=group.owner, holder=group.holder)


def _missing(what: str, name: str, table: Source | Sink) -> Refused:
    """A topic or group that is not there; of an inflow task's source it is told by the place in its document."""
    code = f"{what.upper()}_NOT_FOUND"
    if table.format == EVENT:
        of_group = _("There is no group %(name)s of the account's own.") % {"name": name}
        return Refused(code, _no_topic(name) if what == "topic" else of_group, f"source.{what}")
    sentence = (
        _(
            "There is no topic %(name)s of the account's own, and no other account grants it one of that name for the "
            "table %(table)s."
        )
        if what == "topic"
        else _("There is no group %(name)s of the account's own for the table %(table)s.")
    )
    return Refused(code, sentence % {"name": name, "table": table.name})


def _no_topic(name: str) -> str:
    """A grant that was revoked since is told so: whether there is such a topic of another account is not."""
    return _("There is no topic %(name)s of the account's own, and no other account grants it one of that name.") % {
        "name": name
    }


def _reached(cluster: Cluster) -> dict[str, Value]:
    try:
        key = broker.credentials_of(cluster)
    except broker.UnusableError as error:
        raise Refused("CLUSTER_UNUSABLE", error.user_message) from error
    reached: dict[str, Value] = {"endpoint": cluster.namesrv}
    if key is not None:
        reached |= {"accessId": key.access_key_id, "accessKey": key.access_key_secret}
    if trust := broker.trust_of(cluster):
        reached["ca"] = trust
    return reached


def _require_folder(starter: Actor, table: Source | Sink, options: Options) -> None:
    action = locations.READ if isinstance(table, Source) else locations.WRITE
    path = locations.checked(starter, str(options["path"]), action)
    if action == locations.WRITE:
        targets.require_own_bucket(path)


def _tables(starter: Actor, named: Sequence[tuple[str, str]]) -> dict[str, list[TableSpec]]:
    """The catalog's tables that a plan names, as far as the starter may query them."""
    wanted = {(schema.lower(), table.lower()) for schema, table in named}
    if not wanted:
        return {}
    owned = locations.buckets_of(starter.tenant)
    found = {
        schema: [targets.table_spec(table, owned) for table in tables if (schema.lower(), table.name.lower()) in wanted]
        for schema, tables in catalog.readable_schemas(starter).items()
    }
    return {schema: tables for schema, tables in found.items() if tables}


def _pipeline(lease: Lease) -> Pipeline:
    related = ("tenant", "started_version", "savepoint", "creator__tenant", "role__tenant")
    return Pipeline.objects.select_related(*related).get(pk=lease.pipeline_id)
