"""A lake in an S3-compatible object storage.

An object appears when its upload is completed, so no reader sees half of one. botocore and not Arrow's S3 client, which
completes an upload also when its writer failed.
"""

import io
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from threading import Lock
from types import TracebackType
from typing import IO, Any, Self

from analytics.errors import LakeError, LakeUnavailable
from analytics.lake.locations import LakeFile, Place, is_hidden, parse_location
from analytics.settings import ObjectStorage

_log = logging.getLogger(__name__)
_MISSING = {"NoSuchKey", "NoSuchBucket", "NoSuchUpload", "NotFound", "404"}
_REPLACED = {"PreconditionFailed", "412"}
#: S3: a part of an upload, except the last, has at least 5 MiB, and a copied one at most 5 GiB.
LEAST_PART_BYTES = 5 * 1024**2
#: A part that we send. 10,000 of them, the most of an upload, are 156 GiB.
PART_BYTES = 16 * 1024**2
#: A part that the storage copies.
_COPIED_PART_BYTES = 256 * 1024**2
#: Requests of one upload at a time; so many parts are in memory.
_AT_ONCE = 4
#: Asked for at a time when a file is read: few requests, and a page that shows its first rows wastes little.
_READ_BYTES = 2 * 1024**2
#: CopyObject takes 5 GiB; from here on a file is copied in parts, which the storage does side by side.
_LARGE_COPY_BYTES = 1024**3
#: The most that one DeleteObjects takes.
_DELETED_AT_ONCE = 1000
#: A storage that is away is noticed in seconds, s.
_CONNECT_S, _ANSWER_S = 3, 60


@contextmanager
def told(place: Place, *, missing_is_fine: bool = False) -> Iterator[None]:
    """Errors of the block as LakeError. The storage's own words, with its address, go to the log."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", "no code"))
        if code in _MISSING:
            if missing_is_fine:
                return
            raise LakeError(f"there is no file {place.location}", is_missing=True) from error
        if code in _REPLACED:
            raise LakeError(f"{place.location} was replaced while it was read; read it again") from error
        _log.error("the object storage refused %s: %s", place.location, error)
        failed = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500
        verb = "failed at" if failed else "refuses the lake's access to"
        raise LakeUnavailable(f"the object storage {verb} {place.location}: it answered {code}") from error
    except NoCredentialsError as error:
        raise LakeUnavailable("the lake has no AccessKey for its object storage") from error
    except BotoCoreError as error:
        _log.error("the object storage did not answer for %s: %s", place.location, error)
        raise LakeUnavailable("the object storage of the lake does not answer; try again in a few minutes") from error


@dataclass(frozen=True, slots=True)
class Source:
    """An object as it was when it was looked at."""

    bucket: str
    key: str
    size: int
    etag: str

    def read(self, client: Any, start: int, length: int) -> bytes:
        """Some of its bytes; the client's error PreconditionFailed when it is another one meanwhile."""
        wanted = f"bytes={start}-{start + length - 1}"
        answer = client.get_object(Bucket=self.bucket, Key=self.key, Range=wanted, IfMatch=self.etag)
        content: bytes = answer["Body"].read()
        return content

    @property
    def copy_request(self) -> dict[str, Any]:
        """What a request to copy it says."""
        return {"CopySource": {"Bucket": self.bucket, "Key": self.key}, "CopySourceIfMatch": self.etag}


class Upload:
    """Completed when its block ends well; given up, with nothing left behind, when it does not."""

    def __init__(self, client: Any, bucket: str, key: str) -> None:
        self._client = client
        self._target = {"Bucket": bucket, "Key": key}
        self._id: str | None = None
        self._pending = bytearray()
        self._done = False
        self._parts: list[Future[str]] = []
        self._running: deque[Future[str]] = deque()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lake-upload")
        #: Bytes so far.
        self.size = 0

    def add(self, content: bytes) -> None:
        """Append bytes."""
        self._pending += content
        self.size += len(content)
        if len(self._pending) >= PART_BYTES:
            self._send()

    def copy(self, source: Source) -> None:
        """Append an object, which the storage copies itself as far as its sizes of parts let it."""
        start = 0
        if self._pending:
            start = min(source.size, max(0, LEAST_PART_BYTES - len(self._pending)))
        if source.size - start < LEAST_PART_BYTES:
            start = source.size
        if start:
            self.add(source.read(self._client, 0, start))
        rest = source.size - start
        if not rest:
            return
        self._send()
        pieces = -(-rest // _COPIED_PART_BYTES)
        ends = [start + rest * number // pieces for number in range(pieces + 1)]
        for first, end in pairwise(ends):
            wanted = {"CopySourceRange": f"bytes={first}-{end - 1}", **source.copy_request}
            self._submit("upload_part_copy", "CopyPartResult", wanted)
        self.size += rest

    def copy_whole(self, source: Source) -> None:
        """Make the object a copy of another, of up to 5 GiB, by one request."""
        self._client.copy_object(**self._target, **source.copy_request)
        self.size, self._done = source.size, True

    def _send(self) -> None:
        if self._pending:
            content, self._pending = bytes(self._pending), bytearray()
            self._submit("upload_part", None, {"Body": content})

    def _submit(self, operation: str, holder: str | None, request: dict[str, Any]) -> None:
        if self._id is None:
            self._id = str(self._client.create_multipart_upload(**self._target)["UploadId"])
        while len(self._running) >= _AT_ONCE:
            self._running.popleft().result()
        whole = {**self._target, "UploadId": self._id, "PartNumber": len(self._parts) + 1, **request}

        def run() -> str:
            answer = getattr(self._client, operation)(**whole)
            return str((answer[holder] if holder else answer)["ETag"])

        future = self._threads.submit(run)
        self._parts.append(future)
        self._running.append(future)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None and not self._done:
                self._complete()
        finally:
            self._threads.shutdown(cancel_futures=True)
            if not self._done:
                self._give_up()

    def _complete(self) -> None:
        if self._id is None:
            self._client.put_object(**self._target, Body=bytes(self._pending))
        else:
            self._send()
            parts = [{"ETag": part.result(), "PartNumber": number} for number, part in enumerate(self._parts, start=1)]
            self._client.complete_multipart_upload(**self._target, UploadId=self._id, MultipartUpload={"Parts": parts})
        self._done = True

    def _give_up(self) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        if self._id is None:
            return
        try:
            self._client.abort_multipart_upload(**self._target, UploadId=self._id)
        except (BotoCoreError, ClientError) as error:  # why the upload failed is what the caller has to hear
            _log.warning("an upload is left for the sweep: %s", error)


class ObjectStore:
    """`oss://bucket/key` is the object `key` of a bucket of that name, or `<prefix><bucket>/<key>` in one bucket."""

    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage
        self._ready: set[str] = set()
        self._lock = Lock()

    @property
    def scheme(self) -> str:
        """How Hadoop calls the file system that reaches it."""
        return self._storage.hadoop

    def object_of(self, place: Place) -> tuple[str, str]:
        """The bucket and the key in the storage."""
        if not self._storage.bucket:
            return place.bucket, place.key
        return self._storage.bucket, f"{self._storage.prefix}{place.bucket}/{place.key}".rstrip("/")

    @cached_property
    def client(self) -> Any:
        """The S3 client, which all threads share."""
        import botocore.session
        from botocore.config import Config

        storage = self._storage
        with self._lock:
            return botocore.session.Session().create_client(
                "s3",
                endpoint_url=storage.endpoint or None,
                region_name=storage.region,
                aws_access_key_id=storage.access_key_id or None,
                aws_secret_access_key=storage.access_key_secret or None,
                config=Config(
                    s3={"addressing_style": "path" if storage.path_style else "virtual"},
                    connect_timeout=_CONNECT_S,
                    read_timeout=_ANSWER_S,
                    retries={"mode": "standard", "max_attempts": 3},
                    max_pool_connections=32,
                    # Checksums beyond the signature are younger than many a storage that calls itself compatible.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                ),
            )

    def files(self, place: Place, *, hidden: bool = False) -> Iterator[LakeFile]:
        """By listing; a key that ends with a slash only marks a folder."""
        for entry in self._listed(place):
            name = entry["Key"]
            if not name or name.endswith("/") or (not hidden and any(is_hidden(part) for part in name.split("/"))):
                continue
            changed = int(entry["LastModified"].timestamp() * 1000)
            yield LakeFile(f"{place.location}/{name}", entry["Size"], changed, entry.get("ETag", ""))

    def file(self, place: Place) -> LakeFile | None:
        """By asking for its head."""
        bucket, key = self.object_of(place)
        try:
            with self._told(place):
                head = self.client.head_object(Bucket=bucket, Key=key)
        except LakeError as error:
            if error.is_missing:
                return None
            raise
        changed = int(head["LastModified"].timestamp() * 1000)
        return LakeFile(place.location, int(head["ContentLength"]), changed, head.get("ETag", ""))

    def _listed(self, place: Place) -> Iterator[dict[str, Any]]:
        """All objects below a place, with their keys relative to it."""
        bucket, prefix = self._below(place)
        for page in self._pages("list_objects_v2", place, Bucket=bucket, Prefix=prefix):
            for entry in page.get("Contents", []):
                yield entry | {"Key": entry["Key"].removeprefix(prefix)}

    def _below(self, place: Place) -> tuple[str, str]:
        bucket, key = self.object_of(place)
        return bucket, f"{key}/" if key else ""

    def _pages(self, operation: str, place: Place, **request: str) -> Iterator[dict[str, Any]]:
        with self._told(place):
            pages = iter(self.client.get_paginator(operation).paginate(**request))
        while True:
            try:
                with self._told(place):
                    page = next(pages, None)
            except LakeError as error:
                if error.is_missing:  # no bucket, no files
                    return
                raise
            if page is None:
                return
            yield page

    def size(self, place: Place) -> int:
        """An object is not listed before it is finished, so the parts of uploads are counted too."""
        finished = sum(int(entry["Size"]) for entry in self._listed(place))
        return finished + sum(
            int(part["Size"])
            for request in self._unfinished(place)
            for page in self._pages("list_parts", place, **{n: request[n] for n in ("Bucket", "Key", "UploadId")})
            for part in page.get("Parts", [])
        )

    def _unfinished(self, place: Place) -> Iterator[dict[str, Any]]:
        """Uploads to places below that are neither completed nor given up."""
        bucket, prefix = self._below(place)
        for page in self._pages("list_multipart_uploads", place, Bucket=bucket, Prefix=prefix):
            for upload in page.get("Uploads", []):
                yield upload | {"Bucket": bucket}

    def folders(self, place: Place) -> list[str]:
        """What keys have in common up to the next slash."""
        bucket, prefix = self._below(place)
        pages = self._pages("list_objects_v2", place, Bucket=bucket, Prefix=prefix, Delimiter="/")
        found = [common["Prefix"] for page in pages for common in page.get("CommonPrefixes", [])]
        return [name.removeprefix(prefix).rstrip("/") for name in found]

    def buckets(self) -> list[str]:
        """Folders of the one bucket, or all that the storage shows us, of whomever they are."""
        place = Place("oss", "")
        if not self._storage.bucket:
            with self._told(place):
                return [bucket["Name"] for bucket in self.client.list_buckets()["Buckets"]]
        request = {"Bucket": self._storage.bucket, "Prefix": self._storage.prefix, "Delimiter": "/"}
        pages = self._pages("list_objects_v2", place, **request)
        found = [common["Prefix"] for page in pages for common in page.get("CommonPrefixes", [])]
        return [name.removeprefix(self._storage.prefix).rstrip("/") for name in found]

    def is_there(self, place: Place) -> bool:
        """An object below it, or of its name."""
        return next(self._listed(place), None) is not None or self.file(place) is not None

    def is_free(self, bucket: str) -> bool:
        """No bucket of this name that we see, or one without objects; one that we may not look into is another's."""
        return next(self._listed(Place(bucket, "")), None) is None

    def make_ready(self, place: Place) -> None:
        """Make the bucket when it is not there; folders need no making. Looked at once in a process's life."""
        bucket, _ = self.object_of(place)
        if bucket in self._ready:
            return
        with self._told(place):
            try:
                self.client.head_bucket(Bucket=bucket)
            except self.client.exceptions.ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                    raise
                self._make_bucket(bucket)
        self._ready.add(bucket)

    def _make_bucket(self, bucket: str) -> None:
        region = self._storage.region
        there = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        try:
            self.client.create_bucket(Bucket=bucket, **there)
        except self.client.exceptions.BucketAlreadyOwnedByYou:
            _log.debug("another process made the bucket %s", bucket)

    def open(self, place: Place) -> IO[bytes]:
        """Read in pieces, each of them whole or not at all, all of the object as it was when it was opened."""
        bucket, key = self.object_of(place)
        with self._told(place):
            head = self.client.head_object(Bucket=bucket, Key=key)
        source = Source(bucket, key, head["ContentLength"], head["ETag"])
        return io.BufferedReader(_Reader(self, place, source), _READ_BYTES)

    def read(self, place: Place, source: Source, start: int, length: int) -> bytes:
        """Some bytes of an object. Raises LakeError when it is another one meanwhile."""
        with self._told(place):
            return source.read(self.client, start, length)

    def write(self, place: Place, content: IO[bytes]) -> int:
        """One request for a small file, an upload in parts for another."""
        with self._upload(place) as upload:
            while piece := content.read(PART_BYTES):
                upload.add(piece)
        return upload.size

    def join(self, place: Place, head: bytes, parts: Sequence[LakeFile], check: Callable[[], None]) -> int:
        """The storage copies large parts itself; small ones are gathered here, since a part has a least size."""
        with self._upload(place) as upload:
            upload.add(head)
            for part in parts:
                check()
                upload.copy(Source(*self.object_of(parse_location(part.location)), part.size, part.version))
            check()
        return upload.size

    @contextmanager
    def _upload(self, place: Place) -> Iterator[Upload]:
        """An upload that is completed when the block ends well, and given up otherwise."""
        self.make_ready(place)
        with self._told(place), Upload(self.client, *self.object_of(place)) as upload:
            yield upload

    def move(self, source: Place, destination: Place) -> None:
        """A copy inside the storage, then a deletion: stopped in between, both are there."""
        bucket, key = self.object_of(source)
        with self._told(source):
            head = self.client.head_object(Bucket=bucket, Key=key)
        original = Source(bucket, key, head["ContentLength"], head["ETag"])
        with self._upload(destination) as upload:
            if original.size >= _LARGE_COPY_BYTES:
                upload.copy(original)
            else:
                upload.copy_whole(original)
        with self._told(source):
            self.client.delete_object(Bucket=bucket, Key=key)

    def remove(self, place: Place) -> None:
        """The object of that key and all below it, a thousand at a time."""
        bucket, key = self.object_of(place)
        _, prefix = self._below(place)
        if key:
            with self._told(place, missing_is_fine=True):
                self.client.delete_object(Bucket=bucket, Key=key)
        keys: list[dict[str, str]] = []
        for entry in self._listed(place):
            keys.append({"Key": prefix + entry["Key"]})
            if len(keys) == _DELETED_AT_ONCE:
                self._delete(place, bucket, keys)
                keys = []
        self._delete(place, bucket, keys)

    def _delete(self, place: Place, bucket: str, keys: list[dict[str, str]]) -> None:
        if not keys:
            return
        with self._told(place):
            answer = self.client.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
        for refused in answer.get("Errors", [])[:1]:
            raise LakeError(f"the object storage did not delete all of {place.location}: it answered {refused['Code']}")

    def remove_unfinished(self, bucket: str, before_ms: int) -> int:
        """Uploads of writers that were killed cost space, and nobody sees them."""
        place, given_up = Place(bucket, ""), 0
        for upload in self._unfinished(place):
            if upload["Initiated"].timestamp() * 1000 < before_ms:
                with self._told(place, missing_is_fine=True):
                    self.client.abort_multipart_upload(**{n: upload[n] for n in ("Bucket", "Key", "UploadId")})
                given_up += 1
        return given_up

    def _told(self, place: Place, *, missing_is_fine: bool = False) -> Any:
        return told(place, missing_is_fine=missing_is_fine)


class _Reader(io.RawIOBase):
    """An object as a file: no connection is held between two reads, however slow the reader is."""

    def __init__(self, store: ObjectStore, place: Place, source: Source) -> None:
        self._store, self._place, self._source = store, place, source
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = max(0, offset + {io.SEEK_CUR: self._position, io.SEEK_END: self._source.size}.get(whence, 0))
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = max(0, min(len(buffer), self._source.size - self._position))
        if length:
            buffer[:length] = self._store.read(self._place, self._source, self._position, length)
            self._position += length
        return length

    def readall(self) -> bytes:
        """The rest, in large pieces; Python's own way asks for 8 KiB at a time."""
        pieces = []
        while length := max(0, min(PART_BYTES, self._source.size - self._position)):
            pieces.append(self._store.read(self._place, self._source, self._position, length))
            self._position += length
        return b"".join(pieces)
