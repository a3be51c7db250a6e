from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from launcher import checks, config
from launcher.config import Config, LauncherError

pytestmark = pytest.mark.process


@pytest.fixture
def settings(tmp_path: Path) -> Config:
    return config.read({"GANTRY_HOME": str(tmp_path / "home")})


def taken_port() -> tuple[socket.socket, int]:
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, listener.getsockname()[1]


def test_it_makes_a_home_that_only_its_owner_can_enter(settings: Config) -> None:
    checks.prepare_home(settings)
    for folder in checks.FOLDERS:
        assert (settings.home / folder).stat().st_mode & 0o777 == 0o700


def test_it_refuses_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = config.read({"GANTRY_HOME": str(tmp_path / "file" / "home")})
    with pytest.raises(
        LauncherError, match=r"home .*/file/home cannot be written \(Not a directory\): set GANTRY_HOME"
    ):
        checks.prepare_home(settings)


def test_it_refuses_a_socket_folder_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    settings = config.read({"GANTRY_HOME": str(tmp_path / ("d" * 120))})
    checks.prepare_home(settings)
    assert settings.redis_socket.parent.stat().st_mode & 0o777 == 0o700
    settings.redis_socket.parent.chmod(0o777)
    with pytest.raises(LauncherError, match="belongs to somebody else"):
        checks.prepare_home(settings)


def test_a_port_in_use_is_named_with_its_setting_and_its_owner(settings: Config) -> None:
    listener, port = taken_port()
    with listener, pytest.raises(LauncherError) as error:
        checks.check_ports(replace(settings, ports={"GANTRY_SQL_PORT": port}))
    assert f"Port {port} on 127.0.0.1 is in use by " in str(error.value)
    assert f"(process {os.getpid()})" in str(error.value)
    assert "set GANTRY_SQL_PORT to a free port" in str(error.value)


def test_a_port_that_was_just_closed_is_free(settings: Config) -> None:
    listener, port = taken_port()
    with listener, socket.create_connection(("127.0.0.1", port)) as client:
        accepted, _ = listener.accept()
        accepted.close()
        client.recv(1)
    checks.check_ports(replace(settings, ports={"GANTRY_WEB_PORT": port}))


@pytest.mark.parametrize("name", checks.LEFT_OUT)
def test_a_second_copy_starts_without_what_the_first_has_and_it_can_do_without(settings: Config, name: str) -> None:
    listener, port = taken_port()
    settings = replace(settings, ports=settings.ports | {name: port})
    with listener:
        without, (remark,) = checks.leave_out_taken(settings, {})
        assert name not in without.ports
        assert f"port {port} is in use, set {name}." in remark
        assert checks.leave_out_taken(settings, {name: str(port)}) == (settings, [])
    assert checks.leave_out_taken(settings, {}) == (settings, [])


def test_it_refuses_a_host_that_is_not_this_machine(settings: Config) -> None:
    with pytest.raises(LauncherError, match=r"GANTRY_HOST is '192\.0\.2\.1', which is not an address of this machine"):
        checks.check_ports(replace(settings, host="192.0.2.1"))


def test_a_java_that_is_too_old_is_told_in_one_sentence(tmp_path: Path) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    with pytest.raises(LauncherError) as error:
        checks.check_java({**os.environ, "JAVA_HOME": str(tmp_path)})
    assert "17" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_java_that_is_new_enough_passes() -> None:
    checks.check_java({name: value for name, value in os.environ.items() if name != "JAVA_HOME"})


def test_the_port_of_the_metrics_is_checked_like_any_other() -> None:
    listener, port = taken_port()
    settings = config.read({"GANTRY_METRICS_PORT": str(port)})
    with listener, pytest.raises(LauncherError, match=f"Port {port} on .* set GANTRY_METRICS_PORT to a free port"):
        checks.check_ports(replace(settings, ports={"GANTRY_METRICS_PORT": settings.ports["GANTRY_METRICS_PORT"]}))
    several = config.read({"GANTRY_METRICS_PORT": "5557", "GANTRY_BROKERS": "2"})
    assert 5558 in several.listening.values()
    for nothing in ("", "0"):
        assert "GANTRY_METRICS_PORT" not in config.read({"GANTRY_METRICS_PORT": nothing}).listening
    with pytest.raises(LauncherError, match="GANTRY_WEB_PORT and GANTRY_METRICS_PORT are both 8000"):
        config.read({"GANTRY_METRICS_PORT": "8000"})


def limited(soft: int, hard: int) -> str:
    """What `raise_file_limit` does in a process with these limits: the limits afterwards, or its sentence."""
    script = (
        "import resource\nfrom launcher import checks\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "try: checks.raise_file_limit(); print(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
        "except Exception as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=config.ROOT)
    return done.stdout.strip()


def test_the_limit_of_open_files_is_raised_as_far_as_the_system_allows() -> None:
    hard = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 4096)
    assert limited(256, hard) == str((hard, hard))


def test_too_few_open_files_are_told_in_one_sentence() -> None:
    assert limited(256, 256) == (
        "Only 256 files may be open at a time (`ulimit -Hn`), and Gantry needs 1024: raise the limit."
    )


def test_what_the_wall_around_the_engine_lacks_is_told() -> None:
    environ = dict(os.environ)
    assert checks.engine_wall(environ | {"GANTRY_ENGINE_WALL": "off"}) == (
        "The SQL engine stands behind no wall: GANTRY_ENGINE_WALL is off."
    )
    with pytest.raises(LauncherError, match="GANTRY_ENGINE_WALL is 'of'; allowed are auto, require, off"):
        checks.engine_wall(environ | {"GANTRY_ENGINE_WALL": "of"})
