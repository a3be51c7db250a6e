"""No test is left out of `make test`, and none runs twice."""

from __future__ import annotations

from pathlib import Path

from tests.suites import ROOT, SUITES, Ended, Suite


def suites_of(file: Path) -> list[str]:
    found = []
    for suite in SUITES:
        ignored = [word.removeprefix("--ignore=") for word in suite.command() if word.startswith("--ignore=")]
        mine = [ROOT / "tests" / path for path in suite.paths]
        if any(file.is_relative_to(path) for path in mine) and not any(
            file.is_relative_to(ROOT / path) for path in ignored
        ):
            found.append(suite.name)
    return found


def test_each_test_file_belongs_to_exactly_one_suite() -> None:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    assert len(files) > 300
    assert {str(file.relative_to(ROOT)): found for file in files if len(found := suites_of(file)) != 1} == {}


def test_a_suite_that_ends_without_a_summary_counts_as_failed() -> None:
    suite = Suite("a", ("a",))
    assert Ended(suite, -9, 1, "....").count("failed", "error") == 1
    assert Ended(suite, 1, 1, "Killed").count("failed", "error") == 1
    assert Ended(suite, 1, 1, "== 1 failed, 3 passed, 2 skipped in 2.00s ==").counts == {
        "failed": 1,
        "passed": 3,
        "skipped": 2,
    }
    assert Ended(suite, 0, 1, "== 3 passed in 70.10s (0:01:10) ==").counts == {"passed": 3}


def test_failures_are_named_with_their_reason() -> None:
    summary = (
        "== short test summary info ==\nFAILED tests/a.py::test_b - assert 1 == 2\n2 more\n== 1 failed in 1.00s ==\n"
    )
    assert Ended(Suite("a", ("a",)), 1, 1, summary).failures() == ["FAILED tests/a.py::test_b - assert 1 == 2"]
