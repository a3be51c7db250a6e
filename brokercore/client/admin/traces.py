"""Message traces, as the vendor's clients write them to RMQ_SYS_TRACE_TOPIC when their application switches it on."""

from __future__ import annotations

from dataclasses import dataclass

from brokercore.client.admin.messages import Messages
from brokercore.client.errors import TopicNotExist
from brokercore.names import TRACE_TOPIC
from brokercore.protocol.errors import DecompressionError
from brokercore.protocol.message import StoredMessage

_FIELDS = {
    "Pub": ("time", "region", "group", "topic", "message_id", "tags", "keys", "store_host", "body_length", "cost_ms",
            "message_type", "offset_message_id", "success"),
    "SubBefore": ("time", "region", "group", "request_id", "message_id", "retry_times", "keys"),
    "SubAfter": ("request_id", "message_id", "cost_ms", "success", "keys", "context_code", "time", "group"),
    "EndTransaction": ("time", "region", "group", "topic", "message_id", "tags", "keys", "store_host", "message_type",
                       "transaction_id", "state", "from_check"),
    "Recall": ("time", "region", "group", "topic", "message_id", "success"),
}  # fmt: skip
"""Fields behind the first word of a record."""


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One thing that a client did with a message: Pub, SubBefore, SubAfter, EndTransaction or Recall.

    `fields` has what else it says, by name; all as text, without namespace.
    """

    kind: str
    message_id: str
    group: str
    time_ms: int
    succeeded: bool | None
    client_host: str
    fields: dict[str, str]


class Traces:
    """Finds traces."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def of_message(self, message_id: str, *, topic: str = TRACE_TOPIC, max_messages: int = 64) -> list[TraceRecord]:
        """What clients say they did with a message, by its unique id, oldest first; [] when none of them traces.

        Raises ClientError; a cluster without the topic has no traces.
        """
        try:
            messages = self._messages.query(topic, message_id, max_messages=max_messages)
        except TopicNotExist:
            return []
        records = [record for message in messages for record in parse_traces(message)]
        return sorted((record for record in records if record.message_id == message_id), key=lambda r: r.time_ms)


def parse_traces(message: StoredMessage) -> list[TraceRecord]:
    """The records in a message of the trace topic; what is none is passed over."""
    try:
        text = message.decoded_body().decode(errors="replace")
    except DecompressionError:
        return []
    records = []
    for line in text.split("\x02"):
        kind, _, rest = line.partition("\x01")
        names = _FIELDS.get(kind)
        if names is None:
            continue
        fields = {
            name: value for name, value in zip(names, rest.split("\x01"), strict=False) if value not in {"", "null"}
        }
        time_text, success = fields.get("time", ""), fields.get("success")
        records.append(
            TraceRecord(
                kind,
                fields.get("message_id", ""),
                fields.get("group", ""),
                int(time_text) if time_text.isdecimal() else message.store_timestamp,
                None if success is None else success == "true",
                message.born_host[0],
                fields,
            )
        )
    return records
