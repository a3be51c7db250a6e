"""What a server has, read by its operations."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import click

from gantry_cli import catalog
from gantry_cli.catalog import Catalog
from gantry_cli.commands import chosen_profile, collect
from gantry_cli.config import Profile
from gantry_cli.errors import DENIED, UNREACHABLE, CliError
from gantry_cli.state.alarms import AlarmRecipient, AlarmRule, recipient_of, rule_of
from gantry_cli.state.files import (
    AUTOMATIC,
    DELIVERY_ORDERS,
    QUEUE_DEFAULTS,
    AdoptionRule,
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
    known_as,
)
from gantry_cli.state.inflow import InflowTask, TrackingTask, inflow_task_of, tracking_task_of
from gantry_cli.state.steps import Ids
from gantry_cli.texts import _, ngettext

_BEING_DELETED = 1
CUSTOM = "Custom"


class Server:
    """The operations of one server as one caller."""

    def __init__(self, profile: Profile, catalog: Catalog) -> None:
        self._profile, self._catalog = profile, catalog

    def call(
        self, path: str, parameters: dict[str, str] | None = None, *, every: bool = False, region: str = ""
    ) -> Any:
        """The data of one operation, asked in a region (empty: the profile's). Raises CliError."""
        operation = self._catalog.operations.get(path)
        if operation is None:
            said = {"url": self._profile.url, "path": path}
            raise CliError(_("%(url)s has no operation %(path)s.") % said, UNREACHABLE)
        profile = replace(self._profile, region=region) if region else self._profile
        return collect(profile, operation, parameters or {}, every=every)

    @cached_property
    def regions(self) -> tuple[str, ...]:
        """The regions that instances are known with: all of several; none where there is but one."""
        found = tuple(row["regionId"] for row in self.call("region/list"))
        return found if len(found) > 1 else ()

    def placed(self, instance: Instance) -> Instance:
        """An instance of a file in its region, which is the profile's where the file says none. Raises CliError."""
        allowed = self.regions or (self._profile.region,)
        if instance.region and instance.region not in allowed:
            said = ngettext(
                "%(where)s: the region %(region)s does not exist; allowed is %(allowed)s.",
                "%(where)s: the region %(region)s does not exist; allowed are %(allowed)s.",
                len(allowed),
            )
            told = {"where": instance.where, "region": instance.region, "allowed": ", ".join(allowed)}
            raise CliError(said % told)
        return instance.placed((instance.region or self._profile.region) if self.regions else "")

    def state(self, parts: Collection[str], *, instances: Iterable[str] | None = None) -> State:
        """These parts of the account's state, and its instances (None: all; else those of these names)."""
        wanted = None if instances is None else set(instances)
        found = [
            self._instance(row, region)
            for region, row in self._rows()
            if wanted is None or not wanted.isdisjoint((row["instanceName"], known_as(region, row["instanceName"])))
        ]
        reads = {
            "queues": self._queues,
            "queue_topics": self._queue_topics,
            "buckets": self._buckets,
            "job_secrets": self._secrets,
            "job_variables": self._variables,
            "jobs": self._jobs,
            "tracking_tasks": self._tracking_tasks,
            "inflow_tasks": self._inflow_tasks,
            "alarm_recipients": self._alarm_recipients,
            "alarm_rules": self._alarm_rules,
            "policies": self._policies,
        }
        read: dict[str, Any] = {part: reads[part]() for part in parts}
        return State(tuple(found), **read)

    def ids(self, *, tracking: bool) -> Ids:
        """What the server calls instances, and with `tracking` change tracking tasks."""
        rows = self.call("tracking/list", every=True) if tracking else []
        places = {known_as(region, row["instanceName"]): region for region, row in self._rows() if region}
        return Ids(self.instance_names(), {row["name"]: row["task"] for row in rows}, places)

    def instance_names(self) -> dict[str, str]:
        """IDs of all instances by name; of several regions by the name behind the region too, which comes last."""
        rows = self._rows()
        names = {row["instanceName"]: row["instanceId"] for _, row in reversed(rows)}
        return names | {known_as(region, row["instanceName"]): row["instanceId"] for region, row in rows}

    def _rows(self) -> list[tuple[str, dict[str, Any]]]:
        """The instances, each with its region if regions are spoken of."""
        places = self.regions or ("",)
        return [(region, row) for region in places for row in self.call("instance/list", region=region)]

    def _instance(self, row: dict[str, Any], region: str) -> Instance:
        instance_id = row["instanceId"]
        here = {"instanceId": instance_id}
        info = self.call("instance/baseInfo", here, region=region)
        topics = self.call("topic/listInPage", here, every=True, region=region)
        groups = self.call("group/list", here, region=region)
        grants = self._grants(instance_id, region)
        cluster, is_bare = info.get("cluster", ""), not row["independentNaming"]
        adopted = self._adopted(instance_id, region) if is_bare else set()
        return Instance(
            name=known_as(region, row["instanceName"]),
            region=region,
            independent_naming=row["independentNaming"],
            max_send_tps=info["maxSendTps"],
            max_receive_tps=info["maxReceiveTps"],
            topic_capacity=info["topicCapacity"],
            cluster=cluster,
            remark=info.get("remark", ""),
            topics=tuple(
                _server_topic(entry, grants, adopted=("topic", entry["topic"]) in adopted)
                for entry in topics
                if entry["status"] != _BEING_DELETED
            ),
            groups=tuple(_server_group(entry, adopted=("group", entry["groupId"]) in adopted) for entry in groups),
            adoption_rules=self._adoption_rules(cluster, instance_id, region) if is_bare else None,
            instance_id=instance_id,
        )

    def _adopted(self, instance_id: str, region: str) -> set[tuple[str, str]]:
        """Kinds and names of what an instance without namespace has as the cluster had it."""
        rows = self.call("adoption/listAdopted", {"instanceId": instance_id}, every=True, region=region)
        return {(row["kind"], row["name"]) for row in rows}

    def _adoption_rules(self, cluster: str, instance_id: str, region: str) -> tuple[AdoptionRule, ...] | None:
        """The rules of an instance; None for an account that may not adopt, and so not read them."""
        try:
            rows = self.call("adoption/rules", {"cluster": cluster}, every=True, region=region)
        except CliError as error:
            if error.status == DENIED:
                return None
            raise
        mine = [row for row in rows if row["instanceId"] == instance_id]
        return tuple(AdoptionRule(row["include"], row["exclude"], row["kind"], row["rule"]) for row in mine)

    def _grants(self, instance_id: str, region: str) -> dict[str, list[Grant]]:
        found: dict[str, list[Grant]] = {}
        for entry in self.call("empower/listInInstance", {"instanceId": instance_id}, region=region):
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

    def _tracking_tasks(self) -> tuple[TrackingTask, ...]:
        rows = self.call("tracking/list", every=True)
        which = [{"task": row["task"]} for row in rows]
        return tuple(
            tracking_task_of(self.call("tracking/get", one), self.call("tracking/groups", one)) for one in which
        )

    def _inflow_tasks(self) -> tuple[InflowTask, ...]:
        ids = self.ids(tracking=True)
        rows = (self.call("inflow/get", {"task": row["task"]}) for row in self.call("inflow/list", every=True))
        return tuple(inflow_task_of(row, ids) for row in rows)

    def _alarm_recipients(self) -> tuple[AlarmRecipient, ...]:
        names = self._names_of_instances()
        return tuple(recipient_of(row, names) for row in self.call("alarm/recipients"))

    def _alarm_rules(self) -> tuple[AlarmRule, ...]:
        names = self._names_of_instances()
        return tuple(rule_of(row, names) for row in self.call("alarm/rules"))

    def _names_of_instances(self) -> dict[str, str]:
        return {instance_id: name for name, instance_id in self.instance_names().items()}

    def _policies(self) -> tuple[Policy, ...]:
        return tuple(
            Policy(entry["name"], json.loads(entry["document"]), entry["description"])
            for entry in self.call("policy/list")
            if entry["type"] == CUSTOM
        )


def server_of(context: click.Context) -> Server:
    """The server that the options before the command name. Raises CliError without a key."""
    profile = chosen_profile(context)
    profile.require_key()
    return Server(profile, catalog.load(profile))


def _server_topic(entry: dict[str, Any], grants: dict[str, list[Grant]], *, adopted: bool) -> Topic:
    given = tuple(sorted(grants.get(entry["topic"], []), key=lambda grant: (grant.kind, grant.to)))
    return Topic(entry["topic"], entry["orderType"], entry["perm"], entry["remark"], given, adopted)


def _server_group(entry: dict[str, Any], *, adopted: bool) -> Group:
    words = {value: word for word, value in DELIVERY_ORDERS.items()}
    order = words.get(entry.get("deliveryOrderType", ""), AUTOMATIC)
    return Group(entry["groupId"], entry["remark"], order, adopted)


def _server_job(row: dict[str, Any]) -> Job:
    if row["version"] is None:
        return Job(row["job"], row["draft"], is_deployed=False)
    return Job(row["job"], row["text"], draft="" if row["draft"] == row["text"] else row["draft"])
