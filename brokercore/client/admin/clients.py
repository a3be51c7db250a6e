"""Who is connected, and what consumers tell of themselves."""

from __future__ import annotations

from brokercore.client.admin.base import LARGE_MS, Base, read
from brokercore.client.admin.messages import is_at
from brokercore.client.errors import BrokerError, BrokerNotExist, ClientError, ConsumerNotOnline, SystemFault
from brokercore.client.session import Call
from brokercore.protocol.bodies.clients import (
    Connection,
    ConsumerConnection,
    DirectResult,
    ProducerInfo,
    RunningInfo,
    connections_from_json,
    producers_from_json,
)
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.ids import parse_offset_message_id

_FORWARDED_MS = 12_000
"""A broker gives the client 10 s for a forwarded request."""


class Clients:
    """Online producers and consumers."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def consumers(self, group: str) -> ConsumerConnection:
        """The online clients of a group and their subscriptions. Raises ConsumerNotOnline when there is none."""
        code, ext = RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}
        answers = self._base.ask_where_known(self._base.masters().values(), code, ext, ConsumerNotOnline)
        merged = ConsumerConnection()
        for address, response in answers.items():
            found = read(ConsumerConnection.from_json, response.body, address)
            known = {connection.client_id for connection in merged.connections}
            merged.connections += [item for item in found.connections if item.client_id not in known]
            merged.subscriptions = found.subscriptions | merged.subscriptions
            merged.consume_type = merged.consume_type or found.consume_type
            merged.message_model = merged.message_model or found.message_model
            merged.consume_from_where = merged.consume_from_where or found.consume_from_where
        return merged

    def producers(self, group: str) -> list[Connection]:
        """The online clients of a producer group; [] when there is none."""
        masters = self._base.masters().values()
        calls = [
            Call(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": group}) for address in masters
        ]
        found: dict[str, Connection] = {}
        for call, result in zip(calls, self._base.session.call_all(calls), strict=True):
            if isinstance(result, SystemFault) and "not exist" in result.text:
                continue
            if isinstance(result, ClientError):
                raise result
            found |= {item.client_id: item for item in read(connections_from_json, result.body, call.address)}
        return list(found.values())

    def all_producers(self) -> dict[str, list[ProducerInfo]]:
        """The online clients of every producer group of the cluster, one entry for each broker they are connected to.

        Raises RequestNotSupported where a broker is too old to tell (GET_ALL_PRODUCER_INFO), and NoPermission.
        """
        found: dict[str, list[ProducerInfo]] = {}
        answers = self._base.ask(self._base.masters().values(), RequestCode.GET_ALL_PRODUCER_INFO, timeout_ms=LARGE_MS)
        for address, response in answers.items():
            for group, clients in read(producers_from_json, response.body, address).items():
                found.setdefault(group, []).extend(clients)
        return found

    def running_info(self, group: str, client_id: str, jstack: bool = False) -> RunningInfo:
        """What a consumer tells of itself, with stack traces when `jstack`. Raises ConsumerNotOnline."""
        ext = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "true" if jstack else "false"}
        address, response = self._forward(RequestCode.GET_CONSUMER_RUNNING_INFO, ext, self._base.masters())
        return read(RunningInfo.from_json, response.body, address)

    def consume_directly(self, group: str, client_id: str, offset_message_id: str, topic: str = "") -> DirectResult:
        """Let one client consume one message now: the broker that has the message hands it to the client.

        Raises ConsumerNotOnline, BrokerNotExist when no broker is where the id says, MessageFormatError for a bad id.
        """
        at = parse_offset_message_id(offset_message_id)[:2]
        ext = {"consumerGroup": group, "clientId": client_id, "msgId": offset_message_id}
        if topic:
            ext["topic"] = topic
        masters = self._base.masters()
        holders = {name: address for name, address in masters.items() if is_at(address, *at)}
        if not holders and len(masters) == 1:
            holders = masters  # a lone broker has another address now than when it stored the message
        if not holders:
            text = f"no broker is at {at[0]}:{at[1]}, where the message lies"
            raise BrokerNotExist(ResponseCode.BROKER_NOT_EXIST, text, self._base.session.name_servers[0])
        address, response = self._forward(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, holders)
        return read(DirectResult.from_json, response.body, address)

    def _forward(self, code: RequestCode, ext: dict[str, str], masters: dict[str, str]) -> tuple[str, Command]:
        """Ask the brokers in turn for the one that the client is connected to."""
        last: BrokerError | None = None
        for name, address in masters.items():
            try:
                call = Call(address, code, ext | {"brokerName": name})
                return address, self._base.session.call(call, timeout_ms=_FORWARDED_MS)
            except SystemFault as error:
                if "not online" not in error.text and "not exist" not in error.text:
                    raise
                last = ConsumerNotOnline(ResponseCode.CONSUMER_NOT_ONLINE, error.text, address)
            except ConsumerNotOnline as error:
                last = error
        raise last or ConsumerNotOnline(ResponseCode.CONSUMER_NOT_ONLINE, "there is no broker", "the cluster")
