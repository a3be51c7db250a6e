from __future__ import annotations

import base64
from pathlib import Path

import pytest

from launcher import secrets
from launcher.config import LauncherError


def test_it_draws_each_secret_once(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    drawn = [*secrets.DRAWN, *secrets.DRAWN_AT_HOME]
    assert secrets.draw(folder) == drawn
    before = {file.name: file.read_text() for file in folder.iterdir()}
    assert secrets.draw(folder) == []
    assert {file.name: file.read_text() for file in folder.iterdir()} == before
    assert set(before) == set(drawn)


def test_only_the_owner_can_read_them(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    secrets.draw(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


def test_two_copies_have_nothing_in_common(tmp_path: Path) -> None:
    secrets.draw(tmp_path / "a")
    secrets.draw(tmp_path / "b")
    for name in (*secrets.DRAWN, *secrets.DRAWN_AT_HOME):
        assert (tmp_path / "a" / name).read_text() != (tmp_path / "b" / name).read_text()


def test_the_master_key_is_a_fernet_key(tmp_path: Path) -> None:
    secrets.draw(tmp_path)
    assert len(base64.urlsafe_b64decode((tmp_path / "master_key").read_text().strip())) == 32


def test_it_hands_the_files_to_the_children(tmp_path: Path) -> None:
    given = secrets.environment(tmp_path, {})
    assert given["GANTRY_SECRET_KEY_FILE"] == str(tmp_path / "secret_key")
    assert set(given) == {f"GANTRY_{name.upper()}_FILE" for name in secrets.DRAWN}


def test_a_secret_of_ones_own_goes_first(tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.write_text("x")
    given = secrets.environment(tmp_path, {"GANTRY_SECRET_KEY": "mine", "GANTRY_MASTER_KEY_FILE": str(file)})
    assert "GANTRY_SECRET_KEY_FILE" not in given
    assert "GANTRY_MASTER_KEY_FILE" not in given


def test_it_refuses_a_secret_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LauncherError, match="GANTRY_MASTER_KEY_FILE names /no/such, which is not a file"):
        secrets.environment(tmp_path, {"GANTRY_MASTER_KEY_FILE": "/no/such"})


def test_containers_get_addresses_with_the_passwords_of_their_servers(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    secrets.draw_for_compose(folder)
    password = (folder / "postgres_password").read_text().strip()
    assert (folder / "database_url").read_text() == f"postgres://gantry:{password}@postgres:5432/gantry\n"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o444}
    assert secrets.draw_for_compose(folder) == []
