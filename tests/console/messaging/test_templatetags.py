"""Times and releases in templates."""

from __future__ import annotations

from django.template import Context, Template
from django.utils import timezone

from console.messaging.status import release
from console.messaging.templatetags.messages import duration, minute, moment


def test_times_are_utc_without_a_zone_to_the_millisecond() -> None:
    assert moment(1767225600123) == "2026-01-01 00:00:00.123"
    assert moment(0) == moment(None) == moment(10**18) == "–"


def test_times_are_in_the_viewers_zone_through_the_change_of_clocks() -> None:
    with timezone.override("Europe/Berlin"):
        assert moment(1767225600123) == "2026-01-01 01:00:00.123"
        assert minute(1774745940000) == "2026-03-29 01:59"
        assert minute(1774746000000) == "2026-03-29 03:00"
    with timezone.override("Pacific/Kiritimati"):
        assert moment(253_402_300_799_000) == "–"


def test_durations_have_their_two_largest_units() -> None:
    assert duration(3_900_500) == "1 h 5 min"
    assert duration(86_400_000) == "1 d"
    assert duration(900) == "900 ms"
    assert duration(None) == "–"


def test_version_ordinals_have_names() -> None:
    assert [release(v) for v in (479, 475, 413, 401, 393, 233)] == [
        "5.3.3",
        "5.3.1",
        "5.0.0",
        "4.9.4",
        "4.9.0",
        "4.1.0",
    ]
    assert release(232) == "4.1.0-SNAPSHOT"
    assert release(300) == "4.4.4-SNAPSHOT"
    assert release(121) == "version 121"


def test_keys_that_look_like_markup_are_shown_as_they_are() -> None:
    page = Template("{% load messages %}{{ keys|shown_together }}").render(Context({"keys": ("<b>", "N\u202e1")}))
    assert page == "&lt;b&gt; N⟨U+202E⟩1"
