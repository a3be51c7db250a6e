"""A console that answers over HTTP, and the command line with a configuration of its own."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache

from console.accounts import services as accounts
from gantry_cli import config
from gantry_cli.main import main as entry
from tests.support.cast import Cast, cast, console, queues, running_queues
from tests.support.queue_service import QueueServiceProcess

Run = Callable[..., "Ended"]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of the machine's own configuration counts, and nothing is written there."""
    for name in ("GANTRY_PROFILE", *config.ENVIRONMENT.values()):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def gantry(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command as a shell would: arguments in, status and both outputs out."""

    def run(*arguments: str, stdin: str = "") -> Ended:
        monkeypatch.setattr(sys, "argv", ["gantry", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        try:
            entry()
            status = 0
        except SystemExit as ended:
            status = int(ended.code or 0)
        captured = capsys.readouterr()
        return Ended(status, captured.out, captured.err)

    return run


@pytest.fixture
def console_url(live_server: Any, cast: Cast, queues: QueueServiceProcess) -> str:
    """The address of a console over HTTP with a queue service, whose limits of calls do not disturb."""
    cache.clear()
    return str(live_server.url)


@pytest.fixture
def profile(console_url: str, cast: Cast) -> config.Profile:
    """Alice's profile, stored as the default one."""
    return stored(console_url, cast, "alice", config.DEFAULT_PROFILE)


@pytest.fixture
def ritas(console_url: str, cast: Cast) -> config.Profile:
    """Rita may only look."""
    return stored(console_url, cast, "rita", "rita")


@pytest.fixture
def charlies(console_url: str, cast: Cast) -> config.Profile:
    """Charlie administers another account."""
    return stored(console_url, cast, "charlie", "charlie")


def stored(url: str, cast: Cast, name: str, profile_name: str) -> config.Profile:
    """A profile with a new key of the user's, in the configuration."""
    issued = accounts.create_access_key(actor=cast.actor(name), user=cast.users[name])
    new = config.Profile(profile_name, url, "mq-private", issued.access_key_id, issued.access_key_secret)
    config.write_profile(new)
    return new


__all__ = ["cast", "console", "queues", "running_queues"]
