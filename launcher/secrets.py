"""The secrets of one copy: drawn at the first start, kept in files that only their owner can read.

| file | environment | what |
| --- | --- | --- |
| secret_key | GANTRY_SECRET_KEY | signs sessions and forms |
| master_key | GANTRY_MASTER_KEY | Fernet key that encrypts AccessKey secrets at rest |
| broker_access_key_id | GANTRY_BROKER_ACCESS_KEY_ID | with the next: signs what the console sends to the broker |
| broker_access_key_secret | GANTRY_BROKER_ACCESS_KEY_SECRET | |
| demo_database_password | | of the demo's database (launcher/demo_database.py) |
"""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from launcher.config import LauncherError

DEMO_DATABASE = "demo_database_password"

DRAWN: dict[str, Callable[[], str]] = {
    "secret_key": lambda: secrets.token_urlsafe(48),
    "master_key": lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
    "broker_access_key_id": lambda: "LTAI" + secrets.token_hex(8),
    "broker_access_key_secret": lambda: secrets.token_hex(15),
}

#: Of what only a copy in a home has. No process finds it in its environment: who needs it reads the file.
DRAWN_AT_HOME: dict[str, Callable[[], str]] = {DEMO_DATABASE: lambda: secrets.token_hex(16)}

#: The servers of compose.yaml that have a password: the file with their address, and the address.
COMPOSE_ADDRESSES = {
    "postgres": ("database_url", "postgres://gantry:{password}@postgres:5432/gantry"),
    "redis": ("redis_url", "redis://:{password}@redis:6379"),
}

#: Modes of a secret's file: in the home, and for containers, whose processes run as users of their own. There the
#: folder, which containers do not see, keeps others on the machine out.
PRIVATE, FOR_CONTAINERS = 0o600, 0o444


def draw(folder: Path) -> list[str]:
    """Write each secret that is not there yet into `folder`; return the names of the new ones."""
    _make_folder(folder)
    every = {**DRAWN, **DRAWN_AT_HOME}
    return [name for name, drawn in every.items() if _write_new(folder / name, drawn(), PRIVATE)]


def draw_for_compose(folder: Path) -> list[str]:
    """Write the secret files that compose.yaml names, the passwords of its databases and their addresses among them."""
    _make_folder(folder)
    new = [name for name, drawn in DRAWN.items() if _write_new(folder / name, drawn(), FOR_CONTAINERS)]
    for server, address in COMPOSE_ADDRESSES.items():
        _write_new(folder / f"{server}_password", secrets.token_hex(16), FOR_CONTAINERS)
        password = (folder / f"{server}_password").read_text().strip()
        name, url = address
        if _write_new(folder / name, url.format(password=password), FOR_CONTAINERS):
            new += [f"{server}_password", name]
    return new


def _make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)


def _write_new(path: Path, text: str, mode: int) -> bool:
    """Write a file unless it is there; return whether it was not."""
    if path.exists():
        return False
    # Whole under another name first: a start that is cut off leaves no empty secret behind.
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    part.chmod(mode)
    part.rename(path)
    return True


def environment(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the `…_FILE` variables for what `environ` does not set itself."""
    given: dict[str, str] = {}
    for name in DRAWN:
        variable = f"GANTRY_{name.upper()}"
        file = environ.get(f"{variable}_FILE")
        if file and not Path(file).is_file():
            raise LauncherError(
                f"{variable}_FILE names {file}, which is not a file: correct the path or unset the variable."
            )
        if not file and not environ.get(variable):
            given[f"{variable}_FILE"] = str(folder / name)
    return given
