"""Whether TLS is offered, or required."""

from __future__ import annotations

from enum import StrEnum


class TlsMode(StrEnum):
    """Which connections are taken (RocketMQ's `tls.server.mode`)."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"
