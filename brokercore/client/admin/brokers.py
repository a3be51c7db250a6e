"""Brokers and clusters, and what brokers count; settings of brokers and of name servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from brokercore.client.admin.base import Base, read
from brokercore.client.errors import (
    BadResponse,
    BrokerUnreachable,
    ClientError,
    QueryNotFound,
    RequestTimeout,
    SystemFault,
)
from brokercore.client.session import Call
from brokercore.protocol.bodies.route import MASTER
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.command import Command
from brokercore.protocol.fastjson import integer, mapping, number, read_object, texts


@dataclass(frozen=True, slots=True)
class Cluster:
    """`brokers`: master address by broker name; `clusters`: broker names by cluster name."""

    brokers: dict[str, str]
    clusters: dict[str, list[str]]


class Rate(NamedTuple):
    """What was counted in a span of time: in all, a second, and on average at a time."""

    total: int
    per_second: float
    average: float


class Brokers:
    """What the brokers tell about themselves, their settings, and what they count."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def cluster(self) -> Cluster:
        """All masters and clusters (GET_BROKER_CLUSTER_INFO)."""
        info = self._base.routes.cluster()
        brokers = {name: data.addresses[MASTER] for name, data in info.brokers.items() if MASTER in data.addresses}
        return Cluster(brokers, info.clusters)

    def masters(self) -> dict[str, str]:
        """Address of every master of the cluster, by broker name."""
        return self._base.masters()

    def addresses(self) -> dict[str, str]:
        """Address of every broker that the name server knows, by `<name>`, or `<name>/<id>` for a slave."""
        return {
            name if number == MASTER else f"{name}/{number}": address
            for name, data in self._base.routes.cluster().brokers.items()
            for number, address in sorted(data.addresses.items())
        }

    def runtime_info(self) -> dict[str, dict[str, str]]:
        """Each broker's runtime table (GET_BROKER_RUNTIME_INFO): version, counters, rates, all as text.

        Brokers that cannot be reached are left out, unless all are: then the error of one is raised.
        """
        masters = self.cluster().brokers or self._base.masters()
        calls = {name: Call(at, RequestCode.GET_BROKER_RUNTIME_INFO, {}) for name, at in masters.items()}
        tables: dict[str, dict[str, str]] = {}
        unreachable: ClientError | None = None
        for (name, call), result in zip(calls.items(), self._base.session.call_all(calls.values()), strict=True):
            if isinstance(result, BrokerUnreachable | RequestTimeout):
                unreachable = result
            elif isinstance(result, SystemFault) and "NoSuchElementException" in result.text:
                # Brokers before 5.2 fail to tell their rates in the first second, in which they have counted nothing.
                unreachable = result
            elif isinstance(result, ClientError):
                raise result
            else:
                tables[name] = texts(read(read_object, result.body, call.address).get("table"))
        if unreachable is not None and not tables:
            raise unreachable
        return tables

    def version(self, broker_name: str) -> str:
        """What a master runs, empty where it does not say (GET_BROKER_RUNTIME_INFO). Raises BrokerNotExist."""
        address = self._base.routes.address(broker_name)
        answer = self._base.session.call(Call(address, RequestCode.GET_BROKER_RUNTIME_INFO, {}))
        return texts(read(read_object, answer.body, address).get("table")).get("brokerVersionDesc", "")

    def config(self, broker_name: str) -> dict[str, str]:
        """The settings of a master, all as text (GET_BROKER_CONFIG). Raises BrokerNotExist."""
        address = self._base.routes.address(broker_name)
        return settings_of_answer(self._base.session.call(Call(address, RequestCode.GET_BROKER_CONFIG, {})), address)

    def update_config(self, broker_name: str, changes: Mapping[str, str]) -> None:
        """Change settings of a master (UPDATE_BROKER_CONFIG). The embedded broker forgets them at its next start.

        Raises BrokerError for one that is not known or cannot change while the broker runs.
        """
        address = self._base.routes.address(broker_name)
        body = "".join(f"{name}={value}\n" for name, value in changes.items()).encode()
        self._base.session.call(Call(address, RequestCode.UPDATE_BROKER_CONFIG, {}, body))

    def rates(self, name: str, key: str) -> dict[str, Rate]:
        """What the masters counted in the last Minute, Hour and Day, by these words (VIEW_BROKER_STATS_DATA).

        `name` and `key` are RocketMQ's: TOPIC_PUT_NUMS and a topic, GROUP_GET_NUMS and `topic@group`. {} when nothing
        was counted yet.
        """
        calls = [
            Call(address, RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
            for address in self._base.masters().values()
        ]
        merged: dict[str, Rate] = {}
        for call, result in zip(calls, self._base.session.call_all(calls), strict=True):
            if isinstance(result, SystemFault) and "not exist" in result.text:
                continue
            if isinstance(result, ClientError):
                raise result
            fields = read(read_object, result.body, call.address)
            for span in ("Minute", "Hour", "Day"):
                merged[span] = _sum(merged.get(span), _rate(mapping(fields, f"stats{span}")))
        return merged


class NameServers:
    """Settings and key-values of the name servers; a change of key-values goes to every one of them."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def config(self) -> dict[str, dict[str, str]]:
        """The settings of each name server by its address (GET_NAMESRV_CONFIG)."""
        servers = self._base.session.name_servers
        answers = self._base.ask(servers, RequestCode.GET_NAMESRV_CONFIG)
        return {address: settings_of_answer(answer, address) for address, answer in answers.items()}

    def key_value(self, namespace: str, key: str) -> str | None:
        """A value that the name servers keep, None when there is none (GET_KV_CONFIG)."""
        try:
            ext = {"namespace": namespace, "key": key}
            return self._base.session.call_name_server(RequestCode.GET_KV_CONFIG, ext).ext.get("value")
        except QueryNotFound:
            return None

    def key_values(self, namespace: str) -> dict[str, str]:
        """All values of a namespace (GET_KVLIST_BY_NAMESPACE); {} when there is none."""
        try:
            answer = self._base.session.call_name_server(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": namespace})
        except QueryNotFound:
            return {}
        return texts(read(read_object, answer.body, self._base.session.name_servers[0]).get("table"))

    def put_key_value(self, namespace: str, key: str, value: str) -> None:
        """Keep a value on every name server (PUT_KV_CONFIG)."""
        self._change(RequestCode.PUT_KV_CONFIG, {"namespace": namespace, "key": key, "value": value})

    def delete_key_value(self, namespace: str, key: str) -> None:
        """Delete a value on every name server (DELETE_KV_CONFIG)."""
        self._change(RequestCode.DELETE_KV_CONFIG, {"namespace": namespace, "key": key})

    def _change(self, code: RequestCode, ext: dict[str, str]) -> None:
        self._base.ask(self._base.session.name_servers, code, ext)


def _rate(fields: Mapping[str, object]) -> Rate:
    return Rate(integer(fields, "sum"), number(fields, "tps"), number(fields, "avgpt"))


def _sum(one: Rate | None, other: Rate) -> Rate:
    if one is None:
        return other
    total = one.total + other.total
    times = sum(rate.total / rate.average for rate in (one, other) if rate.average)
    return Rate(total, one.per_second + other.per_second, total / times if times else 0.0)


def settings_of_answer(answer: Command, address: str) -> dict[str, str]:
    """Lines `key=value`, as Java's Properties are written. Raises BadResponse."""
    try:
        lines = answer.body.decode().splitlines()
    except UnicodeDecodeError as error:
        raise BadResponse(address, "the configuration is not UTF-8") from error
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {name.strip(): value.strip() for name, separator, value in pairs if separator}
