"""The cast of the console on a running broker."""

from tests.console.live import live
from tests.support.cast import cast, console

__all__ = ["cast", "console", "live"]
