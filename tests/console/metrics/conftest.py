"""The fixtures of a running broker."""

from tests.console.live import live, live_broker, live_redis

__all__ = ["live", "live_broker", "live_redis"]
