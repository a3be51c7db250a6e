"""Names of the lake: what an `oss://` location may look like, and which one each thing has."""

import re
from dataclasses import dataclass
from datetime import date

from analytics.errors import LakeError

#: OSS bucket names: 3 to 63 of lower-case letters, digits and hyphens, no hyphen at the ends.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
#: OSS: a key has at most 1,023 bytes.
_LONGEST_KEY = 1023
#: Buckets that results go to, and those of our own; a tenant's bucket cannot have such a name.
RESULT_BUCKETS = re.compile(r"aliyun-oa-query-results-[0-9]+-oss-.+")
METRICS = "oss://gantry-metrics/tps"
#: How the name of a file or folder begins that is not finished; 32 hexadecimal digits follow.
DRAFT = ".draft-"


@dataclass(frozen=True, slots=True)
class Place:
    """A location taken apart; the key has no slash at its ends and is empty for the bucket itself."""

    bucket: str
    key: str

    @property
    def location(self) -> str:
        """As it is written, without a slash at the end."""
        return f"oss://{self.bucket}/{self.key}" if self.key else f"oss://{self.bucket}"

    @property
    def folder(self) -> "Place":
        """The folder that it is in."""
        return Place(self.bucket, self.key.rpartition("/")[0])

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    def child(self, name: str) -> "Place":
        """What has this name below it."""
        return Place(self.bucket, f"{self.key}/{name}" if self.key else name)


def parse(location: str) -> Place:
    """The bucket and the key of an `oss://bucket/key`. Raises LakeError when it is malformed or leads elsewhere."""
    scheme, separator, rest = location.partition("://")
    if scheme != "oss" or not separator:
        raise LakeError(f"{location!r} is no location of the lake: it must have the form oss://bucket/key")
    bucket, _, key = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise LakeError(f"{bucket!r} is no bucket name: 3 to 63 lower-case letters, digits and hyphens")
    parts = [part for part in key.split("/") if part]
    if any(part in {".", ".."} or "\\" in part or not part.isprintable() for part in parts):
        raise LakeError(
            f"{location!r} is no location of the lake: no part of it may be . or .., or hold \\ or control characters"
        )
    key = "/".join(parts)
    if len(key.encode()) > _LONGEST_KEY:
        raise LakeError(f"{location[:80] + '…'!r} is no location of the lake: its key has more than 1,023 bytes")
    return Place(bucket, key)


def is_hidden(name: str) -> bool:
    """Whether Spark overlooks a file or folder of that name: drafts, markers. `_a=1` is a partition, not hidden."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def result_location(tenant_uid: str, region: str, task_id: str, day: date) -> str:
    """Where the result of a task goes (Data Lake Analytics, "Asynchronous execution": one folder a task)."""
    return f"oss://aliyun-oa-query-results-{tenant_uid}-oss-{region}/DLA_Result/{day:%Y/%m/%d}/{task_id}/result.csv"


def table_location(bucket: str, schema: str, table: str) -> str:
    """The folder of a table that we write ourselves."""
    return f"oss://{bucket}/{schema}/{table}/"


def metrics_location(day: date) -> str:
    """The folder of samples and rollups of one UTC day."""
    return f"{METRICS}/day={day:%Y-%m-%d}"
