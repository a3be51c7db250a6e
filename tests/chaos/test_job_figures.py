"""What a run of kills on a job calls a fault, and how its table counts."""

from __future__ import annotations

from tests.chaos.job_figures import Killed, Report


def good() -> Report:
    """Two kills; 1 to 6 were tried, 4 was never acknowledged and arrived all the same, 3 is in the topic twice."""
    return Report(
        seed=1,
        kills=[Killed("smq", 100.0, 2, 1.5), Killed("redis", 200.0, 4)],
        tried=6,
        acknowledged={1, 2, 3, 5, 6},
        counted=dict.fromkeys(range(1, 7), 1),
        written={number: [150.0] for number in (1, 2, 4, 5, 6)} | {3: [150.0, 210.0]},
    )


def test_a_run_as_promised_has_no_fault_and_tells_doubles_by_the_kill_before_them() -> None:
    assert good().verdict() == []
    lines = str(good()).splitlines()
    assert "| before the first | 0 | 2 | 0 | 0 | 0 |  |  |" in lines
    assert "| smq | 1 | 1 | 0 | 0 | 0 | 1.5 | 1.5 |" in lines
    assert "| redis | 1 | 2 | 0 | 0 | 1 |  |  |" in lines
    assert "| all | 2 | 5 | 0 | 0 | 1 | 1.5 | 1.5 |" in lines


def test_each_loss_is_a_fault_with_its_numbers() -> None:
    report = good()
    del report.counted[5]
    assert report.verdict() == ["1 acknowledged messages were not counted by the job: 5"]
    assert "| redis | 1 | 2 | 1 | 0 | 1 |  |  |" in str(report)
    report = good()
    del report.written[1]
    assert report.verdict() == ["1 acknowledged messages are not in the topic: 1"]
    report = good()
    report.counted[4] = 2
    assert report.verdict() == ["1 messages were counted more than once: 4"]
    report = good()
    report.counted[9] = 1
    assert report.verdict() == ["1 messages were counted that nobody sent: 9"]
    report = good()
    report.left = 3
    assert report.verdict() == ["3 messages are left in the queue."]
    assert Report(seed=1).verdict() == ["Nothing was acknowledged: the load did not run."]
