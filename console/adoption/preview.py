"""What would become of chosen names: whose they could be, what is refused and why, and what is told beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.accounts.models import Tenant
from console.adoption import room
from console.adoption.models import Kind
from console.adoption.unowned import Unowned
from console.instances.models import Instance


@dataclass(frozen=True)
class Preview:
    """Names that can be adopted and those that cannot; `too_many` says, by kind, where there is no room for them."""

    possible: Sequence[Unowned]
    refused: Sequence[Unowned]
    too_many: dict[Kind, str]

    @property
    def differing(self) -> list[Unowned]:
        """Those of which brokers have other settings than others: the console shows those of the first, by name."""
        return [one for one in self.possible if one.differing]

    def of(self, kind: str) -> list[Unowned]:
        """Those of a kind that can be adopted."""
        return [one for one in self.possible if one.kind == kind]


def preview(names: Sequence[Unowned], tenant: Tenant | None, instance: Instance | None) -> Preview:
    """Of names that no account has, for an account, or for a new one, and its instance without namespace, if any."""
    possible = [one for one in names if not one.refusal]
    numbers = {kind: sum(one.kind is kind for one in possible) for kind in Kind}
    return Preview(possible, [one for one in names if one.refusal], room.refusals(numbers, tenant, instance))
