"""What the lake needs of the storage behind it: `folder` on this machine, `objects` in an S3-compatible store."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import IO, Protocol

from analytics import settings
from analytics.lake.locations import LakeFile, Place


class Store(Protocol):
    """A storage. Every method raises LakeError, and LakeUnavailable when the storage does not answer."""

    def files(self, place: Place, *, hidden: bool = False) -> Iterator[LakeFile]:
        """All files below a folder, in no order; with `hidden` also those that Spark overlooks."""

    def file(self, place: Place) -> LakeFile | None:
        """One file as it is now; None when there is none."""

    def size(self, place: Place) -> int:
        """Bytes of all files below a folder, hidden and unfinished ones too."""

    def folders(self, place: Place) -> list[str]:
        """Names of the folders directly in a folder."""

    def buckets(self) -> list[str]:
        """Names of all buckets."""

    def is_there(self, place: Place) -> bool:
        """Whether there is a folder or a file."""

    def is_free(self, bucket: str) -> bool:
        """Whether nothing is kept under this name."""

    def make_ready(self, place: Place) -> None:
        """Make the bucket and the folder of a place, so that Spark can write there."""

    def open(self, place: Place) -> IO[bytes]:
        """A file, for reading and seeking; its content is that of one moment."""

    def write(self, place: Place, content: IO[bytes]) -> int:
        """Make a file of the content, whole or not at all; returns its size."""

    def join(self, place: Place, head: bytes, parts: Sequence[LakeFile], check: Callable[[], None]) -> int:
        """Make a file of `head` and the parts, whole or not at all; `check` is called now and then and may raise.

        The parts may be gone afterwards.
        """

    def move(self, source: Place, destination: Place) -> None:
        """Give a file another place; what was there is replaced in one step."""

    def remove(self, place: Place) -> None:
        """Delete a file or a folder with all in it; nothing when there is none."""

    def remove_unfinished(self, bucket: str, before_ms: int) -> int:
        """Give up uploads that began before a time and were never finished; returns how many."""


def get() -> Store:
    """The storage that the settings name."""
    loaded = settings.load()
    return _of(loaded.storage or str(loaded.lake))


@lru_cache(maxsize=16)
def _of(what: "settings.ObjectStorage | str") -> Store:
    if isinstance(what, str):
        from analytics.lake.folder import FolderStore

        return FolderStore(what)
    from analytics.lake.objects import ObjectStore

    return ObjectStore(what)
