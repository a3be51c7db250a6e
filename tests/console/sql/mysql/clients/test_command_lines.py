"""The `mysql` command lines of MariaDB and of MySQL."""

from __future__ import annotations

import os
import re
import subprocess
import threading

import pytest

from console.sql import queries
from console.sql.models import QueryTask
from tests.console.sql.mysql.clients.conftest import Login, kill_what_runs
from tests.console.sql.mysql.conftest import Engine
from tests.support.mysql_client import mysql_of_mysql
from tests.support.needs import need_tool

Done = subprocess.CompletedProcess[str]
pytestmark = pytest.mark.django_db(transaction=True)
HINTED = "/*+ run_async=true, mq-notify-by=ons, mq-topic =t */ select * from flights"


class CommandLine:
    """One of the two programs."""

    def __init__(self, maker: str) -> None:
        self.of_mariadb = maker == "mariadb"
        self._program = [str(need_tool("mysql"))] if self.of_mariadb else mysql_of_mysql()

    def run(self, login: Login, statement: str, *options: str, comments: bool = True) -> Done:
        """Run a statement by -e; the password comes by the environment."""
        if self.of_mariadb:
            tls = ["--ssl"] if login.tls else ["--skip-ssl"]
            tls += ["--comments"] if comments else []
        else:
            tls = [f"--ssl-mode={'REQUIRED' if login.tls else 'DISABLED'}"]
        where = ["-h", "127.0.0.1", "-P", str(login.port), "-u", login.user, "--default-character-set=utf8mb4"]
        command = [*self._program, "--no-defaults", *where, *tls, *options, "demo", "-e", statement]
        environment = os.environ | {"MYSQL_PWD": login.password}
        return subprocess.run(
            command,
            env=environment,
            capture_output=True,
            timeout=60,
            check=False,
            encoding="utf-8",
            errors="backslashreplace",
        )

    def answer(self, login: Login, statement: str, *options: str) -> str:
        """What a statement that must succeed prints, without column names."""
        done = self.run(login, statement, "-N", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(params=["mariadb", "mysql"])
def program(request: pytest.FixtureRequest) -> CommandLine:
    return CommandLine(request.param)


def test_it_signs_in_and_looks_around(program: CommandLine, logins: list[Login]) -> None:
    questions = "show session status like 'Ssl_cipher'; show tables; describe flights; show databases"
    for login in logins:
        cipher, *rest = program.answer(login, questions).splitlines()
        assert (cipher.split("\t") != ["Ssl_cipher", ""]) == login.tls
        assert rest[:2] == ["airlines", "flights"]
        assert rest[2].startswith("carrier\t")
        assert "demo" in rest


def test_a_hint_arrives_as_it_was_written(program: CommandLine, account: Login, handed_over: list[str]) -> None:
    task_id = program.answer(account, HINTED + ";").strip()
    task = QueryTask.objects.get()
    assert (task.pk, task.command) == (task_id, HINTED)
    columns = program.answer(account, f"show query_task where id = '{task_id}';").rstrip("\n").split("\t")
    assert len(columns) == len(queries.COLUMNS)
    assert columns[0] == task_id


def test_rows_can_be_shown_one_column_a_line(program: CommandLine, account: Login, handed_over: list[str]) -> None:
    task_id = program.answer(account, HINTED).strip()
    options = () if program.of_mariadb else ("--commands",)  # MySQL's takes \G in -e only with it
    shown = program.answer(account, rf"show query_task where id = '{task_id}'\G", *options)
    assert shown.count("\n") >= len(queries.COLUMNS)


def test_all_types_are_shown(program: CommandLine, account: Login, typed: Engine) -> None:
    hexadecimal = () if program.of_mariadb else ("--skip-binary-as-hex",)
    first, second = program.answer(account, "select * from flights", "--batch", *hexadecimal).splitlines()
    assert first.split("\t") == [
        "12345678901234567890.1234567890", "2024-02-29 12:34:56.789", "1999-12-31", "NULL", "1", '\\0\\xff"a,',
        '{"a":[1,2],"b":"x\\\\"y"}', "1.5", "7", "-9007199254740993", 'it\'s "😀" \\\\ \\n.', "",
    ]  # fmt: skip
    assert second.split("\t") == ["NULL"] * 12


def test_errors_have_code_and_state(program: CommandLine, account: Login, handed_over: list[str]) -> None:
    for statement, expected in (
        ("describe nothing", r"ERROR 1146 \(42S02\)"),
        ("use secret", r"ERROR 1049 \(42000\)"),
        ("select @@nothing", r"ERROR 1193 \(HY000\)"),
        ("/*+ run_async=true * / select 1", r"ERROR 1064 \(42000\)"),
    ):
        done = program.run(account, statement)
        assert done.returncode == 1
        assert re.search(expected, done.stderr), done.stderr
    refused = program.run(account._replace(password="wrong"), "select 1")
    assert re.search(r"ERROR 1045 \(28000\)", refused.stderr)


def test_a_killed_statement_ends_with_an_error(program: CommandLine, account: Login, stuck: Engine) -> None:
    ended: list[Done] = []
    waiting = threading.Thread(target=lambda: ended.append(program.run(account, "select * from flights")))
    waiting.start()
    kill_what_runs(account.port)
    waiting.join(60)
    assert re.search(r"ERROR 1317 \(70100\)", ended[0].stderr)


def test_its_own_time_limit_is_kept(program: CommandLine, account: Login, stuck: Engine) -> None:
    done = program.run(account, "set max_execution_time = 200; select * from flights")
    assert re.search(r"ERROR 3024 \(HY000\).*run_async=true", done.stderr)


def test_without_comments_mariadbs_loses_the_hint_and_the_limit_says_so(account: Login, stuck: Engine) -> None:
    done = CommandLine("mariadb").run(account, f"set max_execution_time = 200; {HINTED}", comments=False)
    assert re.search(r"ERROR 3024 .*MariaDB.*--comments", done.stderr)
    assert QueryTask.objects.get().command.strip() == "select * from flights"


def test_the_status_command_and_completion_work(program: CommandLine, account: Login) -> None:
    options = () if program.of_mariadb else ("--commands",)
    assert "Threads: 1" in program.answer(account, "status", "--auto-rehash", *options)
