"""A lake in a folder: a bucket is a folder in it. Every file appears by a rename, so no reader sees half of one."""

import contextlib
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from analytics.errors import LakeError, LakeUnavailable
from analytics.lake.locations import DRAFT, LakeFile, Place, is_hidden, parse_location
from brokercore.full_disk import is_full, sentence

#: Copied by the kernel in one call; between two of them a cancelled statement is noticed.
_STEP_BYTES = 64 * 1024**2


class FolderStore:
    """`oss://bucket/key` is `<root>/bucket/key` (`store.Store`)."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)

    def path(self, place: Place) -> Path:
        """The file or folder of a place. Raises LakeError when a link leads out of its bucket."""
        path = os.path.realpath(os.path.join(self.root, place.bucket, *place.key.split("/")))
        if not (path + os.sep).startswith(os.path.join(self.root, place.bucket, "")):
            raise LakeError(f"'{place.location}' leads out of the lake")
        return Path(path)

    def files(self, place: Place, *, hidden: bool = False) -> Iterator[LakeFile]:
        """By walking the folder; what vanishes meanwhile was never there.

        Nor is what is no file, or a link that leads out of the bucket or nowhere.
        """
        top = str(self.path(place))
        for folder, folders, names in os.walk(top):
            if not hidden:
                folders[:] = [name for name in folders if not is_hidden(name)]
            for name in names:
                if hidden or not is_hidden(name):
                    path = os.path.join(folder, name)
                    status = self._status(path, place.bucket)
                    if status is not None:
                        location = f"{place.location}/{os.path.relpath(path, top)}"
                        changed = status.st_mtime_ns
                        yield LakeFile(location, status.st_size, changed // 1_000_000, f"{status.st_ino}-{changed}")

    def file(self, place: Place) -> LakeFile | None:
        """What the system knows of it."""
        status = self._status(str(self.path(place)), place.bucket)
        if status is None:
            return None
        changed = status.st_mtime_ns
        return LakeFile(place.location, status.st_size, changed // 1_000_000, f"{status.st_ino}-{changed}")

    def _status(self, path: str, bucket: str) -> os.stat_result | None:
        """What the system knows of a file; None for what is none, or is not the bucket's."""
        try:
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                path = os.path.realpath(path)
                if not path.startswith(os.path.join(self.root, bucket, "")):
                    return None
                status = os.stat(path)
        except OSError:
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def size(self, place: Place) -> int:
        """Files grow in sight here."""
        return sum(file.size for file in self.files(place, hidden=True))

    def folders(self, place: Place) -> list[str]:
        """Sub-folders, without links: they may lead anywhere."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.path(place)) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return []

    def buckets(self) -> list[str]:
        """The folders of the root."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self.root) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return []

    def is_there(self, place: Place) -> bool:
        """Whatever is there."""
        with _told(place):
            return self.path(place).exists()

    def is_free(self, bucket: str) -> bool:
        """No folder of this name, or one without files."""
        return next(self.files(Place(bucket, ""), hidden=True), None) is None

    def make_ready(self, place: Place) -> None:
        """Make the folder above the place."""
        with _told(place):
            self.path(place).parent.mkdir(parents=True, exist_ok=True)

    def open(self, place: Place) -> IO[bytes]:
        """A file that is replaced or deleted meanwhile is read to its end all the same."""
        with _told(place):
            return open(self.path(place), "rb")

    def write(self, place: Place, content: IO[bytes]) -> int:
        """Into a draft beside it, then renamed."""
        with self._draft(place) as file:
            shutil.copyfileobj(content, file, 1024**2)
            return file.tell()

    def join(self, place: Place, head: bytes, parts: Sequence[LakeFile], check: Callable[[], None]) -> int:
        """The kernel copies, and shares the blocks where the file system can; Python's lock is free meanwhile."""
        expected = len(head) + sum(part.size for part in parts)
        with self._draft(place) as file:
            file.write(head)
            file.flush()
            for part in parts:
                piece = parse_location(part.location)
                with self.open(piece) as opened:
                    _append(opened.fileno(), file.fileno(), check)
                self.path(piece).unlink(missing_ok=True)  # or a large result would need its room twice
            size = os.fstat(file.fileno()).st_size
            if size != expected:
                raise LakeError(f"{place.location} has {size} bytes after it was joined, and its parts {expected}")
            return size

    def move(self, source: Place, destination: Place) -> None:
        """A rename."""
        self.make_ready(destination)
        with _told(source):
            self.path(source).replace(self.path(destination))

    def remove(self, place: Place) -> None:
        """A reader that has a file open reads on."""
        path = self.path(place)
        with _told(place):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def remove_unfinished(self, bucket: str, before_ms: int) -> int:
        """Nothing: here a draft is a file."""
        return 0

    @contextlib.contextmanager
    def _draft(self, place: Place) -> Iterator[IO[bytes]]:
        """A file that gets its name when the block ends well."""
        self.make_ready(place)
        path = self.path(place)
        draft = path.with_name(f"{DRAFT}{uuid.uuid4().hex}")
        try:
            with _told(place):
                with draft.open("wb") as file:
                    yield file
                draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def _append(source: int, destination: int, check: Callable[[], None]) -> None:
    while True:
        check()
        try:
            if not os.copy_file_range(source, destination, _STEP_BYTES):
                return
        except OSError:  # two file systems, or one that cannot
            if not os.sendfile(destination, source, None, _STEP_BYTES):
                return


@contextlib.contextmanager
def _told(place: Place) -> Iterator[None]:
    """Errors of the file system as ours, with the location instead of the path."""
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise LakeError(f"there is no file {place.location}", is_missing=True) from error
    except OSError as error:
        if is_full(error):
            raise LakeUnavailable(sentence("the lake")) from error
        raise LakeUnavailable(f"the lake cannot reach {place.location}: {error.strerror}") from error
