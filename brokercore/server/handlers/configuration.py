"""The broker's configuration as tools read it (26)."""

from __future__ import annotations

import orjson

from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.server.broker import Broker
from brokercore.server.connection import Connection
from brokercore.server.security import Caller


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
        "fileReservedTime": str(settings.retention_hours),
        "listenPort": port,
        "maxMessageSize": str(4 << 20),
        "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        "regionId": settings.region,
        "gantryCheckMessageType": "true" if settings.check_message_type else "false",
        "gantryStoreMaxBytes": str(settings.store_max_bytes),
    }
    body = "".join(f"{name}={value}\n" for name, value in values.items()).encode()
    version = orjson.dumps(broker.topics.version.to_dict()).decode()
    return command.response(ResponseCode.SUCCESS, ext={"version": version}, body=body)


HANDLERS = {RequestCode.GET_BROKER_CONFIG: broker_configuration}
