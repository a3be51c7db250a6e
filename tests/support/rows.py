"""What a fixture has made in the database by a hundred statements, written again for each further test by a few."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from django.apps import apps
from django.db import connection
from django.db.models import Field, Model
from django.utils import timezone

Made = TypeVar("Made")


class Rows:
    """All rows of some tables, from the first time that they were made in this run."""

    def __init__(self, *models: type[Model]) -> None:
        self._models = models
        self._kept: list[tuple[type[Model], Model]] = []

    def can_be_written(self) -> bool:
        """Whether the rows are known, and nobody is to be told of them: outside a transaction others are, at once."""
        return bool(self._kept) and connection.in_atomic_block and not self._filled(self._models)

    def kept_from(self, make: Callable[[], Made]) -> Made:
        """What `make` returns, keeping the rows if they are all there are of the tables, each after what it refers to.

        It must write to no other table.
        """
        everything = apps.get_models(include_auto_created=True)
        others = [model for model in everything if model not in self._models]
        alone = connection.in_atomic_block and not self._filled(self._models)
        before = _counts(others) if alone else {}
        made = make()
        if alone:
            assert _counts(others) == before, "rows of a further table would be lost"
            self._kept = [(model, row) for model in self._models for row in model._base_manager.order_by("pk")]
        return made

    def of(self, model: type[Model]) -> list[Any]:
        """The rows of one table, as they were made first."""
        return [row for kept, row in self._kept if kept is model]

    def write(self, texts: Mapping[str, str], given: Mapping[type[Model], Model]) -> dict[type[Model], list[Any]]:
        """The rows once more, made now: with other texts where one is in `texts`, belonging to what is `given`."""
        now = timezone.now()
        copies: dict[tuple[Any, Any], Model] = {}
        written: dict[type[Model], list[Any]] = {}

        def value(row: Model, field: Field[Any, Any]) -> Any:
            found = getattr(row, field.attname)
            if isinstance(found, datetime):
                return now
            if isinstance(found, str):
                for old, new in texts.items():
                    found = found.replace(old, new)
            elif field.is_relation and found is not None:
                of: Any = field.related_model
                return given.get(of) or copies[of, found]
            return found

        for model in self._models:
            fields = [field for field in model._meta.concrete_fields if not field.primary_key]
            rows = self.of(model)
            written[model] = [model(**{field.name: value(row, field) for field in fields}) for row in rows]
            model._base_manager.bulk_create(written[model])
            copies |= {(model, row.pk): copy for row, copy in zip(rows, written[model], strict=True)}
        return written

    @staticmethod
    def _filled(models: tuple[type[Model], ...]) -> bool:
        return any(model._base_manager.exists() for model in models)


def _counts(models: list[type[Model]]) -> dict[type[Model], int]:
    return {model: model._base_manager.count() for model in models}
