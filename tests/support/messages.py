"""`python -m tests.support.messages`: brings the catalogue of console/locale up to date with the texts in the sources.

New texts come in without a translation, which a test refuses; texts that nothing says any more go. Needs the
programs of GNU gettext. See docs/develop/translation.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polib

ROOT = Path(__file__).parents[2]
CATALOGUE = Path("console", "locale", "zh_Hans", "LC_MESSAGES", "django.po")
#: Folders without texts of pages, and those of others.
_ASIDE = ("analytics", "brokercore", "docs", "gantry_cli", "launcher", "mysqlwire", "static", "tests", "var", ".*")
#: What every run would change.
_DATED = ("POT-Creation-Date", "PO-Revision-Date")


def collect(root: Path, home: Path) -> None:
    """Collect the texts of the tree at `root` into its catalogue, and compile it. `home`: a GANTRY_HOME to run in."""
    environment = os.environ | {"GANTRY_HOME": str(home)}
    python = [sys.executable]
    subprocess.run(
        [*python, "-m", "launcher", "secrets", str(home / "secrets")], cwd=ROOT, check=True, capture_output=True
    )
    ignored = [part for name in _ASIDE for part in ("--ignore", name)]
    subprocess.run(
        [
            *python,
            "manage.py",
            "makemessages",
            "--locale",
            "zh_Hans",
            "--add-location",
            "file",
            "--no-obsolete",
            *ignored,
        ],
        cwd=root,
        env=environment,
        check=True,
        capture_output=True,
    )
    catalogue = root / CATALOGUE
    texts = polib.pofile(str(catalogue), wrapwidth=120)
    texts.metadata = {name: value for name, value in texts.metadata.items() if name not in _DATED}
    texts.save()
    compiled = catalogue.with_suffix(".mo")
    subprocess.run(["msgfmt", "--check-format", "--output-file", str(compiled), str(catalogue)], check=True)


if __name__ == "__main__":
    collect(ROOT, ROOT / ".pytest_cache" / "home")
