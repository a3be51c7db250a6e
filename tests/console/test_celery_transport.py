"""A worker outlives its Redis, also with tasks under way: it is not ended, and takes new tasks when Redis is back."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from celery import Celery
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import ResponseError

from tests.support.disk import fill, small_disk
from tests.support.processes import end
from tests.support.product import ROOT, eventually
from tests.support.redis_server import RedisServer, redis_server

pytestmark = pytest.mark.broker


class Worker:
    """A worker of the console's, as the launcher starts one, with a task of `blocking.py` under way."""

    def __init__(self, redis: RedisServer, folder: Path) -> None:
        self._folder = folder
        self._broker = f"redis+socket://{redis.socket}?virtual_host=1"
        self.output = folder / "worker.out"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "celery", "-A", "tests.console.blocking", "--quiet", "worker",
                    "-Q", "default", "-P", "threads", "-c", "2", "-n", "blocking@%h", "--loglevel", "INFO",
                    "--without-gossip", "--without-mingle", "--without-heartbeat",
                ],
                cwd=ROOT, env=os.environ | {"REDIS_URL": redis.url}, stdout=output, stderr=output,
            )  # fmt: skip

    def hand_over(self, name: str) -> None:
        """Send it a task; tried again while Redis does not take it."""
        message = {"args": (str(self._folder / name), str(self._folder / "end")), "queue": "default", "retry": False}

        def sent() -> bool:
            with contextlib.suppress(OperationalError), Celery(broker=self._broker) as sender:
                sender.send_task("tests.hold", **message)
                return True
            return False

        eventually(sent, seconds=60, what="the task is sent")

    def wait_begun(self, name: str) -> None:
        """Wait until the task has begun; fail with the worker's words when it has ended instead."""

        def begun() -> bool:
            assert self.process.poll() is None, self.output.read_text()[-3000:]
            return (self._folder / name).exists()

        eventually(begun, seconds=60, what="the task has begun")

    def wait_said(self, text: str) -> None:
        """Wait until it has written a text."""
        eventually(lambda: text in self.output.read_text(errors="replace"), seconds=60, what=text)


@contextmanager
def busy_worker(redis: RedisServer, folder: Path) -> Iterator[Worker]:
    worker = Worker(redis, folder)
    try:
        worker.hand_over("first")
        worker.wait_begun("first")
        yield worker
    finally:
        (folder / "end").touch()
        end(worker.process)


def test_a_redis_that_is_killed_does_not_end_a_worker_with_a_task_under_way(tmp_path: Path) -> None:
    with redis_server() as redis, busy_worker(redis, tmp_path) as worker:
        redis.kill()
        worker.wait_said("Connection to broker lost")
        redis.start()
        _takes_another(worker)


def test_a_redis_whose_disk_is_full_does_not_end_a_worker_with_a_task_under_way(tmp_path: Path) -> None:
    with small_disk() as disk:
        redis = RedisServer(disk)
        redis.start()
        try:
            with busy_worker(redis, tmp_path) as worker:
                ballast = fill(disk)
                eventually(lambda: _refuses(redis), seconds=60, what="Redis refuses to write")
                worker.wait_said("MISCONF")
                ballast.unlink()
                _takes_another(worker)
        finally:
            redis.kill()


def _refuses(server: RedisServer) -> bool:
    with Redis.from_url(server.url) as connection:
        try:
            connection.set("filling", bytes(4096))
        except ResponseError:
            return True
    return False


def _takes_another(worker: Worker) -> None:
    worker.hand_over("second")
    worker.wait_begun("second")
    assert "Unrecoverable error" not in worker.output.read_text()
