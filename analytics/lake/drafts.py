"""Sweeps what writers left that were killed: drafts in a folder, uploads in object storage. Nobody ever saw them."""

import re
from collections.abc import Iterable

from analytics.lake import store
from analytics.lake.locations import DRAFT, RESULT_BUCKETS, Place, parse

_DRAFT = re.compile(rf"(.*/{re.escape(DRAFT)}[0-9a-f]{{32}})(?:/.*)?")


def drop(before_ms: int, buckets: Iterable[str]) -> int:
    """Delete drafts in which nothing changed since `before_ms` (UTC), in the given buckets and those of results.

    Returns how many. Only our own names are touched: a file of a tenant that merely is hidden stays.
    """
    storage = store.get()
    dropped = 0
    for bucket in sorted({*buckets, *filter(RESULT_BUCKETS.fullmatch, storage.buckets())}):
        newest: dict[str, int] = {}
        for file in storage.files(Place(bucket, ""), hidden=True):
            if found := _DRAFT.fullmatch(file.location):
                newest[found[1]] = max(newest.get(found[1], 0), file.modified_ms)
        for location, changed_ms in newest.items():
            if changed_ms < before_ms:
                storage.remove(parse(location))
                dropped += 1
        dropped += storage.remove_unfinished(bucket, before_ms)
    return dropped
