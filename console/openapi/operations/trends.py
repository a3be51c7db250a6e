"""Statistics of production and consumption."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from console.metrics import curves
from console.metrics.curves import Curve, Measure
from console.openapi.operations import lookup
from console.openapi.registry import (
    Begin,
    Call,
    Choice,
    End,
    GroupId,
    InstanceId,
    Parameters,
    Result,
    TopicName,
    operation,
)

_MEASURES: dict[int, Measure] = {0: "count", 1: "tps"}


class TopicTrend(Parameters):
    instanceId: InstanceId = ""
    topic: TopicName
    beginTime: Begin
    endTime: End
    period: Annotated[Literal[1, 5, 10], Choice] = Field(description="Minutes that a point stands for.")
    type: Annotated[Literal[0, 1], Choice] = Field(description="0: number of messages. 1: messages a second.")


class GroupTrend(TopicTrend):
    groupId: GroupId


class StatsData(Result):
    """StatsDataDo."""

    x: int = Field(description="Start of the period, ms.")
    y: float = Field(description="Messages, or messages a second.")


class Trend(Result):
    title: str = Field(description="Name of the topic.")
    records: list[StatsData]


@operation(
    "trend/topicInputTps",
    service="Trend",
    summary="How much was written to a topic",
    description="One point a period, aligned to full multiples (UTC); 0 where nothing was counted. The range spans at "
    "most 7 days.",
    parameters=TopicTrend,
    result=Trend,
    needs=("mq:QueryTrend",),
    errors=("BIZ_TOPIC_NOT_FOUND", "BIZ_INSTANCE_NOT_FOUND"),
    rpc="OnsTrendTopicInputTps",
    limit="query",
)
def topic_input(call: Call, parameters: TopicTrend) -> Trend:
    topic = lookup.topic(call, parameters.instanceId, parameters.topic, "mq:QueryTrend")
    return _trend(
        topic.name,
        curves.topic_curve(
            topic,
            period_minutes=parameters.period,
            measure=_MEASURES[parameters.type],
            begin_ms=parameters.beginTime,
            end_ms=parameters.endTime,
        ),
    )


@operation(
    "trend/groupOutputTps",
    service="Trend",
    summary="How much a group consumed of a topic",
    description="Points as in trend/topicInputTps. The caller needs the rights on the group and on the topic.",
    parameters=GroupTrend,
    result=Trend,
    needs=("mq:QueryTrend",),
    errors=(
        "BIZ_TOPIC_NOT_FOUND",
        "BIZ_SUBSCRIPTION_NOT_FOUND",
        "BIZ_PUBLISH_INFO_NOT_FOUND",
        "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER",
        "BIZ_PRODUCER_ID_BELONG_TO_OTHER_USER",
        "BIZ_INSTANCE_NOT_FOUND",
    ),
    rpc="OnsTrendGroupOutputTps",
    limit="query",
)
def group_output(call: Call, parameters: GroupTrend) -> Trend:
    group = lookup.group(call, parameters.instanceId, parameters.groupId, "mq:QueryTrend")
    topic = lookup.topic(call, parameters.instanceId, parameters.topic, "mq:QueryTrend")
    return _trend(
        topic.name,
        curves.group_curve(
            group,
            [topic.physical_name],
            period_minutes=parameters.period,
            measure=_MEASURES[parameters.type],
            begin_ms=parameters.beginTime,
            end_ms=parameters.endTime,
        ),
    )


def _trend(title: str, curve: Curve) -> Trend:
    return Trend(title=title, records=[StatsData(x=p.start_ms, y=p.value or 0.0) for p in curve.points])
