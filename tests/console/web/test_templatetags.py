"""Numbers, sizes, times, icons and assets in templates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.core.paginator import Paginator
from django.template import TemplateSyntaxError
from django.utils import timezone
from django.utils.safestring import mark_safe

from console.web.templatetags import gantry


@pytest.mark.parametrize(
    ("value", "shown", "exact"),
    [
        (0, "0", "0"),
        (9999, "9,999", "9,999"),
        (12345, "12.3 k", "12,345"),
        (4_560_000, "4.6 M", "4,560,000"),
        (7_800_000_000, "7.8 G", "7,800,000,000"),
        (0.5, "0.50", "0.5"),
        (12.34, "12.3", "12.34"),
        (3.0, "3", "3"),
    ],
)
def test_a_number_is_short_and_keeps_its_exact_value_on_hover(value: float, shown: str, exact: str) -> None:
    html = gantry.number(value)
    assert f">{shown}<" in html
    assert f'title="{exact}"' in html


def test_a_number_that_something_is_looked_up_by_is_whole() -> None:
    assert gantry.exact(1_234_567) == "1,234,567"


def test_none_is_a_dash_and_never_a_zero() -> None:
    assert "–" in gantry.number(None)
    assert "–" in gantry.byte_size(None)
    assert "–" in gantry.time(None)
    assert "–" in gantry.ago(None)


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**3, "5.0 GiB")]
)
def test_a_size_is_in_binary_units(value: int, shown: str) -> None:
    assert shown in gantry.byte_size(value)


def test_a_time_is_utc_without_a_zone_and_carries_what_the_browser_needs() -> None:
    html = gantry.time(datetime(2026, 11, 21, 10, 1, 56, 123000, tzinfo=UTC), "milliseconds")
    assert 'datetime="2026-11-21T10:01:56.123+00:00"' in html
    assert ">2026-11-21 10:01:56.123<" in html
    assert gantry.time(1_795_255_316_123).count("2026-11-21") == 3


def test_a_time_is_in_the_viewers_zone_with_utc_on_hover() -> None:
    at = datetime(2026, 7, 21, 22, 1, 56, 123000, tzinfo=UTC)
    with timezone.override("Europe/Berlin"):
        html = gantry.time(at, "milliseconds")
        assert ">2026-07-22 00:01:56.123<" in html
        assert 'datetime="2026-07-21T22:01:56.123+00:00"' in html
        assert 'title="2026-07-21 22:01:56.123 UTC · shown in Europe/Berlin"' in html
        assert ">2026-07-22<" in gantry.time(at, "date")
        assert 'title="2026-07-22 00:01:56 Europe/Berlin"' in gantry.ago(at)
        assert gantry.zone_name() == "Europe/Berlin"


def test_a_time_of_a_broken_client_is_a_dash() -> None:
    assert "–" in gantry.time(10**18)
    with timezone.override("Pacific/Kiritimati"):
        assert "–" in gantry.time(253_402_300_799_000)


@pytest.mark.parametrize(
    ("seconds", "words"), [(2, "just now"), (40, "40 seconds ago"), (61, "1 minute ago"), (7300, "2 hours ago")]
)
def test_an_age_is_in_words(seconds: int, words: str) -> None:
    assert words in gantry.ago(timezone.now() - timedelta(seconds=seconds))


def test_an_unknown_icon_or_asset_is_an_error_of_the_template() -> None:
    with pytest.raises(TemplateSyntaxError):
        gantry.icon("no-such-icon")
    with pytest.raises(TemplateSyntaxError):
        gantry.asset("css/no-such.css")


def test_a_class_of_an_icon_is_escaped_though_one_that_is_safe_was_written_before() -> None:
    assert 'class="icon a&b"' in gantry.icon("plus", mark_safe("a&b"))
    assert 'class="icon a&amp;b"' in gantry.icon("plus", "a&b")


def test_our_own_assets_carry_their_digest() -> None:
    assert "?v=" in gantry.asset("js/app.js")
    assert "?v=" not in gantry.asset("vendor/htmx-2.0.11/htmx.min.js")


def test_a_pager_leaves_out_the_middle() -> None:
    assert list(gantry.pages_around(Paginator(range(400), 20), 10)) == [1, None, 8, 9, 10, 11, 12, None, 20]


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0 ms"),
        (267, "267 ms"),
        (3_821, "3.8 s"),
        (125_000, "2 min 5 s"),
        (12_000_000, "3 h 20 min"),
        (371_000_000, "4 d 7 h"),
        (None, "–"),
    ],
)
def test_a_duration_is_told_in_the_unit_that_fits(ms: int | None, shown: str) -> None:
    assert shown in gantry.duration(ms)


def test_a_duration_tells_the_milliseconds_on_hover() -> None:
    assert 'title="3,821 ms"' in gantry.duration(3_821)
