"""What a test needs of the machine: skipped with the reason on a laptop, failed on CI.

CI is where the environment says `CI=true`. There nothing may be missing, since a skipped test would look like a
passed one.
"""

import os
import shutil
from pathlib import Path

import pytest

#: How to get each tool, said in the skip and in the failure.
INSTALL = {
    "java": "install a JRE, 17 or later (Debian: openjdk-17-jre-headless)",
    "mvn": "install Maven (Debian: maven)",
    "chromium": "install Chromium (Debian: chromium)",
    "postgres": "install PostgreSQL (Debian: postgresql)",
    "mariadbd": "install MariaDB's server (Debian: mariadb-server-core)",
    "node": "install Node, 18 or later (Debian: nodejs)",
    "npm": "install npm (Debian: npm)",
    "go": "install Go, 1.24 or later (go.dev/dl)",
    "xgettext": "install GNU gettext (Debian: gettext)",
    "mysql": "install the mysql command line (Debian: default-mysql-client)",
}

#: A tool can be there under another name.
OTHER_NAMES = {"mysql": ("mariadb",), "chromium": ("chromium-browser", "google-chrome")}


def on_ci() -> bool:
    """Tell whether this run is CI's, where nothing may be skipped."""
    return os.environ.get("CI", "").lower() == "true"


def need(condition: bool, reason: str) -> None:
    """Go on when `condition` holds; else skip with `reason`, or fail with it on CI."""
    if condition:
        return
    if on_ci():
        pytest.fail(f"on CI nothing is skipped: {reason}", pytrace=False)
    pytest.skip(reason)


def need_tool(name: str) -> Path:
    """Return the path of a command; without it skip on a laptop and fail on CI."""
    for candidate in (name, *OTHER_NAMES.get(name, ())):
        found = shutil.which(candidate)
        if found:
            return Path(found)
    need(False, f"{name} is not on PATH: {INSTALL.get(name, f'install {name}')}")
    raise AssertionError("need() returns only when its condition holds")
