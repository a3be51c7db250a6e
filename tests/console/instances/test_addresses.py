"""The address that clients are given leads somewhere: the access point only where its name resolves."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from django.urls import reverse

from console.instances import addresses
from console.instances.addresses import access_point, tcp_address
from tests.support.cast import Cast, make_instance


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    addresses._looked_up.cache_clear()
    yield
    addresses._looked_up.cache_clear()


@pytest.fixture(params=[True, False], ids=["resolves", "does not resolve"])
def resolves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether names below GANTRY_ENDPOINT_HOST lead somewhere."""

    def answer(host: str, port: int | None) -> list[object]:
        assert host == "MQ_INST_0_resolves.localhost"
        if not request.param:
            raise socket.gaierror(-2, "Name or service not known")
        return []

    monkeypatch.setattr("console.instances.addresses.socket.getaddrinfo", answer)
    return bool(request.param)


def test_page_and_api_give_an_address_that_leads_somewhere(cast: Cast, resolves: bool) -> None:
    named, plain = access_point(cast.instance), cast.cluster.namesrv
    assert tcp_address(cast.instance) == (named if resolves else plain)
    page = cast.client("alice").get(reverse("instances.detail", args=[cast.instance.instance_id])).content.decode()
    assert plain in page
    assert (named in page) == resolves
    assert ("by a setting of their own" in page) != resolves


def test_an_instance_without_namespace_needs_no_name_of_its_own(cast: Cast, resolves: bool) -> None:
    bare = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    assert tcp_address(bare) == access_point(bare)
    assert bare.instance_id not in tcp_address(bare)


def test_a_host_of_ones_own_is_given_with_the_port(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, settings: object
) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("console.instances.addresses.socket.getaddrinfo", unknown)
    monkeypatch.setattr("console.instances.addresses.settings.ENDPOINT_HOST", "mq.example.com")
    assert tcp_address(cast.instance) == f"mq.example.com:{cast.cluster.namesrv.rpartition(':')[2]}"
