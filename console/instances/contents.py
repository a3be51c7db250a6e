"""What instances ask of the topics and groups in them, which stand above instances: `console.topics` gives it."""

from __future__ import annotations

from typing import Protocol

from django.db.models import QuerySet

from console.accounts.actor import Actor
from console.instances.models import Instance
from console.web.provided import Provided


class Contents(Protocol):
    """The topics and groups of instances."""

    def counted(self, instances: QuerySet[Instance]) -> QuerySet[Instance]:
        """The same instances, each with `topic_count` and `group_count`."""

    def clear(self, *, actor: Actor, instance: Instance) -> None:
        """Delete what is of no use once the instance is gone. Raises Refused when its account has anything in it."""


contents = Provided[Contents](f"{__name__}.contents", "console.topics")
