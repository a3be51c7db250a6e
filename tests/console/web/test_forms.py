"""A form on a page: the status it has, and where what a service refuses is shown."""

from __future__ import annotations

from typing import cast

import pytest
from django import forms as django
from django.contrib.messages import get_messages
from django.contrib.messages.storage.base import BaseStorage
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.test import RequestFactory

from console.web import forms, htmx, missing
from console.web.errors import Refused
from console.web.htmx import HtmxRequest


class NameForm(django.Form):
    name = django.CharField()


class Kept(BaseStorage):
    """Messages of one request, without a session."""

    def _get(self, *args: object, **kwargs: object) -> tuple[list[object], bool]:
        return [], True


@pytest.fixture
def request_(rf: RequestFactory) -> HtmxRequest:
    request = cast(HtmxRequest, rf.get("/"))
    request._messages = Kept(request)  # type: ignore[attr-defined]
    return request


@pytest.fixture(autouse=True)
def rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    def render(request: object, template: str, context: dict[str, object], status: int = 200) -> HttpResponse:
        return HttpResponse(f"{template} {sorted(context)}", status=status)

    monkeypatch.setattr(forms, "render", render)
    monkeypatch.setattr(htmx, "render", render)
    monkeypatch.setattr(htmx, "is_fragment", lambda request: True)


def bound() -> NameForm:
    form = NameForm({"name": "a"})
    assert form.is_valid()
    return form


@pytest.mark.parametrize(
    ("form", "status"), [(NameForm(), 200), (NameForm({"name": "a"}), 200), (NameForm({}), 422)], ids=str
)
def test_a_page_with_a_form_has_422_while_something_is_wrong_with_it(
    request_: HtmxRequest, form: NameForm, status: int
) -> None:
    whole = forms.show(request_, "page.html", form, {"more": 1})
    assert (whole.status_code, whole.content.decode()) == (status, "page.html ['form', 'more']")
    part = forms.show_part(request_, "page.html", "part.html", form, {})
    assert (part.status_code, part.content.decode()) == (status, "part.html ['form']")


@pytest.mark.parametrize(("field", "place"), [("name", "name"), ("owner", forms.WHOLE_FORM), ("", forms.WHOLE_FORM)])
def test_a_refusal_stands_beside_the_field_it_names_or_above_the_form(field: str, place: str) -> None:
    form = bound()
    with forms.refusals_on(form):
        raise Refused("SYMBOL", "It is 100 % taken.", field)
    assert form.errors == {place: ["It is 100 % taken."]}


def test_a_missing_right_goes_on_to_the_page_that_says_so() -> None:
    form = bound()
    with pytest.raises(PermissionDenied), forms.refusals_on(form):
        raise PermissionDenied("no right")
    assert form.errors == {}


@pytest.mark.parametrize("place", ["name", forms.WHOLE_FORM])
def test_a_missing_right_is_shown_in_the_form_where_the_view_wants_it(place: str) -> None:
    form = bound()
    with forms.refusals_on(form, denials_on=place):
        raise PermissionDenied("no right")
    assert form.errors == {place: ["Not allowed: no right."]}


def test_a_fault_is_no_refusal(request_: HtmxRequest) -> None:
    with pytest.raises(ValueError, match="fault"), forms.refusals_on(bound(), denials_on="name"):
        raise ValueError("fault")
    with pytest.raises(ValueError, match="fault"), forms.refusals_told(request_):
        raise ValueError("fault")


def test_a_button_tells_what_was_refused_on_the_next_page(request_: HtmxRequest) -> None:
    with forms.refusals_told(request_):
        raise Refused("SYMBOL", "It is taken.")
    assert [(message.level_tag, message.message) for message in get_messages(request_)] == [("error", "It is taken.")]


def test_a_page_without_a_form_has_the_refusal_as_a_sentence() -> None:
    context: dict[str, object] = {}
    with forms.refusals_in(context, "problem"):
        raise Refused("SYMBOL", "It is taken.")
    assert context == {"problem": "It is taken."}
    with forms.refusals_in(context, "problem", denials=True):
        raise PermissionDenied("mq:PUB on x")
    assert context == {"problem": "Not allowed: mq:PUB on x."}
    with pytest.raises(PermissionDenied), forms.refusals_in(context, "problem"):
        raise PermissionDenied


@pytest.mark.parametrize(
    ("symbol", "field", "outcome"), [("GONE", "", Http404), ("X", "name", Http404), ("X", "a", Refused)]
)
def test_what_is_not_there_has_no_page(symbol: str, field: str, outcome: type[Exception]) -> None:
    with pytest.raises(outcome), missing.page_of("thing", "GONE", field="name"):
        raise Refused(symbol, "It is away.", field)
