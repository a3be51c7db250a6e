"""Environment variables as typed values. An odd value stops the start with one clear sentence."""

from __future__ import annotations

import os
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def env_text(name: str, default: str = "") -> str:
    return os.environ.get(name, default)


def env_bool(name: str, default: bool) -> bool:
    """True for `true`, False for `false`; anything else is refused."""
    value = os.environ.get(name, "").lower()
    if value == "":
        return default
    if value not in ("true", "false"):
        raise ImproperlyConfigured(f"{name} is {value!r}; allowed are true and false.")
    return value == "true"


def env_choice(name: str, allowed: Iterable[str]) -> str:
    """One of `allowed`; the first of them when nothing is set."""
    choices = list(allowed)
    value = os.environ.get(name) or choices[0]
    if value not in choices:
        raise ImproperlyConfigured(f"{name} is {value!r}; allowed are {' and '.join(choices)}.")
    return value


def env_int(name: str, default: int, *, low: int = 0, high: int = 2**63 - 1) -> int:
    value = os.environ.get(name, "")
    if value == "":
        return default
    if not value.isdecimal() or not low <= int(value) <= high:
        raise ImproperlyConfigured(f"{name} is {value!r}; allowed is a whole number from {low} to {high}.")
    return int(value)


def env_networks(name: str, default: str = "") -> list[IPv4Network | IPv6Network]:
    """Addresses and networks such as `127.0.0.1,10.0.0.0/8`, separated by commas."""
    texts = [text.strip() for text in os.environ.get(name, default).split(",")]
    try:
        return [ip_network(text) for text in texts if text]
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} is not a list of networks: {error}.") from error


def env_secret(name: str, default_file: Path) -> str:
    """A secret from `NAME`, from the file that `NAME_FILE` names, or from `default_file`.

    Empty when none of them is there: web, workers and commands then refuse to start (console/web/checks.py). A file
    that `NAME_FILE` names but that cannot be read is an error at once, never a silent fallback.
    """
    if value := os.environ.get(name, ""):
        return value
    if file := os.environ.get(f"{name}_FILE", ""):
        try:
            return Path(file).read_text().strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE names {file}, which cannot be read: {error.strerror}.") from error
    return default_file.read_text().strip() if default_file.is_file() else ""
