"""`gantry export` and `gantry apply`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import yaml

from gantry_cli import catalog
from gantry_cli.catalog import Catalog
from gantry_cli.commands import chosen_profile, collect
from gantry_cli.config import Profile
from gantry_cli.errors import HALFWAY, UNREACHABLE, CliError
from gantry_cli.output import harmless
from gantry_cli.state import files
from gantry_cli.state.files import (
    ORDER_TYPES,
    PERMISSIONS,
    QUEUE_DEFAULTS,
    RELATIONS,
    TOPIC_BYTES,
    VERSION,
    Bucket,
    Grant,
    Group,
    Instance,
    Job,
    Policy,
    Queue,
    QueueTopic,
    Rule,
    Secret,
    State,
    Subscription,
    Topic,
    Variable,
    word,
)
from gantry_cli.state.plan import CREATE, Step, plan

_BEING_DELETED = 1
CUSTOM = "Custom"

_COLOURS = {"+": "green", "~": "yellow", "-": "red"}
_FORMS = click.Choice(["yaml", "json"])


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, line by line."""

    def represent_text(self, text: str) -> yaml.Node:
        """A block where there are several lines."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _Dumper.represent_text)


class Server:
    """The operations of one server as one caller."""

    def __init__(self, profile: Profile, catalog: Catalog) -> None:
        self._profile, self._catalog = profile, catalog

    def call(self, path: str, parameters: dict[str, str] | None = None, *, every: bool = False) -> Any:
        """The data of one operation. Raises CliError."""
        operation = self._catalog.operations.get(path)
        if operation is None:
            raise CliError(f"{self._profile.url} has no operation {path}.", UNREACHABLE)
        return collect(self._profile, operation, parameters or {}, every=every)

    def state(
        self,
        *,
        instances: Iterable[str] | None = None,
        policies: bool = True,
        queues: bool = True,
        queue_topics: bool = True,
        buckets: bool = True,
        job_secrets: bool = True,
        job_variables: bool = True,
        jobs: bool = True,
    ) -> State:
        """The account's instances (None: all; else those of these names) with all that is in them, and the rest."""
        wanted = None if instances is None else set(instances)
        rows = self.call("instance/list")
        found = [self._instance(row) for row in rows if wanted is None or row["instanceName"] in wanted]
        return State(
            tuple(found),
            self._policies() if policies else None,
            self._queues() if queues else None,
            self._queue_topics() if queue_topics else None,
            self._buckets() if buckets else None,
            self._secrets() if job_secrets else None,
            self._variables() if job_variables else None,
            self._jobs() if jobs else None,
        )

    def instance_names(self) -> dict[str, str]:
        """IDs of all instances by name."""
        return {row["instanceName"]: row["instanceId"] for row in self.call("instance/list")}

    def _instance(self, row: dict[str, Any]) -> Instance:
        instance_id = row["instanceId"]
        here = {"instanceId": instance_id}
        info = self.call("instance/baseInfo", here)
        topics = self.call("topic/listInPage", here, every=True)
        groups = self.call("group/list", here)
        grants = self._grants(instance_id)
        return Instance(
            name=row["instanceName"],
            independent_naming=row["independentNaming"],
            max_send_tps=info["maxSendTps"],
            max_receive_tps=info["maxReceiveTps"],
            topic_capacity=info["topicCapacity"],
            cluster=info.get("cluster", ""),
            remark=info.get("remark", ""),
            topics=tuple(_server_topic(entry, grants) for entry in topics if entry["status"] != _BEING_DELETED),
            groups=tuple(Group(entry["groupId"], entry["remark"]) for entry in groups),
            instance_id=instance_id,
        )

    def _grants(self, instance_id: str) -> dict[str, list[Grant]]:
        found: dict[str, list[Grant]] = {}
        for entry in self.call("empower/listInInstance", {"instanceId": instance_id}):
            kind = "user" if entry["subUser"] else "account"
            found.setdefault(entry["topic"], []).append(Grant(str(entry["empowerUser"]), kind, entry["relation"]))
        return found

    def _queues(self) -> tuple[Queue, ...]:
        return tuple(
            Queue(entry["queue"], {name: entry[name] for name in QUEUE_DEFAULTS})
            for entry in self.call("queue/list", every=True)
        )

    def _queue_topics(self) -> tuple[QueueTopic, ...]:
        return tuple(
            QueueTopic(
                entry["topic"],
                entry["maximumMessageSize"],
                entry["loggingEnabled"],
                self._subscriptions(entry["topic"]),
            )
            for entry in self.call("queueTopic/list", every=True)
        )

    def _subscriptions(self, topic: str) -> tuple[Subscription, ...]:
        fields = ("receiver", "tag", "strategy", "format")
        return tuple(
            Subscription(entry["subscription"], **{name: entry[name] for name in fields})
            for entry in self.call("queueTopic/subscriptions", {"topic": topic})
        )

    def _buckets(self) -> tuple[Bucket, ...]:
        return tuple(
            Bucket(entry["bucket"], self._rules(entry["bucket"])) for entry in self.call("bucket/list", every=True)
        )

    def _rules(self, bucket: str) -> tuple[Rule, ...]:
        return tuple(
            Rule(entry["rule"], entry["queue"], tuple(sorted(entry["events"])), entry["prefix"], entry["suffix"])
            for entry in self.call("bucket/listRules", {"bucket": bucket})
        )

    def _secrets(self) -> tuple[Secret, ...]:
        return tuple(Secret(entry["secret"]) for entry in self.call("job/secrets", every=True))

    def _variables(self) -> tuple[Variable, ...]:
        return tuple(Variable(entry["variable"], entry["value"]) for entry in self.call("job/variables", every=True))

    def _jobs(self) -> tuple[Job, ...]:
        rows = (self.call("job/get", {"job": entry["job"]}) for entry in self.call("job/list", every=True))
        # A draft without a line in it is nothing that a file could say.
        return tuple(job for job in map(_server_job, rows) if job.text.strip())

    def _policies(self) -> tuple[Policy, ...]:
        return tuple(
            Policy(entry["name"], json.loads(entry["document"]), entry["description"])
            for entry in self.call("policy/list")
            if entry["type"] == CUSTOM
        )


def _server_topic(entry: dict[str, Any], grants: dict[str, list[Grant]]) -> Topic:
    given = tuple(sorted(grants.get(entry["topic"], []), key=lambda grant: (grant.kind, grant.to)))
    return Topic(entry["topic"], entry["orderType"], entry["perm"], entry["remark"], given)


def _server_job(row: dict[str, Any]) -> Job:
    if row["version"] is None:
        return Job(row["job"], row["draft"], is_deployed=False)
    return Job(row["job"], row["text"], draft="" if row["draft"] == row["text"] else row["draft"])


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
    if state.instances is not None:
        document["instances"] = [_instance(instance) for instance in state.instances]
    if state.queues is not None:
        document["queues"] = [_queue(queue) for queue in state.queues]
    if state.queue_topics is not None:
        document["queueTopics"] = [_queue_topic(topic) for topic in state.queue_topics]
    if state.buckets is not None:
        document["buckets"] = [_bucket(bucket) for bucket in state.buckets if bucket.rules]
    if state.job_secrets is not None:
        document["jobSecrets"] = [secret.name for secret in state.job_secrets]
    if state.job_variables is not None:
        document["jobVariables"] = [{"name": one.name, "value": one.value} for one in state.job_variables]
    if state.jobs is not None:
        document["jobs"] = [_job(job) for job in state.jobs]
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


@click.command()
@click.option("--instance", "instances", multiple=True, help="Only this instance, by name; may be given again.")
@click.option("--policies/--no-policies", default=None, help="With the account's own policies; not with --instance.")
@click.option(
    "--queues/--no-queues", default=None, help="With the account's queues and their topics; not with --instance."
)
@click.option("--buckets/--no-buckets", default=None, help="With the rules of buckets; not with --instance.")
@click.option(
    "--jobs/--no-jobs",
    default=None,
    help="With the account's SQL jobs, their variables, and names of secrets; not with --instance.",
)
@click.option("--format", "form", type=_FORMS, default="yaml", show_default=True)
@click.pass_context
def export(context: click.Context, /, instances: tuple[str, ...], form: str, **parts: bool | None) -> None:
    """Print instances, topics, groups, grants, queues, rules of buckets, SQL jobs and policies for `gantry apply`."""
    server = _server(context)
    unknown = sorted(set(instances) - set(server.instance_names())) if instances else []
    if unknown:
        raise CliError(f"There is no instance {unknown[0]}.")
    wanted = {name: not instances if given is None else given for name, given in parts.items()}
    state = server.state(
        instances=instances or None,
        queue_topics=wanted["queues"],
        job_secrets=wanted["jobs"],
        job_variables=wanted["jobs"],
        **wanted,
    )
    click.echo(text(state, form))


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--yes", "-y", is_flag=True, help="Do not ask before something is changed.")
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")
@click.option("--prune", is_flag=True, help="Delete what the file's lists do not name; instances stay.")
@click.option("--prune-instances", is_flag=True, help="With --prune: also instances, with all that is in them.")
@click.pass_context
def apply(context: click.Context, /, file: Path, **options: bool) -> None:
    """Bring the account to the state in FILE (- is standard input): show the plan, ask, then apply it.

    A list that the file does not have stays unchanged. Applying a file twice changes nothing the second time; after a
    failure midway, applying it again continues where it stopped.
    """
    prune, prune_instances = options["prune"], options["prune_instances"]
    if prune_instances and not prune:
        raise CliError("--prune-instances needs --prune.")
    wanted = files.read(file, _text(file))
    server = _server(context)
    found = _found(server, wanted, everything=prune_instances)
    steps = plan(_with_clusters(server, wanted, found), found, prune=prune, prune_instances=prune_instances)
    if not steps:
        click.echo("Nothing to do.")
        return
    _show(steps)
    if options["dry_run"]:
        return
    if not options["yes"]:
        _ask(file)
    _do(server, steps)


def _server(context: click.Context) -> Server:
    profile = chosen_profile(context)
    profile.require_key()
    return Server(profile, catalog.load(profile))


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{file} cannot be read: {error}.") from error


def _found(server: Server, wanted: State, *, everything: bool) -> State:
    """Only what the file speaks of is read."""
    names: list[str] | None = [instance.name for instance in wanted.instances or ()]
    return server.state(
        instances=None if everything and wanted.instances is not None else names,
        policies=wanted.policies is not None,
        queues=wanted.queues is not None,
        queue_topics=wanted.queue_topics is not None,
        buckets=wanted.buckets is not None,
        job_secrets=wanted.job_secrets is not None,
        job_variables=wanted.job_variables is not None,
        jobs=wanted.jobs is not None,
    )


def _with_clusters(server: Server, wanted: State, found: State) -> State:
    """New instances that name no cluster get the only one there is."""
    there = {instance.name for instance in found.instances or ()}
    new = [i for i in wanted.instances or () if i.name not in there and not i.cluster]
    if not new:
        return wanted
    clusters = [row["cluster"] for row in server.call("cluster/list")]
    if len(clusters) != 1:
        listed = ", ".join(clusters) or "none"
        raise CliError(f"{new[0].where}: the instance {new[0].name} must name its cluster; there is: {listed}.")
    instances = tuple(replace(i, cluster=clusters[0]) if i in new else i for i in wanted.instances or ())
    return replace(wanted, instances=instances)


def _show(steps: list[Step]) -> None:
    previous = None
    for step in steps:
        place = f"instance {step.instance}" if step.instance and step.kind != "instance" else ""
        if place != previous and place:
            click.echo(harmless(place))
        previous = place
        indent = "  " if place else ""
        click.secho(harmless(f"{indent}{step.sign} {step.title}"), fg=_COLOURS[step.sign])
        for line in step.details:
            click.echo(f"{indent}    {harmless(line)}")
    counts = [sum(step.sign == sign for step in steps) for sign in _COLOURS]
    click.echo("\n{} to create, {} to change, {} to delete.".format(*counts))


def _ask(file: Path) -> None:
    if str(file) == "-" or not sys.stdin.isatty():
        raise CliError("Confirmation is not possible here: give --yes to apply the plan, or --dry-run to only see it.")
    click.confirm("Apply these changes?", abort=True)


def _do(server: Server, steps: list[Step]) -> None:
    ids = server.instance_names()
    for number, step in enumerate(steps):
        try:
            for operation, parameters in step.calls:
                where = {"instanceId": ids[step.instance]} if step.instance else {}
                data = server.call(operation, parameters | where)
                if operation == "instance/create":
                    ids[step.name] = data["instanceId"]
        except CliError as error:
            rest = len(steps) - number
            raise CliError(
                f"{step.title}: {error.message} {number} of {len(steps)} steps are done, {rest} "
                "are not; apply the file again to continue.",
                HALFWAY if number else error.status,
            ) from error
        verb = "created" if step.sign == CREATE else "changed" if step.sign == "~" else "deleted"
        click.echo(harmless(f"{verb} {step.title}"))
    click.echo(f"Done: {len(steps)} step{'s' if len(steps) > 1 else ''}.")
