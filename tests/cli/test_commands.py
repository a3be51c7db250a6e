"""Operations on the command line, against a real console over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from console.openapi.operations import OPERATIONS
from console.topics.models import Topic
from gantry_cli import catalog, config
from gantry_cli.errors import CliError
from tests.cli.conftest import Run
from tests.support.cast import Cast, make_group, make_topic
from tests.support.needs import need_tool

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.django_db(transaction=True)


def test_every_operation_is_a_command_with_every_parameter(gantry: Run, profile: config.Profile) -> None:
    for path, operation in OPERATIONS.items():
        ended = gantry(*path.split("/"), "--help")
        assert ended.status == 0, ended.err
        missing = [name for name in operation.parameters.model_fields if f"--{name}" not in ended.out]
        assert missing == [], path


def test_a_call_creates_what_it_says(gantry: Run, profile: config.Profile, cast: Cast) -> None:
    where = ("--instanceId", cast.instance.instance_id)
    ended = gantry("topic", "create", *where, "--topic", "made-here", "--orderType", "0")
    assert (ended.status, ended.out) == (0, "done\n"), ended.err
    assert Topic.objects.filter(instance=cast.instance, name="made-here").exists()


def test_names_and_capitals_need_not_be_typed_as_on_the_wire(gantry: Run, profile: config.Profile, cast: Cast) -> None:
    ended = gantry("topic", "list-in-page", "--instance-id", cast.instance.instance_id)
    assert (ended.status, ended.out) == (0, "nothing\n"), ended.err


def test_a_list_is_a_table_or_json(gantry: Run, profile: config.Profile, cast: Cast) -> None:
    make_group(cast.alice, cast.instance, "GID_billing")
    where = ("--instanceId", cast.instance.instance_id)
    shown = gantry("group", "list", *where)
    assert "groupId" in shown.out.splitlines()[0] and "GID_billing" in shown.out
    for arguments in (["--output", "json", "group", "list", *where], ["group", "list", *where, "-o", "json"]):
        assert [row["groupId"] for row in json.loads(gantry(*arguments).out)] == ["GID_billing"]


def test_all_pages_come_with_all(gantry: Run, profile: config.Profile, cast: Cast) -> None:
    Topic.objects.bulk_create(
        Topic(
            instance=cast.instance, name=f"t{n:03}", physical_name=cast.instance.physical_name(f"t{n:03}"),
            order_type=0, queues=8,
        )
        for n in range(230)
    )  # fmt: skip
    where = ("--instanceId", cast.instance.instance_id, "-o", "json")
    assert len(json.loads(gantry("topic", "listInPage", *where).out)) == 20
    every = json.loads(gantry("topic", "listInPage", *where, "--all").out)
    assert [row["topic"] for row in every] == [f"t{n:03}" for n in range(230)]
    assert len(json.loads(gantry("topic", "listInPage", *where, "--all", "--pageSize", "50").out)) == 230


def test_a_refusal_is_one_line_with_symbol_and_request_and_status_1(
    gantry: Run, profile: config.Profile, cast: Cast
) -> None:
    make_topic(cast.alice, cast.instance, "orders")
    where = ("--instanceId", cast.instance.instance_id)
    ended = gantry("topic", "create", *where, "--topic", "orders", "--orderType", "0")
    assert ended.status == 1 and ended.out == ""
    assert ended.err.startswith("gantry: BIZ_TOPIC_EXISTED: ") and "(request " in ended.err
    assert ended.err.count("\n") == 1


def test_a_missing_right_is_status_3(gantry: Run, ritas: config.Profile, cast: Cast) -> None:
    where = ("--instanceId", cast.instance.instance_id)
    ended = gantry("--profile", "rita", "topic", "create", *where, "--topic", "hers", "--orderType", "0")
    assert ended.status == 3 and "AUTH_PERMISSION_DENIED" in ended.err


def test_a_wrong_secret_is_status_3_and_not_shown(
    gantry: Run, profile: config.Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GANTRY_ACCESS_KEY_SECRET", "not-the-secret")
    ended = gantry("region", "list")
    assert ended.status == 3 and "AUTH_SIGNATURE_INVALID" in ended.err and "not-the-secret" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("topic", "create"), "Missing option"),
        (("topic", "create", "--orderType", "7"), "7"),
        (("topic", "nothing"), "No such command"),
        (("nothing", "list"), "No such command"),
        (("topic", "listInPage", "--pageSize", "many"), "many"),
    ],
)
def test_a_wrong_command_line_is_status_2_and_sends_nothing(
    gantry: Run, profile: config.Profile, arguments: tuple[str, ...], said: str
) -> None:
    ended = gantry(*arguments)
    assert ended.status == 2 and said in ended.err and ended.err.count("\n") == 1


def test_without_a_key_it_says_how_to_get_one(gantry: Run, console_url: str) -> None:
    ended = gantry("--url", console_url, "region", "list")
    assert ended.status == 2 and "gantry configure" in ended.err


def test_help_works_offline_with_the_kept_document(
    gantry: Run, profile: config.Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gantry("topic", "--help").status == 0
    kept = next(config.cache_folder().glob("*.json"))
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"fetched_at": 0}))

    def gone(*_: object) -> None:
        raise CliError("The server is gone.", 4)

    monkeypatch.setattr("gantry_cli.transport.fetch_document", gone)
    ended = gantry("topic", "--help")
    assert ended.status == 0 and "listInPage" in ended.out


def test_without_server_and_kept_document_the_sentence_says_so(gantry: Run) -> None:
    for arguments in (("topic", "create"), ("topic", "--help")):
        ended = gantry("--url", "http://127.0.0.1:9", *arguments)
        assert ended.status == 4 and "No list of its operations is stored" in ended.err
    ended = gantry("--url", "http://127.0.0.1:9", "--help")
    assert ended.status == 0 and "cannot be listed" in ended.out


def test_a_damaged_kept_document_is_as_good_as_none(gantry: Run, profile: config.Profile) -> None:
    assert gantry("region", "list").status == 0
    next(config.cache_folder().glob("*.json")).write_text("{")
    assert gantry("region", "list").status == 0


def test_what_is_no_gantry_is_status_4(gantry: Run, console_url: str) -> None:
    with pytest.raises(CliError) as raised:
        catalog.load(config.Profile(url=f"{console_url}/healthz"))
    assert raised.value.status == 4


def test_times_may_be_written_for_people(gantry: Run, profile: config.Profile, cast: Cast) -> None:
    make_topic(cast.alice, cast.instance, "orders")
    where = ("--instanceId", cast.instance.instance_id, "--topic", "orders")
    wanted = ("--beginTime", "2026-03-01T12:00", "--endTime", "now", "--type", "0", "--period", "10")
    ended = gantry("trend", "topicInputTps", *where, *wanted)
    assert "neither milliseconds" not in ended.err and ended.status in (0, 1)
    ended = gantry("trend", "topicInputTps", *where, "--beginTime", "yesterday", "--endTime", "now")
    assert ended.status == 2 and "neither milliseconds" in ended.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("gantry top", {"topic"}),
        ("gantry topic list", {"listInPage", "listNames"}),
        ("gantry topic create --ord", {"--orderType"}),
        ("gantry topic create --orderType ", {"0", "1", "2", "4", "5"}),
    ],
)
def test_the_shell_completes_services_operations_parameters_and_values(
    gantry: Run, profile: config.Profile, words: str, expected: set[str]
) -> None:
    assert gantry("region", "list").status == 0  # keeps the document
    typed = words.split(" ")
    found = subprocess.run(
        [sys.executable, "-m", "gantry_cli"],
        env={
            "_GANTRY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(typed) - 1),
            "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT),
            "XDG_CACHE_HOME": str(config.cache_folder().parent),
            "XDG_CONFIG_HOME": str(config.config_file().parent.parent),
        },
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    values = {line.partition(",")[2] for line in found.stdout.splitlines()}
    assert expected <= values, found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_completion_script_for_each_shell(gantry: Run, shell: str) -> None:
    ended = gantry("completion", shell)
    assert ended.status == 0 and "_GANTRY_COMPLETE" in ended.out


def test_bash_accepts_its_completion_script(gantry: Run, tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(gantry("completion", "bash").out)
    subprocess.run([need_tool("bash"), "-n", str(script)], check=True, timeout=30)


def test_a_message_goes_through_a_queue_by_hand(gantry: Run, profile: config.Profile) -> None:
    assert gantry("queue", "create", "--queue", "orders", "--visibility-timeout", "60").status == 0
    assert gantry("queue", "set", "--queue", "orders", "--delay-seconds", "0").status == 0
    assert gantry("queue", "send", "--queue", "orders", "--body", "one order", "--priority", "2").status == 0
    assert "one order" in gantry("queue", "peek", "--queue", "orders").out
    received = gantry("queue", "receive", "--queue", "orders", "-o", "json")
    handle = json.loads(received.out)[0]["receiptHandle"]
    deleted = gantry("queue", "deleteMessage", "--queue", "orders", "--receipt-handle", handle)
    assert deleted.status == 0, deleted.err
    assert "orders" in gantry("queue", "list", "--all").out
    assert gantry("queue", "delete", "--queue", "orders").status == 0
    missing = gantry("queue", "peek", "--queue", "orders")
    assert missing.status != 0 and "BIZ_QUEUE_NOT_FOUND" in missing.err
