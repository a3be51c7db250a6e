"""`launcher backup FILE`, `launcher restore FILE`: all of a home in one archive, also while it runs.

See docs/operate/backup.md.

The order is such that nothing in the archive refers to what is not there. First the message store: what was
acknowledged before is on the disk once Redis says so, and the first so many bytes of an append-only file are a store of
that moment. Then the database, whose topics the next start gives to the broker where they are missing. Then the names
of all other files, as links that outlast their removal, and then their bytes, which take the time.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import socket
import sqlite3
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from launcher import checks, lock
from launcher.config import Config, LauncherError

#: Of the archive: raised when an older release could not restore it.
FORMAT = 1
MANIFEST = "manifest.json"

DATABASE = "console.sqlite3"
APPEND_ONLY = Path("redis", "appendonlydir")

#: What a start makes anew, or what only says how this one went.
LEFT_OUT = frozenset(
    {"run", "log", "beat", "tmp", "redis", "demo-database", DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"}
)

#: Where a restore puts files until all are checked, and a backup its links. A start refuses a home with the first.
RESTORING, BACKING_UP = checks.RESTORING, ".backing-up-"

#: Seconds for Redis to have on its disk what it has answered.
SYNC_SECONDS = 30

#: Tries to read the append-only files while they are written anew.
TRIES = 100

#: Messages and results are compressed already, or too many to spend much time on.
COMPRESSION = 1


@dataclass(frozen=True)
class Told:
    """What a backup or a restore did."""

    files: int
    bytes: int
    seconds: float
    left_out: tuple[str, ...] = ()
    """What of the copy is kept elsewhere and not in the archive, a sentence each."""


def back_up(config: Config, environ: Mapping[str, str], file: Path) -> Told:
    """Write everything in the home into the new archive `file`, mode 0600. Raises LauncherError."""
    began = time.monotonic()
    if not (config.home / "secrets").is_dir():
        raise LauncherError(f"{config.home} is not a home of Gantry: set GANTRY_HOME to the one to back up.")
    checks.check_version(config.home)
    if file.exists():
        raise LauncherError(f"{file} already exists: give the name of a new file.")
    held = lock.acquire_if_free(config.home)
    part = file.with_name(f".{file.name}.part")
    try:
        with tempfile.TemporaryDirectory(prefix=BACKING_UP, dir=config.home) as folder:
            members = _collect(config, Path(folder), running=held is None)
            written = _write(members, part)
        part.rename(file)
        _sync(file.parent)
    except OSError as error:
        raise LauncherError(f"The backup failed: {error.filename or file}: {error.strerror or error}.") from error
    finally:
        part.unlink(missing_ok=True)
        if held is not None:
            held.release()
    return Told(len(members), written, time.monotonic() - began, tuple(_elsewhere(config, environ)))


def restore(home: Path, file: Path) -> Told:
    """Make the home that `file` holds at `home`, which must be empty or not there. Raises LauncherError."""
    began = time.monotonic()
    try:
        if home.exists() and any(home.iterdir()):
            raise LauncherError(f"{home} is not empty: restore into an empty folder, or move this one away.")
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o700)
        staging = home / RESTORING
        staging.mkdir(mode=0o700)
    except OSError as error:
        raise LauncherError(f"{home} cannot be written: {error.strerror}.") from error
    try:
        sizes = _unpack(file, staging)
        checks.check_version(staging)
        for path in list(staging.iterdir()):
            path.rename(home / path.name)
        staging.rmdir()
        os.sync()
    except (OSError, EOFError, ValueError, KeyError, zlib.error, tarfile.TarError) as error:
        raise LauncherError(f"{file} cannot be restored: {error}.") from error
    finally:
        # Whole or not at all: what was put in place stays only if nothing is left to be.
        if staging.exists():
            for path in list(home.iterdir()):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    return Told(len(sizes), sum(sizes), time.monotonic() - began)


@dataclass(frozen=True)
class _Member:
    """A file for the archive: its name there, where it lies, and how many of its bytes belong to it."""

    name: str
    path: Path
    size: int


def _collect(config: Config, folder: Path, *, running: bool) -> list[_Member]:
    members = []
    if config.redis_url is None:
        if running:
            _wait_for_disk(config.redis_socket)
        members += _append_only_files(config.home, folder)
    if (config.home / DATABASE).exists():
        _copy_database(config.home / DATABASE, folder / DATABASE)
        members.append(_Member(DATABASE, folder / DATABASE, (folder / DATABASE).stat().st_size))
    return members + _links(config.home, folder / "files")


def _wait_for_disk(path: Path) -> None:
    """Return once all that Redis has acknowledged before now is on its disk."""
    try:
        with socket.socket(socket.AF_UNIX) as redis:
            redis.settimeout(SYNC_SECONDS + 5)
            redis.connect(str(path))
            redis.sendall(f"SET gantry:backup 1 EX 60\r\nWAITAOF 1 0 {SYNC_SECONDS * 1000}\r\nQUIT\r\n".encode())
            answer = b"".join(iter(lambda: redis.recv(4096), b""))
    except OSError as error:
        raise LauncherError(f"Redis at {path} does not answer ({error}): wait until Gantry is ready.") from error
    if not answer.startswith(b"+OK\r\n*2\r\n:1\r\n"):
        said = answer.decode(errors="replace").replace("\r\n", " ").strip()
        raise LauncherError(f"Redis could not save its data to disk, so nothing was backed up; it says: {said}")


def _append_only_files(home: Path, folder: Path) -> list[_Member]:
    """Links to the files that the manifest names, and their lengths at one moment at which they were all of them."""
    source, links = home / APPEND_ONLY, folder / "redis"
    if not source.exists():
        return []
    for number in range(TRIES):
        here = links / str(number)
        here.mkdir(parents=True)
        found = _manifest_of(source)
        with contextlib.suppress(FileNotFoundError):
            for path in found.files:
                os.link(source / path, here / path)
            members = [
                _Member(f"{APPEND_ONLY}/{path}", here / path, (here / path).stat().st_size) for path in found.files
            ]
            if _manifest_of(source) == found:
                (here / found.name).write_text(found.text)
                return [*members, _Member(f"{APPEND_ONLY}/{found.name}", here / found.name, len(found.text.encode()))]
        time.sleep(0.05)
    raise LauncherError(f"The files in {source} kept changing: try again.")


@dataclass(frozen=True)
class _AppendOnly:
    """Redis' list of the files that are its store: `file <name> seq <number> type <b, i or h>`."""

    name: str
    text: str

    @property
    def files(self) -> list[str]:
        rows = [line.split() for line in self.text.splitlines() if line.strip()]
        return [words[1] for words in rows if words[words.index("type") + 1] != "h"]


def _manifest_of(folder: Path) -> _AppendOnly:
    """The list that holds: Redis writes the next one as `temp-…` and renames it."""
    (path,) = (path for path in folder.glob("*.manifest") if not path.name.startswith("temp-"))
    return _AppendOnly(path.name, path.read_text())


def _copy_database(source: Path, copy: Path) -> None:
    try:
        with (
            contextlib.closing(sqlite3.connect(source, timeout=60)) as database,
            contextlib.closing(sqlite3.connect(copy)) as into,
        ):
            database.backup(into)
            into.execute("PRAGMA journal_mode=DELETE")
            (found,) = into.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise LauncherError(f"The database {source} cannot be copied: {error}.") from error
    if found != "ok":
        raise LauncherError(f"The database {source} is damaged, so nothing was backed up: {found}.")


def _links(home: Path, links: Path) -> list[_Member]:
    """All other files. They are made whole under another name and then renamed, and never changed in their place."""
    members = []
    for top in sorted(home.iterdir()):
        if top.name in LEFT_OUT or top.name.startswith((BACKING_UP, RESTORING)):
            continue
        for path in sorted(top.rglob("*")) if top.is_dir() and not top.is_symlink() else [top]:
            link = links / path.relative_to(home)
            # A file may be removed while it is looked at; a socket or a link is nothing to keep.
            with contextlib.suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink():
                    link.parent.mkdir(parents=True, exist_ok=True)
                    os.link(path, link)
                    members.append(_Member(str(path.relative_to(home)), link, link.stat().st_size))
    return members


def _elsewhere(config: Config, environ: Mapping[str, str]) -> Iterator[str]:
    if config.redis_url is not None:
        yield "Messages are in the Redis of REDIS_URL, which has backups of its own."
    if config.namesrv is not None:
        yield "Messages are in the cluster of GANTRY_NAMESRV, which keeps them itself."
    for name, what in (("DATABASE_URL", "The database"), ("GANTRY_LAKE", "The lake")):
        if environ.get(name) or environ.get(f"{name}_FILE"):
            yield f"{what} is where {name} points, not in this archive."
    if (config.home / "demo-database" / "data").exists():
        yield "The demo account's PostgreSQL is not in this archive; the next start makes it anew."


class _Read:
    """The first `size` bytes of a file, with their sum."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.sum = stream, hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self.sum.update(data)
        return data


def _write(members: list[_Member], part: Path) -> int:
    """Write the archive; return its bytes."""
    sums: dict[str, Any] = {}
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=COMPRESSION, format=tarfile.PAX_FORMAT) as archive:
            for member in members:
                with member.path.open("rb") as content:
                    read = _Read(content)
                    archive.addfile(_entry(member.name, member.size), read)
                sums[member.name] = {"bytes": member.size, "sha256": read.sum.hexdigest()}
            told = {"format": FORMAT, "made": datetime.now(UTC).isoformat(timespec="seconds"), "files": sums}
            text = json.dumps(told, indent=1).encode()
            archive.addfile(_entry(MANIFEST, len(text)), io.BytesIO(text))
        stream.flush()
        os.fsync(stream.fileno())
        return stream.tell()


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o600, int(time.time())
    return entry


def _unpack(file: Path, folder: Path) -> list[int]:
    """Unpack and check every file; return their sizes. Raises LauncherError when one is not what was backed up."""
    found: dict[str, Any] = {}
    told = None
    with gzip.open(file) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for entry in archive:
            content = archive.extractfile(entry) if entry.isreg() else None
            if content is None:
                raise LauncherError(f"{file} is not a backup: {entry.name} in it is not a file.")
            if entry.name == MANIFEST:
                told = json.loads(content.read())
                continue
            checked = tarfile.data_filter(entry, str(folder))
            path = folder / checked.name
            for parent in reversed(path.relative_to(folder).parents[:-1]):
                (folder / parent).mkdir(mode=0o700, exist_ok=True)
            read = _Read(content)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as restored:
                shutil.copyfileobj(read, restored, 1 << 20)
            found[entry.name] = {"bytes": entry.size, "sha256": read.sum.hexdigest()}
        # The sum of the whole stands behind the last file.
        while stream.read(1 << 20):
            pass
    if told is None:
        raise LauncherError(f"{file} is not a backup, or was cut off: it has no {MANIFEST} at its end.")
    if told["format"] > FORMAT:
        raise LauncherError(f"{file} was made by a newer release (format {told['format']}; this one reads {FORMAT}).")
    if wrong := sorted(name for name in found | told["files"] if found.get(name) != told["files"].get(name)):
        raise LauncherError(f"{file} is damaged: {wrong[0]} differs from what was backed up.")
    return [row["bytes"] for row in found.values()]


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
