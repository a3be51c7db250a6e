"""A backup is all of a home, also of one that runs; a restore is all of a backup or nothing."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis as redis_py

from launcher import backup, checks, config, lock
from launcher.config import LauncherError
from tests.support.broker import eventually
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.broker

Pack = Callable[[], Path]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a database, a lake, secrets, and things that no backup needs."""
    home = tmp_path / "home"
    for folder in ("run", "log", "redis", "secrets", "lake/bucket/deep", "beat"):
        (home / folder).mkdir(parents=True)
    (home / "run" / "old.ready").touch()
    (home / "log" / "web.log").write_text("not wanted")
    (home / "secrets" / "master_key").write_text("the key\n")
    (home / "lake" / "bucket" / "deep" / "part.parquet").write_bytes(b"rows" * 1000)
    (home / "demo.json").write_text("{}")
    (home / "demo-database" / "data").mkdir(parents=True)
    (home / "demo-database" / "data" / "PG_VERSION").write_text("18")
    with closing(sqlite3.connect(home / "console.sqlite3")) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE kept (what TEXT)")
        database.execute("INSERT INTO kept VALUES ('a row')")
        database.commit()
    return home


@pytest.fixture
def store(home: Path) -> Iterator[RedisServer]:
    """The home's Redis, running."""
    server = RedisServer(home / "redis", "--unixsocket", str(home / "run" / "redis.sock"))
    server.socket = home / "run" / "redis.sock"
    server.start()
    yield server
    server.kill()


def pack(home: Path, file: Path, **environ: str) -> backup.Told:
    return backup.back_up(config.read({"GANTRY_HOME": str(home), **environ}), environ, file)


def names(file: Path) -> set[str]:
    with tarfile.open(file) as archive:
        return set(archive.getnames())


def test_a_home_that_does_not_run_comes_back_whole_and_private(home: Path, tmp_path: Path) -> None:
    file, new = tmp_path / "kept.tar.gz", tmp_path / "new"
    told = pack(home, file)
    assert told.left_out == ("The demo account's PostgreSQL is not in this archive; the next start makes it anew.",)
    assert told.files == len(names(file)) - 1
    assert file.stat().st_mode & 0o777 == 0o600
    assert backup.restore(new, file).files == told.files
    assert (new / "secrets" / "master_key").read_text() == "the key\n"
    assert (new / "lake/bucket/deep/part.parquet").read_bytes() == b"rows" * 1000
    with closing(sqlite3.connect(new / "console.sqlite3")) as database:
        assert database.execute("SELECT what FROM kept").fetchall() == [("a row",)]
    assert sorted(path.name for path in new.iterdir()) == ["console.sqlite3", "demo.json", "lake", "secrets", "version"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in new.rglob("*"))
    assert [path.name for path in home.iterdir() if path.name.startswith(".")] == []


def test_a_running_store_is_backed_up_with_all_it_has_answered(home: Path, store: RedisServer, tmp_path: Path) -> None:
    held = lock.acquire(home)
    client = redis_py.Redis(unix_socket_path=str(store.socket))
    for number in range(500):
        client.set(f"key {number}", "x" * 200)
    pack(home, tmp_path / "kept.tar.gz")
    client.set("later", 1)
    held.release()
    backup.restore(tmp_path / "new", tmp_path / "kept.tar.gz")
    restored = RedisServer(tmp_path / "new" / "redis")
    restored.start()
    try:
        again = redis_py.Redis(unix_socket_path=str(restored.socket))
        assert all(again.exists(f"key {number}") for number in range(500))
        assert not again.exists("later")
    finally:
        restored.kill()


def test_files_that_are_written_anew_meanwhile_make_no_mixture(home: Path, store: RedisServer, tmp_path: Path) -> None:
    held = lock.acquire(home)
    client = redis_py.Redis(unix_socket_path=str(store.socket))
    for turn in range(8):
        client.set("turn", turn)
        client.bgrewriteaof()
        pack(home, tmp_path / f"{turn}.tar.gz")
        backup.restore(tmp_path / f"new{turn}", tmp_path / f"{turn}.tar.gz")
        restored = RedisServer(tmp_path / f"new{turn}" / "redis")
        restored.start()
        assert redis_py.Redis(unix_socket_path=str(restored.socket)).get("turn") == str(turn).encode()
        restored.kill()
        eventually(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
    held.release()


def test_a_list_of_files_that_redis_is_about_to_put_in_place_is_passed_over(
    home: Path, store: RedisServer, tmp_path: Path
) -> None:
    """Redis writes its list under another name and then renames it; a crash may leave that one."""
    store.kill()
    (home / backup.APPEND_ONLY / "temp-appendonly.aof.manifest").write_text("half a li")
    pack(home, tmp_path / "kept.tar.gz")
    assert not [name for name in names(tmp_path / "kept.tar.gz") if "temp-" in name]


def test_a_running_copy_whose_redis_does_not_answer_is_not_backed_up(home: Path, tmp_path: Path) -> None:
    held = lock.acquire(home)
    with pytest.raises(LauncherError, match="does not answer"):
        pack(home, tmp_path / "kept.tar.gz")
    held.release()
    assert not list(tmp_path.glob("*kept.tar.gz*"))


def test_a_store_that_does_not_reach_the_disk_is_not_backed_up(home: Path, store: RedisServer, tmp_path: Path) -> None:
    held = lock.acquire(home)
    redis_py.Redis(unix_socket_path=str(store.socket)).config_set("appendonly", "no")
    with pytest.raises(LauncherError, match="Redis could not save its data to disk, so nothing was backed up"):
        pack(home, tmp_path / "kept.tar.gz")
    held.release()
    assert not list(tmp_path.glob("*kept.tar.gz*"))


def test_nothing_is_overwritten(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "kept.tar.gz"
    pack(home, file)
    with pytest.raises(LauncherError, match="already exists"):
        pack(home, file)
    with pytest.raises(LauncherError, match="is not empty"):
        backup.restore(home, file)
    assert (home / "log" / "web.log").exists()


def test_a_folder_that_is_no_home_is_not_backed_up(tmp_path: Path) -> None:
    with pytest.raises(LauncherError, match="is not a home of Gantry"):
        pack(tmp_path, tmp_path / "kept.tar.gz")


def test_what_is_kept_elsewhere_is_told(home: Path, tmp_path: Path) -> None:
    told = pack(home, tmp_path / "kept.tar.gz", REDIS_URL="redis://10.0.0.1:6379", DATABASE_URL="postgres://x/y")
    assert [sentence.split(" is ")[0].split(" are ")[0] for sentence in told.left_out] == [
        "Messages",
        "The database",
        "The demo account's PostgreSQL",
    ]


def _repacked(file: Path, change: Callable[[tarfile.TarInfo, bytes], tuple[tarfile.TarInfo, bytes] | None]) -> Path:
    """The archive with its members changed; None leaves one out."""
    changed = file.with_name("changed.tar.gz")
    with tarfile.open(file) as source, tarfile.open(changed, "w:gz") as target:
        for entry in source:
            content = source.extractfile(entry)
            assert content is not None
            if (row := change(entry, content.read())) is not None:
                row[0].size = len(row[1])
                target.addfile(row[0], io.BytesIO(row[1]))
    return changed


def _format(entry: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    if entry.name == backup.MANIFEST:
        data = json.dumps(json.loads(data) | {"format": backup.FORMAT + 1}).encode()
    return entry, data


def _escape(entry: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    if entry.name == "demo.json":
        entry.name = "../escaped.json"
    return entry, data


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda entry, data: (entry, data.replace(b"the key", b"THE KEY")), "is damaged: secrets/master_key differs"),
        (lambda entry, data: None if entry.name == "demo.json" else (entry, data), "is damaged: demo.json differs"),
        (lambda entry, data: None if entry.name == backup.MANIFEST else (entry, data), "was cut off"),
        (_format, "made by a newer release"),
        (_escape, "cannot be restored"),
    ],
    ids=["changed", "missing", "no manifest", "newer", "outside"],
)
def test_an_archive_that_is_not_what_was_backed_up_leaves_nothing(
    home: Path,
    tmp_path: Path,
    change: Callable[[tarfile.TarInfo, bytes], tuple[tarfile.TarInfo, bytes] | None],
    said: str,
) -> None:
    pack(home, tmp_path / "kept.tar.gz")
    with pytest.raises(LauncherError, match=said):
        backup.restore(tmp_path / "new", _repacked(tmp_path / "kept.tar.gz", change))
    assert list((tmp_path / "new").iterdir()) == []
    assert not (tmp_path / "escaped.json").exists()


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_an_archive_that_was_cut_off_leaves_nothing(home: Path, tmp_path: Path, share: float) -> None:
    file = tmp_path / "kept.tar.gz"
    pack(home, file)
    os.truncate(file, int(file.stat().st_size * share))
    with pytest.raises(LauncherError):
        backup.restore(tmp_path / "new", file)
    assert list((tmp_path / "new").iterdir()) == []


def test_a_home_of_a_newer_release_is_not_restored(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(checks, "HOME_VERSION", checks.HOME_VERSION + 1)
        pack(home, tmp_path / "kept.tar.gz")
    with pytest.raises(LauncherError, match="newer release"):
        backup.restore(tmp_path / "new", tmp_path / "kept.tar.gz")


def test_a_home_whose_restore_was_cut_off_is_not_started(tmp_path: Path) -> None:
    (tmp_path / checks.RESTORING).mkdir()
    with pytest.raises(LauncherError, match="was interrupted: remove that folder and restore again"):
        checks.prepare_home(config.read({"GANTRY_HOME": str(tmp_path)}))
