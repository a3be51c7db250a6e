"""What a pipeline does, as plain data: who reads a job's text makes it, and the engine runs it.

A plan serialises to JSON and holds no secret: where an option's value is one, `${secret_values.name}` stands in it,
and whoever starts the pipeline hands the values of `Plan.secrets` beside the plan (`filled`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

#: What an option may be: durations are whole milliseconds, sizes bytes. A secret is a text with its name in it.
Value = str | int | float | bool
#: A value that stands in the text by the name it was saved under.
SECRET = re.compile(r"\$\{secret_values\.([A-Za-z0-9_.-]{1,128})\}")
#: The options, of all connectors, that may name a secret: they sign requests. No row, address, log or page has them.
CREDENTIALS = frozenset({"accessKeyId", "accessKeySecret", "accessId", "accessKey"})

EVENT = "event"
"""The format of a topic or queue whose messages are the events of an inflow task."""

#: A table's name that may be part of a file's as it is.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")

#: Plans of another number were made by another version of the product and are made anew from the text.
FORMAT = 1

#: Columns of an OSS event → its path within the event, and Spark's type; a table has some of them, in any case.
OSS_EVENT_COLUMNS = {
    "eventName": ("eventName", "string"),
    "eventSource": ("eventSource", "string"),
    "eventTime": ("eventTime", "timestamp"),
    "eventVersion": ("eventVersion", "string"),
    "region": ("region", "string"),
    "ossBucketArn": ("oss.bucket.arn", "string"),
    "ossBucketName": ("oss.bucket.name", "string"),
    "ossBucketOwnerIdentity": ("oss.bucket.ownerIdentity", "string"),
    "ossObjectKey": ("oss.object.key", "string"),
    "ossObjectSize": ("oss.object.size", "bigint"),
    "ossObjectETag": ("oss.object.eTag", "string"),
    "ossObjectDeltaSize": ("oss.object.deltaSize", "bigint"),
    "ossObjectReadFrom": ("oss.object.readFrom", "bigint"),
    "ossObjectReadTo": ("oss.object.readTo", "bigint"),
    "ossOssSchemaVersion": ("oss.ossSchemaVersion", "string"),
    "ossRuleId": ("oss.ruleId", "string"),
    "requestParametersSourceIPAddress": ("requestParameters.sourceIPAddress", "string"),
    "responseElementsRequestId": ("responseElements.requestId", "string"),
    "userIdentityPrincipalId": ("userIdentity.principalId", "string"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source or a sink, in the order in which `SELECT *` gives them.

    It comes from the message's body, from `metadata` (a key of the connector, such as `msg-id`), or it is `computed`,
    a Spark SQL expression over the other columns; then its type is not known, and `type` is empty.
    """

    name: str
    #: Spark's name of the type, such as `int`, `decimal(10,2)` or `array<string>`.
    type: str
    metadata: str = ""
    computed: str = ""
    #: Read, but never written: a metadata column of a table that is a sink too.
    virtual: bool = False


@dataclass(frozen=True, slots=True)
class Watermark:
    """Rows of a time more than `delay_ms` behind the latest one seen come too late."""

    column: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Source:
    """A table that is read, and becomes a view of its name: connector, format, computed columns, then watermark."""

    name: str
    connector: Literal["mns", "mq", "datagen", "filesystem", "events"]
    columns: tuple[Column, ...]
    watermark: Watermark | None = None
    #: json, csv, avro, parquet, orc, raw or binary (the bytes as they are); empty where the connector has none.
    format: str = ""
    #: By the option's name behind the format's (`fail-on-missing-field`), defaults filled in.
    format_options: dict[str, Value] = field(default_factory=dict)
    #: By the option's name as the connector spells it (`queueName`), defaults filled in.
    options: dict[str, Value] = field(default_factory=dict)
    #: Of its definition in the job's text, from 1; 0 where there is no text.
    line: int = 0

    @property
    def ends(self) -> bool:
        """Whether its rows end, in a job that streams too: such a job reads them whole with each batch."""
        return ends(self.connector, self.options)


@dataclass(frozen=True, slots=True)
class Sink:
    """A table that is written: rows of exactly these columns, in this order."""

    name: str
    connector: Literal["mq", "print", "blackhole", "filesystem", "inflow"]
    columns: tuple[Column, ...]
    format: str = ""
    format_options: dict[str, Value] = field(default_factory=dict)
    options: dict[str, Value] = field(default_factory=dict)
    #: Columns whose values are folders, for `filesystem`.
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """A name for a query; made in the order of the plan, since later ones read earlier ones."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Insert:
    """A query whose rows go to a sink; each runs on its own, with a checkpoint folder of its own.

    The query's columns are the sink's by position, and cast to its types.
    """

    sink: str
    sql: str
    #: `update` where a group's row may come again with new values; only some sinks take that.
    output: Literal["append", "update"] = "append"
    #: Of the statement in the job's text, from 1; what fails is told by it. 0 where there is no text.
    line: int = 1


@dataclass(frozen=True, slots=True)
class Settings:
    """What `SET` says, and what holds without it."""

    mode: Literal["streaming", "batch"] = "streaming"
    #: 0 for none, which sources that acknowledge by checkpoints refuse.
    checkpoint_interval_ms: int = 10_000
    #: How often a batch begins, ms; each batch is a checkpoint, so it is never above that interval.
    batch_interval_ms: int = 1_000
    parallelism: int = 1
    #: In which zone times without one are; empty for the deployment's.
    time_zone: str = ""
    #: Starts after failures; None for without limit. `restart_delay_ms` before the first, doubled up to the maximum.
    restart_attempts: int | None = None
    restart_delay_ms: int = 1_000
    restart_max_delay_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class Plan:
    """Sources → views → inserts into sinks. Names are as written; two that differ by case alone are one."""

    sources: tuple[Source, ...]
    sinks: tuple[Sink, ...]
    views: tuple[View, ...]
    inserts: tuple[Insert, ...]
    settings: Settings = Settings()
    #: (schema, table) of the catalog that the queries name; who starts the pipeline hands their specs beside the plan.
    tables: tuple[tuple[str, str], ...] = ()
    #: Names of the secrets in the options.
    secrets: tuple[str, ...] = ()

    def checkpoints(self) -> tuple[str, ...]:
        """The folder of each insert's checkpoint: by its table, so that other inserts may come and go beside it."""
        alone = {sink.name.lower() for sink in self.sinks if not sink.columns}
        times: Counter[str] = Counter()
        found = []
        for insert in self.inserts:
            name = insert.sink.lower()
            kind = "select" if name in alone else f"insert-{file_name(name)}"
            times[kind] += 1
            found.append(kind if times[kind] == 1 else f"{kind}-{times[kind]}")
        return tuple(found)

    def to_json(self) -> str:
        """As it is stored and handed on."""
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that was stored. Raises ValueError for what is none, or of another version of the product."""
        found = json.loads(text)
        if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
            raise ValueError("This is no plan of this version; make it anew from the job's text.")
        plan: Plan = _read(cls, found)
        return plan


def ends(connector: str, options: Container[str]) -> bool:
    """Whether the rows of a source with these options end, in a job that streams too."""
    if connector == "filesystem":
        return "source.monitor-interval" not in options
    return connector == "datagen" and "number-of-rows" in options


def file_name(table: str) -> str:
    """What stands for a table in names of files, folders and providers: no other table of the plan has it."""
    if _PLAIN_NAME.fullmatch(table):
        return table
    known = re.sub(r"\W", "_", table, flags=re.ASCII)[:40]
    return f"{known}_{hashlib.sha256(table.encode()).hexdigest()[:20]}"


def filled(options: Mapping[str, Value], secrets: Mapping[str, str]) -> dict[str, Value]:
    """The options, of which credentials have the values of secrets. Raises KeyError with the name of a missing one.

    In every other option the name of a secret stays as it is written.
    """
    return {
        name: SECRET.sub(lambda found: secrets[found[1]], value)
        if name in CREDENTIALS and isinstance(value, str)
        else value
        for name, value in options.items()
    }


def _read(kind: Any, found: Any) -> Any:
    """`found` as the type says it; JSON knows no tuples and no dataclasses. Raises ValueError for what does not fit."""
    arguments = get_args(kind)
    if hasattr(kind, "__dataclass_fields__"):
        types = get_type_hints(kind)
        if not isinstance(found, dict) or found.keys() - types.keys():
            raise ValueError(f"{kind.__name__} has the parts {', '.join(types)}")
        return kind(**{name: _read(types[name], value) for name, value in found.items()})
    origin = get_origin(kind)
    if origin is tuple:
        parts = arguments[:1] * len(found) if arguments[-1] is Ellipsis else arguments
        return tuple(_read(part, value) for part, value in zip(parts, found, strict=True))
    if origin is Literal and found not in arguments:
        raise ValueError(f"{found} is none of {', '.join(arguments)}")
    if origin in (UnionType, Union) and type(None) in arguments and found is not None:
        return _read(arguments[0], found)
    return found
