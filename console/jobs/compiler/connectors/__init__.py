"""Tables of a job as their connectors see them: every option read and judged, refused with its place. Pure.

`kinds` are the types of options, `formats` those of messages and files, `known` the connectors themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from analytics.pipelines.plan import CREDENTIALS, Column, Value
from console.jobs.compiler.connectors import formats
from console.jobs.compiler.connectors.formats import Wrong
from console.jobs.compiler.connectors.kinds import Option
from console.jobs.compiler.connectors.known import CONNECTORS, SINK, SOURCE, UPDATED, Connector, Given
from console.jobs.compiler.definition import OptionText, TableText
from console.jobs.compiler.values import Values
from console.jobs.compiler.words import Text, TextRefused, near

__all__ = ["SECRETS", "SINK", "SOURCE", "UPDATED", "Connector", "Given", "connector_of", "read"]

#: Options of all connectors whose values are secrets, in small letters.
SECRETS = frozenset(option.name.lower() for one in CONNECTORS.values() for option in one.options if option.secret)
_FORMAT, _CONNECTOR = "format", "connector"
#: Written for older versions of the vendor's, and said nothing by here.
_OF_VERSIONS = frozenset({"property-version"})
_PARALLEL = "parallelism.default holds for the whole job"
_PAGE = "what is printed is shown on the job's page"
_PACKED = "a file tells by itself how it is packed"
_IN_UTC = "times are always those of UTC"
_WHEN_READ = "it is for what is read"
#: Options of a connector, in a role or both, or of a format that are read and mean nothing here → why. Who writes one
#: is told.
_IDLE: dict[tuple[str, ...], str] = {
    ("mq", "nameServerSubgroup"): "it was for versions before 3.0.1",
    ("mq", "pullIntervalMs"): "the brokers are asked once in execution.batch-interval",
    ("mq", "pullBatchSize"): "a batch takes all messages that there are, up to 100,000",
    ("mq", "columnErrorDebug"): "a value that cannot be read is NULL",
    ("mns", "scan.parallelism"): "a queue is read by one reader",
    ("mns", "csv.line-delimiter"): "a message is one line",
    ("mns", "avro.codec"): _PACKED,
    ("mns", "avro.timestamp_mapping.legacy"): "a message tells by itself how its times are written",
    ("mns", "parquet.compression"): _PACKED,
    ("mns", "parquet.utc-timezone"): _IN_UTC,
    ("mns", "orc.compress"): _PACKED,
    ("datagen", "scan.parallelism"): _PARALLEL,
    ("filesystem", "sink.parallelism"): _PARALLEL,
    ("filesystem", "partition.default-name"): "the folder of NULL is __HIVE_DEFAULT_PARTITION__",
    ("filesystem", "sink.rolling-policy.file-size"): "each batch writes files of its own",
    ("filesystem", "sink.rolling-policy.rollover-interval"): "each batch writes files of its own",
    ("filesystem", "sink.rolling-policy.check-interval"): "each batch writes files of its own",
    ("filesystem", "auto-compaction"): "files stay as they were written",
    ("filesystem", "json.fail-on-missing-field"): "a field that a line lacks is NULL",
    ("filesystem", "csv.array-element-delimiter"): "a file of CSV has no arrays",
    ("filesystem", "parquet.utc-timezone"): _IN_UTC,
    ("filesystem", SOURCE, "parquet.compression"): _PACKED,
    ("filesystem", SOURCE, "orc.compress"): _PACKED,
    ("filesystem", SINK, "csv.allow-comments"): _WHEN_READ,
    ("filesystem", SINK, "csv.ignore-parse-errors"): _WHEN_READ,
    ("filesystem", SINK, "json.ignore-parse-errors"): _WHEN_READ,
    ("print", "standard-error"): _PAGE,
    ("print", "logger"): _PAGE,
    ("print", "limit"): "the last 4 MiB of what is printed are kept",
    ("print", "sink.parallelism"): _PARALLEL,
    ("blackhole", "sink.parallelism"): _PARALLEL,
    ("json", "map-null-key.mode"): "no key of a map is NULL",
    ("json", "map-null-key.literal"): "no key of a map is NULL",
    ("json", "encode.decimal-as-plain-number"): "decimals are always written as plain numbers",
}
#: Options that mean nothing beside another one: which one that is, and why.
_IDLE_BESIDE = {("datagen", "rows-per-second"): ("number-of-rows", "so many rows and no more come at once")}


def connector_of(text: Text, table: TableText) -> Connector:
    """The connector that a definition names. Raises TextRefused for none, or an unknown one."""
    option = next((one for one in table.options if one.name.value == _CONNECTOR), None)
    if option is None:
        raise text.refusal(table.name, f"table {table.name.value} has no 'connector'; there are {_listed(CONNECTORS)}.")
    found = CONNECTORS.get(option.value.value)
    if found is None:
        name = option.value.value
        raise text.refusal(
            option.value, f"there is no connector {name}; there are {_listed(CONNECTORS)}.{near(name, CONNECTORS)}"
        )
    return found


def read(
    text: Text, table: TableText, columns: tuple[Column, ...], role: str, values: Values
) -> tuple[Given, list[str]]:
    """The table in a role, and warnings. Raises TextRefused with the place of what is wrong, and what is allowed."""
    return _Reading(text, table, columns, role, values).result()


class _Reading:
    """Reads the options of one table."""

    def __init__(self, text: Text, table: TableText, columns: tuple[Column, ...], role: str, values: Values) -> None:
        self._text, self._table, self._columns, self._role, self._values = text, table, columns, role, values
        self._connector = connector_of(text, table)
        self._places: dict[str, OptionText] = {}
        self._warnings: list[str] = []

    def result(self) -> tuple[Given, list[str]]:
        connector = self._connector
        if self._role not in connector.roles:
            what = "read: it stands behind FROM" if self._role == SINK else "written: it stands behind INSERT INTO"
            raise self._text.refusal(self._table.name, f"tables of the connector {connector.name} can only be {what}.")
        self._require_columns()
        body = {one.name: one.type for one in self._columns if not one.computed and not one.metadata}
        known = {one.name: one for one in connector.options} | connector.of_columns(body)
        own, of_format = self._sorted(known)
        taken = {name: one for name, one in known.items() if one.role in ("", self._role)}
        read = self._read(taken, own)
        form, form_values = self._format(body, of_format)
        given = Given(self._role, self._columns, form, read, form_values)
        self._require(connector.wrong(given))
        return given, self._warnings

    def _sorted(self, known: Mapping[str, Option]) -> tuple[dict[str, OptionText], dict[str, OptionText]]:
        """Options of the connector and of the format; each is remembered with its place."""
        own, of_format = {}, {}
        by_small = {name.lower(): name for name in known} if self._connector.any_case else {}
        for option in self._table.options:
            name = option.name.value
            self._places[name] = option
            if name in (_CONNECTOR, _FORMAT) or name in _OF_VERSIONS:
                continue
            if self._connector.formats and name.partition(".")[0] in formats.OPTIONS:
                of_format[name] = option
                continue
            if name not in known and name.lower() in by_small:
                self._warn(option, f"the option {name} is spelled {by_small[name.lower()]}.")
                name = by_small[name.lower()]
                self._places[name] = option
            if name not in known:
                raise self._unknown(option, known)
            if name in own:
                raise self._text.refusal(option.name, f"the option {name} is set twice.")
            own[name] = option
        return own, of_format

    def _unknown(self, option: OptionText, known: Iterable[str]) -> TextRefused:
        name = option.name.value
        names = sorted({*known, *([_FORMAT] if self._connector.formats else [])})
        shown = [one for one in names if not one.startswith("fields.")]
        columns = " and fields.<column>.…" if len(shown) < len(names) else ""
        return self._text.refusal(
            option.name,
            f"the connector {self._connector.name} has no option {name}.{near(name, names)} It has"
            f" {_listed(shown)}{columns}.",
        )

    def _warn(self, option: OptionText, sentence: str) -> None:
        line, column = self._text.place(option.name.start)
        self._warnings.append(f"Line {line}, column {column}: {sentence}")

    def _read(
        self, known: Mapping[str, Option], written: Mapping[str, OptionText], before: str = ""
    ) -> dict[str, Value]:
        found: dict[str, Value] = {}
        is_own = not self._connector.own & written.keys()
        for name, option in known.items():
            place = written.get(before + name)
            stored = option.stored_as or name
            if place is not None:
                if stored != name and stored in written:
                    raise self._text.refusal(place.name, f"{name} and {stored} are both set; allowed is one of them.")
                found[stored] = self._value(option, place, before + name)
                if (idle := self._idle(before, name)) is not None:
                    self._warn(place, f"{before}{name} has no effect: {idle}.")
                beside, why = _IDLE_BESIDE.get((self._connector.name, before + name), ("", ""))
                if beside in written:
                    self._warn(place, f"{name} has no effect beside {beside}: {why}.")
            elif option.required and not (name in self._connector.own and is_own):
                raise self._text.refusal(
                    self._table.name, f"table {self._table.name.value} needs the option '{name}' for {self._purpose()}."
                )
            elif option.default is not None and stored not in found:
                found[stored] = option.default
        return found

    def _idle(self, before: str, name: str) -> str | None:
        """Why an option means nothing here; `before` is the format with a point, or empty."""
        connector = self._connector.name
        keys = ((connector, before + name), (connector, self._role, before + name), (before.rstrip("."), name))
        return next((_IDLE[key] for key in keys if key in _IDLE), None)

    def _purpose(self) -> str:
        return "reading" if self._role == SOURCE else "writing"

    def _value(self, option: Option, place: OptionText, name: str) -> Value:
        written = self._values.filled(self._text, place.value, secrets_allowed=option.name in CREDENTIALS)
        try:
            value = option.read(written)
        except ValueError as error:
            shown = "what is written" if option.secret else f"'{written}'"
            raise self._text.refusal(place.value, f"{name} cannot be {shown}; allowed is {error}.") from None
        if option.secret and isinstance(value, str):
            return self._values.hidden(self._text, place.value, value)
        return value

    def _format(self, body: Mapping[str, str], written: Mapping[str, OptionText]) -> tuple[str, dict[str, Value]]:
        connector = self._connector
        place = self._places.get(_FORMAT)
        if not connector.formats:
            if place is not None:
                raise self._text.refusal(place.name, f"the connector {connector.name} has no option format.")
            return (_format_of_mq(body) if connector.name == "mq" else ""), {}
        if place is None:
            raise self._text.refusal(
                self._table.name,
                f"table {self._table.name.value} needs the option 'format': {_listed(connector.formats)}.",
            )
        name = self._values.filled(self._text, place.value, secrets_allowed=False).lower()
        if name not in connector.formats:
            raise self._text.refusal(
                place.value,
                f"format cannot be '{name}'; allowed are {_listed(connector.formats)}.{near(name, connector.formats)}",
            )
        known = {option.name: option for option in formats.OPTIONS[name]}
        for key, option in written.items():
            form, _, rest = key.partition(".")
            if form != name:
                raise self._text.refusal(option.name, f"{key} is an option of {form}, and the format is {name}.")
            if rest not in known:
                raise self._text.refusal(
                    option.name, f"the format {name} has no option {rest}.{near(rest, known)} It has {_listed(known)}."
                )
        values = self._read(known, written, f"{name}.")
        for key, default in connector.format_defaults.items():
            if key not in written and key.startswith(f"{name}."):
                values[key.removeprefix(f"{name}.")] = default
        self._require(formats.wrong(name, values, tuple(body.items())))
        return name, values

    def _require_columns(self) -> None:
        for column in self._columns:
            if not column.metadata or self._role == SINK:
                continue
            metadata = self._connector.metadata
            token = next(one.name for one in self._table.columns if one.name.value == column.name)
            if column.metadata not in metadata:
                has = f"it has {_listed(metadata)}" if metadata else "it has none"
                raise self._text.refusal(
                    token,
                    f"the connector {self._connector.name} has no metadata {column.metadata}; {has}."
                    f"{near(column.metadata, metadata)}",
                )
            if column.type not in (metadata[column.metadata], "string"):
                raise self._text.refusal(
                    token, f"the metadata {column.metadata} is {metadata[column.metadata]}, and not {column.type}."
                )

    def _require(self, wrong: Wrong | None) -> None:
        if wrong is None:
            return
        place: Any = self._places.get(wrong.option)
        column = next((one.name for one in self._table.columns if one.name.value == wrong.column), None)
        at = place.value if place is not None else column or self._table.name
        raise self._text.refusal(at, wrong.sentence)


def _format_of_mq(body: Mapping[str, str]) -> str:
    return "binary" if [*body.values()] == ["binary"] else "csv"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
