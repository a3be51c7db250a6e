"""The admin client: everything a console asks of a cluster, per subject."""

from __future__ import annotations

from brokercore.client.admin.acl import AclAdmin
from brokercore.client.admin.base import AdminBase
from brokercore.client.admin.cluster import Cluster, ClusterAdmin
from brokercore.client.admin.configuration import ConfigurationAdmin, Rate
from brokercore.client.admin.consumers import ConsumersAdmin
from brokercore.client.admin.groups import GroupsAdmin
from brokercore.client.admin.offsets import OffsetsAdmin
from brokercore.client.admin.redelivery import RedeliveryAdmin
from brokercore.client.admin.traces import TraceRecord, TracesAdmin

__all__ = ["Admin", "AdminBase", "Cluster", "Rate", "TraceRecord"]


class Admin(
    ClusterAdmin,
    ConfigurationAdmin,
    GroupsAdmin,
    ConsumersAdmin,
    OffsetsAdmin,
    TracesAdmin,
    RedeliveryAdmin,
    AclAdmin,
):
    """Administers a cluster through its name server; a context manager, safe in threads and over forks.

    Names of topics and groups are physical ones. What brokers know severally is asked of every master and merged.
    Every method raises ClientError (see brokercore.client.errors): an outage is never an empty answer.
    """
