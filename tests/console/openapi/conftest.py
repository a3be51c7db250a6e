"""The fixtures of a running broker."""

from tests.console.live import live_broker, live_redis

__all__ = ["live_broker", "live_redis"]
