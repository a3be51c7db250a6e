"""What all gRPC calls share."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from brokercore.server.dispatch import Dispatcher
from brokercore.server.grpc.connection import InnerConnection
from brokercore.server.grpc.line import Lines
from brokercore.server.grpc.renewal import Renewals
from brokercore.server.grpc.sessions import Sessions

if TYPE_CHECKING:
    from brokercore.protocol.command import Command
    from brokercore.server.broker import Broker
    from brokercore.server.connection import Connection
    from brokercore.server.security import Caller


class InnerDispatcher(Dispatcher):
    """Takes requests whose caller is known: the signature of the call was checked when it began."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._authenticate = _known_caller


class Door:
    """The broker, how its handlers are asked, the lines and the clients."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.dispatch = InnerDispatcher(broker)
        self.lines = Lines(broker)
        self.sessions = Sessions(self)
        self.renewals = Renewals(self)
        self.port = 0
        """The port that clients dial."""


def _known_caller(connection: Connection, _command: Command) -> Caller:
    return cast(InnerConnection, connection).caller  # nothing else is given to this dispatcher
