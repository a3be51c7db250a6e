"""The system policies that every tenant can attach (docs/permissions.md)."""

from __future__ import annotations

from typing import Any

from console.accounts.models import Policy


def _document(*actions: str) -> dict[str, Any]:
    return {"Version": "1", "Statement": [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]}


SYSTEM_POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "AliyunMQFullAccess": ("Everything in the message service", _document("mq:*")),
    "AliyunMQReadOnlyAccess": ("See everything in the message service, change nothing", _document("mq:Query*")),
    "AliyunMQPubOnlyAccess": ("Publish messages", _document("mq:PUB", "mq:QueryInstance", "mq:QueryTopic")),
    "AliyunMQSubOnlyAccess": (
        "Subscribe to messages",
        _document("mq:SUB", "mq:QueryInstance", "mq:QueryTopic", "mq:QueryGroup"),
    ),
    "AliyunDLAFullAccess": ("Submit and see SQL queries", _document("dla:*")),
}


def ensure_system_policies() -> None:
    """Create or bring up to date the policies that belong to no tenant."""
    for name, (description, document) in SYSTEM_POLICIES.items():
        Policy.objects.update_or_create(
            tenant=None, name=name, defaults={"description": description, "document": document}
        )


def system_policy(name: str) -> Policy:
    """A system policy by name. Raises Policy.DoesNotExist."""
    return Policy.objects.get(tenant=None, name=name)
