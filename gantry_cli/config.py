"""Profiles: server, region and AccessKey, from the configuration file and the environment."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from gantry_cli.errors import CliError
from gantry_cli.texts import _

DEFAULT_PROFILE = "default"
DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_REGION = "mq-private"
ENVIRONMENT = {
    "url": "GANTRY_URL",
    "region": "GANTRY_REGION",
    "access_key_id": "GANTRY_ACCESS_KEY_ID",
    "access_key_secret": "GANTRY_ACCESS_KEY_SECRET",
    "security_token": "GANTRY_SECURITY_TOKEN",
}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Profile:
    """How to reach one server as one caller. What is secret is not shown by repr."""

    name: str = DEFAULT_PROFILE
    url: str = DEFAULT_URL
    region: str = DEFAULT_REGION
    access_key_id: str = ""
    access_key_secret: str = field(default="", repr=False)
    security_token: str = field(default="", repr=False)

    def require_key(self) -> None:
        """Raise CliError when there is no AccessKey to sign with."""
        if not self.access_key_id or not self.access_key_secret:
            said = _(
                "The profile %(name)s has no AccessKey: run `gantry configure`, or set GANTRY_ACCESS_KEY_ID and "
                "GANTRY_ACCESS_KEY_SECRET."
            )
            raise CliError(said % {"name": self.name})


def config_file() -> Path:
    """`gantry/config.toml` below XDG_CONFIG_HOME, which is ~/.config unless the environment says otherwise."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "gantry" / "config.toml"


def cache_folder() -> Path:
    """Where documents of servers are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gantry"


def profile(name: str = "", url: str = "", region: str = "") -> Profile:
    """The profile of this command: given names and values, else the environment's, else the file's.

    Raises CliError for an unknown profile and for a file that others may read.
    """
    wanted = name or os.environ.get("GANTRY_PROFILE", "")
    stored = read_profiles()
    if wanted and wanted not in stored:
        said = {"name": wanted, "file": config_file(), "listed": ", ".join(sorted(stored)) or _("none")}
        raise CliError(_("There is no profile %(name)s in %(file)s; there is: %(listed)s.") % said)
    found = stored.get(wanted or DEFAULT_PROFILE, Profile(wanted or DEFAULT_PROFILE))
    given = {key: os.environ[variable] for key, variable in ENVIRONMENT.items() if os.environ.get(variable)}
    if "access_key_id" in given and "security_token" not in given:
        given["security_token"] = ""  # another key's token would make this one invalid
    given |= {key: value for key, value in (("url", url), ("region", region)) if value}
    found = replace(found, **given)
    if not re.match(r"https?://[^/]", found.url):
        raise CliError(_("The address %(url)s is not an http:// or https:// address.") % {"url": found.url})
    return replace(found, url=found.url.rstrip("/"))


def read_profiles() -> dict[str, Profile]:
    """The profiles of the file, none without a file. Raises CliError when others may read it, or for odd content."""
    file = config_file()
    try:
        mode = file.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            said = _("%(file)s holds secrets and others may read it: run `chmod 600 %(file)s`.")
            raise CliError(said % {"file": file})
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CliError(_("%(file)s cannot be read: %(error)s.") % {"file": file, "error": error}) from error
    entries = content.get("profiles", {})
    return {name: _profile(file, name, entry) for name, entry in entries.items()}


def write_profile(new: Profile) -> Path:
    """Add or replace one profile; the file is its owner's alone. Returns the file."""
    if not _NAME.fullmatch(new.name):
        said = _("%(name)r is not a valid profile name: letters, digits, - and _, at most 64.")
        raise CliError(said % {"name": new.name})
    profiles = read_profiles() | {new.name: new}
    file = config_file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = "\n".join(_toml(entry) for entry in profiles.values())
    new_file = file.with_suffix(".new")
    new_file.unlink(missing_ok=True)
    handle = os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    new_file.replace(file)
    return file


def _profile(file: Path, name: str, entry: Any) -> Profile:
    known = {f.name for f in fields(Profile)} - {"name"}
    if not isinstance(entry, dict) or not all(isinstance(value, str) for value in entry.values()):
        raise CliError(_("%(file)s: the profile %(name)s must be a table of texts.") % {"file": file, "name": name})
    unknown = sorted(set(entry) - known)
    if unknown:
        said = {"file": file, "name": name, "entry": unknown[0]}
        raise CliError(_("%(file)s: the profile %(name)s has an unknown entry %(entry)s.") % said)
    return Profile(name=name, **entry)


def _toml(entry: Profile) -> str:
    lines = [f"[profiles.{entry.name}]"]
    for each in fields(Profile):
        value = getattr(entry, each.name)
        if each.name != "name" and value:
            # A JSON text is a basic string of TOML too.
            lines.append(f"{each.name} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"
