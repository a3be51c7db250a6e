"""One object made of bytes and of other objects: in one request when it is small, else in parts, side by side."""

import logging
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

_log = logging.getLogger(__name__)
#: S3: a part of an upload, except the last, has at least 5 MiB, and a copied one at most 5 GiB.
LEAST_PART_BYTES = 5 * 1024**2
#: A part that we send. 10,000 of them, the most of an upload, are 156 GiB.
PART_BYTES = 16 * 1024**2
#: A part that the storage copies.
_COPIED_PART_BYTES = 256 * 1024**2
#: Requests of one upload at a time; so many parts are in memory.
_AT_ONCE = 4


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
