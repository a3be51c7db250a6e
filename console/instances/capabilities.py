"""What the brokers of a cluster cannot do, in sentences for the pages where it is missing."""

from __future__ import annotations

from brokercore.client.admin import Capability
from brokercore.client.errors import ClientError
from console.instances import broker
from console.instances.models import Cluster
from console.web.languages import gettext_lazy

SENTENCES = {
    Capability.MESSAGE_TYPES: (
        gettext_lazy(
            "The brokers of this cluster keep no message types: the console knows what a topic is "
            "for, and no broker refuses a message of another kind."
        )
    ),
    Capability.DELIVERY_TIMES: (
        gettext_lazy(
            "The brokers of this cluster cannot deliver at a chosen time: programs may use the 18 "
            "fixed delays, and a message with a delivery time would be delivered at once."
        )
    ),
    Capability.RECALLS: gettext_lazy("The brokers of this cluster cannot take a message with a delivery time back."),
    Capability.POP: gettext_lazy(
        "The brokers of this cluster hand out no single messages, so that clients of gRPC cannot use them."
    ),
    Capability.SQL_FILTERS: gettext_lazy("The brokers of this cluster filter by tag only, not by SQL92."),
}
"""Access control stands on the page of the cluster, where it is told by its kind."""


def missing(cluster: Cluster, *wanted: Capability) -> list[str]:
    """A sentence for each of `wanted` that not every broker of the cluster can; all of them without `wanted`.

    Nothing while no broker answers: what is not known is not missing, and pages tell an outage otherwise.
    """
    if cluster.embedded:
        return []
    try:
        there = broker.admin(cluster).capabilities.of_cluster()
    except ClientError:
        return []
    return [sentence for one, sentence in SENTENCES.items() if one not in there and (not wanted or one in wanted)]
