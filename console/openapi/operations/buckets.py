"""Buckets of the lake, and the rules by which they tell queues of the account what happens to their files."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from brokercore.smq.wire.requests import MAX_NAME
from console.accounts.access import require
from console.accounts.actor import oss_resource
from console.catalog import bucket_events, bucket_rules, buckets
from console.catalog.models import Bucket, BucketRule
from console.openapi.envelope import FIELD, INVOKE, Page, cut, milliseconds
from console.openapi.registry import NOTHING, Call, ListPage, ListSize, Nothing, Parameters, Result, operation
from console.web.errors import Refused

_BUCKET_MISSES = ("BIZ_BUCKET_NOT_FOUND",)
_MISSES = ("BIZ_BUCKET_NOT_FOUND", "BIZ_RULE_NOT_FOUND")
#: What this API calls the refusals of buckets.
_SYMBOLS = {"BUCKET_EXISTS": "BIZ_BUCKET_EXISTED", "LAKE_UNAVAILABLE": INVOKE}
#: What the parameters are called that the services refuse.
_PARAMETERS = {"name": "rule", "key_prefix": "prefix", "key_suffix": "suffix"}

BucketName = Annotated[
    str, Field(min_length=1, max_length=63, description="Name of the bucket.", examples=["demo-lake"])
]
RuleName = Annotated[
    str, Field(min_length=1, max_length=64, description="Name of the rule, the ruleId of events.", examples=["csv"])
]


class BucketOnly(Parameters):
    bucket: BucketName


class BucketList(Parameters):
    bucket: Annotated[str, Field(max_length=63, description="Part of the names looked for.")] = ""
    currentPage: ListPage = 1
    pageSize: Annotated[ListSize, Field(description="Buckets a page, 1 to 100.")] = 20


class RuleOnly(BucketOnly):
    rule: RuleName


class RuleCreate(RuleOnly):
    queue: Annotated[
        str,
        Field(min_length=1, max_length=MAX_NAME, description="A queue of the account.", examples=["orders"]),
    ]
    events: Annotated[
        str,
        Field(
            min_length=1,
            max_length=500,
            description=f"Names of events, separated by commas: {', '.join(bucket_events.NAMES)}.",
            examples=["ObjectCreated:*"],
        ),
    ]
    prefix: Annotated[str, Field(max_length=1023, description="What the key begins with; empty for every key.")] = ""
    suffix: Annotated[str, Field(max_length=1023, description="What the key ends with; empty for every key.")] = ""


class BucketDo(Result):
    """A bucket of the lake."""

    bucket: str
    createTime: int = Field(description="Milliseconds since the epoch.")


class RuleDo(Result):
    """A rule, and how its events fare."""

    rule: str
    queue: str
    events: list[str]
    prefix: str
    suffix: str
    createTime: int = Field(description="Milliseconds since the epoch.")
    waiting: int = Field(description="Events that are not delivered yet.")
    delivered: int = Field(description="Events that were delivered within a day.")
    failed: int = Field(description="Events that were given up within a week.")
    error: str = Field(description="Why the latest event that was not delivered at once was not; else empty.")


class SentAgain(Result):
    events: int = Field(description="How many events are tried for another day.")


@operation(
    "bucket/list",
    service="Bucket",
    summary="Buckets of the lake, page by page",
    description="By name, those that the caller may list or read in. A page past the end is empty and reports the "
    "true total.",
    parameters=BucketList,
    result=BucketDo,
    paged=True,
    needs=(f"{buckets.LIST}|{buckets.READ}",),
    extension=True,
)
def list_buckets(call: Call, parameters: BucketList) -> Page:
    found = [bucket for bucket in buckets.visible(call.actor) if parameters.bucket.lower() in bucket.name]
    entries = [BucketDo(bucket=one.name, createTime=milliseconds(one.created_at)) for one in cut(parameters, found)]
    return Page.of(parameters, entries, len(found))


@operation(
    "bucket/create",
    service="Bucket",
    summary="Create a bucket of the lake",
    description="3 to 63 lower-case letters, digits and hyphens, no hyphen at the ends. Names are unique over all "
    "accounts.",
    parameters=BucketOnly,
    result=Nothing,
    needs=(buckets.CREATE,),
    changes=True,
    errors=("BIZ_BUCKET_EXISTED",),
    extension=True,
)
def create(call: Call, parameters: BucketOnly) -> dict[str, Any]:
    try:
        buckets.create(call.actor, parameters.bucket)
    except Refused as refused:
        raise Refused(_SYMBOLS.get(refused.symbol, FIELD), refused.message, "bucket") from refused
    return NOTHING


@operation(
    "bucket/listRules",
    service="Bucket",
    summary="The rules of a bucket",
    description="By name, with how their events fare.",
    parameters=BucketOnly,
    result=list[RuleDo],
    needs=(bucket_rules.READ,),
    errors=_BUCKET_MISSES,
    extension=True,
)
def list_rules(call: Call, parameters: BucketOnly) -> list[RuleDo]:
    return [_described(state) for state in bucket_rules.states(_bucket(call, parameters.bucket, bucket_rules.READ))]


@operation(
    "bucket/createRule",
    service="Bucket",
    summary="Tell a queue what happens to files of a bucket",
    description=f"At most {bucket_rules.MOST_RULES} rules a bucket. The caller needs the right to send to the queue.",
    parameters=RuleCreate,
    result=Nothing,
    needs=(
        bucket_rules.CHANGE,
        "mns:SendMessage",
    ),
    changes=True,
    errors=(*_BUCKET_MISSES, "BIZ_QUEUE_NOT_FOUND", "BIZ_RULE_EXISTED", "BIZ_RULE_QUOTA_EXCEEDED"),
    extension=True,
)
def create_rule(call: Call, parameters: RuleCreate) -> dict[str, Any]:
    bucket = _bucket(call, parameters.bucket, bucket_rules.CHANGE)
    try:
        bucket_rules.create(
            call.actor,
            bucket,
            name=parameters.rule,
            events=[name.strip() for name in parameters.events.split(",") if name.strip()],
            queue=parameters.queue,
            key_prefix=parameters.prefix,
            key_suffix=parameters.suffix,
        )
    except Refused as refused:
        field = _PARAMETERS.get(refused.field, refused.field)
        raise Refused(refused.symbol, refused.message, field) from refused
    return NOTHING


@operation(
    "bucket/deleteRule",
    service="Bucket",
    summary="Delete a rule of a bucket",
    description="Events that wait are still delivered.",
    parameters=RuleOnly,
    result=Nothing,
    needs=(bucket_rules.CHANGE,),
    changes=True,
    errors=_MISSES,
    extension=True,
)
def delete_rule(call: Call, parameters: RuleOnly) -> dict[str, Any]:
    bucket_rules.delete(call.actor, _rule(call, parameters))
    return NOTHING


@operation(
    "bucket/sendEventsAgain",
    service="Bucket",
    summary="Send the events of a rule that were given up",
    description="Tries for another 24 hours.",
    parameters=RuleOnly,
    result=SentAgain,
    needs=(bucket_rules.CHANGE,),
    changes=True,
    errors=_MISSES,
    extension=True,
)
def send_events_again(call: Call, parameters: RuleOnly) -> SentAgain:
    return SentAgain(events=bucket_rules.send_again(call.actor, _rule(call, parameters)))


def _bucket(call: Call, name: str, action: str) -> Bucket:
    """A bucket of the account on which the caller may do `action`. Raises Refused, PermissionDenied."""
    tenant = call.actor.tenant
    require(call.actor, action, oss_resource(tenant, name), owner=tenant)
    found = Bucket.objects.filter(tenant=tenant, name=name).first()
    if found is None:
        raise Refused("BIZ_BUCKET_NOT_FOUND", f"You have no bucket {name}.", "bucket")
    return found


def _rule(call: Call, parameters: RuleOnly) -> BucketRule:
    found = _bucket(call, parameters.bucket, bucket_rules.CHANGE).rules.filter(name=parameters.rule).first()
    if found is None:
        message = f"The bucket {parameters.bucket} has no rule {parameters.rule}."
        raise Refused("BIZ_RULE_NOT_FOUND", message, "rule")
    return found


def _described(state: bucket_rules.RuleState) -> RuleDo:
    rule = state.rule
    return RuleDo(
        rule=rule.name,
        queue=rule.queue,
        events=rule.events,
        prefix=rule.prefix,
        suffix=rule.suffix,
        createTime=milliseconds(rule.created_at),
        waiting=state.waiting,
        delivered=state.delivered,
        failed=state.failed,
        error=state.error,
    )
