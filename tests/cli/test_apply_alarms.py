"""`gantry export` and `gantry apply` of alarm rules and of who they tell, against a real console."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.accounts.crypto import decrypt
from console.alarms.models import Recipient, Rule
from gantry_cli import config
from tests.cli.conftest import Ended, Run
from tests.support.cast import Cast, make_topic

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

_URL, _SECRET = "http://127.0.0.1:9/services/who-knows-this-may-post", "sesam-open-thou"
_FILE = """\
version: 1
alarmRecipients:
- name: by mail
  kind: mail
  address: ann@example.com, bo@example.com
- name: on call
  kind: dingtalk
  address: http://127.0.0.1:9/…
  signed: true
- name: to topic
  kind: topic
  instance: orders
  topic: alarms
alarmRules:
- name: everything full
  condition: broker.storage
  threshold: 87.5
  recipients:
  - by mail
- name: orders behind
  condition: group.backlog
  threshold: 1000
  minutes: 5
  names: GID_orders* GID_pay
  severity: critical
  repeatMinutes: 30
  quietFrom: '22:00'
  quietUntil: 06:30
  zone: Asia/Shanghai
  enabled: false
  instance: orders
  recipients:
  - on call
  - to topic
"""


@pytest.fixture
def file(tmp_path: Path, cast: Cast, broker: object, profile: config.Profile) -> Path:
    make_topic(cast.alice, cast.instance, "alarms")
    found = tmp_path / "gantry.yaml"
    found.write_text(_FILE)
    return found


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_ADDRESS_ON_CALL", _URL)
    monkeypatch.setenv("GANTRY_SECRET_ON_CALL", _SECRET)


def _apply(gantry: Run, file: Path, *options: str) -> Ended:
    return gantry("apply", str(file), "--yes", *options)


@pytest.mark.usefixtures("secrets")
def test_rules_are_made_kept_exported_and_deleted(gantry: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _apply(gantry, file)
    assert made.status == 0 and "5 to create, 0 to change, 0 to delete." in made.out, made.err + made.out
    assert made.out.index("+ recipient of alarms to topic") < made.out.index("+ alarm rule everything full")
    rule, robot = Rule.objects.get(name="orders behind"), Recipient.objects.get(name="on call")
    assert (decrypt(robot.address_encrypted), decrypt(robot.secret_encrypted)) == (_URL, _SECRET)
    assert rule.instance is not None and (rule.repeat_minutes, rule.enabled) == (30, False)
    monkeypatch.delenv("GANTRY_ADDRESS_ON_CALL")
    monkeypatch.delenv("GANTRY_SECRET_ON_CALL")
    assert _apply(gantry, file).out == "Nothing to do.\n"
    exported = gantry("export")
    assert _FILE.partition("\n")[2] in exported.out, exported.out + exported.err
    assert all(secret not in made.out + exported.out for secret in (_URL, _SECRET))
    again = file.with_name("export.yaml")
    again.write_text(exported.out)
    assert _apply(gantry, again, "--prune").out == "Nothing to do.\n"
    assert "alarm" not in gantry("export", "--no-alarms", "--no-policies").out.replace("name: alarms", "")
    file.write_text("version: 1\nalarmRecipients: []\nalarmRules: []\n")
    gone = _apply(gantry, file, "--prune")
    assert gone.status == 0 and "0 to create, 0 to change, 5 to delete." in gone.out, gone.err
    assert not Rule.objects.exists() and not Recipient.objects.exists()


@pytest.mark.usefixtures("secrets")
def test_what_differs_is_changed_and_the_last_recipient_of_a_changed_rule_goes(gantry: Run, file: Path) -> None:
    _apply(gantry, file)
    changed = _FILE.replace("87.5", "90").replace("bo@", "cy@").replace("  - by mail\n", "  - on call\n")
    changed = changed.replace("- name: by mail\n  kind: mail\n  address: ann@example.com, cy@example.com\n", "")
    file.write_text(changed)
    done = _apply(gantry, file, "--prune")
    assert done.status == 0 and "threshold: 87.5 → 90\n" in done.out, done.err + done.out
    assert done.out.index("~ alarm rule everything full") < done.out.index("- recipient of alarms by mail")
    assert not Recipient.objects.filter(name="by mail").exists()


def test_a_language_is_changed_without_the_address_and_exported(
    gantry: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GANTRY_ADDRESS_ON_CALL", _URL)
    monkeypatch.setenv("GANTRY_SECRET_ON_CALL", _SECRET)
    _apply(gantry, file)
    monkeypatch.delenv("GANTRY_ADDRESS_ON_CALL")
    monkeypatch.delenv("GANTRY_SECRET_ON_CALL")
    file.write_text(_FILE.replace("  signed: true\n", "  signed: true\n  language: zh-hans\n"))
    done = _apply(gantry, file)
    assert done.status == 0 and "language: en → zh-hans\n" in done.out, done.err + done.out
    robot = Recipient.objects.get(name="on call")
    assert (robot.language, decrypt(robot.address_encrypted), decrypt(robot.secret_encrypted)) == (
        "zh-hans", _URL, _SECRET,
    )  # fmt: skip
    assert "  signed: true\n  language: zh-hans\n" in gantry("export").out
    assert _apply(gantry, file).out == "Nothing to do.\n"
    file.write_text(_FILE)
    assert "language: zh-hans → en\n" in _apply(gantry, file).out
    assert Recipient.objects.get(name="on call").language == "en"


def test_what_no_file_has_is_asked_for_before_anything_is_done(
    gantry: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(_FILE.replace("  signed: true\n", "  signed: true\n  secretVariable: OUR_SECRET\n"))
    for name, value in (("GANTRY_ADDRESS_ON_CALL", _URL), ("OUR_SECRET", _SECRET)):
        refused = _apply(gantry, file)
        assert refused.status == 2 and name in refused.err and ":6:" in refused.err, refused.err
        assert not Recipient.objects.exists()
        monkeypatch.setenv(name, value)
    assert _apply(gantry, file).status == 0


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("http://127.0.0.1:9/…", _URL, ":8: the URL of a dingtalk lets anybody post, so no file has it; put it into"),
        ("kind: mail", "kind: pigeon", ":4: 'pigeon' is not one of mail, webhook"),
        ("kind: topic\n", "kind: topic\n  language: en\n", ":12: programs are told in English, so a recipient of the"),
        ("kind: mail\n", "kind: mail\n  language: fr\n", "language"),
        ("threshold: 87.5", "threshold: much", ":17: 'much' is not a number."),
        ("repeatMinutes: 30", "repeatMinute: 30", ":26: unknown field repeatMinute; is repeatMinutes meant."),
        ("condition: group.backlog", "condition: group.unheard", "condition"),
        ("instance: orders\n  recipients", "instance: nobodys\n  recipients", "There is no instance nobodys."),
    ],
)
@pytest.mark.usefixtures("secrets")
def test_what_is_wrong_is_told(gantry: Run, file: Path, old: str, new: str, says: str) -> None:
    file.write_text(_FILE.replace(old, new))
    refused = _apply(gantry, file)
    assert refused.status != 0 and says in refused.err, refused.err
    assert _SECRET not in refused.err + refused.out
