"""Apache RocketMQ 5.3.3 beside us: name server and broker from Maven jars, authentication and authorization on."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import time
from pathlib import Path

from brokercore.client import Admin, Credentials
from brokercore.client.admin.acl import AclEntry, AclUser, user_subject
from brokercore.client.errors import ClientError
from tests.support import processes
from tests.support.java import QUICK_START, maven_jars
from tests.support.product import free_ports

POM = Path(__file__).parent / "rocketmq" / "pom.xml"
READY_SECONDS = 90

#: 512 MB and 1 GB of heap are what the vendor's own scripts shrink to on a small machine.
NAMESRV_HEAP = ("-Xmx512m",)
BROKER_HEAP = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g")

AUTHENTICATION = {
    "authenticationEnabled": "true",
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationEnabled": "true",
    "authorizationProvider": "org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        "org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
}


class StartError(Exception):
    """A server did not become ready; the text holds the end of its log."""


def jars() -> str:
    """Return the class path of server, tools and client; fetched once into the user's cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gantry-bench" / "jars"
    maven_jars(POM, cache.parent / "jars.stamp", cache)
    return f"{cache}/*"


class ApacheRocketMQ:
    """Name server and broker on two ports, with an empty store under `home`; `admin_secret` is of the user `admin`."""

    def __init__(self, home: Path, ports: tuple[int, int], broker_lines: tuple[str, ...] = ()) -> None:
        self.home = home
        self._namesrv_port, self._broker_port = ports
        self.namesrv = f"127.0.0.1:{self._namesrv_port}"
        self.admin_key = "admin"
        self.admin_secret = secrets.token_urlsafe(18)
        self._broker_lines = broker_lines
        self._class_path = jars()
        self._processes: list[subprocess.Popen[bytes]] = []
        self.boot_seconds = 0.0
        """From the start of the name server until the broker said that it is up."""

    def start(self) -> None:
        """Start both from an empty store and wait until clients can use them. Raises StartError."""
        self.boot()
        self._wait_until_registered()

    def boot(self) -> None:
        """Start both from an empty store; the broker may still have to register. Raises StartError."""
        shutil.rmtree(self.home, ignore_errors=True)
        configuration = self.home / "conf"
        configuration.mkdir(parents=True)
        (configuration / "namesrv.conf").write_text(f"listenPort={self._namesrv_port}\n")
        (configuration / "broker.conf").write_text("\n".join(self._broker_configuration()) + "\n")
        credentials = f"accessKey: {self.admin_key}\nsecretKey: {self.admin_secret}\n"
        (configuration / "tools.yml").write_text(credentials)
        begin = time.monotonic()
        self._start("namesrv", NAMESRV_HEAP, "org.apache.rocketmq.namesrv.NamesrvStartup")
        self._start("broker", BROKER_HEAP, "org.apache.rocketmq.broker.BrokerStartup")
        self.boot_seconds = time.monotonic() - begin

    def stop(self) -> None:
        """End both, the broker first."""
        while self._processes:
            processes.end(self._processes.pop())

    def kill(self) -> None:
        """End both at once: nobody needs what they hold."""
        for process in self._processes:
            process.kill()
        while self._processes:
            self._processes.pop().wait()

    def pids(self) -> list[int]:
        """Process ids of name server and broker."""
        return [process.pid for process in self._processes]

    def mqadmin(self, *arguments: str) -> str:
        """Run one mqadmin command as the administrator and return what it printed."""
        command = [*self._java(QUICK_START), "org.apache.rocketmq.tools.command.MQAdminStartup", *arguments]
        command += ["-n", self.namesrv]
        done = subprocess.run(command, env=self._environment(), capture_output=True, text=True, check=False, timeout=60)
        return done.stdout + done.stderr

    def admin(self) -> Admin:
        """The administrator's client: a call costs a round trip, where mqadmin starts a JVM."""
        return Admin(self.namesrv, Credentials(self.admin_key, self.admin_secret), timeout_ms=10_000)

    def create_user(self, name: str, secret: str, *, actions: str = "Pub,Sub,Get", names: str = "*") -> None:
        """Create a Normal user that has the rights `actions` on the topics and groups whose names match `names`."""
        with self.admin() as admin:
            for address in admin.brokers.masters().values():
                admin.acl.create_user(address, AclUser(name, secret))
                rights = [AclEntry(f"{kind}:{names}", tuple(actions.split(","))) for kind in ("Topic", "Group")]
                admin.acl.set_entries(address, user_subject(name), rights)

    def create_topic(self, name: str, queues: int = 8) -> None:
        """Create a topic with as many queues for reading as for writing."""
        with self.admin() as admin:
            admin.topics.create(name, queues=queues)

    def _broker_configuration(self) -> list[str]:
        user = {"username": self.admin_key, "password": self.admin_secret}
        inner = {"accessKey": self.admin_key, "secretKey": self.admin_secret}
        settings = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(self._broker_port),
            # The port after it would do, if nobody had taken it: only these two are known to be free.
            "haListenPort": str(free_ports(1)[0]),
            "namesrvAddr": self.namesrv,
            "storePathRootDir": str(self.home / "store"),
            "mappedFileSizeCommitLog": "268435456",
            "authConfigPath": str(self.home / "auth"),
            **AUTHENTICATION,
            "initAuthenticationUser": json.dumps(user),
            "innerClientAuthenticationCredentials": json.dumps(inner),
        }
        return [f"{name}={value}" for name, value in settings.items()] + list(self._broker_lines)

    def _environment(self) -> dict[str, str]:
        return os.environ | {"ROCKETMQ_HOME": str(self.home)}

    def _java(self, options: tuple[str, ...]) -> list[str]:
        return ["java", *options, f"-Duser.home={self.home}", "-cp", self._class_path]

    def _start(self, name: str, heap: tuple[str, ...], main_class: str) -> None:
        log = self.home / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self._java(heap), main_class, "-c", str(self.home / "conf" / f"{name}.conf")],
                env=self._environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)
        deadline = time.monotonic() + READY_SECONDS
        while "boot success" not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise StartError(f"{name} is not ready:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)

    def _wait_until_registered(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        with self.admin() as admin:
            while "broker-a" not in _brokers(admin):
                if time.monotonic() > deadline:
                    self.stop()
                    raise StartError("the broker did not register with the name server")
                time.sleep(0.1)


def _brokers(admin: Admin) -> dict[str, str]:
    try:
        return admin.brokers.masters()
    except ClientError:  # the name server says so while it knows no broker
        return {}
