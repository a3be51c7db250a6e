"""What every answer carries, and how outages and errors are shown."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.template.loader import render_to_string
from django.test import Client, RequestFactory
from django.urls import reverse

from console.instances.models import Cluster
from console.topics.models import Topic
from console.web import views
from tests.support.cast import Cast, make_topic

ROOT = Path(django_settings.BASE_DIR)
FRAGMENT = {"HX-Request": "true"}


def test_every_page_forbids_inline_script_and_style(cast: Cast) -> None:
    policy = Client().get(reverse("account_login"))["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert cast.client("alice").get("/nothing/here")["Content-Security-Policy"] == policy
    part = cast.client("alice").get(reverse("instances.overview_tasks"), headers=FRAGMENT)
    assert "Content-Security-Policy" not in part, "the page that it is put into has one"


@pytest.mark.parametrize("template", sorted(ROOT.glob("templates/**/*.html")), ids=lambda p: p.name)
def test_no_template_has_inline_script_or_style(template: Path) -> None:
    text = template.read_text()
    assert " style=" not in text
    assert "<style" not in text
    assert not [word for word in (" onclick=", " onchange=", " onsubmit=", " onload=", "javascript:") if word in text]
    for opening in text.split("<script")[1:]:
        assert opening.lstrip().startswith("src="), "scripts come from files"


def test_no_value_is_marked_safe_in_a_template() -> None:
    for template in ROOT.glob("templates/**/*.html"):
        assert "|safe" not in template.read_text(), template


def test_our_own_scripts_stay_small() -> None:
    assert max(len(f.read_text().splitlines()) for f in ROOT.glob("static/js/*.js")) < 150


def test_an_outage_of_the_broker_is_a_page_that_says_so(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance)
    Cluster.objects.update(namesrv="127.0.0.1:1")
    url = reverse("topics.live", args=[cast.instance.instance_id, "orders"])
    page = cast.client("alice").get(url)
    assert page.status_code == 503
    assert "The broker does not answer" in page.content.decode()
    fragment = cast.client("alice").get(url, headers=FRAGMENT)
    assert fragment.status_code == 503
    assert "<html" not in fragment.content.decode()
    assert page["X-Request-Id"] in page.content.decode()


def test_an_outage_of_redis_is_said_as_well(cast: Cast, settings: Any, tmp_path: Path) -> None:
    settings.REDIS_URL = f"unix://{tmp_path}/none.sock"
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": f"unix://{tmp_path}/none.sock?db=2"}}
    page = cast.client("alice").get("/")
    assert page.status_code == 503
    assert "Redis does not answer" in page.content.decode()


def test_a_refusal_inside_a_fragment_is_one_plain_sentence(cast: Cast) -> None:
    url = reverse("topics.create", args=[cast.instance.instance_id])
    response = cast.client("rita").get(url, headers=FRAGMENT)
    assert (response.status_code, response["Content-Type"]) == (403, "text/plain; charset=utf-8")
    assert response.content.decode().startswith("denied: no statement allows mq:CreateTopic")


def test_an_error_page_shows_the_request_id_and_no_traceback(db: None) -> None:
    request: Any = RequestFactory().get("/")
    request.request_id = "the-id"
    response = views.failed(request)
    text = response.content.decode()
    assert response.status_code == 500
    assert "the-id" in text
    assert "Traceback" not in text


def test_the_error_page_needs_no_context() -> None:
    assert "Something went wrong" in render_to_string("500.html")


def test_no_text_turns_the_reading_order_of_a_page(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance)
    Topic.objects.update(remark="\u202egnihtyna\u2066\x01 \U0001f468\u200d\U0001f469")
    page = cast.client("alice").get(reverse("topics.list", args=[cast.instance.instance_id])).content.decode()
    assert "⟨U+202E⟩gnihtyna⟨U+2066⟩⟨U+0001⟩ \U0001f468\u200d\U0001f469" in page
    assert not {"\u202e", "\u2066", "\x01"} & set(page)


def test_a_nul_character_is_refused_with_a_sentence(cast: Cast) -> None:
    where = [cast.instance.instance_id]
    for answer in (
        cast.client("alice").get(reverse("topics.list", args=where), {"q": "a\0b"}),
        cast.client("alice").get(reverse("topics.detail", args=[*where, "a\0b"])),
        cast.client("alice").post(reverse("topics.create", args=where), {"name": "a\0b", "order_type": "0"}),
    ):
        assert answer.status_code == 400
        assert "NUL character" in answer.content.decode()


@pytest.mark.parametrize(
    "name", ["topics.delete_many", "topics.export_many", "groups.export_many", "messaging.reset_many"]
)
def test_a_nul_character_in_the_filters_of_an_action_on_many_is_refused(cast: Cast, name: str) -> None:
    url = reverse(name, args=[cast.instance.instance_id])
    assert cast.client("alice").post(url, {"all": "1", "filters": "q=a%00b"}).status_code == 400


def test_a_nul_character_in_the_filters_of_statements_is_refused(cast: Cast) -> None:
    for filters in ("q=%00", "status=%00"):
        answer = cast.client("alice").post(reverse("sql.cancel_many"), {"all": "1", "filters": filters})
        assert answer.status_code == 400, filters


def test_a_request_of_too_many_fields_is_not_said_to_have_a_nul_character(cast: Cast) -> None:
    url = reverse("topics.list", args=[cast.instance.instance_id])
    answer = cast.client("alice").get(url + "?" + "&".join(f"a{number}=1" for number in range(1100)))
    assert answer.status_code == 400
    assert "NUL" not in answer.content.decode()
    assert "more fields than may be sent" in answer.content.decode()


def test_a_form_without_its_token_is_refused_on_a_page_of_ours_in_the_language_of_the_visitor(cast: Cast) -> None:
    client = Client(enforce_csrf_checks=True)
    url, chinese = reverse("language"), {"Accept-Language": "zh-CN"}
    answer = client.post(url, {"language": "en"})
    assert answer.status_code == 403
    assert "error-card" in answer.content.decode()
    assert "Load the page again" in answer.content.decode()
    assert "<style" not in answer.content.decode()
    said = client.post(url, {"language": "en"}, headers=chinese).content.decode()
    assert "重新加载页面" in said
    part = client.post(url, {"language": "en"}, headers=FRAGMENT)
    assert (part.status_code, part["Content-Type"]) == (403, "text/plain; charset=utf-8")
    assert "Load the page again" in part.content.decode()


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What is written to standard error of a process of the console."""
    (handler,) = (
        one for one in logging.getLogger().handlers if type(one) is logging.StreamHandler and one.formatter is not None
    )
    usual = handler.setStream(written := io.StringIO())
    yield written
    handler.setStream(usual)


def test_a_refusal_is_one_line_of_the_log_with_its_reason(cast: Cast, log: io.StringIO) -> None:
    answer = cast.client("rita").get(reverse("instances.create"))
    assert answer.status_code == 403
    (line,) = log.getvalue().splitlines()
    assert f"[{answer['X-Request-Id']}] refused: GET /instances/create/ to rita@acme: denied: no statement" in line


def test_what_is_not_there_is_logged_with_the_id_that_its_page_shows(cast: Cast, log: io.StringIO) -> None:
    answer = cast.client("rita").get("/nowhere/")
    (line,) = log.getvalue().splitlines()
    assert f"[{answer['X-Request-Id']}] Not Found: /nowhere/" in line
