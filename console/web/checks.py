"""What must be true before anything starts, such as that every installation has secrets of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cryptography.fernet import Fernet
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured

from analytics import settings as analytics_settings
from analytics.errors import AnalyticsError
from console.web.provided import Provided

_SECRETS = ("SECRET_KEY", "MASTER_KEY", "BROKER_ACCESS_KEY_ID", "BROKER_ACCESS_KEY_SECRET")


def require_ready() -> None:
    """Called by web and workers before they serve. Raises ImproperlyConfigured with what is missing."""
    for problem in _problems():
        raise ImproperlyConfigured(problem)
    for found in (*lake_is_told(), *all_is_given()):
        raise ImproperlyConfigured(found.msg)


@register(Tags.security)
def secrets_are_set(**_: Any) -> list[CheckMessage]:
    """console.E001: no command runs without the secrets of this installation."""
    return [Error(problem, id="console.E001") for problem in _problems()]


@register()
def lake_is_told(**_: Any) -> list[CheckMessage]:
    """console.E002: the settings of the lake name a folder or an object storage."""
    try:
        analytics_settings.load()
    except AnalyticsError as error:
        return [Error(error.user_message, id="console.E002")]
    return []


@register()
def all_is_given(**_: Any) -> list[CheckMessage]:
    """console.E003: every app has given what the ones below it ask for."""
    return [Error(place.lack, id="console.E003") for place in Provided.places if not place.is_given]


@register(Tags.security, deploy=True)
def tls_is_told(**_: Any) -> list[CheckMessage]:
    """console.W001: behind TLS somebody must be believed when saying so."""
    if settings.HTTPS and not settings.TRUSTED_PROXIES:
        text = "GANTRY_HTTPS is true and GANTRY_TRUSTED_PROXIES is empty: every request would be redirected forever."
        return [Warning(text, id="console.W001")]
    return []


def _problems() -> Iterator[str]:
    for name in _SECRETS:
        if not _value(name):
            file = settings.SECRETS / name.lower()
            yield (
                f"GANTRY_{name} is not set and there is no {file}: every installation has secrets of its own."
                " `make up` generates them, or `python3 -m launcher secrets`."
            )
            return
    try:
        Fernet(settings.MASTER_KEY)
    except ValueError:
        yield "GANTRY_MASTER_KEY is not a Fernet key (32 bytes, url-safe base64); `make up` generates one."


def _value(name: str) -> str:
    try:
        value: str = getattr(settings, name)
    except ImproperlyConfigured:
        return ""  # Django refuses to hand out an empty SECRET_KEY; here it is a finding like the others
    return value
