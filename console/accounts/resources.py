"""What decisions about accounts ask of topics and groups, which stand above accounts: `console.topics` gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from brokercore.policy import Statement
from console.accounts.models import Tenant, User
from console.web.provided import Provided


class Resources(Protocol):
    """Grants on topics, and groups by who made them."""

    def granted_to_user(self, user_id: int) -> tuple[Statement, ...]:
        """What this user was granted itself."""

    def granted_to_account(self, tenant_id: int) -> tuple[Statement, ...]:
        """What this account was granted by others."""

    def granted_to_users(self, users: list[User]) -> Iterable[tuple[int, Statement]]:
        """What any of these users was granted itself, each with the user's id."""

    def groups_made_by(self, users: list[User]) -> Iterable[tuple[int, str]]:
        """Id of the maker and physical name of the groups that any of these users made."""

    def groups_kept_from(self, user: User, tenant: Tenant) -> list[tuple[int | None, str]]:
        """Maker's id and physical name of the account's groups that are neither shared nor made by this user."""


#: What tells the region of each resource of an account by its name; empty for one of which it is not known.
places = Provided[Callable[[Tenant], Callable[[str], str]]](f"{__name__}.places", "console.instances")
resources = Provided[Resources](f"{__name__}.resources", "console.topics")
