"""The way to a Spark Connect server: its address, the token, and how long an outage is waited for.

The token goes as a header on every call, over TLS unless the server is on this machine or SPARK_URL says
`;use_ssl=false`, such as inside a private network of containers.
"""

import logging
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from analytics import settings
from analytics.errors import EngineUnavailable

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
#: A server that is not there is asked four times within about three seconds; PySpark would go on for ten minutes.
_RETRIES: dict[str, Any] = {"max_retries": 3, "initial_backoff": 300, "max_backoff": 2000, "jitter": 100}
#: Loggers that print every error of a user as a page.
_NOISY = ("SQLQueryContextLogger", "pyspark.sql.connect.client.logging", "pyspark.sql.connect.logging")


def open_session() -> "SparkSession":
    """A new session of the server in SPARK_URL, which is asked for nothing yet. Raises EngineUnavailable."""
    # Functions of PySpark look there for which kind of column they are to make.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    loaded = settings.load()
    try:
        spark = SparkSession(_channel(loaded.spark_url, loaded.connect_token), userId="gantry")
    except PySparkException as error:
        raise EngineUnavailable(f"SPARK_URL is no address of a Spark Connect server: {error}") from error
    spark.client.set_retry_policies([DefaultPolicy(**_RETRIES)])
    return spark


def address() -> str:
    """The server without parameters, for messages."""
    return settings.load().spark_url.partition(";")[0].rstrip("/")


def _channel(url: str, token: str) -> Any:
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    class Channel(DefaultChannelBuilder):
        """Sends the token itself: PySpark's would insist on TLS for 127.0.0.1 and for private networks."""

        def _bearer(self) -> str:
            return token or str(self.getDefault("token", ""))

        def _is_plain(self) -> bool:
            asked = str(self.getDefault("use_ssl", "")).lower()
            return asked == "false" or (not asked and (self._host in _LOOPBACK or not self._bearer()))

        def toChannel(self) -> Any:  # noqa: N802  the name is PySpark's
            if self._is_plain():
                return self._insecure_channel(self.endpoint)
            return self._secure_channel(self.endpoint, grpc.ssl_channel_credentials())

        def metadata(self) -> Iterable[tuple[str, str]]:
            bearer = self._bearer()
            return [*super().metadata(), *([("authorization", f"Bearer {bearer}")] if bearer else [])]

        @property
        def token(self) -> None:
            return None

    return Channel(url)
