"""No test is left out of `make test`, and none runs twice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import suites
from tests.suites import PLACES, QUIET, ROOT, SUITES, WAITING, Ended, Suite


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


@pytest.mark.process
def test_who_needs_quiet_has_one_neighbour_and_the_others_two(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import time; print(time.monotonic()); time.sleep(0.3); print(time.monotonic(), '\\n= 1 passed in 1.00s =')"
    )
    monkeypatch.setattr(Suite, "command", lambda suite, marks: [sys.executable, "-c", program])
    waits = Suite("g", ("g",), WAITING)
    wanted = [Suite("a", ("a",)), Suite("b", ("b",), QUIET), *(Suite(name, (name,)) for name in "cdef"), waits]
    done = list(suites.run(wanted))
    assert sorted(one.suite.name for one in done) == ["a", "b", "c", "d", "e", "f", "g"]
    assert sum(one.count("passed") for one in done) == 7
    times = {one.suite: [float(line) for line in one.output.splitlines()[:2]] for one in done}
    for began, _ in times.values():
        beside = [suite for suite, (start, end) in times.items() if start <= began < end]
        assert sum(suite.places for suite in beside) <= PLACES
        assert not any(suite.places == QUIET for suite in beside) or len([s for s in beside if s is not waits]) <= 2


@pytest.mark.process
@pytest.mark.parametrize(("code", "failed"), [("print('no errors')", 0), ("raise SystemExit(2)", 1)])
def test_what_runs_instead_of_pytest_fails_by_its_status(code: str, failed: int) -> None:
    (one,) = suites.run([Suite("a", (), instead=(sys.executable, "-c", code))])
    assert one.count("failed", "error") == failed


def test_types_and_rules_are_looked_at_in_every_run() -> None:
    assert {suite.instead[-1] for suite in SUITES if suite.instead} == {"types", "checks"}


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


def ended(tests: dict[str, str]) -> Ended:
    """A suite in which these tests failed for these reasons."""
    lines = [f"FAILED {test} - {reason}\n" for test, reason in tests.items()]
    return Ended(Suite("a", ("a",)), 1, 1, f"{''.join(lines)}== {len(tests)} failed, 5 passed in 1.00s ==\n")


@pytest.fixture
def two_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a test that passes and one that fails."""
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("def test_passes(): pass\n\n\ndef test_fails(): assert False\n")
    return tmp_path


@pytest.mark.process
def test_what_failed_runs_once_more_and_alone(two_tests: Path) -> None:
    done = ended({"tests/test_a.py::test_passes": "TimeoutError: 60 s", "tests/test_a.py::test_fails": "assert False"})
    assert suites.passed_alone([done]) == ["tests/test_a.py::test_passes"]


@pytest.mark.process
def test_a_test_that_fails_with_what_it_leaves_behind_is_one(two_tests: Path) -> None:
    test = "tests/test_a.py::test_passes"
    lines = f"ERROR {test} - TimeoutError\nFAILED {test} - TimeoutError\n"
    done = Ended(Suite("a", ("a",)), 1, 1, f"{lines}== 1 failed, 5 passed, 1 error in 1.00s ==\n")
    assert suites.passed_alone([done]) == [test]


@pytest.mark.process
def test_what_the_tests_of_a_file_share_broke_once_and_is_looked_at_once(two_tests: Path) -> None:
    (two_tests / "tests/test_a.py").write_text(
        "import pytest\n@pytest.mark.parametrize('one', range(20))\ndef test_a(one): pass\n"
    )
    tests = [f"tests/test_a.py::test_a[{number}]" for number in range(20)]
    output = "".join(f"ERROR {test} - AssertionError: no trace\n" for test in tests) + "== 20 errors in 1.00s ==\n"
    assert suites.passed_alone([Ended(Suite("a", ("a",)), 1, 1, output)]) == sorted(tests)


@pytest.mark.process
def test_many_failures_and_a_suite_that_died_are_not_tried_again(two_tests: Path) -> None:
    once = ended({"tests/test_a.py::test_passes": "TimeoutError"})
    assert suites.passed_alone([once])
    assert suites.passed_alone([once, Ended(Suite("b", ("b",)), -9, 1, "....")]) == []
    many = {f"tests/test_a.py::test_passes[{number}]": "TimeoutError" for number in range(suites.MOST_AGAIN + 1)}
    assert suites.passed_alone([ended(many)]) == []


@pytest.mark.process
def test_the_one_suite_that_died_runs_once_more_and_two_do_not(
    two_tests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (two_tests / "tests/test_a.py").write_text("def test_passes(): pass\n")
    monkeypatch.setattr(suites, "SUITES", (dead := Suite("a", ("test_a.py",)),))
    whole = Ended(Suite("b", ("b",)), 0, 1, "===== 2 passed in 1.00s =====")
    killed = Ended(dead, 3, 1, "....")
    assert [one.status for one in suites.with_the_dead_again([whole, killed])] == [0, 0]
    assert suites.with_the_dead_again([killed, killed]) == [killed, killed]
    lost = Ended(dead, 1, 1, "Answer from Java side is empty\n===== 9 failed, 2 passed in 1.00s =====")
    failed = Ended(dead, 1, 1, "===== 9 failed, 2 passed in 1.00s =====")
    assert (lost.has_died, failed.has_died) == (True, False)
