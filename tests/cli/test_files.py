"""State files: what is wrong is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantry_cli.errors import CliError
from gantry_cli.state import document, files
from gantry_cli.state.files import Grant, Group, Instance, Policy, State, Topic

STATE = State(
    instances=(
        Instance(
            "orders", cluster="C1", max_send_tps=100, max_receive_tps=200, topic_capacity=None, remark="no: 'quotes'",
            topics=(Topic("flights", 5, 4, "äöü", (Grant("123", "account", 6), Grant("0456", "user", 2))),
                    Topic("plain", 0, grants=())),
            groups=(Group("GID_a", "yes"), Group("GID_b")),
        ),
    ),
    policies=(Policy("p", {"Version": "1", "Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]}, "d"),),
)  # fmt: skip


def _read(text: str, name: str = "gantry.yaml") -> State:
    return files.read(Path(name), text)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_what_is_exported_is_read_back_as_it_was(form: str) -> None:
    text = document.text(STATE, form)
    again = _read(text, f"gantry.{form}")
    assert document.as_document(again) == document.as_document(STATE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 1\ninstances:\n- name: a\n  topics:\n  - name: t\n    ordertype: normal\n",
         "gantry.yaml:6: unknown field ordertype; is orderType meant."),
        ("version: 1\nthings: []\n", "gantry.yaml:2: unknown field things"),
        ("version: 2\n", "gantry.yaml:1: the version must be 1."),
        ("instances: []\n", "gantry.yaml:1: version is missing."),
        ("version: 1\ninstances:\n- topics: []\n", "gantry.yaml:3: name is missing."),
        ("version: 1\ninstances:\n- name: a\n- name: a\n", "gantry.yaml:4: the instance a appears twice."),
        ("version: 1\nversion: 1\n", "gantry.yaml:2: version appears twice."),
        ("version: 1\ninstances:\n- name: a\n  maxSendTps: many\n", "gantry.yaml:4: 'many' is not a whole number."),
        ("version: 1\ninstances:\n- name: a\n  independentNaming: yes\n", "gantry.yaml:4: 'yes' is neither true nor"),
        ("version: 1\ninstances:\n- name: a\n  topics:\n  - {name: t, orderType: fast}\n",
         "gantry.yaml:5: 'fast' is not one of normal"),
        ("version: 1\ninstances:\n- name: a\n  topics:\n  - {name: t, grants: [{relation: both}]}\n",
         "gantry.yaml:5: a grant names either an account or a user"),
        ("version: 1\ninstances:\n- name: a\n  topics:\n  - {name: t, grants: [{user: bob, relation: both}]}\n",
         "gantry.yaml:5: the ID of an account or a user is a number, not 'bob'."),
        ("version: 1\ninstances: {}\n", "gantry.yaml:2: a list is expected here."),
        ("version: 1\ninstances:\n- a\n", "gantry.yaml:3: an object is expected here"),
        ("version: 1\npolicies:\n- name: p\n  document: text\n", "gantry.yaml:4: the document of a policy is"),
        ("version: [1\n", "gantry.yaml:2: "),
        ("", "gantry.yaml: the file is empty."),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(CliError) as raised:
        _read(text)
    assert raised.value.message.startswith(said) and raised.value.status == 2


def test_json_may_be_indented_by_tabs() -> None:
    assert _read('{\n\t"version": 1,\n\t"instances": []\n}', "gantry.json").instances == ()


def test_a_list_that_is_absent_is_not_an_empty_one() -> None:
    state = _read("version: 1\ninstances:\n- name: a\n  topics:\n")
    assert state.policies is None and state.instances is not None
    assert state.instances[0].topics == () and state.instances[0].groups is None


def test_dates_and_numbers_of_a_policy_stay_what_json_makes_of_them() -> None:
    text = "version: 1\npolicies:\n- name: p\n  document: {Version: '1', At: 2026-01-01, N: 3, Yes: true, No: null}\n"
    (policy,) = _read(text).policies or ()
    assert policy.document == {"Version": "1", "At": "2026-01-01", "N": 3, "Yes": True, "No": None}
