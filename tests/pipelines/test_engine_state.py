"""The state of a pipeline on disk: who holds it, what is kept of it, and the messages in it. No Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from analytics import lake
from analytics.errors import PipelineFenced, PipelineRefused
from analytics.pipelines import checkpoints
from analytics.pipelines.checkpoints import NOTHING, SAVEPOINT, claim, drop_savepoint, drop_unknown, save, savepoints
from analytics.pipelines.print_sink import Tail
from analytics.pipelines.spool import Spool
from tests.pipelines.jobs import new_location

ROWS = pa.record_batch([pa.array([1, 2], pa.int64())], names=["id"])


def test_only_a_higher_number_takes_a_state_over() -> None:
    location = new_location()
    first = claim(location, 3)
    (first.state / "offsets").write_text("7")
    second = claim(location, 8)
    assert (second.state / "offsets").read_text() == "7"
    second.check()
    with pytest.raises(PipelineFenced, match="was taken over from the runner with the number 3"):
        first.check()
    with pytest.raises(OSError, match="No such file"):
        (first.state / "offsets").write_text("8")
    for number in (8, 7):
        with pytest.raises(PipelineFenced, match=f"with the number 8; {number} is too low"):
            claim(location, number)


def test_what_a_runner_without_a_state_writes_is_never_read() -> None:
    location = new_location()
    first = claim(location, 1)
    claim(location, 2)
    first.state.mkdir(parents=True)  # as Spark's file system does before it writes
    (first.state / "offsets").write_text("9")
    third = claim(location, 3)
    assert not (third.state / "offsets").exists()
    assert not first.run.exists()


def test_a_lake_in_object_storage_is_refused_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LAKE", "s3://"), ("LAKE_ENDPOINT", "https://storage.example.com")):
        monkeypatch.setenv(f"GANTRY_{name}", value)
    with pytest.raises(PipelineRefused, match="in object storage, where the state of a job cannot be kept"):
        claim(new_location(), 1)


def test_a_savepoint_is_a_copy_from_which_another_run_begins() -> None:
    location = new_location()
    held = claim(location, 1)
    (held.state / "offsets").write_text("1")
    assert save(held, "monday") == f"{location}savepoint-monday/"
    (held.state / "offsets").write_text("2")
    assert (claim(location, 2).state / "offsets").read_text() == "2"
    assert (claim(location, 3, f"{SAVEPOINT}monday").state / "offsets").read_text() == "1"
    assert not (claim(location, 4, NOTHING).state / "offsets").exists()
    assert list(savepoints(location)) == ["monday"]
    drop_savepoint(location, "monday")
    assert list(savepoints(location)) == []
    assert sorted(path.name for path in Path(lake.lake_path(location)).iterdir()) == ["run-00000004"]
    with pytest.raises(PipelineRefused, match="There is no savepoint 'monday'; there is none"):
        drop_savepoint(location, "monday")


def test_a_removal_that_was_interrupted_leaves_no_half_savepoint(monkeypatch: pytest.MonkeyPatch) -> None:
    held = claim(new_location(), 1)
    for name in ("a", "b", "c"):
        save(held, name)
    folder = Path(lake.lake_path(held.location))
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", lambda path, ignore_errors=False: None)  # as killed in its midst
        drop_savepoint(held.location, "a")
    assert list(savepoints(held.location)) == ["b", "c"]
    assert (folder / ".savepoint-a").is_dir()
    assert drop_unknown(held.location, lambda: None) == []
    assert drop_unknown(held.location, lambda: {"b"}) == [".savepoint-a", "savepoint-c"]
    assert sorted(path.name for path in folder.iterdir()) == ["run-00000001", "savepoint-b"]
    assert drop_unknown(new_location(), set) == []


@pytest.mark.parametrize(
    ("goes_on", "begun", "is_whole", "stays"),
    [
        (True, "monday", False, True),
        (True, "tuesday", False, True),
        (True, "tuesday", True, False),
        (False, "monday", False, True),
        (False, "tuesday", False, False),
        (False, "", False, False),
    ],
)
def test_an_insert_that_has_ended_begins_anew_where_its_job_does(
    goes_on: bool, begun: str, is_whole: bool, stays: bool
) -> None:
    held = claim(new_location(), 1)
    checkpoints.note_end(held, "monday", "insert-late")
    if is_whole:
        checkpoints.note_end(held, "monday")
        assert checkpoints.has_ended(held, "monday") and not checkpoints.has_ended(held, begun)
    again = claim(held.location, 2)
    checkpoints.forget_ends(again, begun, goes_on=goes_on)
    assert checkpoints.insert_has_ended(again, "insert-late") is stays
    assert not checkpoints.has_ended(again, "monday")


def test_who_has_lost_the_state_notes_no_end() -> None:
    held = claim(new_location(), 1)
    taken = claim(held.location, 2)
    with pytest.raises(PipelineFenced):
        checkpoints.note_end(held, "monday", "insert-late")
    held.state.mkdir(parents=True)  # as Spark's file system does before it writes
    with pytest.raises(PipelineFenced):
        checkpoints.note_end(held, "monday", "insert-late")
    assert not checkpoints.insert_has_ended(taken, "insert-late")


def test_names_of_savepoints_stay_in_the_folder() -> None:
    held = claim(new_location(), 1)
    for name in ("", "../x", ".x", "a/b"):
        with pytest.raises(PipelineRefused, match="cannot be named"):
            save(held, name)
        with pytest.raises(PipelineRefused, match="There is no savepoint"):
            claim(held.location, 2, f"{SAVEPOINT}{name}")
    save(held, "x")
    with pytest.raises(PipelineRefused, match="There is a savepoint x already"):
        save(held, "x")
    held.check()


def test_a_start_that_was_interrupted_is_finished_by_the_next() -> None:
    held = claim(new_location(), 1)
    (held.state / "offsets").write_text("old")
    (held.run / "state.next").mkdir()  # while a savepoint is copied
    assert (claim(held.location, 2).state / "offsets").read_text() == "old"
    held = claim(held.location, 3)
    (held.run / "state.next").mkdir()
    (held.run / "state.next" / "offsets").write_text("new")
    held.state.rename(held.run / "state.former")  # after it
    assert (claim(held.location, 4).state / "offsets").read_text() == "new"


def test_the_last_committed_batch_is_told_by_sparks_logs(tmp_path: Path) -> None:
    assert checkpoints.committed(tmp_path) == []
    for kind, numbers in (("offsets", (9, 10, 11)), ("commits", (9, 10))):
        (tmp_path / kind).mkdir()
        for number in numbers:
            (tmp_path / kind / f"{number}").write_text(f'v1\n{{}}\n{{"flights":{number}}}\n-')
            (tmp_path / kind / f".{number}.crc").write_text("")
    assert checkpoints.committed(tmp_path) == ['{"flights":10}', "-"]


def test_a_spool_knows_after_a_crash_what_it_knew_before(tmp_path: Path) -> None:
    first = Spool(tmp_path)
    assert first.lead()
    assert first.add(ROWS, {"a": "h1", "b": "h2"}, above=4) == 5
    assert first.add(ROWS, {"c": "h3"}) == 6
    first.count("duplicateMessages", 2)
    first.remove(5, ["b"])
    (tmp_path / "000000000007.arrow").write_bytes(b"a batch that was never told")
    (tmp_path / "000000000007.draft").write_bytes(b"its messages")
    (tmp_path / "000000000003.arrow").write_bytes(b"a batch in the middle of whose removal the leader was killed")

    assert not Spool(tmp_path).lead()
    first.release()
    second = Spool(tmp_path)
    assert second.lead()
    assert second.numbers() == [6]
    assert sorted(tmp_path.glob("0*")) == [tmp_path / f"000000000006.{kind}" for kind in ("arrow", "json")]
    assert second.seen("c", "h4")
    assert second.batches[6].handles == {"c": "h4"}
    assert not second.seen("a", "h5")
    assert second.is_done("b")
    assert second.counters()["duplicateMessages"] == 2
    assert second.add(ROWS, {"d": "h6"}) == 7
    assert [batch.to_pydict() for batch in second.read(7)] == [{"id": [1, 2]}]
    assert second.rows(5, 6) == [6]
    assert second.last == 7


def test_a_spool_whose_state_was_taken_over_takes_no_batch() -> None:
    held = claim(new_location(), 1)
    folder = held.state / "source-flights"
    folder.mkdir()
    spool = Spool(folder)
    assert spool.lead()
    spool.add(ROWS, {"a": "h1"})
    taken = claim(held.location, 2)
    with pytest.raises(FileNotFoundError):
        spool.add(ROWS, {"b": "h2"})
    other = Spool(taken.state / "source-flights")
    assert other.lead()
    assert other.seen("a", "h2")
    assert json.loads((Path(lake.lake_path(held.location)) / "run-00000002" / "fence").read_text()) == 2


def test_what_is_printed_is_told_once_and_by_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "print-o.log"
    tail = Tail(file)
    assert tail.lines() == []
    file.write_text("+I(1)\n+I(2")
    assert tail.lines() == ["+I(1)"]
    with file.open("a") as opened:
        opened.write(")\n")
    assert tail.lines() == ["+I(2)"]
    with file.open("a") as opened:
        opened.write("+I(3)\n")
    file.rename(tmp_path / "print-o.1")  # as the sink does with a long one
    file.write_text("+I(4)\n")
    assert tail.lines() == ["+I(3)", "+I(4)"]
    assert tail.lines() == []


def test_a_runner_that_goes_on_tells_only_what_comes_to_be_printed(tmp_path: Path) -> None:
    file = tmp_path / "print-o.log"
    file.write_text("+I(1)\n+I(2")
    assert Tail(file).lines() == ["+I(1)"]
    with file.open("a") as opened:
        opened.write(")\n")
    assert Tail(file).lines() == ["+I(2)"]
    assert Tail(file).lines() == []


def test_of_a_savepoint_nothing_is_told_again(tmp_path: Path) -> None:
    file = tmp_path / "print-o.log"
    tail = Tail(file)
    tail.skip()
    assert tail.lines() == []
    file.write_text("+I(1)\n")
    tail = Tail(file)
    tail.skip()
    with file.open("a") as opened:
        opened.write("+I(2)\n")
    assert tail.lines() == ["+I(2)"]
    assert Tail(file).lines() == []
