"""Every setting of analytics, read from the environment each time it is asked for, so tests and workers can differ."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from analytics.errors import EngineUnavailable, LakeUnavailable
from brokercore.secret_files import SecretError, read_secret

#: What a broker of RocketMQ listens on unless it is told otherwise.
_BROKER_PORT = 10911


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """The S3-compatible storage behind the lake."""

    #: The one bucket that holds all buckets of the lake, each under `<prefix><bucket>/`; empty when each is one there.
    bucket: str
    #: Empty, or ends with a slash.
    prefix: str
    #: Address; empty for that of AWS.
    endpoint: str
    region: str
    #: Both empty: as the SDK finds them, such as the role of the machine.
    access_key_id: str
    access_key_secret: str = field(repr=False)
    #: `https://endpoint/bucket/key` instead of `https://bucket.endpoint/key`.
    path_style: bool
    #: How Spark reaches it: "s3a" or "oss".
    hadoop: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Where analytics keeps its files and where its Spark is."""

    #: State of this copy of Gantry: Spark's scratch folders and the Java wrapper live under it.
    home: Path
    #: Folder behind `oss://`, unless there is a `storage`.
    lake: Path
    #: Spark: `local[*]`, `local[2]`, `spark://host:7077`, `yarn` or `k8s://…`.
    spark_url: str
    #: Heap of the Spark driver, in Spark's notation (`1g`, `512m`).
    driver_memory: str
    #: Most cores of a standalone cluster that Spark takes; 0 for all that are free.
    cores: int = 0
    #: Heap of each executor on a cluster, in Spark's notation; empty for Spark's own default.
    executor_memory: str = ""
    #: Object storage behind `oss://`.
    storage: ObjectStorage | None = None
    #: Files that Spark loads further classes from, such as those for object storage; may hold `*`.
    spark_jars: tuple[str, ...] = ()
    #: TCP ports of name servers and brokers, whose messages statements read.
    broker_ports: tuple[int, ...] = ()
    #: Name servers of a cluster, which know its brokers' ports; empty with embedded brokers.
    namesrv: str = ""
    #: TCP port of the queue service, which pipelines read.
    queue_port: int = 8071
    #: Further TCP ports that the engine may connect to.
    engine_ports: tuple[int, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether Spark's tasks run in the worker's own JVM (`local[…]`), not on a cluster."""
        return self.spark_url.startswith("local")


def load() -> Settings:
    """Read the settings from the environment; the defaults are those of `make up`.

    Raises LakeUnavailable when those of the lake make no sense.
    """
    home = Path(os.environ.get("GANTRY_HOME") or "var").absolute()
    lake = os.environ.get("GANTRY_LAKE") or str(home / "lake")
    is_folder = "://" not in lake
    return Settings(
        home=home,
        lake=Path(lake).absolute() if is_folder else home / "lake",
        spark_url=os.environ.get("SPARK_URL") or "local[*]",
        driver_memory=os.environ.get("GANTRY_SPARK_DRIVER_MEMORY") or "1g",
        cores=_cores(),
        executor_memory=os.environ.get("GANTRY_SPARK_EXECUTOR_MEMORY", ""),
        storage=None if is_folder else _storage(lake),
        spark_jars=tuple(filter(None, (jar.strip() for jar in os.environ.get("GANTRY_SPARK_JARS", "").split(",")))),
        broker_ports=_broker_ports(),
        namesrv=os.environ.get("GANTRY_NAMESRV", ""),
        queue_port=_number("GANTRY_SMQ_PORT", 8071),
        engine_ports=engine_ports(),
    )


def engine_ports() -> tuple[int, ...]:
    """TCP ports of functions and endpoints that the engine may connect to: GANTRY_ENGINE_PORTS.

    Raises EngineUnavailable where that is no list of ports.
    """
    return _ports("GANTRY_ENGINE_PORTS")


def _broker_ports() -> tuple[int, ...]:
    """Those of the embedded brokers, or of a cluster's name servers and RocketMQ's default for its brokers."""
    servers = re.findall(r":(\d+)\s*(?:;|$)", os.environ.get("GANTRY_NAMESRV", ""))
    if servers:
        return (*map(int, servers), _BROKER_PORT)
    first, count = _number("GANTRY_BROKER_PORT", _BROKER_PORT), _number("GANTRY_BROKERS", 1)
    advertised = os.environ.get("GANTRY_BROKER_ADVERTISE", "").rpartition(":")[2]
    firsts = (first, int(advertised)) if advertised.isdecimal() else (first,)
    return (_number("GANTRY_NAMESRV_PORT", 9876), *(port + number for port in firsts for number in range(count)))


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else default


def _cores() -> int:
    value = os.environ.get("GANTRY_SPARK_CORES") or "0"
    if not value.isdecimal():
        raise EngineUnavailable(f"GANTRY_SPARK_CORES is {value!r}; it is a number of cores, 0 for all that are free.")
    return int(value)


def _ports(name: str) -> tuple[int, ...]:
    """Ports and ranges of them, `10911,10921-10924`."""
    found: list[int] = []
    for part in filter(None, (part.strip() for part in os.environ.get(name, "").split(","))):
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= 65535:
            raise EngineUnavailable(f"{name} has {part!r}; it is ports and ranges of them, such as 10911,10921-10924.")
        found += range(first, last + 1)
    return tuple(found)


def _storage(lake: str) -> ObjectStorage:
    scheme, _, rest = lake.partition("://")
    if scheme != "s3":
        raise LakeUnavailable(f"GANTRY_LAKE is {lake!r}; allowed are a folder, s3:// and s3://bucket/prefix/.")
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.strip("/")
    return ObjectStorage(
        bucket=bucket,
        prefix=f"{prefix}/" if prefix else "",
        endpoint=os.environ.get("GANTRY_LAKE_ENDPOINT", ""),
        region=os.environ.get("GANTRY_LAKE_REGION") or "us-east-1",
        access_key_id=_secret("GANTRY_LAKE_ACCESS_KEY_ID"),
        access_key_secret=_secret("GANTRY_LAKE_ACCESS_KEY_SECRET"),
        path_style=_one_of("GANTRY_LAKE_PATH_STYLE", "true", "false") == "true",
        hadoop=_one_of("GANTRY_LAKE_HADOOP", "s3a", "oss"),
    )


def _one_of(name: str, *allowed: str) -> str:
    """A setting of a few values, the first of which is the default."""
    value = os.environ.get(name) or allowed[0]
    if value not in allowed:
        raise LakeUnavailable(f"{name} is {value!r}; allowed are {' and '.join(allowed)}.")
    return value


def _secret(name: str) -> str:
    """From the variable, or from the file that `NAME_FILE` names; a file that cannot be read is an error at once."""
    try:
        return read_secret(os.environ, name)
    except SecretError as error:
        raise LakeUnavailable(str(error)) from error
