"""Which groups have consumed one message, judged from offsets (vendor operation message/trace).

After an offset was reset the judgement can be wrong: nothing records single deliveries.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from django.utils.translation import gettext as _

from brokercore.client import Admin, ConsumerConnection, MessageQueue
from brokercore.client.errors import BrokerError, ConsumerNotOnline
from console.accounts.models import Tenant
from console.messaging.records import MessageRecord
from console.topics.models import Group, Topic
from console.web.languages import gettext_lazy

MAX_GROUPS = 50


class TrackType(StrEnum):
    """What became of a message in a group."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    UNKNOWN = "UNKNOWN"

    @property
    def words(self) -> str:
        """What people call it."""
        return _WORDS[self][0]

    @property
    def colour(self) -> str:
        """Of its badge."""
        return _WORDS[self][1]


_WORDS = {
    TrackType.CONSUMED: (gettext_lazy("Consumed"), "green"),
    TrackType.CONSUMED_BUT_FILTERED: (gettext_lazy("Filtered out"), "azure"),
    TrackType.NOT_CONSUME_YET: (gettext_lazy("Not consumed yet"), "yellow"),
    TrackType.NOT_ONLINE: (gettext_lazy("Offline"), "secondary"),
    TrackType.UNKNOWN: (gettext_lazy("Not known"), "orange"),
}


@dataclass(frozen=True)
class Track:
    """The state of a message in one group; `explanation` for UNKNOWN."""

    group: Group
    track_type: TrackType
    explanation: str = ""

    @property
    def is_online(self) -> bool:
        """Whether a client is connected, as far as it is known."""
        return self.track_type is not TrackType.NOT_ONLINE


@dataclass(frozen=True)
class Tracks:
    """Tracks of an account's groups. `others`: groups of other accounts that consume the topic too."""

    tracks: list[Track]
    others: int
    left_out: int


def delivery_tracks(admin: Admin, topic: Topic, message: MessageRecord, tenant: Tenant) -> Tracks:
    """Judge each group of `tenant` that consumes the topic. Raises ClientError when the broker does not answer."""
    names = [name for name in admin.topics.groups(topic.physical_name) if name != topic.physical_name]
    groups = Group.objects.filter(owner=tenant, cluster=topic.instance.cluster, physical_name__in=names)
    groups = groups.select_related("instance__cluster", "owner", "creator")
    own = {group.physical_name: group for group in groups}
    queue = MessageQueue(topic.physical_name, message.position.broker_name, message.position.queue_id)
    tracks = [_judge(admin, own[name], queue, message) for name in sorted(own)[:MAX_GROUPS]]
    return Tracks(tracks, others=len(names) - len(own), left_out=max(0, len(own) - MAX_GROUPS))


def _judge(admin: Admin, group: Group, queue: MessageQueue, message: MessageRecord) -> Track:
    try:
        connection = admin.clients.consumers(group.physical_name)
    except ConsumerNotOnline:
        return Track(group, TrackType.NOT_ONLINE, _("No consumer of the group is connected."))
    except BrokerError as error:
        return Track(group, TrackType.UNKNOWN, error.user_message)
    if problem := _cannot_judge(connection, message):
        return Track(group, TrackType.UNKNOWN, problem)
    if (admin.offsets.committed(group.physical_name, queue) or 0) <= message.position.offset:
        return Track(group, TrackType.NOT_CONSUME_YET)
    subscription = connection.subscriptions.get(queue.topic)
    if subscription and subscription.tags and message.tag not in subscription.tags:
        explanation = _("The group subscribes to %(expression)s.") % {"expression": subscription.expression}
        return Track(group, TrackType.CONSUMED_BUT_FILTERED, explanation)
    return Track(group, TrackType.CONSUMED)


def _cannot_judge(connection: ConsumerConnection, message: MessageRecord) -> str:
    if connection.message_model == "BROADCASTING":
        return _("The group is in broadcasting mode: each client keeps its own offsets.")
    if connection.consume_type == "CONSUME_ACTIVELY":
        return _("The group pulls: only its clients know whether they consumed what they pulled.")
    if message.waits:
        return _("The message still waits for its delivery time.")
    return ""
