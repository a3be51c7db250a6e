"""The lake as Spark sees it: addresses of files, and the configuration of Hadoop's file systems that reach them."""

import glob
import os

from analytics import settings
from analytics.errors import EngineUnavailable
from analytics.lake import store
from analytics.lake.folder import FolderStore
from analytics.lake.locations import Place, parse_location
from analytics.lake.objects import ObjectStore

#: Spark's committer that finishes uploads instead of renaming files, which in object storage is copying them.
_CLOUD_JAR = "spark-hadoop-cloud"
_MAGIC = {
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": (
        "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
    ),
    "spark.hadoop.fs.s3a.committer.name": "magic",
}


def spark_url(location: str | Place) -> str:
    """The address that Spark and Hadoop are given for a location. Raises LakeError when it is malformed."""
    place = parse_location(location)
    storage = store.get()
    if isinstance(storage, FolderStore):
        return str(storage.path(place))
    if not isinstance(storage, ObjectStore):
        raise TypeError(f"a storage that Spark does not know: {storage!r}")
    bucket, key = storage.object_of(place)
    return f"{storage.scheme}://{bucket}/{key}"


def as_locations(text: str) -> str:
    """A text of Spark, such as a plan or an error, with `oss://` locations instead of addresses of the storage."""
    loaded = settings.load()
    found = loaded.storage
    if found is None:
        for root in dict.fromkeys((str(loaded.lake), os.path.realpath(loaded.lake))):
            for written in (f"file://{root}/", f"file:{root}/", f"{root}/"):
                text = text.replace(written, "oss://")
        return text
    shared = f"{found.bucket}/{found.prefix}" if found.bucket else ""
    return text.replace(f"{found.hadoop}://{shared}", "oss://")


def spark_configuration() -> dict[str, str]:
    """What a Spark session needs for the lake before it starts. No secret is in it: the JVM's command line shows it.

    Raises EngineUnavailable when a pattern of GANTRY_SPARK_JARS has no file.
    """
    loaded = settings.load()
    jars = _jars(loaded.spark_jars)
    configuration = {"spark.jars": ",".join(jars)} if jars else {}
    found = loaded.storage
    if found is None:
        return configuration
    if found.hadoop == "oss":
        return configuration | _oss(found)
    return configuration | _s3a(found) | (_MAGIC if any(_CLOUD_JAR in jar for jar in jars) else {})


def hadoop_secrets() -> dict[str, str]:
    """The AccessKey of the storage, to be set in Hadoop's configuration of a session that has started."""
    found = settings.load().storage
    if found is None or not found.access_key_id:
        return {}
    names = {"s3a": ("access.key", "secret.key"), "oss": ("accessKeyId", "accessKeySecret")}[found.hadoop]
    values = (found.access_key_id, found.access_key_secret)
    return {f"fs.{found.hadoop}.{name}": value for name, value in zip(names, values, strict=True)}


def _jars(patterns: tuple[str, ...]) -> list[str]:
    jars = []
    for pattern in patterns:
        found = sorted(glob.glob(pattern))
        if not found:
            raise EngineUnavailable(f"GANTRY_SPARK_JARS names {pattern}, and there is no such file.")
        jars += found
    return jars


def _s3a(found: settings.ObjectStorage) -> dict[str, str]:
    values = {
        "impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "endpoint.region": found.region,
        "path.style.access": str(found.path_style).lower(),
        # An outage ends a statement within a minute, not after the half hour that the defaults add up to
        "attempts.maximum": "3",
        "retry.limit": "3",
        "connection.establish.timeout": "5s",
        # A part is sent while the next one is filled, from memory: executors need no room on disk for it
        "fast.upload.buffer": "bytebuffer",
        "fast.upload.active.blocks": "2",
        "multipart.size": "16M",
        # Checksums beyond the signature, and reports of our traffic, are not for every storage
        "checksum.generation": "false",
        "audit.enabled": "false",
    }
    if found.endpoint:
        values["endpoint"] = found.endpoint
        values["connection.ssl.enabled"] = str(found.endpoint.startswith("https")).lower()
    if found.access_key_id:
        values["aws.credentials.provider"] = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in values.items()}


def _oss(found: settings.ObjectStorage) -> dict[str, str]:
    return {
        "spark.hadoop.fs.oss.impl": "org.apache.hadoop.fs.aliyun.oss.AliyunOSSFileSystem",
        "spark.hadoop.fs.oss.endpoint": found.endpoint,
    }
