"""The samples run as they are: against a console over HTTP, with the secret in the environment."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache as django_cache
from hypothesis import given
from hypothesis import strategies as st

from console.accounts import services as accounts
from console.openapi.authentication import sign
from console.openapi.samples import SECRET, Sample, Wanted, curl, java, java_text, python, samples
from console.topics.models import Topic
from tests.support.cast import Cast
from tests.support.needs import need_tool

HOSTILE = 'it\'s "odd" $(id) `id` \\u0022 \\ %41 + & = <b> 🛩️ é\nsecond line\ttab '


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("language", ["curl", "Python", "Java"])
@pytest.mark.parametrize("post", [True, False], ids=["POST", "GET"])
def test_it_runs_and_succeeds(cast: Cast, live_server: Any, tmp_path: Path, language: str, post: bool) -> None:
    """`unknown` is signed and otherwise ignored: any text at all must arrive as it was."""
    django_cache.clear()
    need_tool("java" if language == "Java" else "curl")
    issued = accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice)
    given = {"instanceId": cast.instance.instance_id, "topic": "from-a-program", "orderType": "0", "unknown": HOSTILE}
    wanted = Wanted(f"{live_server.url}/json/topic/create", post, issued.access_key_id, "mq-private", given)
    sample = next(s for s in samples(wanted) if s.language == language)
    assert issued.access_key_secret not in sample.text
    answer = _run(sample, tmp_path, issued.access_key_secret)
    assert answer["status"] == "SUCCESS", answer
    assert Topic.objects.filter(name="from-a-program").exists()


def _run(sample: Sample, folder: Path, secret: str) -> dict[str, Any]:
    (folder / sample.file).write_text(sample.text)
    environment = {"PATH": os.environ["PATH"], SECRET: secret, "LANG": "C.UTF-8"}
    ended = subprocess.run(
        sample.command.split(), cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def test_curl_says_when_the_secret_is_not_set(tmp_path: Path) -> None:
    (tmp_path / "call.sh").write_text(curl(Wanted("http://127.0.0.1:9/json/region/list", False, "AK", "", {})))
    ended = subprocess.run(
        ["bash", "call.sh"], cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False
    )
    assert ended.returncode != 0 and SECRET in ended.stderr


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_the_python_program_signs_every_text_as_the_server_does(text: str) -> None:
    source = python(Wanted("http://h/json/x", True, "AK", "r", {"remark": text})).replace("time.time()", "1.5")
    names: dict[str, Any] = {}
    begin, _, _ = source.partition("query = ")
    os.environ[SECRET] = "secret"
    exec(begin, names)  # the program up to where it sends
    parameters = {"remark": text, "_accesskey": "AK", "_regionId": "r", "__preventCache": "1500"}
    assert names["parameters"]["_signature"] == sign(parameters, "secret")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_a_java_literal_is_one_line_of_ascii_that_nothing_escapes_from(text: str) -> None:
    literal = java_text(text)
    assert literal.isascii() and literal.isprintable() and _java_value(literal) == text


def _java_value(literal: str) -> str:
    """The literal as a compiler reads it: escapes of units, named ones, octal ones."""
    units, position, inside = [], 0, literal[1:-1]
    while position < len(inside):
        character = inside[position]
        if character != "\\":
            assert character != '"'
            units.append(ord(character))
            position += 1
        elif inside[position + 1] == "u":
            units.append(int(inside[position + 2 : position + 6], 16))
            position += 6
        elif inside[position + 1].isdigit():
            units.append(int(inside[position + 1 : position + 4], 8))
            position += 4
        else:
            units.append(ord({"n": "\n", "r": "\r", "t": "\t"}.get(inside[position + 1], inside[position + 1])))
            position += 2
    return b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be")


def test_every_language_has_its_values_in_the_order_of_the_names() -> None:
    wanted = Wanted("http://h/json/x", True, "AK", "r", {"b": "2", "GroupId": "1"})
    for program in (curl, python, java):
        text = program(wanted)
        positions = [text.index(name) for name in ("GroupId", "__preventCache", "_accesskey", "_regionId")]
        assert positions == sorted(positions)
