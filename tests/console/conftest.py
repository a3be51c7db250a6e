"""The standing cast of the console on a running broker; async SQL has a cast of its own (`support/sql_cast.py`)."""

from tests.console.live import live, live_broker, live_redis
from tests.support.cast import cast, console, queues, running_queues

__all__ = ["cast", "console", "live", "live_broker", "live_redis", "queues", "running_queues"]
