"""Several embedded brokers: what is planned for GANTRY_BROKERS, and the name-server socket that they share."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher import checks, config, plan
from launcher.config import LauncherError
from tests.support.product import free_ports


def test_each_broker_has_a_name_and_ports_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_BROKER_ADVERTISE", "mq.example.com:10911")
    services = {
        service.name: service
        for service in plan.services(config.read({"GANTRY_BROKERS": "3", "GANTRY_METRICS_PORT": "5557"}), 7)
    }
    assert [name for name in services if "broker" in name] == ["broker", "broker-b", "broker-c"]
    first, last = services["broker"].environ, services["broker-c"].environ
    assert (first["GANTRY_BROKER_NAME"], first["GANTRY_BROKER_PORT"], first["GANTRY_METRICS_PORT"]) == (
        "broker-a",
        "10911",
        "5557",
    )
    assert (last["GANTRY_BROKER_NAME"], last["GANTRY_BROKER_PORT"], last["GANTRY_METRICS_PORT"]) == (
        "broker-c",
        "10913",
        "5559",
    )
    assert last["GANTRY_BROKER_ADVERTISE"] == "mq.example.com:10913"
    assert (last["GANTRY_NAMESRV_FD"], services["broker-c"].pass_fds) == ("7", (7,))


def test_they_start_one_after_the_other_and_everything_waits_for_all() -> None:
    services = {service.name: service for service in plan.services(config.read({"GANTRY_BROKERS": "2"}), 7)}
    assert "broker" in services["broker-b"].after
    assert {"broker", "broker-b"} <= set(services["demo"].after)


def test_a_lone_broker_is_started_as_ever() -> None:
    services = {service.name: service for service in plan.services(config.read({}))}
    assert (services["broker"].environ, services["broker"].pass_fds) == ({}, ())
    assert plan.open_name_server(config.read({})) is None


def test_a_name_of_ones_own_is_kept_by_the_first() -> None:
    assert config.read({"GANTRY_BROKERS": "2", "GANTRY_BROKER_NAME": "main"}).broker_names == ("main", "main-b")


@pytest.mark.parametrize("value", ["0", "9", "two", "-1"])
def test_it_refuses_a_number_of_brokers_that_makes_no_sense(value: str) -> None:
    with pytest.raises(LauncherError, match=r"GANTRY_BROKERS is '.*': it is a whole number from 1 to 8"):
        config.read({"GANTRY_BROKERS": value})


def test_it_refuses_ports_that_another_process_of_the_copy_has() -> None:
    with pytest.raises(LauncherError, match=r"GANTRY_SQL_PORT and .*broker-b: 10911 \+ 1.* are both 10912"):
        config.read({"GANTRY_BROKERS": "2", "GANTRY_SQL_PORT": "10912"})
    with pytest.raises(LauncherError, match="65536"):
        config.read({"GANTRY_BROKERS": "2", "GANTRY_BROKER_PORT": "65535"})


def test_a_cluster_of_ones_own_opens_no_ports_for_brokers() -> None:
    settings = config.read({"GANTRY_BROKERS": "2", "GANTRY_NAMESRV": "10.0.0.5:9876"})
    assert set(settings.listening) == {
        "GANTRY_WEB_PORT", "GANTRY_SQL_PORT", "GANTRY_SMQ_PORT", "GANTRY_CONSOLE_METRICS_PORT",
    }  # fmt: skip
    assert plan.open_name_server(settings) is None


def test_a_second_copy_on_the_same_name_server_port_is_refused(tmp_path: Path) -> None:
    port = str(free_ports(1)[0])
    settings = config.read({"GANTRY_BROKERS": "2", "GANTRY_NAMESRV_PORT": port, "GANTRY_HOME": str(tmp_path)})
    shared = plan.open_name_server(settings)
    assert shared is not None
    with shared:
        with pytest.raises(LauncherError, match=f"Port {port} on 127.0.0.1 is in use"):
            checks.check_ports(settings)
        with pytest.raises(LauncherError, match="set GANTRY_NAMESRV_PORT to a free port"):
            plan.open_name_server(settings)
