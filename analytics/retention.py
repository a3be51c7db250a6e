"""What the lake keeps for a while only: samples with their rollups, and results of statements, by UTC day."""

import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from analytics import lake

_RESULT_DAYS = "aliyun-oa-query-results-*/DLA_Result/[0-9][0-9][0-9][0-9]/[0-9][0-9]/[0-9][0-9]"


def drop_samples(before: date) -> int:
    """Delete samples and rollups of the UTC days before `before`; returns how many days went."""
    days = [day for day in lake.metrics_days() if day < before]
    for day in days:
        _remove(lake.metrics_folder(day))
    return len(days)


def drop_results(before: date) -> int:
    """Delete results of statements submitted before the UTC day `before`; returns how many folders went."""
    folders = [folder for day, folder in _result_days() if day < before]
    for folder in folders:
        _remove(folder)
    return len(folders)


def _result_days() -> Iterator[tuple[date, Path]]:
    """Every account's folders of results, by day; what has another form is left alone."""
    for folder in lake.root().glob(_RESULT_DAYS):
        year, month, day = (int(part) for part in folder.parts[-3:])
        try:
            found = date(year, month, day)
        except ValueError:
            continue
        if folder.is_dir() and not folder.is_symlink():
            yield found, folder


def _remove(folder: Path) -> None:
    """A reader that has a file open reads on; a second sweep at the same time does no harm."""
    shutil.rmtree(folder, ignore_errors=True)
