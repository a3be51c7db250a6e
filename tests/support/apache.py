"""Apache RocketMQ beside us, from Maven jars: name server and brokers of a version, with its kinds of access control.

`Access`: "open" asks nobody, "acl1" reads `plain_acl.yml` (ACL 1.0), "acl2" keeps users and lists (ACL 2.0).
`Layout`: one master, two masters, a master with a slave, or two brokers of which a controller elects the master.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from brokercore.client import Admin, Credentials
from brokercore.client.admin.acl import AclEntry, AclUser, user_subject
from brokercore.client.errors import ClientError
from brokercore.client.session import Call
from brokercore.protocol.codes import PlainAclCode
from tests.support import processes
from tests.support.java import QUICK_START, maven_jars
from tests.support.product import free_ports

Access = Literal["open", "acl1", "acl2"]
Layout = Literal["one", "two-masters", "slave", "controller"]

POM = Path(__file__).parent / "rocketmq" / "pom.xml"
READY_SECONDS = 90
DEFAULT_VERSION = "5.3.3"

#: 512 MB and 1 GB of heap are what the vendor's own scripts shrink to on a small machine.
NAMESRV_HEAP = ("-Xmx512m",)
BROKER_HEAP = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g")
PROXY_HEAP = ("-Xmx512m", "-XX:MaxDirectMemorySize=512m")

#: For a name server that lives for minutes: the second compiler, and a collector with threads of its own, would take as
#: much of a processor as all else that it does. A broker, with loops that never rest, is cheaper with them.
SHORT_LIFE = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

#: What 4.9 and 5.1 reach into, which Java 17 keeps shut.
OPENED = (
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)

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

#: 4.9 ends at once where these are missing.
LOGBACK = """<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%d %p %c{0} - %m%n</pattern></encoder></appender><root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


class StartError(Exception):
    """A server did not become ready; the text holds the end of its log."""


def jars(version: str = DEFAULT_VERSION, *, proxy: bool = False) -> str:
    """Return the class path of server, tools and client; fetched once into the user's cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gantry-bench"
    name = "jars" + ("" if version == DEFAULT_VERSION else f"-{version}") + ("-proxy" if proxy else "")
    options = [f"-Drocketmq.version={version}", *(["-Dproxy"] if proxy else [])]
    maven_jars(POM, cache / f"{name}.stamp", cache / name, options)
    return f"{cache / name}/*"


@dataclass(frozen=True)
class _Broker:
    """One broker process: `number` 0 is a master, any other a slave of the master with its name."""

    name: str
    number: int
    port: int
    home: Path

    @property
    def process(self) -> str:
        """Its name among the processes, and of its log."""
        return self.name if self.number == 0 else f"{self.name}-{self.number}"


class ApacheRocketMQ:
    """Name server and brokers, with an empty store under `home`; the administrator's secret is drawn if none is given.

    `ports` are those of name server, broker and second broker; free ones are taken if none are given.

    ACL 1.0 wants names and secrets of more than six letters.

    Who measures them says `measured`: then the name server too runs as the vendor's scripts run it.
    """

    def __init__(
        self,
        home: Path,
        ports: Sequence[int] = (),
        broker_lines: tuple[str, ...] = (),
        *,
        version: str = DEFAULT_VERSION,
        access: Access = "acl2",
        layout: Layout = "one",
        proxy: bool = False,
        admin_key: str = "admin",
        admin_secret: str = "",
        measured: bool = False,
    ) -> None:
        self.home = home
        self._life = () if measured else SHORT_LIFE
        self.version, self.access, self.layout = version, access, layout
        self._namesrv_port, *broker_ports = ports or free_ports(3)
        self.namesrv = f"127.0.0.1:{self._namesrv_port}"
        self.admin_key = admin_key
        self.admin_secret = admin_secret or secrets.token_urlsafe(18)
        self._broker_lines = broker_lines
        self._class_path = jars(version)
        self._proxy_path = jars(version, proxy=True) if proxy else ""
        self._brokers = self._planned(broker_ports)
        self._controller = f"127.0.0.1:{free_ports(1)[0]}" if layout == "controller" else ""
        self.grpc = f"127.0.0.1:{free_ports(1)[0]}" if proxy else ""
        """Address of the proxy's gRPC; empty without a proxy."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.boot_seconds = 0.0
        """From the start of the name server until the brokers said that they are up."""

    def start(self) -> None:
        """Start all from an empty store and wait until clients can use them. Raises StartError."""
        self.boot()
        self._wait_until_registered()
        if self._proxy_path:
            self._start_proxy()

    def boot(self) -> None:
        """Start all from an empty store; the brokers may still have to register. Raises StartError."""
        shutil.rmtree(self.home, ignore_errors=True)
        begin = time.monotonic()
        configuration = self._folder(self.home)
        (configuration / "namesrv.conf").write_text("\n".join(self._name_server_configuration()) + "\n")
        credentials = f"accessKey: {self.admin_key}\nsecretKey: {self.admin_secret}\n"
        (configuration / "tools.yml").write_text(credentials)
        self._launch("namesrv", (*NAMESRV_HEAP, *self._life), "org.apache.rocketmq.namesrv.NamesrvStartup", self.home)
        self._wait_for("namesrv")
        for broker in self._brokers:
            self._launch_broker(broker)
        for broker in self._brokers:
            self._wait_for(broker.process)
        self.boot_seconds = time.monotonic() - begin

    def brokers(self) -> dict[str, str]:
        """Address of each broker by the name of its process."""
        return {broker.process: f"127.0.0.1:{broker.port}" for broker in self._brokers}

    def stop_broker(self, process: str = "broker-a") -> None:
        """End one broker at once, as when its machine is lost; `start_broker` brings it back with what it stored."""
        ended = self._processes.pop(process)
        ended.kill()
        ended.wait()

    def start_broker(self, process: str = "broker-a") -> None:
        """Start a broker again that was ended. Raises StartError."""
        broker = next(broker for broker in self._brokers if broker.process == process)
        self._launch_broker(broker)
        self._wait_for(process)

    def stop(self) -> None:
        """End all, the name server last."""
        while self._processes:
            processes.end(self._processes.popitem()[1])

    def kill(self) -> None:
        """End all at once: nobody needs what they hold."""
        for process in self._processes.values():
            process.kill()
        while self._processes:
            self._processes.popitem()[1].wait()

    def pids(self) -> list[int]:
        """Process ids of name server and brokers."""
        return [process.pid for process in self._processes.values()]

    def mqadmin(self, *arguments: str) -> str:
        """Run one mqadmin command as the administrator and return what it printed."""
        command = [*self._java(QUICK_START), "org.apache.rocketmq.tools.command.MQAdminStartup", *arguments]
        command += ["-n", self.namesrv]
        environment = self._environment(self.home)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        return done.stdout + done.stderr

    def credentials(self) -> Credentials | None:
        """The administrator's; none where nobody is asked for them."""
        return None if self.access == "open" else Credentials(self.admin_key, self.admin_secret)

    def admin(self) -> Admin:
        """The administrator's client: a call costs a round trip, where mqadmin starts a JVM."""
        return Admin(self.namesrv, self.credentials(), timeout_ms=10_000)

    def create_user(self, name: str, secret: str, *, actions: str = "Pub,Sub,Get", names: str = "*") -> None:
        """Create a Normal user that has the rights `actions` on the topics and groups whose names match `names`.

        ACL 1.0 knows no patterns: who has not all names has none.
        """
        if self.access == "acl1":
            self._create_account(name, secret, actions if names == "*" else "")
            return
        with self.admin() as admin:
            for address in admin.brokers.masters().values():
                admin.acl.create_user(address, AclUser(name, secret))
                rights = [AclEntry(f"{kind}:{names}", tuple(actions.split(","))) for kind in ("Topic", "Group")]
                admin.acl.set_entries(address, user_subject(name), rights)

    def _create_account(self, name: str, secret: str, actions: str) -> None:
        said = "|".join({"Pub": "PUB", "Sub": "SUB"}[one] for one in actions.split(",") if one in ("Pub", "Sub"))
        ext = {
            "accessKey": name,
            "secretKey": secret,
            "admin": "false",
            "defaultTopicPerm": said or "DENY",
            "defaultGroupPerm": "SUB" if "SUB" in said else "DENY",
        }
        with self.admin() as admin:
            for address in admin.brokers.masters().values():
                admin.session.call(Call(address, PlainAclCode.UPDATE_AND_CREATE_ACL_CONFIG, ext))

    def create_topic(self, name: str, queues: int = 8) -> None:
        """Create a topic with as many queues for reading as for writing."""
        with self.admin() as admin:
            admin.topics.create(name, queues=queues)

    def _planned(self, ports: Sequence[int]) -> list[_Broker]:
        second = {"two-masters": ("broker-b", 0), "slave": ("broker-a", 1), "controller": ("broker-a", 1)}
        planned = [_Broker("broker-a", 0, ports[0], self.home)]
        if self.layout in second:
            name, number = second[self.layout]
            planned.append(_Broker(name, number, ports[1], self.home / "second"))
        return planned

    def _name_server_configuration(self) -> list[str]:
        lines = [f"listenPort={self._namesrv_port}"]
        if self._controller:
            lines += [
                "enableControllerInNamesrv=true",
                "controllerDLegerGroup=group1",
                f"controllerDLegerPeers=n0-{self._controller}",
                "controllerDLegerSelfId=n0",
                f"controllerStorePath={self.home / 'controller'}",
            ]
        return lines

    def _broker_configuration(self, broker: _Broker) -> list[str]:
        settings = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": broker.name,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": str(broker.port),
            # The port after it would do, if nobody had taken it: only these are known to be free.
            "haListenPort": str(free_ports(1)[0]),
            "namesrvAddr": self.namesrv,
            "storePathRootDir": str(broker.home / "store"),
            "mappedFileSizeCommitLog": "268435456",
        }
        if self._controller:
            settings |= {"enableControllerMode": "true", "controllerAddr": self._controller}
        else:
            settings |= {
                "brokerId": str(broker.number),
                "brokerRole": "SLAVE" if broker.number else "ASYNC_MASTER",
            }
        return [f"{name}={value}" for name, value in (settings | self._access_settings(broker)).items()] + list(
            self._broker_lines
        )

    def _access_settings(self, broker: _Broker) -> dict[str, str]:
        if self.access == "acl1":
            return {"aclEnable": "true"}
        if self.access == "open":
            return {}
        user = {"username": self.admin_key, "password": self.admin_secret}
        inner = {"accessKey": self.admin_key, "secretKey": self.admin_secret}
        return {
            "authConfigPath": str(broker.home / "auth"),
            **AUTHENTICATION,
            "initAuthenticationUser": json.dumps(user),
            "innerClientAuthenticationCredentials": json.dumps(inner),
        }

    def _folder(self, home: Path) -> Path:
        configuration = home / "conf"
        configuration.mkdir(parents=True, exist_ok=True)
        for name in ("namesrv", "broker"):
            (configuration / f"logback_{name}.xml").write_text(LOGBACK)
        if self.access == "acl1":
            account = f"- accessKey: {self.admin_key}\n  secretKey: {self.admin_secret}\n  admin: true\n"
            (configuration / "plain_acl.yml").write_text(f"accounts:\n{account}")
            # A slave and the forwarding of a broker sign as an administrator.
            tools = f"accessKey: {self.admin_key}\nsecretKey: {self.admin_secret}\n"
            (configuration / "tools.yml").write_text(tools)
        return configuration

    def _environment(self, home: Path) -> dict[str, str]:
        return os.environ | {"ROCKETMQ_HOME": str(home)}

    def _java(self, options: tuple[str, ...], class_path: str = "", home: Path | None = None) -> list[str]:
        return ["java", *options, *OPENED, f"-Duser.home={home or self.home}", "-cp", class_path or self._class_path]

    def _launch_broker(self, broker: _Broker) -> None:
        configuration = self._folder(broker.home) / f"{broker.process}.conf"
        if not configuration.exists():
            configuration.write_text("\n".join(self._broker_configuration(broker)) + "\n")
        heap = BROKER_HEAP if len(self._brokers) == 1 else ("-Xms256m", "-Xmx768m", "-XX:MaxDirectMemorySize=768m")
        self._launch(broker.process, heap, "org.apache.rocketmq.broker.BrokerStartup", broker.home)

    def _launch(self, name: str, heap: tuple[str, ...], main_class: str, home: Path) -> None:
        with (self.home / f"{name}.log").open("wb") as output:
            self._processes[name] = subprocess.Popen(
                [*self._java(heap, home=home), main_class, "-c", str(home / "conf" / f"{name}.conf")],
                env=self._environment(home),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _start_proxy(self) -> None:
        remoting = free_ports(1)[0]
        configuration = {
            "rocketMQClusterName": "DefaultCluster",
            "proxyMode": "CLUSTER",
            "namesrvAddr": self.namesrv,
            "grpcServerPort": int(self.grpc.rpartition(":")[2]),
            "remotingListenPort": remoting,
        }
        (self.home / "conf" / "rmq-proxy.json").write_text(json.dumps(configuration))
        with (self.home / "proxy.log").open("wb") as output:
            self._processes["proxy"] = subprocess.Popen(
                [
                    *self._java(PROXY_HEAP, self._proxy_path),
                    "org.apache.rocketmq.proxy.ProxyStartup",
                    "-pc",
                    str(self.home / "conf" / "rmq-proxy.json"),
                ],
                env=self._environment(self.home) | {"RMQ_PROXY_HOME": str(self.home)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._wait_for("proxy", "startup successfully")

    def _wait_for(self, name: str, words: str = "boot success") -> None:
        log, process = self.home / f"{name}.log", self._processes[name]
        deadline = time.monotonic() + READY_SECONDS
        while words not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise StartError(f"{name} is not ready:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)

    def _wait_until_registered(self) -> None:
        wanted = {broker.name for broker in self._brokers}
        deadline = time.monotonic() + READY_SECONDS
        with self.admin() as admin:
            while not wanted <= _masters(admin).keys() or len(_addresses(admin)) < len(self._brokers):
                if time.monotonic() > deadline:
                    self.kill()
                    raise StartError(f"of {wanted} only {_addresses(admin)} registered with the name server")
                time.sleep(0.1)


def _masters(admin: Admin) -> dict[str, str]:
    try:
        return admin.brokers.masters()
    except ClientError:  # the name server says so while it knows no broker
        return {}


def _addresses(admin: Admin) -> dict[str, str]:
    try:
        return admin.brokers.addresses()
    except ClientError:
        return {}
