"""The standing cast on a running broker."""

from tests.support.cast import cast, console

__all__ = ["cast", "console"]
