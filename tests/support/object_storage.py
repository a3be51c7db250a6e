"""A real S3 server for the tests: versitygw over a folder, on 127.0.0.1; and the jars by which Spark reaches it."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.broker import eventually
from tests.support.java import maven_jars
from tests.support.needs import need_tool, on_ci
from tests.support.product import free_ports

VERSION = "v1.8.0"
_MODULE = "github.com/versity/versitygw/cmd/versitygw"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gantry-tests"
#: A first build takes one to two minutes, s.
_BUILD_S = 600


@dataclass
class ObjectStorage:
    """The running server; `stop` and `start` make an outage."""

    folder: Path
    port: int
    access_key_id: str = "gantry-tests"
    access_key_secret: str = field(default_factory=lambda: secrets.token_hex(16))
    _process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settings(self, lake: str = "s3://") -> dict[str, str]:
        """What Gantry is told of it."""
        return {
            "GANTRY_LAKE": lake,
            "GANTRY_LAKE_ENDPOINT": self.endpoint,
            "GANTRY_LAKE_ACCESS_KEY_ID": self.access_key_id,
            "GANTRY_LAKE_ACCESS_KEY_SECRET": self.access_key_secret,
        }

    def start(self) -> None:
        """Start it and wait until it answers."""
        for name in ("buckets", "metadata"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        command = [str(_program()), "--port", f"127.0.0.1:{self.port}", "--quiet", "posix"]
        # Metadata beside the files: not every file system of a CI machine has extended attributes.
        command += ["--sidecar", str(self.folder / "metadata"), str(self.folder / "buckets")]
        environment = os.environ | {"ROOT_ACCESS_KEY": self.access_key_id, "ROOT_SECRET_KEY": self.access_key_secret}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        eventually(self._answers, seconds=30)

    def _answers(self) -> bool:
        import httpx

        try:
            return httpx.get(self.endpoint, timeout=2).status_code in {200, 403}
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        """End it; its files stay."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None


def _program() -> Path:
    """versitygw, built by Go once a version. Skips the test without Go, fails it on CI."""
    program = _CACHE / f"versitygw-{VERSION}" / "versitygw"
    if not program.exists():
        environment = os.environ | {"GOBIN": str(program.parent), "GOFLAGS": "-buildvcs=false"}
        command = [str(need_tool("go")), "install", f"{_MODULE}@{VERSION}"]
        subprocess.run(command, env=environment, check=True, timeout=_BUILD_S, capture_output=True)
    return program


@contextmanager
def object_storage(folder: Path) -> Iterator[ObjectStorage]:
    """Run a server over a folder."""
    server = ObjectStorage(folder, free_ports(1)[0])
    try:
        server.start()
        yield server
    finally:
        server.stop()


def s3a_jars() -> str:
    """A pattern of the jars that Spark needs for object storage, fetched by Maven once."""
    jars = _CACHE / "s3a"
    maven_jars(Path(__file__).parent / "s3a" / "pom.xml", _CACHE / "s3a.stamp", jars)
    return f"{jars}/*.jar"


if __name__ == "__main__" and (on_ci() or shutil.which("go")):
    _program()
