"""What a run of kills on changes of databases calls a fault, and how its table counts."""

from __future__ import annotations

import pytest

from tests.chaos.inflow_figures import Arrival, Change, Killed, Report, disorder


def change(number: int, row: str = "a:1") -> Change:
    return Change(row, number, f"w{number}")


def good() -> Report:
    """Two kills; changes 1 to 6 of one row, of which 4 was never answered, and 2 to 4 came twice after the first."""
    numbers = [1, 2, 3, 4, 2, 3, 4, 5, 6]
    return Report(
        seed=1,
        kills=[Killed("postgresql", 100.0, 1.5), Killed("redis", 200.0)],
        tried=7,
        acknowledged={change(n): at for n, at in ((1, 50.0), (2, 60.0), (3, 110.0), (5, 120.0), (6, 210.0))},
        committed={change(n) for n in range(1, 7)},
        arrivals=[Arrival(change(n), "broker-a 0", 150.0 if n < 5 else 250.0) for n in numbers],
    )


def test_a_run_as_promised_has_no_fault_and_its_table_tells_each_kill() -> None:
    assert good().verdict() == []
    lines = str(good()).splitlines()
    assert "| before the first | 0 | 2 | 0 | 0 | 0 |  |  |" in lines
    assert "| postgresql | 1 | 2 | 0 | 3 | 0 | 1.5 | 1.5 |" in lines
    assert "| redis | 1 | 1 | 0 | 0 | 0 |  |  |" in lines
    assert "| all | 2 | 5 | 0 | 3 | 0 | 1.5 | 1.5 |" in lines
    assert "5 changes acknowledged as committed, 1 committed without an answer, 6 arrived, 3 of them again" in lines[0]


@pytest.mark.parametrize("number", [3, 4])
def test_a_committed_change_that_has_not_arrived_is_lost_whether_or_not_it_was_answered(number: int) -> None:
    report = good()
    report.arrivals = [one for one in report.arrivals if one.change.number != number]
    assert f"1 committed changes have not arrived: a:1 {number} of w{number}" in report.verdict()


def test_what_no_database_has_is_a_fault() -> None:
    report = good()
    report.committed.remove(change(5))
    assert report.verdict() == [
        "1 acknowledged changes are not in their database any more: a:1 5 of w5",
        "1 changes have arrived that were not committed: a:1 5 of w5",
    ]


def test_a_row_in_two_queues_and_a_dead_letter_are_faults() -> None:
    report = good()
    report.arrivals[-1] = report.arrivals[-1]._replace(queue="broker-a 1")
    report.dead = 2
    assert report.verdict() == [
        "1 rows are in more than one queue: a:1", "2 events are in the dead-letter topic.",
    ]  # fmt: skip


def test_a_change_that_passes_another_one_is_out_of_order() -> None:
    report = good()
    report.arrivals[-2:] = report.arrivals[:-3:-1]
    assert report.verdict() == ["1 changes are out of the order of their row: a:1 6 of w6"]
    assert "| redis | 1 | 1 | 0 | 0 | 1 |  |  |" in str(report)


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        ([], []),
        ([1, 2, 3], []),
        ([1, 1, 2, 2, 3], []),
        ([1, 2, 3, 1, 2, 3, 4], []),
        ([1, 2, 3, 2, 3, 2, 3, 4], []),
        ([2], [0]),
        ([1, 3, 2], [1]),
        ([1, 2, 3, 1, 3], [4]),
        ([1, 2, 3, 2, 4], [4]),
        ([1, 2, 4, 3, 4], [2]),
    ],
)
def test_first_deliveries_and_repeated_stretches_are_each_in_order(numbers: list[int], wrong: list[int]) -> None:
    assert disorder(numbers) == wrong


def test_a_run_in_which_nothing_ran_is_a_fault() -> None:
    assert Report(seed=1).verdict() == ["Nothing was acknowledged: the load did not run."]
