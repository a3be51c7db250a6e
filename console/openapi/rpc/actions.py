"""Actions of the public cloud: which of them is which operation here, and how names and lists differ.

Names differ by their first letter (`instanceId`, `InstanceId`) unless said otherwise here. A list stands in an object
under the name of its element: `"PropertyList": {"MessageProperty": [...]}`. Behind that table are the actions that no
operation here has: the status of a topic, traces, and STS (version 2015-04-01).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from console.accounts.models import Role
from console.accounts.services import roles
from console.accounts.services.roles import find_role
from console.instances.models import DEFAULT_TPS
from console.openapi import envelope
from console.openapi.operations.lookup import is_asked_for
from console.openapi.registry import Call, Parameters
from console.openapi.rpc import traces
from console.topics import live
from console.topics.access import find_topic, require_topic
from console.web.errors import Refused

#: Of the actions on messages, and of those of STS.
MQ_VERSION, STS_VERSION = "2019-02-14", "2015-04-01"

#: Lists and the name of their elements.
ELEMENTS: dict[str, str] = {
    "ConnectionList": "ConnectionDo",
    "ConnectionSet": "ConnectionDo",
    "ConsumerConnectionInfoList": "ConsumerConnectionInfoDo",
    "DetailInTopicList": "DetailInTopicDo",
    "Jstack": "ThreadTrackDo",
    "MsgFoundList": "OnsRestMessageDo",
    "PropertyList": "MessageProperty",
    "Records": "StatsDataDo",
    "RunningDataList": "ConsumerRunningDataDo",
    "SubscriptionDataList": "SubscriptionDataList",
    "SubscriptionSet": "SubscriptionData",
    "Tags": "Tag",
    "TagsSet": "Tag",
    "TrackList": "Track",
}
#: Actions of the SDKs that have no counterpart among the operations here, and why.
ABSENT: dict[str, str] = {
    "ListTagResources": "there are no tags",
    "TagResources": "there are no tags",
    "UntagResources": "there are no tags",
    "OpenOnsService": "there is nothing to subscribe to",
}

_TOPIC = ("InstanceId", "Topic")
_GROUP = ("InstanceId", "GroupId")
_MESSAGE = ("InstanceId", "Topic", "MsgId")
_TREND = ("InstanceId", "Topic", "BeginTime", "EndTime", "Period", "Type")
_PAGE = ("BeginTime", "EndTime", "TaskId", "CurrentPage", "PageSize")
#: The only kind of group here; the public cloud also has groups of its HTTP protocol.
_TCP = {"GroupType": "tcp"}
#: 5 is "in service", 1 the standard edition.
_IN_SERVICE = {"InstanceStatus": 5, "InstanceType": 1}
_NO_TAGS: dict[str, object] = {"Tags": []}
#: The dead-letter operations have the same names in both styles.
_DLQ_NAMES = {name: name for name in (*_GROUP, "MsgId", *_PAGE)}
_FOUND = {"data": "MsgFoundList", "Data": "MsgFoundList"}
_ONLINE = {"onLine": ""}


@dataclass(frozen=True)
class Action:
    """One action and the operation of the management API behind it."""

    path: str
    fields: tuple[str, ...]
    """Parameters that are passed on. What an SDK has beyond them is in `ignored` or `only`, or is tags."""
    result: str = ""
    """Where the data goes: `Data`, or `Data.PublishInfoDo` for a list; empty when there is none."""
    sent_as: Mapping[str, str] = field(default_factory=dict)
    """Parameters whose name here is not just lower at its first letter."""
    constants: Mapping[str, str] = field(default_factory=dict)
    """Parameters that the action has not and the operation needs."""
    only: Mapping[str, str] = field(default_factory=dict)
    """Parameters that may have this one value."""
    ignored: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Fields of the result whose name is not just upper at its first letter; empty: left out."""
    added: Mapping[str, object] = field(default_factory=dict)
    """Fields that every object of the result has in addition."""
    plain: tuple[str, ...] = ()
    """Lists without the name of their elements."""
    every_page: bool = False
    """The operation is paged, the action is not."""


ACTIONS: dict[str, Action] = {
    "OnsRegionList": Action("region/list", (), "Data.RegionDo", renamed={"regionId": "OnsRegionId"}),
    "OnsInstanceCreate": Action(
        "instance/create", ("InstanceName", "Remark"), "Data", added={"InstanceType": 1},
        constants={"independentNaming": "true", "maxSendTps": str(DEFAULT_TPS), "maxReceiveTps": str(DEFAULT_TPS)},
    ),
    "OnsInstanceDelete": Action("instance/delete", ("InstanceId",)),
    "OnsInstanceUpdate": Action("instance/update", ("InstanceId", "InstanceName", "Remark")),
    "OnsInstanceBaseInfo": Action(
        "instance/baseInfo", ("InstanceId",), "InstanceBaseInfo", added=_IN_SERVICE, renamed={"maxSendTps": "MaxTps"},
    ),
    "OnsInstanceInServiceList": Action(
        "instance/list", (), "Data.InstanceVO", added={**_IN_SERVICE, **_NO_TAGS}, ignored=("NeedResourceInfo",),
        renamed={"namespaceRulesType": ""},
    ),
    "OnsTopicCreate": Action(
        "topic/create", (*_TOPIC, "MessageType", "Remark"), sent_as={"MessageType": "orderType"},
    ),
    "OnsTopicDelete": Action("topic/delete", _TOPIC),
    "OnsTopicUpdate": Action("topic/update", (*_TOPIC, "Perm")),
    "OnsTopicList": Action(
        "topic/listInPage", _TOPIC, "Data.PublishInfoDo", every_page=True, ignored=("UserId",), added=_NO_TAGS,
        renamed={"orderType": "MessageType", "status": "ServiceStatus"},
    ),
    "OnsTopicSubDetail": Action("topic/subDetail", _TOPIC, "Data"),
    "OnsGroupCreate": Action("group/create", (*_GROUP, "Remark"), only=_TCP),
    "OnsGroupDelete": Action("group/delete", _GROUP),
    "OnsGroupList": Action("group/list", _GROUP, "Data.SubscribeInfoDo", only=_TCP, added={**_TCP, **_NO_TAGS}),
    "OnsGroupSubDetail": Action("group/subDetail", _GROUP, "Data"),
    "OnsGroupConsumerUpdate": Action("group/consumerUpdate", (*_GROUP, "ReadEnable")),
    "OnsConsumerAccumulate": Action("consumer/accumulate", (*_GROUP, "Detail"), "Data", renamed=_ONLINE),
    "OnsConsumerStatus": Action("consumer/status", (*_GROUP, "Detail", "NeedJstack"), "Data"),
    "OnsConsumerGetConnection": Action("consumer/getConnection", _GROUP, "Data.ConnectionList.ConnectionDo"),
    "OnsConsumerTimeSpan": Action("consumer/timespan", (*_GROUP, "Topic"), "Data"),
    "OnsConsumerResetOffset": Action(
        "consumer/resetoffset", (*_GROUP, "Topic", "Type", "ResetTimestamp"), sent_as={"ResetTimestamp": "resetTime"},
    ),
    "OnsMessageTrace": Action("message/trace", _MESSAGE, "Data.MessageTrack"),
    "OnsMessageGetByMsgId": Action("message/getById", _MESSAGE, "Data"),
    "OnsMessageDetail": Action("message/getById", _MESSAGE, "Data", plain=("PropertyList",)),
    "OnsMessagePush": Action("message/push", (*_MESSAGE, "GroupId", "ClientId")),
    "OnsMessageGetByKey": Action("message/getByKey", (*_TOPIC, "Key"), "Data.OnsRestMessageDo"),
    "OnsMessagePageQueryByTopic": Action("message/getByPagedTopic", (*_TOPIC, *_PAGE), "MsgFoundDo", renamed=_FOUND),
    "OnsTrendTopicInputTps": Action("trend/topicInputTps", _TREND, "Data"),
    "OnsTrendGroupOutputTps": Action("trend/groupOutputTps", (*_TREND, "GroupId"), "Data"),
    "OnsDLQMessageGetById": Action("message/getByIdInDLQ", (*_GROUP, "MsgId"), "Data", sent_as=_DLQ_NAMES),
    "OnsDLQMessagePageQueryByGroupId": Action(
        "message/getByPagedDLQ", (*_GROUP, *_PAGE), "MsgFoundDo", renamed=_FOUND, sent_as=_DLQ_NAMES,
    ),
    "OnsDLQMessageResendById": Action("message/resendByIdInDLQ", (*_GROUP, "MsgId"), "Data", sent_as=_DLQ_NAMES),
}  # fmt: skip


class TopicStatus(Parameters):
    """Parameters of OnsTopicStatus."""

    Topic: str = Field(min_length=1)
    InstanceId: str = Field(min_length=1)


def topic_status(call: Call, given: Mapping[str, str]) -> dict[str, Any]:
    """Number of messages stored, the mode, and the time of the last message in ms (0 without one)."""
    parameters = TopicStatus.model_validate(dict(given))
    topic = find_topic(call.actor, parameters.InstanceId, parameters.Topic)
    if topic is None or not is_asked_for(call, topic.instance):
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


#: Of messages, without an operation of the management API behind them.
OWN_ACTIONS = {"OnsTopicStatus": topic_status, **traces.ACTIONS}


class AssumeRole(Parameters):
    """Parameters of AssumeRole; `Policy` is known so that it can be refused."""

    RoleArn: str
    RoleSessionName: str
    DurationSeconds: int | None = None
    Policy: str = ""


def assume_role(call: Call, given: Mapping[str, str]) -> dict[str, Any]:
    """Keys of a role for whom its trust policy names. Raises Refused and PermissionDenied."""
    actor, parameters = call.actor, AssumeRole.model_validate(dict(given))
    if parameters.Policy:
        # To leave it out would give more rights than the caller wanted to hand on.
        raise Refused(envelope.FIELD, "A session policy (Policy) is not supported; attach it to the role.", "Policy")
    role = find_role(parameters.RoleArn, actor.own_tenant)
    issued = roles.assume_role(
        actor=actor,
        role=role,
        session_name=parameters.RoleSessionName,
        duration_s=parameters.DurationSeconds or role.max_session_s,
    )
    return {
        "Credentials": {
            "AccessKeyId": issued.access_key_id,
            "AccessKeySecret": issued.access_key_secret,
            "SecurityToken": issued.security_token,
            "Expiration": f"{issued.expires_at:%Y-%m-%dT%H:%M:%SZ}",
        },
        "AssumedRoleUser": {
            "Arn": _session_arn(role, parameters.RoleSessionName),
            "AssumedRoleId": f"{role.pk}:{parameters.RoleSessionName}",
        },
    }


def get_caller_identity(call: Call, given: Mapping[str, str]) -> dict[str, Any]:
    """Account, user or role session behind the key that signed."""
    actor = call.actor
    account = actor.tenant.uid
    if actor.role is not None:
        return {
            "AccountId": account,
            "Arn": _session_arn(actor.role, actor.session_name),
            "IdentityType": "AssumedRoleUser",
            "PrincipalId": f"{actor.role.pk}:{actor.session_name}",
            "RoleId": str(actor.role.pk),
        }
    if actor.is_account or actor.user is None:
        return {"AccountId": account, "Arn": f"acs:ram::{account}:root", "IdentityType": "Account",
                "PrincipalId": account, "UserId": account}  # fmt: skip
    name = actor.user.username.rpartition("@")[0]
    return {"AccountId": account, "Arn": f"acs:ram::{account}:user/{name}", "IdentityType": "RAMUser",
            "PrincipalId": actor.user.uid, "UserId": actor.user.uid}  # fmt: skip


def _session_arn(role: Role, session_name: str) -> str:
    return f"acs:ram::{role.tenant.uid}:role/{role.name}/{session_name}"


STS_ACTIONS = {"AssumeRole": assume_role, "GetCallerIdentity": get_caller_identity}
