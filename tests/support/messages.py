"""`python -m tests.support.messages`: brings both catalogues up to date with the texts in the sources.

That of the console is Django's; that of the command line is of gettext alone, and has the texts of click too.
New texts come in without a translation, which a test refuses; texts that nothing says any more go. Needs the
programs of GNU gettext. See docs/develop/translation.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import polib

ROOT = Path(__file__).parents[2]
CATALOGUE = Path("console", "locale", "zh_Hans", "LC_MESSAGES", "django.po")
CATALOGUE_OF_CLI = Path("gantry_cli", "locale", "zh", "LC_MESSAGES", "gantry.po")
CATALOGUES = (CATALOGUE, CATALOGUE_OF_CLI)
#: Folders without texts of pages, and those of others.
_ASIDE = ("analytics", "brokercore", "docs", "gantry_cli", "launcher", "mysqlwire", "static", "tests", "var", ".*")
#: What every run would change.
_DATED = ("POT-Creation-Date", "PO-Revision-Date")


def collect(root: Path, home: Path) -> None:
    """Collect the texts of the tree at `root`, and compile its catalogues. `home`: a GANTRY_HOME to run in."""
    _collect_console(root, home)
    _collect_cli(root)


def _collect_console(root: Path, home: Path) -> None:
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
    _finish(root / CATALOGUE)


def _collect_cli(root: Path) -> None:
    beside = Path(click.__file__).parents[1]
    own, clicks = (
        sorted(str(file.relative_to(folder)) for file in (folder / package).rglob("*.py"))
        for folder, package in ((root, "gantry_cli"), (beside, "click"))
    )
    catalogue = root / CATALOGUE_OF_CLI
    keywords = ("--keyword", "--keyword=_", "--keyword=ngettext:1,2")
    found = subprocess.run(
        ["xgettext", "--from-code=UTF-8", "--language=Python", *keywords, "--add-location=file", "--output=-",
         "--directory", str(root), "--directory", str(beside), *own, *clicks],
        check=True, capture_output=True,
    ).stdout.replace(b"charset=CHARSET", b"charset=UTF-8")  # fmt: skip
    merge = ["msgmerge", "--quiet", "--update", "--backup=none", str(catalogue), "-"]
    subprocess.run(merge, input=found, check=True)
    subprocess.run(["msgattrib", "--no-obsolete", "--output-file", str(catalogue), str(catalogue)], check=True)
    _finish(catalogue)


def _finish(catalogue: Path) -> None:
    """In one form, without dates, and compiled."""
    texts = polib.pofile(str(catalogue), wrapwidth=120)
    texts.metadata = {name: value for name, value in texts.metadata.items() if name not in _DATED}
    texts.save()
    compiled = catalogue.with_suffix(".mo")
    subprocess.run(["msgfmt", "--check-format", "--output-file", str(compiled), str(catalogue)], check=True)


if __name__ == "__main__":
    collect(ROOT, ROOT / ".pytest_cache" / "home")
