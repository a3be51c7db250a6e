"""Times of a request are in the zone that the browser names."""

from __future__ import annotations

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.utils import timezone

from console.web import zone
from console.web.middleware import ViewerZoneMiddleware


def zone_of_a_request(cookie: str | None) -> str:
    def answer(request: HttpRequest) -> HttpResponse:
        return HttpResponse(zone.current_name())

    request = RequestFactory().get("/")
    if cookie is not None:
        request.COOKIES[zone.COOKIE] = cookie
    return ViewerZoneMiddleware(answer)(request).content.decode()


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/Argentina/Buenos_Aires", "Asia/Kathmandu", "UTC"])
def test_the_browsers_zone_is_that_of_the_request_and_of_no_other(name: str) -> None:
    assert zone_of_a_request(name) == name
    assert timezone.get_current_timezone_name() == "UTC"
    assert zone_of_a_request(None) == "UTC"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Mars/Olympus",
        "../../etc/passwd",
        "/etc/passwd",
        "Europe",
        "Europe/Berlin\0",
        "<b>",
        "x" * 5000,
        "localtime",
    ],
)
def test_what_is_no_zone_is_utc(name: str) -> None:
    assert zone_of_a_request(name) == "UTC"


def test_the_zone_ends_with_a_request_that_fails() -> None:
    def fail(request: HttpRequest) -> HttpResponse:
        raise ValueError(zone.current_name())

    request = RequestFactory().get("/")
    request.COOKIES[zone.COOKIE] = "Europe/Berlin"
    with pytest.raises(ValueError, match="Europe/Berlin"):
        ViewerZoneMiddleware(fail)(request)
    assert zone.current_name() == "UTC"


def test_a_label_names_the_zone_of_the_moment_it_is_shown() -> None:
    label = zone.labelled("From")
    assert str(label) == "From (UTC)"
    with timezone.override("Europe/Berlin"):
        assert str(label) == "From (Europe/Berlin)"
