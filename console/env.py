"""Environment variables as typed values. An odd value stops the start with one clear sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from brokercore.secret_files import SecretError, read_secret

_DOMAIN = re.compile(r"(\*\.)?[^\W_]([\w-]*[^\W_])?(\.[^\W_]([\w-]*[^\W_])?)*")
_ADDRESS = re.compile(r"https?://[^\s/:@?#]+(?::\d{1,5})?")
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


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


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches what listens there."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def env_addresses(name: str) -> list[str]:
    """Addresses such as `https://queues.example.com,http://10.0.0.7:8071`, separated by commas, without a path."""
    texts = [text.strip().rstrip("/") for text in os.environ.get(name, "").split(",") if text.strip()]
    for text in texts:
        if not _ADDRESS.fullmatch(text):
            raise ImproperlyConfigured(f"{name} has {text!r}; allowed are addresses such as https://host:port.")
    return texts


def env_domains(name: str) -> list[str]:
    """Domains such as `example.com,*.example.org`, separated by commas; the second one means those below."""
    texts = [text.strip().lower() for text in os.environ.get(name, "").split(",") if text.strip()]
    for text in texts:
        if not _DOMAIN.fullmatch(text):
            raise ImproperlyConfigured(f"{name} has {text!r}; allowed are domains such as example.com, *.example.com.")
    return texts


def env_regions(name: str, default: dict[str, str]) -> dict[str, str]:
    """Regions with the names that are shown for them, such as `cn-hangzhou=China (Hangzhou),cn-beijing`.

    One without a name is called by its ID. IDs differ by more than case, since host names know no case.
    """
    entries = [text.strip() for text in os.environ.get(name, "").split(",") if text.strip()]
    found: dict[str, str] = {}
    for entry in entries:
        region, _, shown = (part.strip() for part in entry.partition("="))
        if not _REGION.fullmatch(region):
            raise ImproperlyConfigured(
                f"{name} has the region {region!r}; an ID is up to 64 letters, digits, - and _, such as cn-hangzhou."
            )
        if region.lower() in (known.lower() for known in found):
            raise ImproperlyConfigured(f"{name} has the region {region} twice.")
        found[region] = shown or region
    return found or default


def env_secret(name: str, default_file: Path) -> str:
    """A secret from `NAME`, from the file that `NAME_FILE` names, or from `default_file`.

    Empty when none of them is there: web, workers and commands then refuse to start (console/web/checks.py). A file
    that `NAME_FILE` names but that cannot be read is an error at once, never a silent fallback.
    """
    try:
        return read_secret(os.environ, name, default_file)
    except SecretError as error:
        raise ImproperlyConfigured(str(error)) from error
