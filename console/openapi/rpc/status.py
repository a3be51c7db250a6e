"""Actions of the public cloud that no operation of the management API has, and that are easily told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from console.openapi.registry import Call, Parameters
from console.topics import live
from console.topics.access import find_topic, require_topic
from console.web.errors import Refused


class TopicStatus(Parameters):
    """Parameters of OnsTopicStatus."""

    Topic: str = Field(min_length=1)
    InstanceId: str = Field(min_length=1)


def topic_status(call: Call, given: Mapping[str, str]) -> dict[str, Any]:
    """Number of messages stored, the mode, and the time of the last message in ms (0 without one)."""
    parameters = TopicStatus.model_validate(dict(given))
    topic = find_topic(call.actor, parameters.InstanceId, parameters.Topic)
    if topic is None:
        raise Refused("BIZ_TOPIC_NOT_FOUND", f"The topic {parameters.Topic} was not found.", "Topic")
    require_topic(call.actor, "mq:QueryTopic", topic)
    queues = live.queue_rows(topic)
    return {
        "Data": {
            "TotalCount": sum(queue.stored for queue in queues),
            "Perm": topic.perm,
            "LastTimeStamp": max((queue.last_update_ms for queue in queues), default=0),
        }
    }


ACTIONS = {"OnsTopicStatus": topic_status}
