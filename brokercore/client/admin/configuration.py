"""Settings of brokers and name servers, the name servers' key-values, and what brokers count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from brokercore.client.admin.base import AdminBase, read
from brokercore.client.errors import BadResponse, ClientError, QueryNotFound, SystemFault
from brokercore.client.session import Call
from brokercore.protocol.bodies.reading import integer, mapping, number, read_object, texts
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.command import Command


class Rate(NamedTuple):
    """What was counted in a span of time: in all, a second, and on average at a time."""

    total: int
    per_second: float
    average: float


class ConfigurationAdmin(AdminBase):
    """Reads and changes settings; a change of key-values goes to every name server."""

    def broker_config(self, broker_name: str) -> dict[str, str]:
        """The settings of a master, all as text (GET_BROKER_CONFIG). Raises BrokerNotExist."""
        address = self.routes.address(broker_name)
        return _properties(self.session.call(Call(address, RequestCode.GET_BROKER_CONFIG, {})), address)

    def update_broker_config(self, broker_name: str, changes: Mapping[str, str]) -> None:
        """Change settings of a master (UPDATE_BROKER_CONFIG). The embedded broker forgets them at its next start.

        Raises BrokerError for one that is not known or cannot change while the broker runs.
        """
        address = self.routes.address(broker_name)
        body = "".join(f"{name}={value}\n" for name, value in changes.items()).encode()
        self.session.call(Call(address, RequestCode.UPDATE_BROKER_CONFIG, {}, body))

    def name_server_config(self) -> dict[str, dict[str, str]]:
        """The settings of each name server by its address (GET_NAMESRV_CONFIG)."""
        servers = self.session.name_servers
        answers = self.ask(servers, RequestCode.GET_NAMESRV_CONFIG)
        return {address: _properties(answer, address) for address, answer in answers.items()}

    def key_value(self, namespace: str, key: str) -> str | None:
        """A value that the name servers keep, None when there is none (GET_KV_CONFIG)."""
        try:
            ext = {"namespace": namespace, "key": key}
            return self.session.call_name_server(RequestCode.GET_KV_CONFIG, ext).ext.get("value")
        except QueryNotFound:
            return None

    def key_values(self, namespace: str) -> dict[str, str]:
        """All values of a namespace (GET_KVLIST_BY_NAMESPACE); {} when there is none."""
        try:
            answer = self.session.call_name_server(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": namespace})
        except QueryNotFound:
            return {}
        return texts(read(read_object, answer.body, self.session.name_servers[0]).get("table"))

    def put_key_value(self, namespace: str, key: str, value: str) -> None:
        """Keep a value on every name server (PUT_KV_CONFIG)."""
        self._change(RequestCode.PUT_KV_CONFIG, {"namespace": namespace, "key": key, "value": value})

    def delete_key_value(self, namespace: str, key: str) -> None:
        """Delete a value on every name server (DELETE_KV_CONFIG)."""
        self._change(RequestCode.DELETE_KV_CONFIG, {"namespace": namespace, "key": key})

    def rates(self, name: str, key: str) -> dict[str, Rate]:
        """What the masters counted in the last Minute, Hour and Day, by these words (VIEW_BROKER_STATS_DATA).

        `name` and `key` are RocketMQ's: TOPIC_PUT_NUMS and a topic, GROUP_GET_NUMS and `topic@group`. {} when nothing
        was counted yet.
        """
        calls = [
            Call(address, RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
            for address in self.masters().values()
        ]
        merged: dict[str, Rate] = {}
        for call, result in zip(calls, self.session.call_all(calls), strict=True):
            if isinstance(result, SystemFault) and "not exist" in result.text:
                continue
            if isinstance(result, ClientError):
                raise result
            fields = read(read_object, result.body, call.address)
            for span in ("Minute", "Hour", "Day"):
                merged[span] = _sum(merged.get(span), _rate(mapping(fields, f"stats{span}")))
        return merged

    def _change(self, code: RequestCode, ext: dict[str, str]) -> None:
        self.ask(self.session.name_servers, code, ext)


def _rate(fields: Mapping[str, object]) -> Rate:
    return Rate(integer(fields, "sum"), number(fields, "tps"), number(fields, "avgpt"))


def _sum(one: Rate | None, other: Rate) -> Rate:
    if one is None:
        return other
    total = one.total + other.total
    times = sum(rate.total / rate.average for rate in (one, other) if rate.average)
    return Rate(total, one.per_second + other.per_second, total / times if times else 0.0)


def _properties(answer: Command, address: str) -> dict[str, str]:
    """Lines `key=value`, as Java's Properties are written. Raises BadResponse."""
    try:
        lines = answer.body.decode().splitlines()
    except UnicodeDecodeError as error:
        raise BadResponse(address, "the configuration is not UTF-8") from error
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {name.strip(): value.strip() for name, separator, value in pairs if separator}
