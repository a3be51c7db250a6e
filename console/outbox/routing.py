"""Where a notification goes and with whose rights: instance, topic, group and role, all of the tenant itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.utils.translation import gettext as _

from brokercore.policy import Context, Grantee, decide, mq_resource
from console.accounts import services as accounts
from console.accounts.actor import role_statements
from console.accounts.models import Role, Tenant
from console.instances import broker
from console.instances.models import Cluster, Instance
from console.outbox.models import Notification
from console.topics.models import Group, Topic
from console.web.provided import Provided

#: The role through which the query service publishes (vendor page "Asynchronous query with message receipt").
ROLE = "AliyunOpenAnalyticsAccessingMQRole"
#: The query service, as the role's trust policy names it, in whichever domain (`openanalytics.aliyuncs.com`).
SERVICE = "openanalytics"
_ENDPOINT = re.compile(
    r"(?:https?://)?(?P<label>[^.:/\s]+)(?:\.(?P<host>[^:/\s]+))?(?::(?P<port>\d+))?/?", re.IGNORECASE
)

#: Sends a notice of an alarm and returns its id there. Raises what a send to a topic or a queue does, and PassingError.
send_alarm = Provided[Callable[[Notification], str]](f"{__name__}.send_alarm", "console.alarms")


class UndeliverableError(Exception):
    """The notification names something that is not there or not allowed; the text is the user's `mq_error_msg`."""


class PassingError(Exception):
    """What takes the notification does not do so now; the text says why."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A checked topic and group, with the role that may publish there."""

    cluster: Cluster
    #: The instance id, or empty for a default instance, whose names have no prefix on the wire.
    namespace: str
    topic: str
    group: str
    role: Role


def route(notification: Notification) -> Destination:
    """Check everything that a notification to a topic names. Raises UndeliverableError with what is wrong first."""
    if notification.notify_by != "ons":
        raise UndeliverableError(
            _("mq-notify-by is %(notify_by)r; allowed are ons and mns.") % {"notify_by": notification.notify_by}
        )
    for option, value in (
        ("mq-topic", notification.topic),
        ("mq-producer-id", notification.producer_id),
        ("mq-endpoint", notification.endpoint),
    ):
        if not value:
            raise UndeliverableError(_("%(option)s is missing in the hint.") % {"option": option})
    instance = instance_of(notification.tenant, notification.endpoint)
    if instance.cluster.read_only:
        raise UndeliverableError(broker.read_only(instance.cluster.name).message)
    topic = _topic(instance, notification.topic)
    group = _group(instance, notification.producer_id)
    return Destination(
        cluster=instance.cluster,
        namespace=instance.instance_id if instance.independent_naming else "",
        topic=topic.name,
        group=group.group_id,
        role=_role(notification.tenant, topic),
    )


def instance_of(tenant: Tenant, endpoint: str) -> Instance:
    """The tenant's instance that an endpoint names. Raises UndeliverableError for any other address."""
    match = _ENDPOINT.fullmatch(endpoint.strip())
    if match is None:
        raise UndeliverableError(
            _("mq-endpoint %(endpoint)r is not an address of the form http://MQ_INST_….host:port.")
            % {"endpoint": endpoint}
        )
    instances = Instance.objects.filter(tenant=tenant).select_related("cluster")
    if match["label"].upper().startswith("MQ_INST_"):
        instance = instances.filter(instance_id=match["label"]).first()
        host = match["host"]
    else:
        host = f"{match['label']}.{match['host']}" if match["host"] else match["label"]
        bare = list(instances.filter(independent_naming=False, region=settings.REGION))
        instance = next((one for one in bare if _is_here(one, host, match["port"])), bare[0] if bare else None)
    if instance is None:
        raise UndeliverableError(
            _("mq-endpoint %(endpoint)r names no instance of this account.") % {"endpoint": endpoint}
        )
    if instance.region != settings.REGION or not _is_here(instance, host, match["port"]):
        raise UndeliverableError(
            _("mq-endpoint %(endpoint)r is not in the query service's region %(region)s.")
            % {"endpoint": endpoint, "region": settings.REGION}
        )
    return instance


def _is_here(instance: Instance, host: str | None, port: str | None) -> bool:
    """True when host and port, as far as given, are a name server of the instance's or its name for clients."""
    servers = [address.rpartition(":") for address in re.split("[;,]", instance.cluster.namesrv)]
    hosts = {name.strip().lower() for name, _unused, _unused in servers} | {
        settings.ENDPOINT_HOST.lower(),
        settings.HOST,
    }
    known = host is None or host.lower() in hosts | {"127.0.0.1", "localhost"}
    return known and (port is None or port in {number.strip() for _unused, _unused, number in servers})


def _topic(instance: Instance, name: str) -> Topic:
    topic = Topic.objects.filter(instance=instance, name=_bare(instance, name)).first()
    if topic is None:
        raise UndeliverableError(
            _("Topic %(name)r does not exist in instance %(instance_id)s.")
            % {"name": name, "instance_id": instance.instance_id}
        )
    return topic


def _group(instance: Instance, group_id: str) -> Group:
    group = Group.objects.filter(instance=instance, group_id=_bare(instance, group_id)).first()
    if group is None:
        raise UndeliverableError(
            _("Group %(group_id)r does not exist in instance %(instance_id)s.")
            % {"group_id": group_id, "instance_id": instance.instance_id}
        )
    return group


def _bare(instance: Instance, name: str) -> str:
    return name.removeprefix(f"{instance.instance_id}%")


def _role(tenant: Tenant, topic: Topic) -> Role:
    """The tenant's role for notifications, if it trusts a service and may publish to the topic."""
    role = Role.objects.filter(tenant=tenant, name=ROLE).first()
    if role is None:
        raise UndeliverableError(
            _("Role %(role)s does not exist: create it with a trusted service and AliyunMQFullAccess.") % {"role": ROLE}
        )
    trusted = accounts.service_is_trusted(role, SERVICE)
    if not trusted.allowed:
        raise UndeliverableError(
            _("Role %(role)s cannot be assumed: %(reason)s.") % {"role": ROLE, "reason": trusted.reason}
        )
    grantee = Grantee(ROLE, boundary=("*",), statements=role_statements(role), account=tenant.uid)
    decision = decide(grantee, "mq:PUB", mq_resource(topic.physical_name), Context(source_ip="127.0.0.1"))
    if not decision.allowed:
        raise UndeliverableError(
            _("Role %(role)s may not publish to topic %(topic)s: %(reason)s.")
            % {"role": ROLE, "topic": topic.name, "reason": decision.reason}
        )
    return role
