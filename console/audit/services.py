"""Recording. The one place that masks secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from console.audit.models import Entry

if TYPE_CHECKING:
    from console.accounts.actor import Actor

_SECRET_WORDS = ("secret", "password", "token", "api_key")


def record(
    actor: Actor, action: str, resource: str = "", *, result: str = "success", detail: dict[str, Any] | None = None
) -> Entry:
    """Add one entry: `action` is `app.object.verb` for changes, or the refused permission action."""
    return Entry.objects.create(
        tenant=actor.own_tenant,
        actor=actor.name[:150],
        access_key_id=actor.access_key_id,
        channel=actor.channel,
        source_ip=actor.source_ip,
        action=action,
        resource=resource[:512],
        result=result,
        detail=masked(detail or {}),
        request_id=actor.request_id,
    )


def masked(detail: dict[str, Any]) -> dict[str, Any]:
    """A copy in which every value under a key that names a secret is `***`, at any depth."""
    return {key: "***" if _is_secret(key) else _masked_value(value) for key, value in detail.items()}


def _masked_value(value: Any) -> Any:
    if isinstance(value, dict):
        return masked(value)
    if isinstance(value, list):
        return [_masked_value(v) for v in value]
    return value


def _is_secret(key: str) -> bool:
    return any(word in key.lower() for word in _SECRET_WORDS)
