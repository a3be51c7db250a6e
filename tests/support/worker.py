"""A worker of broker operations, as `make up` starts it, on an environment that is given; and what it is sent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from django.db import connection

from tests.support.broker import BrokerProcess
from tests.support.product import ROOT


class WorkerProcess:
    """`celery worker -Q default`."""

    def __init__(self, environ: Mapping[str, str], threads: int = 2) -> None:
        self._log = tempfile.NamedTemporaryFile("w+", prefix="gantry-worker-", suffix=".log")  # noqa: SIM115
        self._environ = os.environ | dict(environ) | {"CELERY_SKIP_CHECKS": "true"}
        command = ["worker", "-Q", "default", "-P", "threads", "-c", str(threads), "-n", f"{uuid.uuid4().hex}@%h"]
        command += ["--loglevel", "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"]
        self.process = subprocess.Popen(
            [*_CELERY, *command], env=self._environ, cwd=ROOT, stdout=self._log, stderr=self._log,
            start_new_session=True,
        )  # fmt: skip

    @property
    def log(self) -> str:
        """What it has written."""
        return Path(self._log.name).read_text(encoding="utf-8", errors="replace")

    def send(self, task: str, *arguments: int) -> None:
        """Put a task into its queue."""
        subprocess.run(
            [*_CELERY, "call", task, "--args", str(list(arguments))], env=self._environ, cwd=ROOT, check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def kill(self) -> None:
        """End it as by a machine that loses its power."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


_CELERY = (sys.executable, "-m", "celery", "-A", "console.celery", "--quiet")


def worker_on(broker: BrokerProcess, threads: int = 2) -> WorkerProcess:
    """A worker of the database and the Redis of a test, with its broker."""
    return WorkerProcess(
        {
            "DATABASE_URL": _database(),
            "REDIS_URL": broker.redis_url,
            "GANTRY_NAMESRV": broker.namesrv,
            "GANTRY_EMBEDDED_BROKER": "true",
            "GANTRY_MASTER_KEY": broker.master_key,
            "GANTRY_BROKER_ACCESS_KEY_ID": broker.access_key_id,
            "GANTRY_BROKER_ACCESS_KEY_SECRET": broker.access_key_secret,
        },
        threads,
    )


def _database() -> str:
    told = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{told['NAME']}"
    return "postgresql://{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format(**told)
