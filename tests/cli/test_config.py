"""Profiles: where they come from, and that their secrets stay with their owner."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from gantry_cli import config
from gantry_cli.errors import CliError
from tests.cli.conftest import Run

SECRET = "a secret of nobody"


def _store(name: str = "default", **values: str) -> Path:
    return config.write_profile(config.Profile(name, **values))


def test_a_stored_profile_is_read_back_whatever_is_in_it() -> None:
    secret = 'quote " backslash \\ and ünïcode'
    _store("odd", url="https://mq.example", access_key_id="AK", access_key_secret=secret)
    assert config.profile("odd").access_key_secret == secret


def test_the_file_is_its_owners_alone() -> None:
    file = _store(access_key_secret=SECRET)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    _store("second")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and set(config.read_profiles()) == {"default", "second"}


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused_with_what_to_do(gantry: Run, mode: int) -> None:
    file = _store(access_key_secret=SECRET)
    file.chmod(mode)
    ended = gantry("region", "list")
    assert ended.status == 2 and f"chmod 600 {file}" in ended.err and SECRET not in ended.err


def test_the_environment_wins_over_the_file_and_options_over_both(monkeypatch: pytest.MonkeyPatch) -> None:
    _store(url="http://file.example", access_key_id="file")
    monkeypatch.setenv("GANTRY_ACCESS_KEY_ID", "environment")
    monkeypatch.setenv("GANTRY_URL", "http://environment.example")
    found = config.profile(url="http://option.example/")
    assert (found.access_key_id, found.url) == ("environment", "http://option.example")


def test_another_keys_token_is_not_sent_with_a_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    _store(access_key_id="temporary", access_key_secret=SECRET, security_token="token")
    monkeypatch.setenv("GANTRY_ACCESS_KEY_ID", "lasting")
    assert config.profile().security_token == ""


def test_the_environment_chooses_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    _store("staging", url="http://staging.example")
    monkeypatch.setenv("GANTRY_PROFILE", "staging")
    assert config.profile().url == "http://staging.example"


def test_an_unknown_profile_names_those_that_there_are(gantry: Run) -> None:
    _store("staging")
    ended = gantry("--profile", "prod", "region", "list")
    assert ended.status == 2 and "no profile prod" in ended.err and "staging" in ended.err


@pytest.mark.parametrize("content", ["no toml [", "[profiles.default]\nsecret = 'x'\n", "[profiles]\ndefault = 3\n"])
def test_an_odd_file_is_refused_in_one_line(gantry: Run, content: str) -> None:
    file = _store()
    file.write_text(content)
    ended = gantry("region", "list")
    assert ended.status == 2 and str(file) in ended.err and ended.err.count("\n") == 1


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(CliError, match="not an http:// or https:// address"):
        config.profile(url="ftp://example")


def test_a_profile_never_shows_its_secrets() -> None:
    assert SECRET not in repr(config.Profile(access_key_secret=SECRET, security_token=SECRET))


def test_configure_takes_the_secret_from_standard_input(gantry: Run) -> None:
    ended = gantry(
        "configure", "--url", "http://mq.example", "--region", "r1", "--access-key-id", "AK", "--secret-stdin",
        stdin=f"{SECRET}\n",
    )  # fmt: skip
    assert ended.status == 0, ended.err
    assert config.profile().access_key_secret == SECRET and SECRET not in ended.out + ended.err


def test_configure_without_a_secret_changes_nothing(gantry: Run) -> None:
    ended = gantry("configure", "--url", "http://mq.example", "--access-key-id", "AK", "--secret-stdin")
    assert ended.status == 2 and config.read_profiles() == {}


def test_configure_takes_all_of_it_from_a_demo_json(gantry: Run, tmp_path: Path) -> None:
    demo = tmp_path / "demo.json"
    demo.write_text(
        json.dumps(
            {"console": "http://127.0.0.1:8000", "region": "r", "access_key_id": "AK", "access_key_secret": SECRET}
        )
    )
    ended = gantry("configure", "--from-demo", str(demo), "--profile", "demo")
    assert ended.status == 0, ended.err
    assert config.profile("demo").access_key_secret == SECRET and SECRET not in ended.out


def test_configure_refuses_a_demo_json_that_is_none(gantry: Run, tmp_path: Path) -> None:
    ended = gantry("configure", "--from-demo", str(tmp_path / "missing.json"))
    assert ended.status == 2 and ended.err.count("\n") == 1
