"""The one permission decision: page, management API, SQL and broker all ask `decide`.

A statement is a RAM policy statement (Effect, Action, Resource, Condition). An explicit deny wins over every
allow, and what nothing allows is denied. Pure: no I/O, so both the console and the broker call the same function on the
same statements (docs/use/permissions.md).
"""

from brokercore.policy.conditions import CONDITION_KEYS, KEYS_OF, Condition, Context
from brokercore.policy.decision import (
    CREATOR,
    RESOURCE_PREFIX,
    Considered,
    Decision,
    Grantee,
    allowed_among,
    could_allow,
    decide,
    decide_trust,
    explain,
    mns_resource,
    mq_resource,
)
from brokercore.policy.grammar import (
    ASSUME_ROLE,
    MAX_BYTES,
    Examined,
    PolicyError,
    examine,
    parse_policy,
    parse_rows,
    parse_trust_policy,
    problems,
    rows_in_steps,
    validate,
)
from brokercore.policy.json_positions import Path, Problem
from brokercore.policy.statements import Statement, TrustStatement

__all__ = [
    "ASSUME_ROLE",
    "CONDITION_KEYS",
    "CREATOR",
    "KEYS_OF",
    "MAX_BYTES",
    "RESOURCE_PREFIX",
    "Condition",
    "Considered",
    "Context",
    "Decision",
    "Examined",
    "Grantee",
    "Path",
    "PolicyError",
    "Problem",
    "Statement",
    "TrustStatement",
    "allowed_among",
    "could_allow",
    "decide",
    "decide_trust",
    "examine",
    "explain",
    "mns_resource",
    "mq_resource",
    "parse_policy",
    "parse_rows",
    "parse_trust_policy",
    "problems",
    "rows_in_steps",
    "validate",
]
