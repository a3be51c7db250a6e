"""The list of regions: how the environment says it, and which one a host name means."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from console.env import env_regions
from console.web import regions
from console.web.errors import Refused
from tests.console.east import EAST, HERE, several

__all__ = ["several"]
DEFAULT = {"mq-private": "Private region"}


def test_a_list_has_ids_and_names_and_the_first_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_REGIONS", " cn-hangzhou = China (Hangzhou), cn_2 ,eu-1=,")
    found = env_regions("GANTRY_REGIONS", DEFAULT)
    assert list(found.items()) == [("cn-hangzhou", "China (Hangzhou)"), ("cn_2", "cn_2"), ("eu-1", "eu-1")]


@pytest.mark.parametrize("text", [None, "", " , "])
def test_without_a_list_there_is_the_one_region_of_before(text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GANTRY_REGIONS", raising=False)
    if text is not None:
        monkeypatch.setenv("GANTRY_REGIONS", text)
    assert env_regions("GANTRY_REGIONS", DEFAULT) == DEFAULT


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cn hangzhou", "has the region 'cn hangzhou'"),
        ("a,mq.example.com", "has the region 'mq.example.com'"),
        ("=China", "has the region ''"),
        ("x" * 65, "at most|up to 64"),
        ("eu-1,EU-1", "has the region EU-1 twice"),
    ],
)
def test_what_is_no_region_stops_the_start(text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_REGIONS", text)
    with pytest.raises(ImproperlyConfigured, match=said):
        env_regions("GANTRY_REGIONS", DEFAULT)


def test_an_unknown_region_is_refused_by_name_with_what_is_allowed(several: None) -> None:
    assert regions.checked(EAST) == EAST
    with pytest.raises(Refused) as refused:
        regions.checked("mars")
    assert refused.value.symbol == "BIZ_REGION_NOT_FOUND"
    assert refused.value.message == "The region mars does not exist; allowed are mq-private, eu-2."


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("mq.console.eu-2.example.com", EAST),
        ("MQ.CONSOLE.EU-2.example.com:8443", EAST),
        ("ons.mq-private.example.com", HERE),
        ("mq.console.example.com", ""),
        ("eu-22.example.com", ""),
        ("127.0.0.1:8000", ""),
        ("[::1]:8000", ""),
    ],
)
def test_a_host_name_says_a_region(host: str, region: str, several: None) -> None:
    assert regions.of_host(host) == region


def test_with_one_region_no_host_name_says_one(settings: Any) -> None:
    settings.REGIONS = {EAST: "Europe (Two)"}
    assert regions.of_host("mq.console.eu-2.example.com") == ""
    assert not regions.are_several()
    assert regions.default() == EAST
