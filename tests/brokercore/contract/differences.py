"""Where Apache RocketMQ 5.3.3 differs from the embedded broker: one table, each row documented in docs/broker.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.brokercore.contract.cluster import Kind


@dataclass(frozen=True)
class Difference:
    """What each of the two does, and the words under "Differences from Apache RocketMQ" that tell so."""

    embedded: Any
    apache: Any
    documented: str


DIFFERENCES: dict[str, Difference] = {}


class Differs:
    """Called with the name of a difference it returns what this cluster does."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def __call__(self, name: str) -> Any:
        difference = DIFFERENCES[name]
        return difference.embedded if self._kind == "embedded" else difference.apache
