"""What rights ask of instances, topics and groups, which stand above them: `console.topics` gives it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from brokercore.policy import Statement
from brokercore.policy.table import RateRow
from console.accounts.models import Tenant
from console.web.provided import Provided


@dataclass(frozen=True, slots=True)
class Target:
    """A resource as the decision sees it: who owns it (None: the platform), and who may use it if it is a group."""

    resource: str
    owner: Tenant | None
    holder: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Granted:
    """A grant on a topic: `statement` for the user or else the account of this id."""

    user_id: int | None
    tenant_id: int | None
    statement: Statement


class Resources(Protocol):
    """Instances, topics, groups and grants, of all accounts or of one.

    Where a `cluster` is asked for, it is the key of its row, and None means the embedded one.
    """

    def region(self, cluster: int) -> str:
        """Of the cluster."""

    def holders(self, cluster: int | None = None) -> dict[str, str]:
        """Who may use each group, by its physical name (`brokercore.policy.Grantee.holders`)."""

    def owners(self, cluster: int | None = None) -> dict[str, str]:
        """The account's uid by physical name for each topic of a default instance; the others' names tell it."""

    def rates(self) -> Iterable[tuple[str, RateRow]]:
        """How fast the clients of each instance on the embedded brokers may be.

        By its id, or by the uid of its account for one without a namespace, of whose topics the names tell no more.
        """

    def grants(self, cluster: int | None = None) -> Iterable[Granted]:
        """All grants on topics there."""

    def topics_of(self, tenant: Tenant) -> int:
        """How many topics the account has."""

    def groups_of(self, tenant: Tenant) -> int:
        """How many groups the account made."""

    def names_like(self, tenant: Tenant, text: str, most: int) -> list[str]:
        """Names of the account's instances, topics and groups that fit, as they stand in resources: `most` of each."""

    def named(self, tenant: Tenant, name: str) -> Target:
        """The instance, topic or group that a name on the wire means to the account.

        Of other accounts nothing is looked up but that they are others.
        """


resources = Provided[Resources](f"{__name__}.resources", "console.topics")
