"""Names of the lake: what an `oss://` location may look like, which one each thing has, and what a file is told by."""

import re
import unicodedata
from dataclasses import dataclass
from datetime import date

from analytics.errors import LakeError

#: OSS bucket names: 3 to 63 of lower-case letters, digits and hyphens, no hyphen at the ends.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
#: OSS: a key has at most 1,023 bytes.
_LONGEST_KEY = 1023
#: Buckets that results go to, and those of our own; a tenant's bucket cannot have such a name.
RESULT_BUCKETS = re.compile(r"aliyun-oa-query-results-[0-9]+-oss-.+")
_SCHEME = "oss://"
METRICS = "oss://gantry-metrics/tps"
#: Rows that the console gives for one statement; a bucket of our own: no tenant's tables can lie in it.
SNAPSHOTS = "oss://gantry-snapshots"
#: How the name of a file or folder begins that is not finished; 32 hexadecimal digits follow.
DRAFT = ".draft-"


#: ASCII signs that a part of a key may hold beside letters, digits and spaces. Signs of patterns (`{}[]*?\\`), of
#: addresses (`%#`) and of shells are not among them: whoever is handed a location has nothing to expand or to decode.
_SIGNS = frozenset("-_.=+@()!$&',;:~")
#: What Spark leaves as it is in the folder `name=value` of a partition; all else it writes as %XX.
_PARTITION_SIGNS = _SIGNS | frozenset("<>|`")
_ESCAPED = re.compile(r"%[0-9A-F]{2}")
#: The common case, told fast.
_PLAIN = re.compile(r"(?!\.{1,2}(?:/|$))[A-Za-z0-9_.=@+-]+(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9_.=@+-]+)*")
#: General categories of Unicode: controls, formats (such as those that turn the direction), private and unassigned
#: ones, and separators other than the space.
_ODD = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_FORM = "no location of the lake: it must have the form oss://bucket/key"


@dataclass(frozen=True, slots=True)
class Place:
    """A file, a folder or a bucket of the lake; none breaks a rule of names, and there is one for each thing.

    What decides and what opens take the same `Place` or its `location`: there is only one way to write it, and nothing
    in it that anybody expands, decodes or normalises. The key has no slash at its ends and is empty for the bucket.
    Making one raises LakeError, as `parse_location` does.
    """

    bucket: str
    key: str

    def __post_init__(self) -> None:
        """Hold the rules, whoever makes it."""
        if not _BUCKET.fullmatch(self.bucket):
            raise LakeError(
                f"{self.bucket[:80]!r} is not a bucket name: 3 to 63 lower-case letters, digits and hyphens"
            )
        if self.key and not _PLAIN.fullmatch(self.key):
            for part in self.key.split("/"):
                if reason := _refused(part):
                    raise LakeError(f"{self.location[:200]!r} is not a location of the lake: {reason}")
        if len(self.key.encode(errors="surrogatepass")) > _LONGEST_KEY:
            raise LakeError(
                f"{self.location[:80] + '…'!r} is not a location of the lake: its key has more than 1,023 bytes"
            )

    @property
    def location(self) -> str:
        """As it is written, without a slash at the end."""
        return f"oss://{self.bucket}/{self.key}" if self.key else f"oss://{self.bucket}"

    @property
    def as_folder(self) -> str:
        """As it is written for a folder, with a slash at the end."""
        return f"{self.location}/"

    @property
    def folder(self) -> "Place":
        """The folder that it is in."""
        return Place(self.bucket, self.key.rpartition("/")[0])

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def is_hidden(self) -> bool:
        """Whether Spark overlooks it, for its own name or that of a folder above: what is not finished lies there."""
        return any(map(is_hidden, self.key.split("/")))

    def child(self, name: str) -> "Place":
        """What has this name below it. Raises LakeError."""
        return Place(self.bucket, f"{self.key}/{name}" if self.key else name)


def parse_location(location: "str | Place") -> Place:
    """The place of an `oss://bucket/key`, for a folder with or without one slash at the end; a place stays itself.

    Raises LakeError when it is malformed: nothing is corrected, so that two texts never mean one thing by accident.
    """
    if isinstance(location, Place):
        return location
    if not location.startswith(_SCHEME):
        raise LakeError(f"{location[:200]!r} is {_FORM}")
    bucket, _, key = location.removeprefix(_SCHEME).partition("/")
    return Place(bucket, key.removesuffix("/"))


def _refused(part: str) -> str:
    """Why a key must not have this part; empty when it may."""
    if unicodedata.normalize("NFKC", part) in {"", ".", ".."}:
        return "no part of it may be . or .., or empty, as between two slashes"
    name, separator, value = part.partition("=")
    is_partition = bool(separator and name)
    if is_partition:
        part = f"{name}={_ESCAPED.sub('', value)}"
    elif part != part.strip(" "):
        return "no part of it may begin or end with a space"
    if unicodedata.normalize("NFC", part) != part:
        return "its letters must be composed ones (Unicode's form NFC)"
    # The compatible form too: a wide solidus or point must not become a true one in whatever reads it.
    signs = part + unicodedata.normalize("NFKC", part)
    odd = next((sign for sign in signs if not _is_allowed(sign, _PARTITION_SIGNS if is_partition else _SIGNS)), "")
    return f"no part of it may hold {odd!r}" if odd else ""


def _is_allowed(sign: str, signs: frozenset[str]) -> bool:
    if sign.isascii():
        return sign.isalnum() or sign == " " or sign in signs
    return unicodedata.category(sign) not in _ODD


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


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of the lake."""

    location: str
    size: int
    #: Time of the last change, UTC ms.
    modified_ms: int
    #: Differs when the content does, as far as the storage tells.
    version: str = ""
