"""How many more topics and groups an account may have: by its limits, and of topics by its instance's capacity."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from console.accounts.models import Tenant
from console.adoption.models import Kind
from console.instances.models import Instance
from console.rights import limits


@dataclass(frozen=True)
class Room:
    """One limit: `holder` may have `most` topics or groups and has `used`."""

    kind: Kind
    holder: str
    most: int
    used: int

    @property
    def left(self) -> int:
        """How many more there may be."""
        return max(0, self.most - self.used)

    @property
    def sentence(self) -> str:
        """The limit in words."""
        text = (
            _("%(holder)s may have %(most)s topics and has %(used)s")
            if self.kind is Kind.TOPIC
            else _("%(holder)s may have %(most)s groups and has %(used)s")
        )
        return text % {
            "holder": self.holder,
            "most": f"{self.most:,}",
            "used": f"{self.used:,}",
        }

    def refusal(self, wanted: int) -> str:
        """Why so many more do not go; empty when they do."""
        if wanted <= self.left:
            return ""
        return _("%(sentence)s: %(wanted)s more are %(wanted2)s too many.") % {
            "sentence": self.sentence,
            "wanted": f"{wanted:,}",
            "wanted2": f"{wanted - self.left:,}",
        }


def room(kind: Kind, tenant: Tenant | None, instance: Instance | None) -> Room | None:
    """The narrowest limit; None where there is none. Without `tenant` it is that of a new account."""
    most, used = limits.held(tenant, f"{kind}s")
    found = (
        [
            Room(
                kind,
                _("The account %(tenant)s") % {"tenant": tenant.name} if tenant else _("A new account"),
                most,
                used,
            )
        ]
        if most
        else []
    )
    if kind is Kind.TOPIC and instance is not None and instance.topic_capacity is not None:
        found.append(
            Room(
                kind,
                _("The instance %(instance)s") % {"instance": instance.name},
                instance.topic_capacity,
                instance.topics.count(),
            )
        )
    return min(found, key=lambda one: one.left, default=None)


def refusals(numbers: dict[Kind, int], tenant: Tenant | None, instance: Instance | None) -> dict[Kind, str]:
    """Why so many more of a kind do not go, of the kinds of which they do not."""
    told = {kind: one.refusal(number) for kind, number in numbers.items() if (one := room(kind, tenant, instance))}
    return {kind: text for kind, text in told.items() if text}
