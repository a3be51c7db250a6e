"""What the message pages ask for."""

from __future__ import annotations

import time

import pytest
from django.utils import timezone

from console.messaging.forms import PublishForm, RangeForm, TargetForm
from console.topics.models import OrderType, Topic


def test_a_preset_ends_now() -> None:
    form = RangeForm({"range": "15m"})
    assert form.is_valid()
    assert form.cleaned_data["end_ms"] - form.cleaned_data["begin_ms"] == 15 * 60_000
    assert abs(form.cleaned_data["end_ms"] - time.time() * 1000) < 5000


def test_a_range_of_its_own_is_utc_without_a_zone_and_its_last_second_counts_whole() -> None:
    form = RangeForm({"range": "custom", "begin": "2026-01-01T00:00:00", "end": "2026-01-01T00:00:10"})
    assert form.is_valid()
    assert form.cleaned_data["begin_ms"] == 1767225600000
    assert form.cleaned_data["end_ms"] == 1767225610999


def test_a_range_of_its_own_is_in_the_viewers_zone() -> None:
    with timezone.override("Europe/Berlin"):
        form = RangeForm({"range": "custom", "begin": "2026-01-01T00:00:00", "end": "2026-07-01T00:00:00"})
        assert form.is_valid()
        assert form.cleaned_data["begin_ms"] == 1767222000000
        assert form.cleaned_data["end_ms"] == 1782856800999
        assert form["begin"].label == "From (Europe/Berlin)"


def test_of_an_hour_that_comes_twice_a_range_has_both() -> None:
    with timezone.override("Europe/Berlin"):
        form = RangeForm({"range": "custom", "begin": "2026-10-25T02:00:00", "end": "2026-10-25T02:59:59"})
        assert form.is_valid()
        assert form.cleaned_data["end_ms"] - form.cleaned_data["begin_ms"] == 2 * 3_600_000 - 1


def test_a_time_with_an_offset_of_its_own_is_taken_at_its_word_and_shown_in_the_zone() -> None:
    with timezone.override("Asia/Tokyo"):
        form = TargetForm({"to": "time", "at": "2026-01-01T00:00:00+01:00"})
        assert form.is_valid()
        assert form.cleaned_data["target"] == 1767222000000
        assert 'value="2026-01-01T08:00:00"' in str(form["at"])


@pytest.mark.parametrize("odd", ["0001-01-01T00:00:00", "9999-12-31T23:59:59-12:00", "2026-13-01T00:00:00", "soon"])
def test_an_odd_time_is_refused_and_shown_again(odd: str) -> None:
    with timezone.override("Europe/Berlin"):
        form = TargetForm({"to": "time", "at": odd})
        assert list(form.errors) == ["at"]
        assert "datetime-local" in str(form["at"])


def test_a_previewed_reset_means_the_same_time_in_whatever_zone_it_comes_back() -> None:
    with timezone.override("Europe/Berlin"):
        preview = TargetForm({"to": "time", "at": "2026-01-01T00:00:00"})
        assert preview.is_valid()
        at = preview.exact_at
    again = TargetForm({"to": "time", "at": at})
    assert again.is_valid()
    assert again.cleaned_data["target"] == preview.cleaned_data["target"] == 1767222000000


def test_a_range_that_ends_before_it_begins_is_refused_beside_its_field() -> None:
    form = RangeForm({"range": "custom", "begin": "2026-01-02T00:00:00", "end": "2026-01-01T00:00:00"})
    assert form.errors["end"] == ["The end is before the start."]
    assert RangeForm({"range": "custom"}).errors["begin"] == ["Choose a start."]


@pytest.mark.parametrize("dates", [{"begin": "2026-01-01T00:00:00"}, {"end": "2026-01-01T00:00:10"}])
def test_a_date_counts_whatever_the_choice_beside_it_says(dates: dict[str, str]) -> None:
    form = RangeForm({"range": "1h"} | dates)
    assert form.is_valid()
    assert form.cleaned_data["range"] == "custom"
    assert '<option value="custom" selected>' in str(form["range"])
    if "end" in dates:
        assert (form.cleaned_data["begin_ms"], form.cleaned_data["end_ms"]) == (0, 1767225610999)
    else:
        assert form.cleaned_data["begin_ms"] == 1767225600000
    assert RangeForm({"range": "1h", "begin": "", "end": " "}).data["range"] == "1h"


def test_a_time_that_is_given_is_where_a_reset_goes() -> None:
    form = TargetForm({"to": "end", "at": "2026-01-01T00:00:00"})
    assert form.is_valid()
    assert form.cleaned_data["target"] == 1767225600000


def test_a_publish_form_has_the_fields_of_the_topics_type() -> None:
    def names(order_type: OrderType) -> set[str]:
        return set(PublishForm(topic=Topic(order_type=order_type)).fields)

    usual = {"body", "tag", "key", "properties"}
    assert names(OrderType.NORMAL) == names(OrderType.TRANSACTIONAL) == usual
    assert names(OrderType.PARTITIONALLY_ORDERED) == usual | {"sharding_key"}
    assert names(OrderType.DELAYED) == usual | {"delay_seconds"}


def test_properties_are_lines_of_name_and_value() -> None:
    form = PublishForm({"body": "x\r\ny", "properties": "a=1\n\nb=x=y"}, topic=Topic(order_type=OrderType.NORMAL))
    assert form.is_valid()
    assert form.arguments() == {
        "body": b"x\ny", "tag": "", "key": "", "properties": {"a": "1", "b": "x=y"}, "deliver_at_ms": None,
    }  # fmt: skip
    wrong = PublishForm({"body": "x", "properties": "a"}, topic=Topic(order_type=OrderType.NORMAL))
    assert wrong.errors["properties"] == ["Line 1 is not name=value."]


def test_a_reset_to_a_time_needs_the_time() -> None:
    assert TargetForm({"to": "time"}).errors["at"] == ["Choose the time."]
    form = TargetForm({"to": "time", "at": "2026-01-01T00:00:00"})
    assert form.is_valid()
    assert form.cleaned_data["target"] == 1767225600000
    end = TargetForm({"to": "end", "at": ""})
    assert end.is_valid()
    assert end.cleaned_data["target"] == "end"
