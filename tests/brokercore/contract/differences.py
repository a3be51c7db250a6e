"""Where Apache RocketMQ 5.3.3 differs from the embedded broker: one table; docs/operate/broker.md has each row."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

from brokercore.client.errors import MessageIllegal, NoPermission, SystemFault, TopicNotExist
from tests.brokercore.contract.cluster import Kind


@dataclass(frozen=True)
class Difference:
    """What each of the two does, and the words under "Differences from Apache RocketMQ" that tell so."""

    embedded: Any
    apache: Any
    documented: str


_ANYBODY = (
    pytest.raises(NoPermission),
    nullcontext(),
    "Every change needs a permission (5.3.3: whoever signs changes groups and settings",
)

DIFFERENCES: dict[str, Difference] = {
    "ids in a batch of two of rocketmq-client": Difference(2, 1, "Every message of a batch keeps its own `UNIQ_KEY`"),
    "delivery time of ons-client is kept": Difference(True, False, "`__STARTDELIVERTIME` is honoured"),
    "fixed queues in the route of an ordered topic": Difference(
        "broker-a:3", "", "The fixed queues of an ordered topic stand in its route"
    ),
    "deliveries of transactions that were asked about": Difference(
        sorted, lambda bodies: sorted(set(bodies)), "A transaction that was asked about is delivered once"
    ),
    "refusal of a batch that is too large": Difference(
        MessageIllegal, SystemFault, "A batch above 4 MiB is MESSAGE_ILLEGAL (5.3.3: SYSTEM_ERROR)"
    ),
    "another account's topic": Difference(
        TopicNotExist,
        NoPermission,
        "Another account's topic is answered like one that nobody made (5.3.3: NO_PERMISSION, which",
    ),
    "a consumer of another account's topic": Difference(
        nullcontext(),
        pytest.raises(NoPermission),
        "Another account's topic is answered like one that nobody made",
    ),
    "change of a group by any user": Difference(*_ANYBODY),
    "change of a setting by any user": Difference(*_ANYBODY),
    "change of a name server's value by any user": Difference(*_ANYBODY),
}


class Differs:
    """Called with the name of a difference it returns what this cluster does."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def __call__(self, name: str) -> Any:
        difference = DIFFERENCES[name]
        return difference.embedded if self._kind == "embedded" else difference.apache
