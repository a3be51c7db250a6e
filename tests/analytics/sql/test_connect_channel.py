"""Where the token of a Spark Connect server goes: over TLS, unless the server is here or somebody says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics import settings
from analytics.sql.connect import channel


@pytest.mark.parametrize(
    ("url", "token", "plain"),
    [
        ("sc://localhost:15002", "t", True),
        ("sc://127.0.0.1:15002", "t", True),
        ("sc://spark.example:15002", "t", False),
        ("sc://spark.example:15002", "", True),
        ("sc://spark.example:15002/;use_ssl=true", "", False),
        ("sc://127.0.0.1:15002/;use_ssl=true", "t", False),
        ("sc://spark-connect:15002/;use_ssl=false", "t", True),
        ("sc://spark.example:15002/;token=t", "", False),
    ],
)
def test_a_token_leaves_this_machine_over_tls_only(url: str, token: str, plain: bool) -> None:
    made = channel._channel(url, token)
    assert made._is_plain() is plain
    assert dict(made.metadata()) == ({"authorization": "Bearer t"} if token or "token" in url else {})


def test_the_token_may_stand_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file\n")
    monkeypatch.setenv("GANTRY_SPARK_CONNECT_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.delenv("GANTRY_SPARK_CONNECT_TOKEN", raising=False)
    loaded = settings.load()
    assert loaded.connect_token == "from a file"
    assert "from a file" not in repr(loaded)


def test_messages_name_the_server_without_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_URL", "sc://spark.example:15002/;use_ssl=true;token=secret")
    assert channel.address() == "sc://spark.example:15002"
