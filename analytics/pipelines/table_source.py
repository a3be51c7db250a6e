"""Sources of Spark's that are made for one table of one pipeline.

They have no options: what they need, keys too, is part of a class that Spark only ever pickles. No plan, catalog, event
or log has it.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pyspark.sql.datasource import DataSource


class TableSource(DataSource):
    """The base of such sources; each kind has its readers."""

    #: Everything that a reader needs.
    source: Any
    columns: str
    label: str

    @classmethod
    def name(cls) -> str:
        """The provider's name in the session."""
        return cls.label

    def schema(self) -> str:
        """The columns of the table."""
        return self.columns


_Kind = TypeVar("_Kind", bound=TableSource)


def made(kind: type[_Kind], label: str, source: object, columns: str) -> type[_Kind]:
    """A source of a kind under the provider name `label`, which reads that one thing and nothing else."""
    parts: dict[str, Any] = {"source": source, "columns": columns, "label": label, "__module__": kind.__module__}
    return type(f"{kind.__name__}OfOne", (kind,), parts)
