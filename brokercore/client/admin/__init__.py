"""The admin client: everything a console asks of a cluster, per subject."""

from __future__ import annotations

import ssl
from typing import Self

from brokercore.client.admin.acl import Acl
from brokercore.client.admin.base import Base
from brokercore.client.admin.brokers import Brokers, Cluster, NameServers, Rate
from brokercore.client.admin.capabilities import Capabilities, Capability
from brokercore.client.admin.clients import Clients
from brokercore.client.admin.groups import Groups, Offsets
from brokercore.client.admin.messages import Messages
from brokercore.client.admin.plain_acl import PlainAcl
from brokercore.client.admin.topics import Topics
from brokercore.client.admin.traces import TraceRecord, Traces
from brokercore.client.session import Credentials, Permit

__all__ = ["Admin", "Capability", "Cluster", "Rate", "TraceRecord"]


class Admin:
    """Administers a cluster through its name server; a context manager, safe in threads and over forks.

    Each subject is an attribute: `admin.topics.create("orders")`. `timeout_ms` is for each request.

    Names of topics and groups are physical ones. What brokers know severally is asked of every master and merged.
    Every method raises ClientError (see brokercore.client.errors): an outage is never an empty answer.
    """

    def __init__(
        self,
        namesrv: str,
        credentials: Credentials | None,
        *,
        timeout_ms: int = 3000,
        tls: ssl.SSLContext | None = None,
        permit: Permit | None = None,
    ) -> None:
        base = Base(namesrv, credentials, timeout_ms=timeout_ms, tls=tls, permit=permit)
        self.session = base.session
        self.routes = base.routes
        self.brokers = Brokers(base)
        self.name_servers = NameServers(base)
        self.topics = Topics(base)
        self.groups = Groups(base, self.topics)
        self.offsets = Offsets(base, self.groups, self.topics)
        self.clients = Clients(base)
        self.messages = Messages(base)
        self.traces = Traces(self.messages)
        self.acl = Acl(base)
        self.plain_acl = PlainAcl(base)
        self.capabilities = Capabilities(base)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Can be called again."""
        self.session.close()
