"""The buckets of a tenant and the files in them: who may see and change what, and how."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, TypeVar

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from analytics import lake
from analytics.errors import LakeError
from analytics.lake import Place, parse_location
from console.accounts.access import require
from console.accounts.actor import Actor, oss_resource
from console.audit import record as audit
from console.catalog import bucket_events, locations, queries, storage
from console.catalog.models import Bucket, BucketChange, ExternalTable, Schema
from console.web.errors import Refused

Answer = TypeVar("Answer")
LIST, CREATE, DELETE = "dla:ListBuckets", "dla:CreateBucket", "dla:DeleteBucket"
READ, WRITE = "dla:ReadBucket", "dla:WriteBucket"
#: As OSS names them.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
#: Names of buckets that results and our own jobs write to.
_RESERVED = ("aliyun-oa-", "gantry-")
#: Files of a folder that a page lists.
MOST_FILES = 5_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A folder or a file of a folder. A folder's `size` is None."""

    name: str
    location: str
    size: int | None = None
    modified: datetime | None = None

    @property
    def key(self) -> str:
        """The location without its bucket."""
        return self.location.removeprefix("oss://").partition("/")[2]


@dataclass(frozen=True, slots=True)
class Usage:
    """A bucket, how large it is (None: the lake does not say), and the tables over it that the caller may query."""

    bucket: Bucket
    size: int | None
    tables: list[str]


def visible(actor: Actor) -> list[Bucket]:
    """The buckets of the tenant that the caller may list or read in."""
    found = Bucket.objects.filter(tenant=actor.tenant)
    return [bucket for bucket in found if _may(actor, LIST, bucket.name) or _may(actor, READ, bucket.name)]


def usage(actor: Actor, buckets: Iterable[Bucket]) -> list[Usage]:
    """Size and tables of each."""
    tables = [table for found in queries.readable_schemas(actor).values() for table in found]
    return [Usage(bucket, _size(bucket), names_over(tables, location(bucket.name))) for bucket in buckets]


def names_over(tables: Iterable[ExternalTable], folder: str) -> list[str]:
    """`schema.table` of those that lie in or below a folder, or above it and so have its files too."""
    return sorted(
        f"{t.schema.name}.{t.name}"
        for t in tables
        if t.location.startswith(folder) or folder.startswith(f"{t.location.rstrip('/')}/")
    )


def tables_over(actor: Actor, folder: str) -> list[str]:
    """Names of the tables over a folder that the caller may query."""
    return names_over((t for found in queries.readable_schemas(actor).values() for t in found), folder)


def entries(folder: Place) -> list[Entry]:
    """Folders, then files of a folder; at most MOST_FILES. Raises LakeError."""
    base = folder.as_folder
    folders = [Entry(name, f"{base}{name}/") for name in sorted(lake.folders(folder))]
    files = [file for file in lake.files(folder) if "/" not in file.location[len(base) :]]
    return folders + [
        Entry(
            file.location[len(base) :], file.location, file.size, datetime.fromtimestamp(file.modified_ms / 1000, UTC)
        )
        for file in files[:MOST_FILES]
    ]


def location(bucket: str, key: str = "") -> str:
    """The folder `key` of a bucket, with a slash at the end. Raises Refused when it is malformed."""
    written = f"oss://{bucket}/{key.strip('/')}/" if key.strip("/") else f"oss://{bucket}/"
    try:
        parse_location(written)
    except LakeError as error:
        raise Refused("LOCATION_INVALID", error.user_message, "folder") from error
    return written


def create(actor: Actor, name: str) -> Bucket:
    """Make a bucket. Raises Refused when the name is malformed, reserved or taken, by whomever."""
    require(actor, CREATE, oss_resource(actor.tenant, name), owner=actor.tenant)
    if not _NAME.fullmatch(name):
        raise Refused(
            "BUCKET_NAME_INVALID",
            _("A bucket's name has 3 to 63 lower-case letters, digits and hyphens, and no hyphen at its ends."),
            "name",
        )
    if name.startswith(_RESERVED):
        raise Refused(
            "BUCKET_NAME_INVALID",
            _("Names with %(reserved)s at the beginning are reserved.") % {"reserved": " or ".join(_RESERVED)},
            "name",
        )
    message = _("The name %(name)s is taken; names of buckets are unique over all accounts.") % {"name": name}
    # What lies in the storage already is somebody's: the lake's AccessKey may see more than our buckets.
    if not Bucket.objects.filter(name=name).exists() and not _is_free(name):
        raise Refused("BUCKET_EXISTS", message, "name")
    try:
        with transaction.atomic():
            bucket = Bucket.objects.create(tenant=actor.tenant, name=name)
            audit.record(actor, "sql.bucket.create", oss_resource(actor.tenant, name))
    except IntegrityError as error:
        raise Refused("BUCKET_EXISTS", message, "name") from error
    return bucket


def _is_free(name: str) -> bool:
    try:
        return lake.is_free(name)
    except LakeError as error:
        raise Refused(
            "LAKE_UNAVAILABLE",
            _("The lake refuses it: %(user_message)s.") % {"user_message": error.user_message},
            "name",
        ) from error


def delete(actor: Actor, bucket: Bucket) -> None:
    """Delete a bucket with its files. Raises Refused while a table or a schema lies in it."""
    resource = oss_resource(actor.tenant, bucket.name)
    require(actor, DELETE, resource, owner=actor.tenant)
    inside = location(bucket.name)
    locations.require_files(actor, WRITE, inside)
    _require_unused(actor, bucket, inside)
    changes = _asked(bucket_events.begin_removal, actor, inside)
    try:
        with transaction.atomic():
            _require_unused(actor, bucket, inside)
            audit.record(actor, "sql.bucket.delete", resource)
            bucket_events.settle(changes, is_done=True)  # while there are rules that can say what they want
            bucket.delete()
            _asked(lake.remove, f"oss://{bucket.name}")
            storage.changed(actor.tenant)
    except BaseException:
        bucket_events.settle_again(changes)
        raise


def _require_unused(actor: Actor, bucket: Bucket, inside: str) -> None:
    tables = ExternalTable.objects.filter(schema__tenant=actor.tenant, location__startswith=inside)
    schemas = Schema.objects.filter(tenant=actor.tenant, location__startswith=inside)
    count, others = tables.count(), schemas.count()
    if count or others:
        raise Refused(
            "BUCKET_IN_USE",
            _("Tables (%(count)s) and schemas (%(others)s) are in %(bucket)s: drop them first.")
            % {"count": count, "others": others, "bucket": bucket.name},
            "name",
        )


def upload(actor: Actor, folder: Place, name: str, content: IO[bytes], size: int) -> None:
    """Put a file into a folder, whole or not at all; one of that name is replaced. Raises Refused,
    also when the account may store no more."""
    name = unicodedata.normalize("NFC", name)  # macOS takes letters apart
    if size > settings.LAKE_UPLOAD_BYTES:
        raise Refused(
            "FILE_TOO_LARGE",
            _("%(name)s has %(size)s bytes; %(lake_upload_bytes)s are allowed.")
            % {"name": name, "size": f"{size:,}", "lake_upload_bytes": f"{settings.LAKE_UPLOAD_BYTES:,}"},
            "content",
        )
    if not name or "/" in name or name.startswith((".", "_")) or len(name) > 200:
        raise Refused(
            "FILE_NAME_INVALID",
            _("%(name)r is not a file name: it must not contain a slash, or begin with a dot or _.") % {"name": name},
            "content",
        )
    try:
        place = folder.child(name)
    except LakeError as error:
        raise Refused("FILE_NAME_INVALID", f"{error.user_message}.", "content") from error
    if folder.is_hidden:
        raise Refused(
            "FOLDER_NAME_INVALID",
            _("%(key)r cannot hold files: folders that begin with . or _ are for the unfinished files of statements.")
            % {"key": folder.key},
            "folder",
        )
    locations.require_place(actor, WRITE, place)
    resource = locations.resource_of(actor, place)
    storage.reserve(actor.tenant, size)
    try:
        with _told(actor, bucket_events.PUT, place) as changes:
            digested = bucket_events.Digested(content)
            _asked(lake.write_file, place, digested if changes else content)
            for change in changes:
                change.digest = digested.hexadecimal
    except BaseException:
        storage.release(actor.tenant, size)
        raise
    storage.note_written(actor.tenant, size)
    audit.record(actor, "sql.file.upload", resource, detail={"bytes": size})


def delete_file(actor: Actor, place: Place) -> None:
    """Delete one file. Raises Refused when the lake does not answer."""
    locations.require_place(actor, WRITE, place)
    resource = locations.resource_of(actor, place)
    with _told(actor, bucket_events.DELETE, place):
        _asked(lake.remove, place)
    storage.changed(actor.tenant)
    audit.record(actor, "sql.file.delete", resource)


def may_upload(actor: Actor, name: str, folder: str = "") -> bool:
    """True when the actor may write to a folder of a bucket of the own account, or to the bucket as a whole."""
    if not Bucket.objects.filter(tenant=actor.tenant, name=name).exists():
        return False
    resources = {oss_resource(actor.tenant, name, key) for key in ("", folder.strip("/"))}
    return any(actor.decide(WRITE, resource, owner=actor.tenant).allowed for resource in resources)


@contextmanager
def _told(actor: Actor, event: str, place: Place) -> Iterator[list[BucketChange]]:
    try:
        with bucket_events.told(actor, event, [place]) as changes:
            yield changes
    except LakeError as error:
        raise Refused(
            "LAKE_UNAVAILABLE",
            _("The lake refuses it: %(user_message)s") % {"user_message": error.user_message},
            "content",
        ) from error


def _asked(call: Callable[..., Answer], *arguments: object) -> Answer:
    """What the lake answers. Raises Refused."""
    try:
        return call(*arguments)
    except LakeError as error:
        raise Refused(
            "LAKE_UNAVAILABLE",
            _("The lake refuses it: %(user_message)s") % {"user_message": error.user_message},
            "content",
        ) from error


def _size(bucket: Bucket) -> int | None:
    try:
        return lake.size_of(f"oss://{bucket.name}")
    except LakeError:
        return None


def _may(actor: Actor, action: str, bucket: str) -> bool:
    return actor.decide(action, oss_resource(actor.tenant, bucket), owner=actor.tenant).allowed
