"""The language of the command line: that of the environment, and English for whoever wants English."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gantry_cli import catalog
from gantry_cli.config import Profile
from gantry_cli.helping import wrapped
from gantry_cli.output import table, width
from gantry_cli.state.files import LISTS
from gantry_cli.state.plan import _ORDER
from gantry_cli.texts import _KINDS
from tests.support.product import ROOT

VARIABLES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
URL = "http://127.0.0.1:9"
"""Where nobody answers."""


def said(home: Path, *arguments: str, status: int = 0, **language: str) -> str:
    """What a process of its own says: help is written when its modules are read."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    given = {"GANTRY_URL": URL, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-m", "gantry_cli", *arguments],
        cwd=home, env=kept | given | language, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


@pytest.mark.process
def test_help_is_chinese_with_clicks_own_words(home: Path) -> None:
    text = said(home, "apply", "--help", LANGUAGE="zh")
    assert "用法: gantry apply" in text and "选项:" in text and "显示此帮助并退出。" in text
    assert "仅显示变更计划，不做任何更改。" in text and "Show" not in text


@pytest.mark.process
def test_no_line_of_chinese_help_is_wider_than_the_terminal(home: Path) -> None:
    for command in ([], ["configure"], ["completion"], ["export"], ["apply"], ["adopt"]):
        lines = said(home, *command, "--help", LANG="zh_CN.UTF-8").splitlines()
        assert [line for line in lines if width(line) > 80] == []
        assert [line for line in lines if line.lstrip()[:1] in "，。；：、）" and line.strip()] == []


@pytest.mark.process
def test_the_list_of_commands_says_what_each_is_for(home: Path) -> None:
    lines = said(home, "--help", LC_ALL="zh_CN.UTF-8").splitlines()
    (adopt,) = (line for line in lines if line.startswith("  adopt "))
    assert adopt.split(maxsplit=1)[1] == "将集群中不属于任何账号的 Topic 和 Group 原样划归某个账号"


@pytest.mark.process
def test_errors_are_chinese_our_own_and_clicks(home: Path) -> None:
    file = home / "state.yaml"
    file.write_text("version: 2\n")
    environment = {"GANTRY_ACCESS_KEY_ID": "a", "GANTRY_ACCESS_KEY_SECRET": "b"}
    ours = said(home, "apply", str(file), status=2, LANGUAGE="zh_CN:en", **environment)
    assert ours == f"gantry: {file}:1: version 必须为 1。\n"
    assert said(home, "apply", status=2, LANGUAGE="zh") == "gantry: 缺少参数 'FILE'.\n"
    assert "选项 '--prun' 不存在。" in said(home, "apply", "--prun", status=2, LANG="zh_CN.UTF-8")


@pytest.mark.process
@pytest.mark.parametrize(
    "language",
    [
        {"LANG": "C"},
        {"LANG": "en_GB.UTF-8"},
        {"LANG": "de_DE.UTF-8"},
        {"LANGUAGE": "en_US:zh_CN", "LANG": "zh_CN.UTF-8"},
        {"LC_ALL": "C", "LANGUAGE": "zh_CN", "LANG": "zh_CN.UTF-8"},
        {"LC_MESSAGES": "POSIX", "LANG": "zh_CN.UTF-8"},
    ],
)
def test_everybody_else_gets_english(home: Path, language: dict[str, str]) -> None:
    text = said(home, "apply", "--help", status=0, **language)
    assert text.startswith("Usage: gantry apply [OPTIONS] FILE\n") and "Show the plan and change nothing." in text


def test_every_kind_of_thing_has_a_word() -> None:
    kinds = {kind for kind, _sign in _ORDER} | {one.kind for one in LISTS.values()}
    assert kinds <= set(_KINDS)


def test_wide_letters_are_two_columns_of_a_table() -> None:
    lines = table([{"topic": "订单", "perm": 6}, {"topic": "payments", "perm": 4}]).splitlines()
    assert {width(line.rpartition(" ")[0]) for line in lines[2:]} == {len("payments ")}


def test_wide_text_breaks_between_letters_and_never_before_a_mark() -> None:
    assert wrapped("删除 Topic，保留实例。", 10) == ["删除", "Topic，保", "留实例。"]
    assert wrapped("a-very-long-word 是", 4) == ["a-very-long-word", "是"]


@pytest.mark.process
def test_what_the_server_says_of_an_operation_stays(home: Path) -> None:
    facts = {"path": "topic/list", "changes": False, "paging": "pages", "regionRequired": True, "errors": ["X_GONE"]}
    size = {"type": "integer", "description": "Entries of a page.", "minimum": 1, "default": 20}
    body = {"content": {"application/x-www-form-urlencoded": {"schema": {"properties": {"pageSize": size}}}}}
    operation = {"summary": "Topics of an instance", "description": "", "requestBody": body, "x-gantry": facts}
    document = {"paths": {"/json/topic/list": {"post": operation}}}
    kept = {"fetched_at": time.time(), "etag": "", "document": json.dumps(document)}
    catalog._keep(catalog._file(Profile(url=URL)), kept)
    text = said(home, "topic", "list", "--help", LANGUAGE="zh")
    assert "Topics of an instance." in text and "错误：X_GONE。" in text
    assert "Entries of a page. 最小 1, 默认 20" in text and "返回所有页，而不仅是一页。" in text
    assert "  topic       topic 的操作\n" in said(home, "--help", LANGUAGE="zh")
