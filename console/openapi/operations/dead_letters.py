"""Dead letters. Names of parameters and results are PascalCase here; parameters are also taken in camelCase."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from console.messaging import dead_letters, services
from console.messaging.queries import Source
from console.openapi.operations import fields, lookup
from console.openapi.operations.fields import NOTHING, Nothing
from console.openapi.operations.message_results import Letter, LetterPage, letter
from console.openapi.registry import Call, Parameters, operation
from console.topics.models import Group
from console.web.errors import Refused

_MISSES = (
    "BIZ_SUBSCRIPTION_NOT_FOUND",
    "BIZ_PUBLISH_INFO_NOT_FOUND",
    "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER",
    "BIZ_PRODUCER_ID_BELONG_TO_OTHER_USER",
    "BIZ_NO_MESSAGE",
    "BIZ_INSTANCE_NOT_FOUND",
)


class EitherSpelling(Parameters):
    """Takes `InstanceId` and `instanceId` alike; the signature covers the names as they were sent."""

    @model_validator(mode="before")
    @classmethod
    def _to_pascal_case(cls, given: Any) -> Any:
        renamed: dict[str, Any] = {}
        for name, value in dict(given).items():
            proper = name[:1].upper() + name[1:]
            target = proper if proper in cls.model_fields else name
            if target in renamed:
                raise ValueError(f"the parameter {target} is given in both spellings")
            renamed[target] = value
        return renamed


class LetterQuery(EitherSpelling):
    InstanceId: fields.InstanceId = ""
    GroupId: fields.GroupId
    MsgId: fields.MessageId


class LetterTimeQuery(EitherSpelling):
    InstanceId: fields.InstanceId = ""
    GroupId: fields.GroupId
    BeginTime: fields.Begin
    EndTime: fields.End
    TaskId: fields.TaskId = ""
    CurrentPage: fields.PageNumber
    PageSize: fields.PageSize = 20


@operation(
    "message/getByIdInDLQ",
    service="Dead letters",
    summary="One dead letter by ID",
    description="Of several letters with one ID (each resend that fails adds one): the newest.",
    parameters=LetterQuery,
    result=Letter,
    errors=_MISSES,
    rpc="OnsDLQMessageGetById",
    limit="query",
    any_case=True,
)
def get_by_id(call: Call, parameters: LetterQuery) -> Letter:
    group = _group(call, parameters, "mq:QueryMessage")
    return letter(Source.of_dead_letters(group), _found(group, parameters.MsgId).record)


@operation(
    "message/getByPagedDLQ",
    service="Dead letters",
    summary="Dead letters of a group by time, page by page",
    description="By the time they became dead letters, newest first. Pages and tasks as in message/getByPagedTopic.",
    parameters=LetterTimeQuery,
    result=LetterPage,
    errors=(*_MISSES, "BIZ_TASK_NOT_FOUND"),
    rpc="OnsDLQMessagePageQueryByGroupId",
    limit="query",
    any_case=True,
)
def get_by_paged(call: Call, parameters: LetterTimeQuery) -> LetterPage:
    group = _group(call, parameters, "mq:QueryMessage")
    if parameters.TaskId:
        page = dead_letters.next_page(call.actor, group, parameters.TaskId, parameters.CurrentPage)
    else:
        begun = dead_letters.search(
            call.actor,
            group,
            parameters.BeginTime,
            parameters.EndTime,
            page=parameters.CurrentPage,
            page_size=parameters.PageSize,
        )
        if begun is None or begun.total == 0:
            raise Refused("BIZ_NO_MESSAGE", f"The group {group.group_id} has no dead letter in this range.")
        page = begun
    source = Source.of_dead_letters(group)
    return LetterPage(
        TaskId=page.task_id,
        MaxPageCount=page.max_page_count,
        CurrentPage=page.page,
        Data=[letter(source, record, listed=True) for record in page.messages],
    )


@operation(
    "message/resendByIdInDLQ",
    service="Dead letters",
    summary="Send a dead letter to its group again",
    description="To this group only, at once, with a retry counter that starts at 0. The letter stays in the queue, "
    "also when it is consumed now; if it fails again, a new letter with the same ID appears.",
    parameters=LetterQuery,
    result=Nothing,
    changes=True,
    errors=_MISSES,
    rpc="OnsDLQMessageResendById",
    any_case=True,
)
def resend(call: Call, parameters: LetterQuery) -> dict[str, Any]:
    group = _group(call, parameters, "mq:ResendDeadLetter")
    found = _found(group, parameters.MsgId)
    [result] = services.resend_dead_letters(call.actor, group, [str(found.record.position)])
    if result.error:
        raise Refused("ONS_INVOKE_ERROR", result.error, "MsgId")
    return NOTHING


def _group(call: Call, parameters: LetterQuery | LetterTimeQuery, action: str) -> Group:
    return lookup.group(call, parameters.InstanceId, parameters.GroupId, action)


def _found(group: Group, message_id: str) -> dead_letters.Letter:
    found = dead_letters.find(group, message_id)
    if found is None:
        raise Refused("BIZ_NO_MESSAGE", f"The group {group.group_id} has no dead letter with this ID.", "MsgId")
    return found
