from __future__ import annotations

from pathlib import Path

import pytest

from launcher import config, plan
from launcher.config import LauncherError


def test_it_has_a_default_for_everything() -> None:
    settings = config.read({})
    assert settings.home == config.ROOT / "var"
    assert settings.host == "127.0.0.1"
    assert settings.ports["GANTRY_WEB_PORT"] == 8000
    assert (settings.namesrv, settings.redis_url, settings.append_fsync) == (None, None, "everysec")


def test_it_takes_every_port_and_the_home_from_the_environment(tmp_path: Path) -> None:
    ports = {name: 24000 + number for number, name in enumerate(config.PORTS)}
    settings = config.read({"GANTRY_HOME": str(tmp_path), **{name: str(port) for name, port in ports.items()}})
    assert settings.ports == ports
    assert settings.home == tmp_path


def test_figures_of_the_console_are_shown_to_nobody_where_their_port_is_0() -> None:
    name = "GANTRY_CONSOLE_METRICS_PORT"
    assert name in config.read({}).listening
    settings = config.read({name: "0"})
    assert name not in settings.ports
    assert name not in plan.environment(settings, {name: "0"})


def test_it_opens_no_broker_ports_beside_a_cluster() -> None:
    settings = config.read({"GANTRY_NAMESRV": "10.0.0.5:9876;10.0.0.6:9876"})
    assert set(settings.listening) == {
        "GANTRY_WEB_PORT", "GANTRY_SQL_PORT", "GANTRY_SMQ_PORT", "GANTRY_CONSOLE_METRICS_PORT",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"GANTRY_WEB_PORT": "http"}, "GANTRY_WEB_PORT is 'http': a port is a whole number from 1 to 65535."),
        ({"GANTRY_SQL_PORT": "0"}, "GANTRY_SQL_PORT is '0'"),
        ({"GANTRY_SQL_PORT": "70000"}, "GANTRY_SQL_PORT is '70000'"),
        ({"GANTRY_WEB_PORT": "9876"}, "GANTRY_WEB_PORT and GANTRY_NAMESRV_PORT are both 9876"),
        ({"GANTRY_APPENDFSYNC": "never"}, "GANTRY_APPENDFSYNC is 'never': allowed are everysec and always."),
        ({"GANTRY_NAMESRV": "cluster"}, "GANTRY_NAMESRV is 'cluster': it is host:port"),
        ({"REDIS_URL": "localhost:6379"}, "REDIS_URL is 'localhost:6379'"),
        ({"REDIS_URL": "redis://localhost:6379/3"}, "no database"),
        ({"GANTRY_SPARK_WORKERS": "0"}, "GANTRY_SPARK_WORKERS is '0': it is a whole number from 1 to 16."),
    ],
)
def test_it_refuses_nonsense_in_one_sentence(environ: dict[str, str], said: str) -> None:
    with pytest.raises(LauncherError) as error:
        config.read(environ)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_it_moves_the_redis_socket_when_the_home_is_too_deep(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    assert config.read({"GANTRY_HOME": str(tmp_path / "h")}).redis_socket == tmp_path / "h" / "run" / "redis.sock"
    socket = config.read({"GANTRY_HOME": str(deep)}).redis_socket
    assert len(str(socket)) <= config.SOCKET_PATH_MAX
    assert socket != config.read({"GANTRY_HOME": str(deep) + "2"}).redis_socket


def test_it_reaches_what_is_bound_to_every_address_through_loopback() -> None:
    assert config.read({"GANTRY_HOST": "0.0.0.0"}).connect_host == "127.0.0.1"
    assert config.read({"GANTRY_HOST": "127.0.0.2"}).connect_host == "127.0.0.2"


def test_several_spark_workers_start_one_after_the_other() -> None:
    services = plan.services(config.read({"GANTRY_SPARK_WORKERS": "3"}))
    workers = {service.name: service for service in services if "spark" in service.command}
    assert list(workers) == ["spark", "spark-2", "spark-3"]
    assert ["spark" in worker.after for worker in workers.values()] == [False, True, False]
    assert len({worker.ready_file for worker in workers.values()}) == 3
    assert {worker.expendable for worker in workers.values()} == {plan.ENGINE_LOST}
    assert [service.name for service in plan.services(config.read({})) if "spark" in service.command] == ["spark"]


def test_workers_of_jobs_start_late_and_may_be_none() -> None:
    services = plan.services(config.read({"GANTRY_PIPELINE_WORKERS": "2"}))
    workers = {service.name: service for service in services if "pipelines" in service.command}
    assert list(workers) == ["pipelines", "pipelines-2"]
    assert {worker.after for worker in workers.values()} == {("worker",)}
    assert {worker.environ["GANTRY_WARM_PIPELINES"] for worker in workers.values()} == {"true"}
    assert {worker.expendable for worker in workers.values()} == {plan.ENGINE_LOST}
    none = plan.services(config.read({"GANTRY_PIPELINE_WORKERS": "0"}))
    assert not [service for service in none if "pipelines" in service.command]


def test_on_a_cluster_of_ones_own_no_broker_is_started_and_every_child_knows(tmp_path: Path) -> None:
    own = config.read({"GANTRY_HOME": str(tmp_path), "GANTRY_NAMESRV": "10.0.0.5:9876"})
    assert not any("brokercore" in service.command for service in plan.services(own))
    assert plan.environment(own, {})["GANTRY_EMBEDDED_BROKER"] == "false"
    embedded = config.read({"GANTRY_HOME": str(tmp_path)})
    assert plan.environment(embedded, {})["GANTRY_EMBEDDED_BROKER"] == "true"
