"""docs/operate/settings.md lists every setting that the code reads, and none that it does not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("console", "brokercore", "mysqlwire", "analytics", "launcher", "gantry_cli")
NAME = r"(?:GANTRY_[A-Z][A-Z0-9_]*|DATABASE_URL|REDIS_URL|SPARK_URL|JAVA_HOME|NO_COLOR)"

#: Names in quotes that are no variables: the producer group of the console, and how those begin that have a name
#: behind them (docs/use/cli.md).
NO_VARIABLES = {"GANTRY_CONSOLE", "GANTRY_PASSWORD_", "GANTRY_ADDRESS_"}


def names_in_code() -> dict[str, str]:
    """Each variable, and the file that reads it."""
    found = {}
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            for name in re.findall(rf"[\"']({NAME})[\"']", file.read_text()):
                found[name.removesuffix("_FILE") if name != "GANTRY_READY_FILE" else name] = str(file.relative_to(ROOT))
    return {name: file for name, file in found.items() if name not in NO_VARIABLES}


def rows() -> dict[str, list[str]]:
    """The page's tables: variable → default and meaning."""
    table = {}
    for line in (ROOT / "docs" / "operate" / "settings.md").read_text().splitlines():
        if match := re.match(r"\| `(\w+)` \| (.*) \|$", line):
            table[match[1]] = match[2].split(" | ", 1)
    return table


def test_every_variable_that_the_code_reads_is_listed() -> None:
    page = rows()
    assert {name: file for name, file in names_in_code().items() if name not in page} == {}


def test_every_listed_variable_is_read() -> None:
    compose = set(re.findall(r"\w+", (ROOT / "compose.yaml").read_text()))
    compose |= {name.removesuffix("_FILE") for name in compose}
    read = names_in_code()
    assert [name for name in rows() if name not in read and name not in compose] == []


def test_every_row_has_a_default_and_a_meaning() -> None:
    for name, cells in rows().items():
        assert len(cells) == 2, name
        assert all(cell.strip() for cell in cells), name
