"""Where Apache RocketMQ differs from the embedded broker: one table of 5.3.3; docs/operate/broker.md has each row.

A row tells where another version does otherwise again. What 4.9.7 has not at all is a table of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from brokercore.client.errors import MessageIllegal, NoPermission, SystemFault, TopicNotExist
from tests.brokercore.contract.cluster import Kind


@dataclass(frozen=True)
class Difference:
    """What each of the two does, and the words under "Differences from Apache RocketMQ" that tell so.

    `others` are versions that do not do what 5.3.3 does.
    """

    embedded: Any
    apache: Any
    documented: str
    others: Mapping[Kind, Any] = field(default_factory=dict)


_ANYBODY = (
    pytest.raises(NoPermission),
    nullcontext(),
    "Every change needs a permission (5.3.3: whoever signs changes groups and settings",
)
_BUT_NOT_ON_4: dict[Kind, Any] = {"apache-4.9.7": pytest.raises(NoPermission)}

DIFFERENCES: dict[str, Difference] = {
    "ids in a batch of two of rocketmq-client": Difference(
        2, 1, "Every message of a batch keeps its own `UNIQ_KEY`", {"apache-5.5.0": 2}
    ),
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
    "change of a group by any user": Difference(*_ANYBODY, _BUT_NOT_ON_4),
    "change of a setting by any user": Difference(*_ANYBODY, _BUT_NOT_ON_4),
    "change of a name server's value by any user": Difference(*_ANYBODY),
}


#: What 4.9.7 has not, or does in another way, by the test that looks at it (docs/operate/cluster.md, "Versions").
NOT_ON_4_9_7 = {
    "test_a_new_group_begins_where_it_says[apache-4.9.7-CONSUME_FROM_TIMESTAMP]": "a time after the last message is it",
    "test_first_last_and_times_of_a_queue[apache-4.9.7]": "a time after the last message is it",
    "test_a_message_comes_at_its_time[apache-4.9.7-timer 3 s]": "no delivery times",
    "test_a_delivery_time_of_java_is_kept[apache-4.9.7]": "no delivery times",
    "test_a_recalled_message_never_comes[apache-4.9.7]": "no recalls",
    "test_every_way_of_sending_arrives_at_java_s_consumers[apache-4.9.7-lite]": "no LITE_PULL_MESSAGE (361)",
    "test_runtime_information_has_what_a_console_shows[apache-4.9.7]": "some figures have other names",
    "test_a_topic_is_created_changed_and_deleted[apache-4.9.7]": "no message types",
    "test_a_group_is_created_changed_and_deleted[apache-4.9.7]": "no order and no timeout of a group are kept",
    "test_who_may_only_read_reads_and_does_not_write[apache-4.9.7]": "ACL 1.0 lets a batch through",
    "test_another_tenant_neither_writes_nor_reads_nor_commits[apache-4.9.7]": "ACL 1.0 looks at no reading of offsets",
    "test_the_broker_itself_refuses_what_is_too_large[apache-4.9.7-batch]": "MESSAGE_ILLEGAL, as the embedded broker",
    "test_in_order_what_was_acknowledged_behind_a_failure_comes_again_with_it[apache-4.9.7]": "no POP",
}


class Differs:
    """Called with the name of a difference it returns what this cluster does."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def __call__(self, name: str) -> Any:
        difference = DIFFERENCES[name]
        if self._kind == "embedded":
            return difference.embedded
        return difference.others.get(self._kind, difference.apache)
