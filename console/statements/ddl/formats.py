"""Formats of tables and the options of their readers: Hive's words and Spark's, as Spark's reader takes them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from analytics import option_values
from analytics.specs import READER_OPTIONS
from console.statements.ddl.words import Reader, refusal

FORMATS = ("parquet", "orc", "json", "csv")
#: As USING and STORED AS name them; textfile is Hive's delimited text.
NAMED_FORMATS = (*FORMATS, "textfile")
ALLOWED_FORMATS = ", ".join(NAMED_FORMATS)
#: By format: the options of Spark's reader that a table may set, each under one name.
OPTIONS = {name: tuple(option for option in options if option != "sep") for name, options in READER_OPTIONS.items()}
_SAME = {"sep": "delimiter", "charset": "encoding"}
#: Hive's classes, by the end of their name.
_SERDES = {
    "opencsvserde": "csv",
    "csvserde": "csv",
    "jsonserde": "json",
    "parquethiveserde": "parquet",
    "orcserde": "orc",
    "lazysimpleserde": "textfile",
}
_SERDE_PROPERTIES = {
    "separatorchar": "delimiter",
    "quotechar": "quote",
    "escapechar": "escape",
    "field.delim": "delimiter",
    "serialization.format": "delimiter",
    "serialization.null.format": "nullValue",
    "escape.delim": "escape",
}
_SKIPPED_LINES = "skip.header.line.count"
_COMPRESSIONS = {"parquet": "parquet.compression", "orc": "orc.compress"}
#: Properties of Hive that stand for an option, whatever the format.
HIVE_PROPERTIES = frozenset({_SKIPPED_LINES, *_COMPRESSIONS.values()})
#: What Hive's text files have: no header, no quotes, \N for null.
_TEXTFILE = {
    "header": "false",
    "delimiter": "\x01",
    "quote": "",
    "escape": "\\",
    "multiLine": "false",
    "nullValue": "\\N",
}
_OPEN_CSV = {"header": "false", "delimiter": ",", "quote": '"', "escape": "\\"}


@dataclass
class Storage:
    """What a definition has said so far about how the files are written."""

    format: str = ""
    options: dict[str, str] = field(default_factory=dict)
    #: From ROW FORMAT: the text format it is about, and what it sets there.
    row_format: str = ""
    row_options: dict[str, str] = field(default_factory=dict)

    def resolved(self, properties: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Format and options for Spark's reader; what the table's properties say about them included."""
        written = self.format
        if self.row_format and written in ("", "textfile"):
            written = self.row_format
        options = {"textfile": _TEXTFILE, "opencsv": _OPEN_CSV}.get(written, {}) | self.row_options | self.options
        name = {"": "parquet", "textfile": "csv", "opencsv": "csv"}.get(written, written)
        return name, options | of_properties(name, properties)


def of_properties(name: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Options that table properties of Hive stand for."""
    options = {}
    if name == "csv" and _SKIPPED_LINES in properties:
        options["header"] = "false" if properties[_SKIPPED_LINES] == "0" else "true"
    if name in _COMPRESSIONS and _COMPRESSIONS[name] in properties:
        options["compression"] = properties[_COMPRESSIONS[name]].lower()
    return options


def read_format(reader: Reader) -> str:
    """The format behind `using` or `stored as`."""
    token = reader.advance()
    name = token.value.lower()
    if token.kind not in ("word", "name") or name not in NAMED_FORMATS:
        raise refusal(
            token.line,
            _("the format %(token)s is not supported; allowed are %(allowed_formats)s.")
            % {"token": token, "allowed_formats": ALLOWED_FORMATS},
        )
    return name


def checked(name: str, options: Mapping[str, str], line: int) -> dict[str, str]:
    """The options in Spark's spelling. Raises Refused, which names the option and what is allowed."""
    known = {option.lower(): option for option in OPTIONS[name]}
    found = {}
    for written, value in options.items():
        word = written.lower()
        option = known.get(_SAME.get(word, word).lower())
        if option is None:
            raise refusal(
                line,
                _("the option %(written)r is not supported for %(name)s; allowed are %(options)s.")
                % {"written": written, "name": name, "options": ", ".join(OPTIONS[name])},
            )
        if problem := option_values.problem(option, value):
            raise refusal(
                line,
                _("the %(option)s %(value)r is not supported; %(problem)s.")
                % {"option": option, "value": value[:80], "problem": problem},
            )
        found[option] = value
    return found


def read_pairs(reader: Reader) -> dict[str, str]:
    """`('name' = 'value', name 'value')`; names keep their case, parts of a name are joined by points."""
    reader.expect("(")
    found = {}
    while not reader.accept(")"):
        name = reader.value(_("the name of a property"))
        while reader.accept("."):
            name += f".{reader.value('the name of a property')}"
        reader.accept("=")
        found[name] = reader.value(_("a value in quotes"))
        if not reader.accept(","):
            reader.expect(")")
            break
    return found


def read_row_format(reader: Reader, storage: Storage) -> None:
    """What stands behind `row format`."""
    if reader.accept("delimited"):
        storage.row_format = "textfile"
        _read_delimited(reader, storage.row_options)
        return
    reader.expect("serde")
    line = reader.next.line
    name = reader.text(_("the class of a SerDe"))
    kind = _SERDES.get(name.rsplit(".", 1)[-1].lower())
    if kind is None:
        raise refusal(
            line,
            _("the SerDe %(name)r is not supported; allowed are those of text, CSV, JSON, Parquet and ORC.")
            % {"name": name},
        )
    storage.row_format = "opencsv" if kind == "csv" else kind
    if reader.accept("with", "serdeproperties"):
        pairs = read_pairs(reader)
        if kind in ("csv", "textfile"):
            known = {_SERDE_PROPERTIES[n.lower()]: v for n, v in pairs.items() if n.lower() in _SERDE_PROPERTIES}
            storage.row_options |= known


def _read_delimited(reader: Reader, options: dict[str, str]) -> None:
    while True:
        if reader.accept("fields", "terminated", "by"):
            options["delimiter"] = reader.text(_("the delimiter"))
            if reader.accept("escaped", "by"):
                options["escape"] = reader.text(_("the escape character"))
        elif reader.accept("lines", "terminated", "by"):
            _only_line_feed(reader)
        elif reader.accept("null", "defined", "as"):
            options["nullValue"] = reader.text(_("the text of null"))
        elif reader.accept("collection", "items", "terminated", "by") or reader.accept(
            "map", "keys", "terminated", "by"
        ):
            raise refusal(
                reader.next.line,
                _("text files hold no arrays and maps here; use json, parquet or orc for nested columns."),
            )
        else:
            return


def _only_line_feed(reader: Reader) -> None:
    token = reader.next
    if reader.text(_("the end of lines")) not in ("\n", "\r\n"):
        raise refusal(token.line, _("lines can only be terminated by '\\n'."))
