"""The client library of brokercore: blocking, typed, safe in threads and over forks (docs/use/client.md).

It works alike on the embedded broker and on Apache RocketMQ.
"""

from __future__ import annotations

from brokercore.client.admin import Admin, Cluster
from brokercore.client.lite_pull_consumer import LitePullConsumer
from brokercore.client.messages import (
    ConsumeResult,
    Message,
    MessageView,
    SendResult,
    SendStatus,
    TransactionState,
)
from brokercore.client.producer import Producer
from brokercore.client.pulling import PullResult, PullStatus
from brokercore.client.push_consumer import PushConsumer
from brokercore.client.session import Credentials
from brokercore.client.subscriber import MessageSelector
from brokercore.protocol.bodies.clients import (
    Connection,
    ConsumerConnection,
    ConsumeStatus,
    DirectResult,
    ProducerInfo,
    RunningInfo,
    SubscriptionData,
)
from brokercore.protocol.bodies.config import GroupConfig, TopicConfig
from brokercore.protocol.bodies.route import TopicRoute
from brokercore.protocol.bodies.stats import ConsumeStats, QueueProgress, QueueStats, TimeSpan
from brokercore.protocol.message import StoredMessage
from brokercore.protocol.message_queue import MessageQueue
from brokercore.protocol.properties import KEYS, SYSTEM_NAMES, TAGS, UNIQUE_KEY

Subscription = SubscriptionData

__all__ = [
    "KEYS",
    "SYSTEM_NAMES",
    "TAGS",
    "UNIQUE_KEY",
    "Admin",
    "Cluster",
    "Connection",
    "ConsumeResult",
    "ConsumeStats",
    "ConsumeStatus",
    "ConsumerConnection",
    "Credentials",
    "DirectResult",
    "GroupConfig",
    "LitePullConsumer",
    "Message",
    "MessageQueue",
    "MessageSelector",
    "MessageView",
    "Producer",
    "ProducerInfo",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "QueueProgress",
    "QueueStats",
    "RunningInfo",
    "SendResult",
    "SendStatus",
    "StoredMessage",
    "Subscription",
    "TimeSpan",
    "TopicConfig",
    "TopicRoute",
    "TransactionState",
]
