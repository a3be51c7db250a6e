"""The rules of names (management API: topic/create, group/create), and how names on the wire are shown.

A name that breaks the rules never reaches a broker.
"""

from __future__ import annotations

import re

from django.conf import settings
from django.utils.translation import gettext as _

from brokercore.names import (
    BROKER_NAME,
    DEFAULT_CLUSTER,
    GROUP_MAX,
    REPLY_SUFFIX,
    SYSTEM_TOPICS,
    TOPIC_MAX,
    is_system_topic,
    is_wire_name,
    unwrap,
)
from console.instances.models import Instance
from console.web.errors import Refused

_FIELD = "BIZ_FIELD_CHECK_INVALID"
_TOPIC = re.compile(r"[A-Za-z0-9_-]{3,127}")
_GROUP = re.compile(r"GID[_-][A-Za-z0-9_-]{1,60}")
_RESERVED = re.compile(
    rf"MQ_INST_.*|{DEFAULT_CLUSTER}|DefaultHeartBeatSyncerTopic|{BROKER_NAME}|.*{REPLY_SUFFIX}|.*{REPLY_SUFFIX}_V2",
    re.IGNORECASE,
)
_SYSTEM_TOPICS = frozenset(name.lower() for name in SYSTEM_TOPICS)
_LEGACY_GROUP = re.compile(r"[CP]ID[_-][A-Za-z0-9_-]{1,60}")


def topic_name_room(namespace: str) -> int:
    """Characters that a topic may be called by behind a namespace (`MQ_INST_…%`, or nothing).

    Clients and brokers of RocketMQ take 127 with it (`TOPIC_MAX`); GANTRY_TOPIC_NAME_MAX may be less.
    """
    return min(settings.TOPIC_NAME_MAX, TOPIC_MAX - len(namespace))


def checked_topic_name(name: str, namespace: str = "") -> str:
    """The name, if it may name a topic behind a namespace. Raises Refused."""
    most = topic_name_room(namespace)
    if not _TOPIC.fullmatch(name) or len(name) > most:
        text = (
            _(
                "A topic name has 3 to %(most)s letters, digits, - or _ here: of RocketMQ's %(topic_max)s characters "
                "the instance's namespace takes %(namespace)s."
            )
            if namespace and most < settings.TOPIC_NAME_MAX
            else _("A topic name has 3 to %(most)s letters, digits, - or _.")
        )
        raise Refused(_FIELD, text % {"most": most, "topic_max": TOPIC_MAX, "namespace": len(namespace)}, "name")
    if name.startswith(("CID", "GID")):
        raise Refused(_FIELD, _("A topic name does not begin with CID or GID; those are kept for groups."), "name")
    if is_reserved(name):
        raise Refused(
            _FIELD,
            _("%(name)s has a meaning on the brokers; choose another name for the topic.") % {"name": name},
            "name",
        )
    return name


def is_reserved(name: str) -> bool:
    """True for names that stand for something on the wire: instances, clusters, brokers, the brokers' own topics.

    A topic of a default instance has its bare name there, and its account's rights hang on names: `MQ_INST_42_…`
    would be inside what account 42 may do everything with. Nor in another case: who reads the name takes it for that.
    """
    return is_system_topic(name) or name.lower() in _SYSTEM_TOPICS or _RESERVED.fullmatch(name) is not None


def checked_group_id(group_id: str) -> str:
    """The id, if it may name a new group. Raises Refused."""
    if not _GROUP.fullmatch(group_id):
        raise Refused(
            _FIELD, _("A group ID begins with GID_ or GID- and has 5 to 64 letters, digits, - or _."), "group_id"
        )
    return group_id


def may_be_adopted(name: str, *, group: bool) -> bool:
    """True for the name of a topic or group that a broker has and the console may take over: legacy ones too."""
    if group:
        return bool(_GROUP.fullmatch(name) or _LEGACY_GROUP.fullmatch(name))
    return bool(_TOPIC.fullmatch(name)) and not name.startswith(("CID", "GID")) and not is_reserved(name)


def unholdable(name: str, *, group: bool) -> str:
    """Why an instance without namespace cannot hold a name that a cluster has; empty when it can.

    Unlike a new name it need not follow the vendor's rules, only RocketMQ's. Not what looks like a namespace: an
    account's rights hang on names, and it would be inside what another account may do everything with.
    """
    most = GROUP_MAX if group else TOPIC_MAX
    if not is_wire_name(name, most):
        return _("RocketMQ takes names of at most %(most)s letters, digits, %%, |, - and _.") % {"most": most}
    if name.upper().startswith("MQ_INST_"):
        return _("The name lies in the namespace of an instance.")
    if not group and is_reserved(name):
        return _("The name has a meaning on the brokers.")
    return ""


def checked_remark(remark: str) -> str:
    """The remark, trimmed. Raises Refused when it is too long."""
    if len(remark) > 256:
        raise Refused(_FIELD, _("A remark has at most 256 characters."), "remark")
    return remark.strip()


def apart(physical: str) -> tuple[str, str]:
    """The namespace of a name on the wire (`MQ_INST_…`, empty without one) and the name behind it.

    A name without a namespace may have a % of its own.
    """
    namespace, separator, name = physical.partition("%")
    return (namespace, name) if separator and namespace.startswith("MQ_INST_") else ("", physical)


def shown_name(instance: Instance, physical: str) -> str:
    """A topic or group as its tenant knows it: without the namespace; `%RETRY%` and `%DLQ%` stay."""
    return unwrap(instance.instance_id, physical)
