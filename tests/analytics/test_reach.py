"""What the wall opens for brokers: their ports, and names where one of them is called by a name."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from analytics import jvm, reach, settings, wall


@pytest.fixture(autouse=True)
def only_embedded_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation with nothing but its own brokers, on the usual ports."""
    for name in ("GANTRY_ENGINE_PORTS", "GANTRY_NAMESRV", "GANTRY_LAKE", "GANTRY_BROKER_ADVERTISE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(reach, "_further", lambda: ())


def added(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def look() -> Iterable[str]:
        return addresses

    monkeypatch.setattr(reach, "_further", look)


def test_without_further_clusters_names_stay_closed() -> None:
    opened = reach.of_a_start(settings.load())
    assert opened.ports is not None and {9876, 10911} <= opened.ports
    assert not opened.names
    assert opened.has("127.0.0.1:10911") and opened.has("[::1]:10911") and opened.has("localhost:9876")
    assert not opened.has("127.0.0.1:10921")


def test_a_cluster_on_ports_that_are_open_anyway_is_out_of_reach_where_it_has_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = reach.of_a_start(settings.load())
    assert not before.has("mq.example.com:9876") and not before.has("mq.example.com:10911")
    added(monkeypatch, "mq.example.com:9876", "10.0.0.5:10911")
    after = reach.of_a_start(settings.load())
    assert (after.ports, after.names) == (before.ports, True)
    assert after.has("mq.example.com:9876")


def test_a_cluster_of_numbers_opens_its_ports_and_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, "10.0.0.5:9877", "[fd00::5]:10931", "nonsense", "10.0.0.5:99999", "10.0.0.5:0")
    opened = reach.of_a_start(settings.load())
    assert opened.ports is not None and {9877, 10931} <= opened.ports
    assert max(opened.ports) < 1 << 16 and min(opened.ports) > 0
    assert opened.names, "nonsense may be a name"
    added(monkeypatch, "10.0.0.5:9877", "[fd00::5]:10931")
    assert not reach.of_a_start(settings.load()).names


@pytest.mark.parametrize(
    ("advertised", "names"),
    [("mq.example.com:10931", True), ("10.0.0.5:10931", False), ("localhost:10931", False)],
)
def test_brokers_that_are_called_by_a_name_are_looked_up(
    monkeypatch: pytest.MonkeyPatch, advertised: str, names: bool
) -> None:
    """Readers are sent by the name server to what the embedded broker says of itself."""
    monkeypatch.setenv("GANTRY_BROKER_ADVERTISE", advertised)
    opened = reach.of_a_start(settings.load())
    assert opened.names is names
    assert opened.has(advertised)


def test_on_a_cluster_of_spark_everything_is_in_reach() -> None:
    assert reach.Reach(None, names=True).has("anywhere.example.com:1")


def test_the_wall_is_told_what_is_to_be_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("GANTRY_HOME", str(tmp_path))
    known = settings.load()
    added(monkeypatch, "10.0.0.5:9877")

    def rules() -> wall.Rules:
        return jvm._rules(known, known.home, known.home, [40_000])

    assert {9876, 9877, 40_000} <= set(rules().ports or ()) and not rules().names
    added(monkeypatch, "mq.example.com:9876")
    assert rules().names
