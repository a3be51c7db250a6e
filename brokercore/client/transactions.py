"""The second phase of transactional messages, and the broker's questions about forgotten ones."""

from __future__ import annotations

import logging
from collections.abc import Callable

from brokercore.client.messages import MessageView, SendResult, TransactionState
from brokercore.client.session import Call, Session
from brokercore.protocol import properties as names
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.ids import parse_offset_message_id
from brokercore.protocol.message import decode_stored

log = logging.getLogger(__name__)

TransactionCheck = Callable[[MessageView], TransactionState]


class Transactions:
    """Ends transactions, and answers CHECK_TRANSACTION_STATE of the brokers that know the group."""

    def __init__(self, session: Session, group: str, namespace: str, check: TransactionCheck) -> None:
        self._session = session
        self._group = group
        self._namespace = namespace
        self._check = check
        session.handle(RequestCode.CHECK_TRANSACTION_STATE, self._on_check)

    def end(self, result: SendResult, topic: str, address: str, state: TransactionState) -> None:
        """Tell the broker how the local transaction of a half message ended. Raises BrokerUnreachable."""
        ext = {
            "topic": topic,
            "msgId": result.message_id,
            "tranStateTableOffset": str(result.queue_offset),
            "commitLogOffset": str(parse_offset_message_id(result.offset_message_id)[2]),
            "transactionId": result.transaction_id or result.message_id,
            "fromTransactionCheck": "false",
            "bname": result.queue.broker_name,
        }
        self._end(address, ext, state)

    def _on_check(self, address: str, command: Command) -> None:
        try:
            stored = decode_stored(command.body)[0]
            view = MessageView.of(stored, command.ext.get("bname", ""), self._namespace)
        except (ProtocolError, IndexError) as error:
            log.warning("< %s asks about a transaction with a broken message: %s", address, error)
            return
        try:
            state = self._check(view)
        except Exception:
            log.exception("the check of transaction %s failed; the broker will ask again", view.message_id)
            state = TransactionState.UNKNOWN
        ext = {
            "topic": stored.topic,
            "msgId": stored.unique_id,
            "tranStateTableOffset": command.ext.get("tranStateTableOffset", "0"),
            "commitLogOffset": command.ext.get("commitLogOffset", "0"),
            "transactionId": stored.properties.get(names.TRANSACTION_ID, stored.unique_id),
            "fromTransactionCheck": "true",
            "bname": command.ext.get("bname", ""),
        }
        self._end(address, ext, state)

    def _end(self, address: str, ext: dict[str, str], state: TransactionState) -> None:
        ext |= {"producerGroup": self._group, "commitOrRollback": str(state.value)}
        self._session.oneway(Call(address, RequestCode.END_TRANSACTION, ext))
