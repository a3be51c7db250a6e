"""Every setting of analytics, read from the environment each time it is asked for, so tests and workers can differ."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """Where analytics keeps its files and where its Spark is."""

    #: State of this copy of Gantry: Spark's scratch folders and the Java wrapper live under it.
    home: Path
    #: Folder behind `oss://`.
    lake: Path
    #: Spark master: `local[*]`, `local[2]`, `spark://host:7077`.
    spark_url: str
    #: Heap of the Spark driver, in Spark's notation (`1g`, `512m`).
    driver_memory: str


def load() -> Settings:
    """Read the settings from the environment; the defaults are those of `make up`."""
    home = Path(os.environ.get("GANTRY_HOME") or "var").absolute()
    return Settings(
        home=home,
        lake=Path(os.environ.get("GANTRY_LAKE") or home / "lake").absolute(),
        spark_url=os.environ.get("SPARK_URL") or "local[*]",
        driver_memory=os.environ.get("GANTRY_SPARK_DRIVER_MEMORY") or "1g",
    )


def without_secrets(environment: dict[str, str]) -> dict[str, str]:
    """The environment for the JVM: it runs statements of tenants and needs none of our settings and secrets."""
    ours = ("GANTRY_", "DATABASE_URL", "REDIS_URL", "DJANGO_", "CELERY_")
    return {name: value for name, value in environment.items() if not name.startswith(ours)}
