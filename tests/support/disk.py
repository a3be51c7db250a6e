"""A file system that is really full: a tmpfs of a few megabytes, which only root can mount."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.needs import need

DISK_BYTES = 12 << 20


ROOT_ONLY = "a small file system can be mounted by root only"


@contextmanager
def small_disk(size: int = DISK_BYTES) -> Iterator[Path]:
    """A file system of `size` bytes; skipped where it cannot be mounted, which fails on CI."""
    with folder_or_disk(size) as (folder, mounted):
        need(mounted, ROOT_ONLY)
        yield folder


@contextmanager
def folder_or_disk(size: int) -> Iterator[tuple[Path, bool]]:
    """A file system of `size` bytes and True; where it cannot be mounted, a folder and False."""
    folder = Path(tempfile.mkdtemp(prefix="gantry-disk-"))
    options = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(options, capture_output=True, check=False).returncode == 0
    try:
        yield folder, mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        shutil.rmtree(folder)


def resize(disk: Path, size: int) -> bool:
    """Give a mounted disk another size; False when what lies on it is more."""
    options = ["mount", "-o", f"remount,size={size}", str(disk)]
    return subprocess.run(options, capture_output=True, check=False).returncode == 0


def fill(folder: Path) -> Path:
    """Take all room that is left; the file to remove to give it back."""
    path = folder / "ballast"
    with path.open("wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 4
    return path
