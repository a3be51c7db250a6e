"""Secrets of the environment: in a variable, or in a file that a variable names.

Broker, console and analytics read them here. The launcher, which imports nothing of ours, reads the few it needs by the
same rule (launcher/config.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class SecretError(Exception):
    """A file that holds a secret cannot be read; the text names the variable and the file."""


def read_secret(environ: Mapping[str, str], name: str, usual: Path | None = None) -> str:
    """The secret from `NAME`, from the file that `NAME_FILE` names, or from the `usual` file.

    Empty when none of them is there. Raises SecretError for a file that cannot be read: one that `NAME_FILE` names
    is never silently replaced by the usual one.
    """
    if value := environ.get(name, ""):
        return value
    given = environ.get(f"{name}_FILE", "")
    path = Path(given) if given else usual
    try:
        if path is None or (not given and not path.is_file()):
            return ""
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        why = f"{name}_FILE names {path}, which" if given else f"{name} is not set, and {path}"
        raise SecretError(f"{why} cannot be read: {error.strerror}.") from error
