"""Celery's connection to Redis: an outage of Redis is waited for, it does not end a worker.

kombu's own lets two of them pass as errors of the program, and Celery then ends the worker once its tasks have ended:
a Spark worker that has statements to run takes no others until then, and its JVM starts anew.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError


class Channel(redis.Channel):
    """A channel that can say that its connection is closed."""

    def _connparams(self, asynchronous: bool = False) -> Any:
        # A worker that lost its connection closes it, and then gives back what it has not acknowledged. kombu looks
        # for the address then, which is gone with the connection (AttributeError); Redis has kept these messages.
        if self.connection.client is None:
            raise RedisConnectionError("The connection to Redis was closed.")
        return super()._connparams(asynchronous)  # type: ignore[no-untyped-call]


class Transport(redis.Transport):
    """A transport to which a Redis that takes no writes (a full disk: MISCONF; OOM; READONLY) is one that is away."""

    Channel = Channel
    connection_errors = (*redis.Transport.connection_errors, ResponseError)


def install() -> None:
    """Serve addresses that begin with redis and rediss."""
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:{Transport.__name__}"
