"""The secrets of one copy: drawn at the first start, kept in files that only their owner can read.

| file | environment | what |
| --- | --- | --- |
| secret_key | GANTRY_SECRET_KEY | signs sessions and forms |
| master_key | GANTRY_MASTER_KEY | Fernet key that encrypts AccessKey secrets at rest |
| broker_access_key_id | GANTRY_BROKER_ACCESS_KEY_ID | with the next: signs what the console sends to the broker |
| broker_access_key_secret | GANTRY_BROKER_ACCESS_KEY_SECRET | |
"""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from launcher.errors import LauncherError

DRAWN: dict[str, Callable[[], str]] = {
    "secret_key": lambda: secrets.token_urlsafe(48),
    "master_key": lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
    "broker_access_key_id": lambda: "LTAI" + secrets.token_hex(8),
    "broker_access_key_secret": lambda: secrets.token_hex(15),
}


def draw(folder: Path) -> list[str]:
    """Write each secret that is not there yet into `folder`; return the names of the new ones."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    missing = [name for name in DRAWN if not (folder / name).exists()]
    for name in missing:
        # Written whole under another name first: a start that is cut off leaves no empty secret behind.
        part = folder / f".{name}.part"
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(DRAWN[name]() + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.rename(folder / name)
    return missing


def environment(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the `…_FILE` variables for what `environ` does not set itself."""
    given: dict[str, str] = {}
    for name in DRAWN:
        variable = f"GANTRY_{name.upper()}"
        file = environ.get(f"{variable}_FILE")
        if file and not Path(file).is_file():
            raise LauncherError(f"{variable}_FILE names {file}, which is no file: mend the path or unset the variable.")
        if not file and not environ.get(variable):
            given[f"{variable}_FILE"] = str(folder / name)
    return given
