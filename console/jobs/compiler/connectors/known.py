"""The connectors: what each reads or writes, its options with type, range and default, and what must fit. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from analytics.pipelines.patterns import python_layout, require_spark_times
from analytics.pipelines.plan import OSS_EVENT_COLUMNS, Column, Value
from console.jobs.compiler.connectors import formats
from console.jobs.compiler.connectors.formats import Wrong
from console.jobs.compiler.connectors.kinds import (
    Kind,
    Option,
    any_text,
    boolean,
    charset,
    duration,
    fraction,
    like,
    long,
    moment,
    one_of,
    regex,
    separator,
    size,
    text,
    whole,
)

SOURCE, SINK = "source", "sink"

_URL = like(r"https?://[A-Za-z0-9.\[\]:-]+/?", "an address as http://host:port")
_HOST = like(
    r"(?:https?://)?[A-Za-z0-9.\[\]_-]+(?::\d{1,5})?(?:[;,][A-Za-z0-9.\[\]_-]+:\d{1,5})*",
    "an address as host:port",
)
_QUEUE = like(r"[A-Za-z0-9][A-Za-z0-9-]{0,119}", "a queue's name: 1 to 120 letters, digits and hyphens")
_TOPIC = like(r"[A-Za-z0-9%|_-]{1,255}", "a topic's name: 1 to 255 letters, digits, hyphens, underscores, % and |")
_GROUP = like(r"[A-Za-z0-9%|_-]{1,255}", "a group's name: 1 to 255 letters, digits, hyphens, underscores, % and |")
_LAKE = like(r"oss://[a-z0-9][a-z0-9-]{1,61}[a-z0-9]/[^\x00-\x1f]*", "a folder of the lake as oss://bucket/folder/")
_INSTANCE = like(r"[A-Za-z0-9_-]{1,64}", "an instance's ID as MQ_INST_…")


@dataclass(frozen=True, slots=True)
class Given:
    """A table as far as it is read: columns, the role that it has, and values with defaults filled in."""

    role: str
    columns: tuple[Column, ...]
    format: str
    values: Mapping[str, Value]
    format_values: Mapping[str, Value]

    @property
    def body(self) -> tuple[tuple[str, str], ...]:
        """Name and type of the columns that the message itself carries."""
        return tuple((one.name, one.type) for one in self.columns if not one.computed and not one.metadata)


def _fits(given: Given) -> Wrong | None:
    return None


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector; `roles` tells whether it can be read, written or both."""

    name: str
    roles: tuple[str, ...]
    options: tuple[Option, ...]
    #: None where it has no format, or knows by the columns which one it is.
    formats: tuple[str, ...] = ()
    #: Needed options that may be left out together: then the queue or topic is one of the account's own.
    own: frozenset[str] = frozenset()
    #: Options may be written in other cases of the same letters.
    any_case: bool = False
    #: Metadata's key → Spark's type, for reading.
    metadata: Mapping[str, str] = field(default_factory=dict)
    #: What else must fit together.
    wrong: Callable[[Given], Wrong | None] = _fits
    #: Further options, which the columns (name and type) give their names.
    of_columns: Callable[[Mapping[str, str]], dict[str, Option]] = lambda _: {}
    #: Defaults of the formats' options that are other ones here.
    format_defaults: Mapping[str, Value] = field(default_factory=dict)


def _wrong_mns(given: Given) -> Wrong | None:
    host = re.match(r"https?://\d+\.mns\.([a-z0-9-]+?)(?:-internal)?(?:-vpc)?\.", str(given.values.get("endpoint", "")))
    region = given.values.get("region", "")
    if host and host[1] != str(region):
        return Wrong(f"region is {region}, and the endpoint is one of {host[1]}; write the same.", option="region")
    return _wrong_times(given, python_layout) or (_wrong_event(given) if given.values["messageType"] == "OSS" else None)


def _wrong_event(given: Given) -> Wrong | None:
    if given.format != "json":
        return Wrong(f"messageType OSS needs the format json, and not {given.format}.", option="format")
    known = {name.lower(): kind for name, (_, kind) in OSS_EVENT_COLUMNS.items()}
    for column, kind in given.body:
        expected = known.get(column.lower())
        if expected is None:
            return Wrong(f"an OSS event has no column {column}; it has {', '.join(OSS_EVENT_COLUMNS)}.", column=column)
        if kind not in (expected, "string"):
            return Wrong(f"column {column} of an OSS event is {expected}, and not {kind}.", column=column)
    return None


def _wrong_times(given: Given, require: Callable[[str], object]) -> Wrong | None:
    """Why times cannot be read or written by the pattern that is given for them."""
    name = "timestamp-format.pattern"
    if name in given.format_values:
        try:
            require(str(given.format_values[name]))
        except ValueError as error:
            return Wrong(f"{error}.", option=f"{given.format}.{name}")
    return None


_MNS = Connector(
    "mns",
    (SOURCE,),
    (
        Option("endpoint", _URL, required=True),
        Option("region", text, required=True),
        Option("queueName", _QUEUE, required=True),
        Option("accessKeyId", text, required=True),
        Option("accessKeySecret", text, required=True, secret=True),
        Option("batchSize", whole(1, 16), default=1),
        Option("pollingWaitTime", duration("0s", "30s"), default=10_000),
        Option("messageType", one_of("RAW", "OSS"), default="RAW"),
        Option("deleteMaxRetries", whole(0, 100), default=3),
        Option("startTimeMs", long(0)),
        Option("scan.parallelism", whole(1, 1)),
    ),
    formats=formats.NAMES,
    own=frozenset({"endpoint", "region", "accessKeyId", "accessKeySecret"}),
    wrong=_wrong_mns,
    format_defaults={"json.timestamp-format.standard": formats.ISO},
)


def _wrong_mq(given: Given) -> Wrong | None:
    if given.role == SINK and (found := next((one for one in given.columns if one.metadata and not one.virtual), None)):
        return Wrong(
            f"column {found.name} is metadata, which the sink mq cannot write; make it METADATA VIRTUAL, or leave it"
            " out: the option tag sets the tag of all messages.",
            column=found.name,
        )
    binaries = [name for name, kind in given.body if kind == "binary"]
    if binaries and len(given.body) > 1:
        return Wrong(
            f"column {binaries[0]} is VARBINARY beside others; a message is one VARBINARY column, or columns of other"
            " types as CSV.",
            column=binaries[0],
        )
    for name, kind in given.body:
        if "<" in kind:
            return Wrong(f"column {name} is {kind}, which CSV cannot carry; write it as STRING.", column=name)
    return None


_MQ_METADATA = {
    "topic": "string",
    "queue-id": "int",
    "queue-offset": "bigint",
    "msg-id": "string",
    "store-timestamp": "timestamp",
    "born-timestamp": "timestamp",
    "keys": "string",
    "tags": "string",
}
#: The separator of fields that older readers and writers of the vendor's expect.
_SOH = "\x01"
_MQ = Connector(
    "mq",
    (SOURCE, SINK),
    (
        Option("topic", _TOPIC, required=True),
        Option("endpoint", _HOST, required=True),
        Option("accessId", text, required=True),
        Option("accessKey", text, required=True, secret=True),
        Option("instanceID", _INSTANCE),
        Option("encoding", charset, default="utf-8"),
        Option("fieldDelimiter", separator(16), default=_SOH),
        Option("tag", any_text, default=""),
        Option("nameServerSubgroup", one_of("nsaddr4client-internal", "nsaddr4client-internet")),
        Option("producerGroup", _GROUP, required=True, role=SINK),
        Option("retryTimes", whole(0, 1000), default=10, role=SINK),
        Option("sleepTimeMs", whole(0, 3_600_000), default=1000, role=SINK),
        Option("consumerGroup", _GROUP, required=True, role=SOURCE),
        Option("pullIntervalMs", whole(0, 3_600_000), default=1000, role=SOURCE),
        Option("pullBatchSize", whole(1, 1024), default=32, role=SOURCE),
        Option("startMessageOffset", long(-2), role=SOURCE),
        Option("startTimeMs", long(0), role=SOURCE),
        Option("startTime", moment, role=SOURCE, stored_as="startTimeMs"),
        Option("lineDelimiter", separator(16), default="\n", role=SOURCE),
        Option("lengthCheck", one_of("NONE", "SKIP", "EXCEPTION", "PAD"), default="NONE", role=SOURCE),
        Option("columnErrorDebug", boolean, default=False, role=SOURCE),
    ),
    own=frozenset({"endpoint", "accessId", "accessKey"}),
    any_case=True,
    metadata=_MQ_METADATA,
    wrong=_wrong_mq,
)


_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_NUMBER = like(r"[+-]?\d{1,38}(?:\.\d{1,38})?(?:[eE][+-]?\d{1,3})?", "a number")


def _datagen_columns(columns: Mapping[str, str]) -> dict[str, Option]:
    found: dict[str, Option] = {}
    for name, kind in columns.items():
        prefix = f"fields.{name}."
        value: Kind = _NUMBER
        if kind in _INTEGERS:
            most = 2 ** (_INTEGERS[kind] - 1)
            value = whole(-most, most - 1)
        options = [
            Option(f"{prefix}kind", one_of("random", "sequence"), default="random"),
            Option(f"{prefix}min", value),
            Option(f"{prefix}max", value),
            Option(f"{prefix}start", value),
            Option(f"{prefix}end", value),
            Option(f"{prefix}max-past", duration("0ms")),
            Option(f"{prefix}length", whole(1, 65_536)),
            Option(f"{prefix}var-len", boolean),
            Option(f"{prefix}null-rate", fraction, default=0.0),
        ]
        found |= {option.name: option for option in options}
    return found


def _wrong_datagen(given: Given) -> Wrong | None:
    for name, kind in given.body:
        prefix = f"fields.{name}."
        own = {key.removeprefix(prefix): value for key, value in given.values.items() if key.startswith(prefix)}
        sized = kind in ("string", "binary") or kind.startswith("array")
        numeric = kind in _INTEGERS or kind in ("float", "double") or kind.startswith("decimal")
        if "length" in own and not sized:
            return Wrong(f"{prefix}length is for texts and bytes; column {name} is {kind}.", option=f"{prefix}length")
        for end in ("min", "max", "start", "end"):
            if end in own and not numeric and not (end in ("start", "end") and kind == "string"):
                return Wrong(f"{prefix}{end} is for numbers; column {name} is {kind}.", option=f"{prefix}{end}")
        if own["kind"] == "sequence" and not {"start", "end"} <= own.keys():
            return Wrong(
                f"{prefix}kind is sequence, which needs {prefix}start and {prefix}end.", option=f"{prefix}kind"
            )
        for low, high in (("min", "max"), ("start", "end")):
            if {low, high} <= own.keys() and float(own[low]) > float(own[high]):
                return Wrong(f"{prefix}{low} is above {prefix}{high}.", option=f"{prefix}{low}")
    return None


_DATAGEN = Connector(
    "datagen",
    (SOURCE,),
    (
        Option("rows-per-second", long(1), default=10_000),
        Option("number-of-rows", long(1)),
        Option("scan.parallelism", whole(1, 64)),
    ),
    wrong=_wrong_datagen,
    of_columns=_datagen_columns,
)


#: Those that Spark reads and writes by itself.
_FILES = ("csv", "json", "parquet", "orc")


def _wrong_filesystem(given: Given) -> Wrong | None:
    for name, kind in given.body:
        if given.format == "csv" and "<" in kind:
            return Wrong(f"a file of CSV cannot carry column {name}, whose type is {kind}; json can.", column=name)
    return _wrong_times(given, partial(require_spark_times, is_read=given.role == SOURCE))


_FILESYSTEM = Connector(
    "filesystem",
    (SOURCE, SINK),
    (
        Option("path", _LAKE, required=True),
        Option("source.monitor-interval", duration("1ms"), role=SOURCE),
        Option("source.path.regex-pattern", regex, role=SOURCE),
        Option("partition.default-name", text, default="__DEFAULT_PARTITION__"),
        Option("sink.rolling-policy.file-size", size, default=128 * 1024**2, role=SINK),
        Option("sink.rolling-policy.rollover-interval", duration("1s"), default=1_800_000, role=SINK),
        Option("sink.rolling-policy.check-interval", duration("1s"), default=60_000, role=SINK),
        Option("auto-compaction", boolean, default=False, role=SINK),
        Option("sink.parallelism", whole(1, 64), role=SINK),
    ),
    formats=_FILES,
    wrong=_wrong_filesystem,
    metadata={
        "file.path": "string",
        "file.name": "string",
        "file.size": "bigint",
        "file.modification-time": "timestamp",
    },
)

_PRINT = Connector(
    "print",
    (SINK,),
    (
        Option("print-identifier", any_text, default=""),
        Option("standard-error", boolean, default=False),
        Option("logger", boolean, default=False),
        Option("limit", whole(1, 1_000_000), default=2000),
        Option("sink.parallelism", whole(1, 64)),
    ),
)
_BLACKHOLE = Connector("blackhole", (SINK,), (Option("sink.parallelism", whole(1, 64)),))

CONNECTORS = {one.name: one for one in (_MNS, _MQ, _DATAGEN, _PRINT, _BLACKHOLE, _FILESYSTEM)}
#: Sinks that take a group's row again and again with new values.
UPDATED = frozenset({"print", "blackhole"})
