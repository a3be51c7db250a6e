"""The hint in front of a statement, in every spelling of the vendor's page."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.statements import hint as hints
from console.statements.hint import HintError, split

SAMPLE = (
    "/*+ run_async=true, mq-notify-by=ons, mq-topic=test-topic, mq-producer-id=GID_test, "
    "mq-endpoint=http://MQ_INST_1_BaX4.cn-hangzhou.example.com:80*/ select * from flights;"
)


def test_it_reads_the_sample_of_the_vendor() -> None:
    hint = split(SAMPLE)
    assert hint.statement == "select * from flights"
    assert hint.run_async
    assert hint.receipt == {
        "mq-notify-by": "ons",
        "mq-topic": "test-topic",
        "mq-producer-id": "GID_test",
        "mq-endpoint": "http://MQ_INST_1_BaX4.cn-hangzhou.example.com:80",
    }
    assert hint.warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        "/*+run_async=true*/select 1",
        "/* + run_async = true */ select 1",
        "/*  +  RUN_ASYNC= 'true' */ select 1 ;",
        '/*+ run-async="TRUE", */\n select 1;;',
        "-- a note\n/*+ run_async=true */ select 1",
        "/* ApplicationName=tool */ /*+ run_async=true */ # more\n select 1",
        "/*+ run_async =true*/\t\r\nselect 1 ; ",
    ],
)
def test_it_accepts_every_spelling(text: str) -> None:
    hint = split(text)
    assert hint.run_async
    assert hint.statement == "select 1"


@pytest.mark.parametrize(
    "text", ["/* + run_async=true * / select 1", "/*+ run_async=true select 1", "/*", "/*/ select 1"]
)
def test_it_refuses_a_comment_that_is_not_closed(text: str) -> None:
    with pytest.raises(HintError, match=r"end it with `\*/`"):
        split(text)


def test_it_explains_the_typeset_end_of_a_comment() -> None:
    with pytest.raises(HintError, match=r"`\* /` with a blank does not end a comment"):
        split("/* + run_async=true * / select 1")


def test_an_unknown_option_is_a_warning() -> None:
    hint = split("/*+ run_async=true, color=red, and this */ select 1")
    assert hint.options == {"run_async": "true"}
    assert [w.split()[0] for w in hint.warnings] == ["The", "`and"]
    assert "color is unknown" in hint.warnings[0]


def test_a_wrong_value_of_run_async_means_synchronous() -> None:
    hint = split("/*+ run_async=yes, mq-topic=t */ select 1")
    assert not hint.run_async
    assert hint.receipt is None
    assert "only true" in hint.warnings[0]


def test_receipt_options_without_run_async_run_synchronously() -> None:
    hint = split("/*+ mq-notify-by=ons, mq-topic=t */ select 1")
    assert not hint.run_async
    assert hint.receipt is None


def test_the_first_of_two_equal_options_counts() -> None:
    hint = split("/*+ run_async=true, mq-topic=a, mq-topic=b */ select 1")
    assert hint.options["mq-topic"] == "a"
    assert "given twice" in hint.warnings[0]


def test_a_comment_inside_the_statement_is_no_hint() -> None:
    hint = split("select /*+ run_async=true */ 1")
    assert not hint.run_async
    assert hint.statement == "select /*+ run_async=true */ 1"


def test_an_executed_comment_is_statement_text() -> None:
    assert split("/*!40101 SET NAMES utf8 */;").statement == "SET NAMES utf8"


def test_it_refuses_an_endless_hint() -> None:
    with pytest.raises(HintError, match="4096 are allowed"):
        split(f"/*+ {',' * 5000} */ select 1")


def test_megabytes_of_comments_are_split_in_linear_time() -> None:
    started = time.process_time()
    assert split("/**/" * 500_000 + "select 1").statement == "select 1"
    assert split(" ;" * 1_000_000).statement == ""
    assert time.process_time() - started < 5


@given(st.text())
def test_any_text_is_split_or_refused(text: str) -> None:
    try:
        hint = split(text)
    except HintError:
        return
    assert hint.statement == hint.statement.strip()
    assert hint.statement in text


_values = st.text(st.characters(blacklist_characters=",*/'\"", blacklist_categories=("Cc", "Cs", "Z")), min_size=1)
_blanks = st.text(" \t\n", max_size=3)


@given(st.dictionaries(st.sampled_from(hints.OPTIONS), _values), _blanks, _blanks, st.booleans(), st.booleans())
def test_written_options_are_read_back(
    options: dict[str, str], before: str, after: str, loud: bool, hyphens: bool
) -> None:
    def name(option: str) -> str:
        spelled = option.replace("_", "-") if hyphens else option
        return spelled.upper() if loud else spelled

    pairs = ",".join(f"{before}{name(o)}{after}={before}{v}{after}" for o, v in options.items())
    hint = split(f"/*{before}+{pairs}*/{after}select 1")
    assert hint.options == options
    assert hint.statement == "select 1"
