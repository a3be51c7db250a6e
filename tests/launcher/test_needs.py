from pathlib import Path

import pytest

from tests.support.needs import need_tool


def test_it_gives_the_path_of_a_tool_that_is_there() -> None:
    assert need_tool("sh").name == "sh"


def test_it_takes_a_tool_under_its_other_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mariadb").write_text("#!/bin/sh\n")
    (tmp_path / "mariadb").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert need_tool("mysql") == tmp_path / "mariadb"


def test_it_skips_with_the_reason_on_a_laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="install Maven"):
        need_tool("mvn")


def test_it_fails_on_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="nothing is skipped"):
        need_tool("mvn")
