"""Export, apply, completion and what is told of a text name nothing of another account, nor what one may not list."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from console.accounts.models import Policy, User
from console.catalog.models import Bucket
from console.jobs import services as jobs
from console.pipelines import services as pipelines
from console.queues.client import queues_of, topics_of
from gantry_cli import config
from tests.cli.conftest import Run, stored
from tests.console.jobs.conftest import TEXT
from tests.support.cast import Cast, make_group, make_topic

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]
ROOT = Path(__file__).resolve().parents[2]
#: A word in every name that acme has.
MARK = "acmesown"
NAMING = """CREATE TEMPORARY TABLE seen (id BIGINT) WITH ('connector' = 'datagen');
CREATE TEMPORARY TABLE away (id BIGINT) WITH ('connector' = 'mq', 'topic' = 't', 'endpoint' = 'h:9876',
  'accessId' = '${{secret_values.{}}}', 'accessKey' = '${{secret_values.{}}}', 'producerGroup' = 'GID_t');
INSERT INTO away SELECT id FROM seen;
"""


@pytest.fixture
def acmes(cast: Cast, profile: config.Profile) -> None:
    """One thing of each kind, whose name tells that it is acme's."""
    alice = cast.actor("alice")
    make_topic(cast.alice, cast.instance, f"{MARK}-topic")
    make_group(cast.alice, cast.instance, f"GID_{MARK}")
    with queues_of(cast.acme) as queues:
        queues.create_queue(f"{MARK}-queue")
    with topics_of(cast.acme) as topics:
        topics.create_topic(f"{MARK}-news")
    Bucket.objects.create(tenant=cast.acme, name=f"{MARK}-bucket")
    document = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": "mq:SUB", "Resource": "*"}]}
    Policy.objects.create(tenant=cast.acme, name=f"{MARK}-policy", document=document)
    pipelines.set_secret(actor=alice, name=f"{MARK}-key", value="sEcReT-9")
    pipelines.set_variable(actor=alice, name=f"{MARK}_at", value="x")
    jobs.create(actor=alice, name=f"{MARK}-job", text=TEXT)


def test_an_export_has_the_things_of_its_own_account_alone(
    gantry: Run, acmes: None, charlies: config.Profile, profile: config.Profile
) -> None:
    assert gantry("export").out.count(MARK) >= 8
    other = gantry("--profile", "charlie", "export")
    assert other.status == 0 and MARK not in other.out + other.err


def test_an_export_is_refused_to_who_may_not_list_and_names_nothing(
    gantry: Run, acmes: None, console_url: str, cast: Cast
) -> None:
    statement = {"Effect": "Allow", "Action": ["dla:QueryJob", "mq:Query*"], "Resource": "*"}
    looks = Policy.objects.create(tenant=cast.acme, name="looks", document={"Version": "1", "Statement": [statement]})
    User.objects.get(pk=cast.nora.pk).policies.add(looks)
    stored(console_url, cast, "nora", "nora")
    ended = gantry("--profile", "nora", "export", "--no-queues", "--no-buckets", "--no-policies")
    assert (ended.status, ended.out) == (3, "")
    assert "dla:ListJobSecrets" in ended.err and MARK not in ended.err


def test_apply_tells_another_accounts_secret_and_none_alike(
    gantry: Run, acmes: None, charlies: config.Profile, tmp_path: Path
) -> None:
    file = tmp_path / "gantry.yaml"

    def told(name: str) -> str:
        """What is wrong with two files of the same form, without the name and the ID of the request."""
        found = []
        for content in (
            f"version: 1\njobSecrets: [{name}]\n",
            "version: 1\njobs:\n- name: hers\n  text: |\n    "
            + NAMING.format(name, name).replace("\n", "\n    ")
            + "\n",
        ):
            file.write_text(content)
            ended = gantry("--profile", "charlie", "apply", str(file), "--yes")
            assert ended.status != 0 and "secret" in ended.err
            found.append(ended.err.partition("(request ")[0])
        return "".join(found).replace(name, "…")

    assert told(f"{MARK}-key") == told("nobodys-key")


def test_a_text_is_told_alike_whether_another_account_has_the_secret_or_nobody(
    gantry: Run, acmes: None, charlies: config.Profile
) -> None:
    def told(name: str) -> str:
        ended = gantry("--profile", "charlie", "job", "validate", "-o", "json", "--text", NAMING.format(name, name))
        return (ended.out + ended.err).replace(name, "…")

    assert told(f"{MARK}-key") == told("nobodys-key")
    assert MARK not in told(f"{MARK}-kay")  # which is near to the one that there is


def test_the_shell_completes_no_name_of_a_thing(gantry: Run, acmes: None, profile: config.Profile) -> None:
    assert gantry("job", "secrets").out.count(MARK) == 1  # keeps the operations, and nothing that they answer
    for words in (
        "gantry job start --job ",
        "gantry job deleteSecret --secret ",
        "gantry queue get --queue ",
        f"gantry job deleteSecret --secret {MARK[:4]}",
    ):
        found = subprocess.run(
            [sys.executable, "-m", "gantry_cli"],
            env={
                "_GANTRY_COMPLETE": "bash_complete", "COMP_WORDS": words,
                "COMP_CWORD": str(len(words.split(" ")) - 1), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT),
                "XDG_CACHE_HOME": str(config.cache_folder().parent),
                "XDG_CONFIG_HOME": str(config.config_file().parent.parent),
            },
            cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        assert MARK not in found.stdout + found.stderr
    kept = b"".join(path.read_bytes() for path in config.cache_folder().rglob("*") if path.is_file())
    assert kept and MARK.encode() not in kept
