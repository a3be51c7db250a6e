"""Topics and groups: as gRPC clients name them (`namespace` and `name`), and as this broker does (`namespace%name`)."""

from __future__ import annotations

import re

from brokercore.protocol.grpc.messaging_pb2 import Code, Resource
from brokercore.server.grpc.status import Fault
from brokercore.server.storage.groups import SYSTEM_GROUPS
from brokercore.server.storage.topics import is_system_topic

MAX_TOPIC, MAX_GROUP = 127, 255
_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+")
_WORDS = "letters, digits, -, _, % and |"


def topic_name(resource: Resource) -> str:
    """The topic's name at this broker. Raises Fault."""
    name = physical(resource)
    if not _ALLOWED.fullmatch(name) or len(name) > MAX_TOPIC:
        raise Fault(Code.ILLEGAL_TOPIC, f"the topic {name[:MAX_TOPIC]!r} is not 1 to {MAX_TOPIC} of {_WORDS}")
    if is_system_topic(name):
        raise Fault(Code.ILLEGAL_TOPIC, f"{name} is a topic of the broker's own")
    return name


def group_name(resource: Resource) -> str:
    """The consumer group's name at this broker. Raises Fault."""
    name = physical(resource)
    if not _ALLOWED.fullmatch(name) or len(name) > MAX_GROUP:
        raise Fault(Code.ILLEGAL_CONSUMER_GROUP, f"the group {name[:MAX_GROUP]!r} is not 1 to {MAX_GROUP} of {_WORDS}")
    if name in SYSTEM_GROUPS:
        raise Fault(Code.ILLEGAL_CONSUMER_GROUP, f"{name} is a group of the broker's own")
    return name


def physical(resource: Resource) -> str:
    """The name at this broker, unchecked."""
    space = resource.resource_namespace
    return f"{space}%{resource.name}" if space and resource.name else resource.name


def resource_of(name: str, space: str) -> Resource:
    """A topic as a client that works in namespace `space` names it; one without gets the whole name, as it asked."""
    if space and name.startswith(f"{space}%"):
        return Resource(resource_namespace=space, name=name[len(space) + 1 :])
    return Resource(name=name)
