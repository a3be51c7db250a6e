"""The account that the first start makes: its administrator, who signs in to the pages and at the MySQL endpoint."""

from __future__ import annotations

import secrets
import string
from dataclasses import dataclass

from console.accounts import policy_documents
from console.accounts import services as accounts
from console.accounts.actor import Actor
from console.accounts.models import Organization, ResourceSet, User


@dataclass(frozen=True)
class Made:
    """The administrator, and the passwords, which are not kept in clear."""

    actor: Actor
    passwords: dict[str, str]


def make(name: str, *, organization: str) -> Made:
    """Make the account in an organization of level 1, which may be there. Raises Refused."""
    policy_documents.ensure_system_policies()
    passwords = {"password": drawn_password(), "sql_password": drawn_password()}
    owner, _ = Organization.objects.get_or_create(name=organization, parent=None)
    ResourceSet.objects.get_or_create(organization=owner, name="default")
    user = accounts.create_tenant(name=name, organization=owner, password=passwords["password"])
    accounts.set_database_password(user=user, name=name, password=passwords["sql_password"])
    return Made(Actor(user=User.objects.select_related("tenant").get(pk=user.pk), channel="command"), passwords)


def drawn_password() -> str:
    """Letters and digits: nothing that a shell or a URL would change."""
    letters = "".join(secrets.choice(string.ascii_letters) for _ in range(12))
    return letters + "".join(secrets.choice(string.digits) for _ in range(4))
