"""Apache RocketMQ for a copy that starts no broker of its own."""

from __future__ import annotations

from pathlib import Path

from tests.support.apache import ApacheRocketMQ
from tests.support.product import free_ports

#: As docs/operate/cluster.md asks for: filters by SQL92, and topics exist when somebody made them.
BROKER_LINES = ("enablePropertyFilter=true", "autoCreateTopicEnable=false")


def cluster_of(home: Path) -> ApacheRocketMQ:
    """A name server and a broker, access control on, ready."""
    ports = free_ports(2)
    cluster = ApacheRocketMQ(home, (ports[0], ports[1]), BROKER_LINES)
    cluster.start()
    return cluster


def cluster_environment(cluster: ApacheRocketMQ) -> dict[str, str]:
    """What `make up` is told of a cluster."""
    return {
        "GANTRY_NAMESRV": cluster.namesrv,
        "GANTRY_DEMO_DATA": "true",
        "GANTRY_BROKER_ACCESS_KEY_ID": cluster.admin_key,
        "GANTRY_BROKER_ACCESS_KEY_SECRET": cluster.admin_secret,
    }
