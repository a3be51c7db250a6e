"""Every setting of analytics, read from the environment each time it is asked for, so tests and workers can differ."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from analytics.errors import LakeUnavailable


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
    #: Spark: `local[*]`, `local[2]`, `spark://host:7077`, or a Spark Connect server, `sc://host:15002`.
    spark_url: str
    #: Heap of the Spark driver, in Spark's notation (`1g`, `512m`).
    driver_memory: str
    #: What a Spark Connect server asks of its clients; empty when it asks for nothing.
    connect_token: str = field(default="", repr=False)
    #: Object storage behind `oss://`.
    storage: ObjectStorage | None = None
    #: Files that Spark loads further classes from, such as those for object storage; may hold `*`.
    spark_jars: tuple[str, ...] = ()

    @property
    def uses_connect(self) -> bool:
        """Whether Spark is a Spark Connect server."""
        return self.spark_url.startswith("sc://")


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
        connect_token=_secret("GANTRY_SPARK_CONNECT_TOKEN"),
        storage=None if is_folder else _storage(lake),
        spark_jars=tuple(filter(None, (jar.strip() for jar in os.environ.get("GANTRY_SPARK_JARS", "").split(",")))),
    )


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
    file = os.environ.get(f"{name}_FILE", "")
    if os.environ.get(name) or not file:
        return os.environ.get(name, "")
    try:
        return Path(file).read_text().strip()
    except OSError as error:
        raise LakeUnavailable(f"{name}_FILE names {file}, which cannot be read: {error.strerror}.") from error


def without_secrets(environment: dict[str, str]) -> dict[str, str]:
    """The environment for the JVM: it runs statements of tenants and needs none of our settings and secrets."""
    ours = ("GANTRY_", "DATABASE_URL", "REDIS_URL", "DJANGO_", "CELERY_", "SPARK_CONNECT_")
    return {name: value for name, value in environment.items() if not name.startswith(ours)}
