"""Configuration as tools read and change it: of the broker (25, 26) and of its name server (318, 319)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import orjson

from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.server.broker import Broker
from brokercore.server.connection import Connection
from brokercore.server.errors import Refusal
from brokercore.server.security import Caller
from brokercore.server.settings import BOUNDS

logger = logging.getLogger(__name__)

_OK, _INVALID = ResponseCode.SUCCESS, ResponseCode.INVALID_PARAMETER


def broker_configuration(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_BROKER_CONFIG: lines of `key=value`, under the names a real broker uses where it has them."""
    settings = broker.settings
    host, _, port = broker.address.rpartition(":")
    values = {
        "autoCreateSubscriptionGroup": "false",
        "autoCreateTopicEnable": "false",
        "brokerClusterName": settings.cluster_name,
        "brokerId": "0",
        "brokerIP1": host,
        "brokerName": settings.broker_name,
        "brokerPermission": "6",
        "brokerRole": "ASYNC_MASTER",
        "clientManageThreadPoolNums": "1",  # one event loop does all; tools expect the three numbers
        "fileReservedTime": str(max(1, round(settings.retention_hours))),
        "flushDiskType": "ASYNC_FLUSH",
        "listenPort": port,
        "maxMessageSize": str(4 << 20),
        "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        "namesrvAddr": broker.address,
        "pullMessageThreadPoolNums": "1",
        "regionId": settings.region,
        "sendMessageThreadPoolNums": "1",
        "timerMaxDelaySec": str(40 * 86_400),
        "transactionCheckInterval": str(1000 * settings.transaction_check_seconds),
        "gantryCheckMessageType": "true" if settings.check_message_type else "false",
        "gantryStoreMaxBytes": str(settings.store_max_bytes),
    }
    version = orjson.dumps(broker.topics.version.to_dict()).decode()
    return command.response(_OK, ext={"version": version}, body=_properties(values))


def update_broker(broker: Broker, _connection: Connection, command: Command, caller: Caller) -> Command:
    """UPDATE_BROKER_CONFIG: what can change while the broker runs changes at once and holds until it ends."""
    changes: dict[str, Any] = {}
    for name, value in _given(command).items():
        if name not in _CHANGEABLE:
            allowed = ", ".join(sorted(_CHANGEABLE))
            raise Refusal(_INVALID, f"{name[:80]} cannot be changed while the broker runs; what can: {allowed}")
        setting, read = _CHANGEABLE[name]
        try:
            changes[setting] = read(value)
        except ValueError as error:
            raise Refusal(_INVALID, f"{name} is {value[:40]!r}: {error}") from None
    broker.reconfigure(**changes)
    logger.warning("%s set %s until the next start", caller.name, changes)
    return command.response(_OK)


def name_server_configuration(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_NAMESRV_CONFIG: the name server is a role of the broker and has few settings of its own."""
    values = {"listenPort": broker.settings.namesrv_port, "orderMessageEnable": "true", "supportActingMaster": "false"}
    return command.response(_OK, body=_properties({name: str(value) for name, value in values.items()}))


def update_name_server(_broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """UPDATE_NAMESRV_CONFIG: nothing of it can change while it runs."""
    names = ", ".join(_given(command))[:200]
    raise Refusal(_INVALID, f"{names} cannot be changed: the name server's settings are read when the broker starts")


def _given(command: Command) -> dict[str, str]:
    """The lines `key=value` of a body as Java's Properties are written; at least one."""
    try:
        lines = command.body.decode().splitlines()
    except UnicodeDecodeError:
        raise Refusal(_INVALID, "the configuration is not UTF-8") from None
    pairs = [line.partition("=") for line in lines if line.strip() and not line.startswith("#")]
    if not pairs:
        raise Refusal(_INVALID, "the request names no setting")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _properties(values: dict[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in values.items()).encode()


def _whole(setting: str, factor: int = 1) -> Callable[[str], int]:
    low, high = BOUNDS[setting]

    def read(value: str) -> int:
        if not value.isascii() or not value.isdecimal() or not low <= int(value[:20]) // factor <= high:
            raise ValueError(f"allowed are whole numbers from {low * factor} to {high * factor}")
        return int(value) // factor

    return read


def _truth(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError("allowed are true and false")
    return value == "true"


_CHANGEABLE: dict[str, tuple[str, Callable[[str], Any]]] = {
    "fileReservedTime": ("retention_hours", _whole("retention_hours")),
    "gantryCheckMessageType": ("check_message_type", _truth),
    "gantryStoreMaxBytes": ("store_max_bytes", _whole("store_max_bytes")),
    "transactionCheckInterval": ("transaction_check_seconds", _whole("transaction_check_seconds", 1000)),
}
"""Names in the configuration: the setting, and how its value is read."""

HANDLERS = {
    RequestCode.GET_BROKER_CONFIG: broker_configuration,
    RequestCode.UPDATE_BROKER_CONFIG: update_broker,
    RequestCode.GET_NAMESRV_CONFIG: name_server_configuration,
    RequestCode.UPDATE_NAMESRV_CONFIG: update_name_server,
}
