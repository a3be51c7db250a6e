"""The rules of names (management API: topic/create, group/create). A name that breaks them never reaches a broker."""

from __future__ import annotations

import re

from console.web.errors import Refused

_FIELD = "BIZ_FIELD_CHECK_INVALID"
_TOPIC = re.compile(r"[A-Za-z0-9_-]{3,64}")
_GROUP = re.compile(r"GID[_-][A-Za-z0-9_-]{1,60}")


def checked_topic_name(name: str) -> str:
    """The name, if it may name a topic. Raises Refused."""
    if not _TOPIC.fullmatch(name):
        raise Refused(_FIELD, "A topic name has 3 to 64 letters, digits, - or _.", "name")
    if name.startswith(("CID", "GID")):
        raise Refused(_FIELD, "A topic name does not begin with CID or GID; those are kept for groups.", "name")
    return name


def checked_group_id(group_id: str) -> str:
    """The id, if it may name a group. Raises Refused."""
    if not _GROUP.fullmatch(group_id):
        raise Refused(
            _FIELD, "A group ID begins with GID_ or GID- and has 5 to 64 letters, digits, - or _.", "group_id"
        )
    return group_id


def checked_remark(remark: str) -> str:
    """The remark, trimmed. Raises Refused when it is too long."""
    if len(remark) > 256:
        raise Refused(_FIELD, "A remark has at most 256 characters.", "remark")
    return remark.strip()
