"""What names a secret is recorded without its value."""

from __future__ import annotations

from typing import Any

from django.utils.functional import Promise

from console.web.languages import english

_SECRET_WORDS = ("secret", "password", "passwd", "token", "apikey", "privatekey", "credential")


def masked(detail: dict[str, Any]) -> dict[str, Any]:
    """The one place that masks secrets: a copy with `***` for every value whose key names one, at any depth.

    Texts are in English, whatever the language of who caused them.
    """
    return {key: "***" if _is_secret(key) else _masked_value(value) for key, value in detail.items()}


def _masked_value(value: Any) -> Any:
    if isinstance(value, dict):
        return masked(value)
    if isinstance(value, list | tuple):
        return [_masked_value(v) for v in value]
    return english(value) if isinstance(value, str | Promise) else value


def _is_secret(key: object) -> bool:
    plain = "".join(c for c in str(key).lower() if c not in "-_. ")
    return any(word in plain for word in _SECRET_WORDS)
