"""What the lake keeps for a while only: samples with their rollups, results of statements, and drafts of the killed."""

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime

from analytics import lake
from analytics.lake.locations import SNAPSHOTS


def drop_samples(before: date) -> int:
    """Delete samples and rollups of the UTC days before `before`; returns how many days went. Raises LakeError."""
    days = [day for day in lake.metrics_days() if day < before]
    for day in days:
        lake.remove(lake.metrics_location(day))
    return len(days)


def drop_results(before: date) -> int:
    """Delete results of statements submitted before the UTC day `before`; returns how many folders went.

    A reader in the middle of one reads on where the lake is a folder, and is told that it is gone elsewhere.
    Raises LakeError.
    """
    folders = [folder for day, folder in _result_days() if day < before]
    for folder in folders:
        lake.remove(folder)
    return len(folders)


def drop_drafts(before: datetime, buckets: Iterable[str]) -> int:
    """Delete what writers left that were killed before a time, in these buckets and those of results.

    Snapshots of statements that were killed count as drafts. Returns how many went. Raises LakeError.
    """
    before_ms = int(before.timestamp() * 1000)
    return lake.drop_drafts(before_ms, buckets) + _drop_snapshots(before_ms)


def _drop_snapshots(before_ms: int) -> int:
    old = [file.location for file in lake.files(SNAPSHOTS) if file.modified_ms < before_ms]
    for location in old:
        lake.remove(location.rpartition("/")[0])
    return len(old)


def _result_days() -> Iterator[tuple[date, str]]:
    """Every account's folders of results, by day; what has another form is left alone."""
    for bucket in lake.result_buckets():
        for year in _numbered(f"oss://{bucket}/DLA_Result", 4):
            for month in _numbered(year, 2):
                for day in _numbered(month, 2):
                    try:
                        yield date.fromisoformat("-".join(day.split("/")[-3:])), day
                    except ValueError:
                        continue


def _numbered(folder: str, digits: int) -> list[str]:
    return [f"{folder}/{name}" for name in lake.folders(folder) if re.fullmatch(rf"[0-9]{{{digits}}}", name)]
