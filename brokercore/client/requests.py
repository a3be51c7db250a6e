"""Request and reply: questions that wait for the message that answers them."""

from __future__ import annotations

import logging
import time
import uuid
from concurrent.futures import Future

from brokercore.client.errors import InvalidMessage
from brokercore.client.messages import MessageView
from brokercore.client.namespace import unwrap
from brokercore.client.session import Session
from brokercore.protocol import properties as names
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.message import StoredMessage
from brokercore.protocol.properties import decode_properties

log = logging.getLogger(__name__)

REPLY = "reply"
"""Value of MSG_TYPE that makes a message a reply."""


class Requests:
    """Replies by correlation id, as the broker pushes them (PUSH_REPLY_MESSAGE_TO_CLIENT)."""

    def __init__(self, session: Session, namespace: str) -> None:
        self._namespace = namespace
        self._waiting: dict[str, Future[MessageView]] = {}
        session.handle(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._on_reply)

    def ask(self, client_id: str, timeout_ms: int) -> tuple[dict[str, str], Future[MessageView]]:
        """The properties that make a message a question, and the future of its reply. Call `forget` at the end."""
        correlation_id = str(uuid.uuid4())
        future: Future[MessageView] = Future()
        self._waiting[correlation_id] = future
        properties = {
            names.CORRELATION_ID: correlation_id,
            names.REPLY_TO_CLIENT: client_id,
            names.TIME_TO_LIVE: str(timeout_ms),
        }
        return properties, future

    def forget(self, properties: dict[str, str]) -> None:
        """The question is over."""
        self._waiting.pop(properties[names.CORRELATION_ID], None)

    def _on_reply(self, address: str, command: Command) -> Command:
        try:
            reply = _reply(command, self._namespace)
        except (ProtocolError, ValueError) as error:
            log.warning("< %s a reply cannot be read: %s", address, error)
            return command.response(ResponseCode.SYSTEM_ERROR, f"the reply cannot be read: {error}")
        waiting = self._waiting.pop(reply.properties.get(names.CORRELATION_ID, ""), None)
        if waiting is None:
            log.info("< %s reply %s came too late", address, reply.message_id)
        else:
            waiting.set_result(reply)
        return command.response(ResponseCode.SUCCESS)


def reply_properties(question: MessageView) -> tuple[str, dict[str, str]]:
    """Topic and properties of the reply to a question. Raises InvalidMessage when the message is none."""
    wanted = (names.CLUSTER, names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.TIME_TO_LIVE)
    cluster, *values = (question.properties.get(name, "") for name in wanted)
    if not cluster or not all(values[:2]):
        raise InvalidMessage(f"Message {question.message_id} is no request: nobody waits for a reply to it.")
    properties = dict(zip(wanted[1:], values, strict=True)) | {names.MESSAGE_TYPE: REPLY}
    return f"{cluster}_REPLY_TOPIC", properties


def _reply(command: Command, namespace: str) -> MessageView:
    ext = command.ext
    stored = StoredMessage(
        topic=unwrap(namespace, ext.get("topic", "")),
        body=command.body,
        properties=decode_properties(ext.get("properties", "")),
        sys_flag=int(ext.get("sysFlag") or 0),
        born_timestamp=int(ext.get("bornTimestamp") or 0),
        store_timestamp=int(ext.get("storeTimestamp") or time.time() * 1000),
    )
    return MessageView.of(stored)
