"""Addresses, region and limits of this copy, each in one sentence (accounts-and-console 6)."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from analytics import run as engine
from console.accounts.services import MAX_KEYS_PER_USER
from console.accounts.services.organization_keys import MAX_KEYS_PER_ORGANIZATION
from console.instances.queries import clusters
from console.instances.services import MAX_INSTANCES


@dataclass(frozen=True)
class Fact:
    """One line: `copied` values are meant to be put into a program."""

    title: str
    value: str
    remark: str = ""
    copied: bool = False


@dataclass(frozen=True)
class Section:
    """Facts under one title."""

    title: str
    facts: list[Fact]


def sections(origin: str) -> list[Section]:
    """What the settings page shows; `origin` is how the visitor reaches the console, as in https://mq.example.com."""
    return [_addresses(origin), _region(), _limits(), _sign_in(), _engine()]


def _addresses(origin: str) -> Section:
    host = urlsplit(origin).hostname or "127.0.0.1"
    facts = [
        Fact("API address", f"{origin}/json/", "Management API: a path behind it is an operation", copied=True),
        Fact("API address, RPC style", f"{origin}/", "For the vendor's SDKs: set it as the endpoint", copied=True),
    ]
    for cluster in clusters(settings.REGION):
        remark = f"Name server of cluster {cluster.name}; NAMESRV_ADDR of clients"
        facts.append(Fact("TCP address", cluster.namesrv, remark, copied=True))
    port = settings.NAMESRV.rpartition(":")[2]
    facts += [
        Fact("Access points of instances", f"http://MQ_INST_….{settings.ENDPOINT_HOST}:{port}"),
        Fact("SQL door", f"{host}:{settings.SQL_PORT}", "MySQL protocol, async SQL", copied=True),
    ]
    return Section("Addresses", facts)


def _region() -> Section:
    return Section(
        "Region",
        [Fact("Region ID", settings.REGION, "_regionId of every call and header x-acs-regionid", copied=True)],
    )


def _limits() -> Section:
    window = settings.API_WINDOW_MINUTES
    return Section(
        "Limits",
        [
            Fact("Instances", f"{MAX_INSTANCES}", "an account"),
            Fact("AccessKeys", f"{MAX_KEYS_PER_USER}", "a user"),
            Fact("AccessKeys of organizations", f"{MAX_KEYS_PER_ORGANIZATION}", "a level-1 organization"),
            Fact("Clock of API callers", f"{window} minutes" if window else "not checked", "may be off by as much"),
            Fact("Time of a query", f"{settings.SQL_TIME_LIMIT_S} seconds", "asynchronous; others have 60"),
        ],
    )


def _sign_in() -> Section:
    return Section(
        "Sign-in",
        [
            Fact("Only by TLS", "yes" if settings.HTTPS else "no", "GANTRY_HTTPS"),
            Fact("Host names", ", ".join(settings.ALLOWED_HOSTS), "GANTRY_ALLOWED_HOSTS"),
        ],
    )


def _engine() -> Section:
    lacking = engine.engine_wall()
    remark = lacking or "It reads and writes the lake only, holds no secret, and connects to the brokers' ports only."
    remark += " On the machine of this page; GANTRY_ENGINE_WALL"
    return Section("SQL engine", [Fact("Wall around the engine", "not whole" if lacking else "whole", remark)])
