from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from console.web.provided import Provided

if TYPE_CHECKING:
    from console.accounts import resources as of_accounts
    from console.instances.contents import Contents
    from console.rights import resources as of_rights


class TopicsConfig(AppConfig):
    name = "console.topics"

    def ready(self) -> None:
        """Give accounts, rights and instances what they ask of topics and groups."""
        Provided.promise("console.accounts.resources.resources", _for_accounts)
        Provided.promise("console.rights.resources.resources", _for_rights)
        Provided.promise("console.instances.contents.contents", _contents)


def _for_accounts() -> of_accounts.Resources:
    from console.topics import holdings

    return holdings


def _for_rights() -> of_rights.Resources:
    from console.topics import holdings

    return holdings


def _contents() -> Contents:
    from console.topics import holdings

    return holdings
