"""What the files of a folder look like: their format, columns and partitions. One file is looked at (`look`)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from analytics import lake, look
from analytics.errors import LakeError
from analytics.specs import Column

_ENDINGS = {"parquet": "parquet", "orc": "orc", "json": "json", "jsonl": "json", "ndjson": "json", "csv": "csv"}
_TEXT_ENDINGS = {"tsv": "\t", "txt": ","}
_INTEGER = re.compile(r"-?\d{1,18}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Inferred:
    """A proposal for a table over a folder; the columns of partitions are the last ones."""

    format: str
    columns: tuple[Column, ...]
    partitions: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()


def infer_table(location: str, file_format: str | None, options: Mapping[str, str], holder: str = "") -> Inferred:
    """Look at the first file of a folder; without `file_format` its ending tells. Raises LakeError with the reason.

    `holder` is the account that asks: it does not take all the processes that look.
    """
    files = [file for file in lake.files(location) if file.size > 0]
    if not files:
        raise LakeError(f"There are no files in {location} to take the columns from.")
    first = files[0]
    name = first.location.rsplit("/", 1)[-1]
    found, delimiter = _format_of(name)
    file_format = file_format or found
    if file_format is None:
        raise LakeError(f"The ending of {name} tells no format; known are {', '.join([*_ENDINGS, *_TEXT_ENDINGS])}.")
    chosen = dict(options)
    if file_format == "csv" and delimiter and "delimiter" not in chosen:
        chosen["delimiter"] = delimiter
    columns = look.columns_of(first, file_format, chosen, holder)
    if file_format in ("csv", "json"):  # text without a zone is read in the session's, which is UTC
        columns = [Column(c.name, c.type.replace("timestamp_ntz", "timestamp")) for c in columns]
    partitions = _partitions(location, [file.location for file in files])
    names = {partition.name.lower() for partition in partitions}
    own = [column for column in columns if column.name.lower() not in names]
    return Inferred(
        file_format,
        (*own, *partitions),
        tuple(partition.name for partition in partitions),
        tuple(sorted(chosen.items())),
    )


def _format_of(name: str) -> tuple[str | None, str]:
    """Format and, for text, its delimiter, by the ending of a name."""
    plain = name.lower()
    for packed in look.PACKED:
        plain = plain.removesuffix(packed)
    ending = plain.rpartition(".")[2]
    if ending in _TEXT_ENDINGS:
        return "csv", _TEXT_ENDINGS[ending]
    return _ENDINGS.get(ending), ""


def _partitions(location: str, files: list[str]) -> list[Column]:
    """Columns that all files have in the names of their folders: `day=2026-01-15/`."""
    base = len(location.rstrip("/")) + 1
    named: list[tuple[str, ...]] = []
    seen: dict[str, list[str]] = {}
    for file in files:
        pairs = [part.partition("=") for part in file[base:].split("/")[:-1]]
        if not pairs or any(not separator for _, separator, _ in pairs):
            return []
        named.append(tuple(key for key, _, _ in pairs))
        for key, _, value in pairs:
            seen.setdefault(key, []).append(value)
    if len(set(named)) != 1:
        raise LakeError(f"The folders below {location} do not all name the same columns.")
    return [Column(key, _type_of_values(seen[key])) for key in named[0]]


def _type_of_values(values: list[str]) -> str:
    given = [value for value in values if value != "__HIVE_DEFAULT_PARTITION__"]
    if given and all(_INTEGER.fullmatch(value) for value in given):
        leading = any(len(v.lstrip("-")) > 1 and v.lstrip("-").startswith("0") for v in given)
        return "string" if leading else ("int" if all(len(v) <= 9 for v in given) else "bigint")
    if given and all(_DAY.fullmatch(value) for value in given):
        return "date"
    return "string"
