"""Every action that the one permission decision is asked about. docs/permissions.md says where; a test compares."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache

from brokercore.policy import Statement

_NAMES: dict[str, tuple[str, ...]] = {
    "mq": (
        "PUB", "SUB", "QueryInstance", "CreateInstance", "UpdateInstance", "DeleteInstance",
        "QueryTopic", "CreateTopic", "UpdateTopic", "DeleteTopic", "Empower", "QueryGrant",
        "QueryGroup", "CreateGroup", "UpdateGroup", "DeleteGroup",
        "QueryMessage", "ResendDeadLetter", "ResetOffset", "QueryTrend",
    ),
    "dla": (
        "SubmitQuery", "QueryTask", "CancelQuery",
        "CreateSchema", "DropSchema", "CreateTable", "AlterTable", "DropTable", "InsertTable",
        "ListBuckets", "CreateBucket", "DeleteBucket", "ReadBucket", "WriteBucket", "ArchiveTopic",
    ),
    "ram": (
        "ListUsers", "GetUser", "CreateUser", "UpdateUser", "DeleteUser", "UpdateLoginProfile", "UnbindMFADevice",
        "AttachPolicyToUser", "DetachPolicyFromUser",
        "ListAccessKeys", "UpdateAccessKey", "DeleteAccessKey",
        "ListGroups", "GetGroup", "CreateGroup", "UpdateGroup", "DeleteGroup",
        "AddUserToGroup", "RemoveUserFromGroup", "AttachPolicyToGroup", "DetachPolicyFromGroup",
        "ListPolicies", "GetPolicy", "CreatePolicy", "UpdatePolicy", "DeletePolicy", "SimulatePolicy",
        "ListRoles", "GetRole", "CreateRole", "UpdateRole", "DeleteRole",
        "AttachPolicyToRole", "DetachPolicyFromRole", "EndRoleSession",
        "GetSingleSignOn", "UpdateSingleSignOn",
    ),
    "sts": ("AssumeRole",),
    "actiontrail": ("Read",),
}  # fmt: skip
ACTIONS: tuple[str, ...] = tuple(f"{service}:{name}" for service, names in _NAMES.items() for name in names)


@lru_cache(maxsize=1024)
def matched(pattern: str) -> tuple[str, ...]:
    """The known actions that an action pattern of a policy stands for."""
    statement = Statement(True, (pattern,), ("*",))
    return tuple(action for action in ACTIONS if statement.matches_action_name(action))


def suggestions(pattern: str) -> list[str]:
    """Known actions that somebody may have meant by one that matches none."""
    by_name = {action.lower(): action for action in ACTIONS}
    near = get_close_matches(pattern.lower(), by_name, n=3, cutoff=0.6)
    if not near:
        tails = {action.partition(":")[2].lower(): action for action in ACTIONS}
        return [tails[t] for t in get_close_matches(pattern.partition(":")[2].lower(), tails, n=3, cutoff=0.6)]
    return [by_name[name] for name in near]
