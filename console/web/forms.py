"""A form on a page: its status while something is wrong, and where a service's refusal is shown.

A view that changes something has one shape: access, the form, `with refusals_on(form)` around the service and the way
on, and last the page with the form.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import NON_FIELD_ERRORS, PermissionDenied
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from console.web import htmx
from console.web.errors import Refused
from console.web.htmx import HtmxRequest

WHOLE_FORM = NON_FIELD_ERRORS
"""In the place of a field's name: above the form."""


def show(
    request: HtmxRequest, template: str, form: forms.BaseForm, context: dict[str, Any] | None = None
) -> HttpResponse:
    """The page with the form; 422 while something is wrong with what was sent (app.js lets htmx swap it)."""
    return render(request, template, {"form": form} | (context or {}), status=_status(form))


def show_part(
    request: HtmxRequest, template: str, part: str, form: forms.BaseForm, context: dict[str, Any]
) -> HttpResponse:
    """The page with the form, or for htmx only its part."""
    response = htmx.page(request, template, part, {"form": form} | context)
    response.status_code = _status(form)
    return response


def _status(form: forms.BaseForm) -> int:
    return 422 if form.errors else 200


def refusals_on(form: forms.BaseForm, denials_on: str = "") -> _Shown:
    """What a service refuses inside `with` stands beside the field it names, or above the form.

    With `denials_on`, a field's name or WHOLE_FORM, a missing right is shown there too, and is no 403.
    """

    def deny(denied: PermissionDenied) -> None:
        form.add_error(denials_on, not_allowed(denied))

    def show_refusal(refused: Refused) -> None:
        form.add_error(refused.field if refused.field in form.fields else None, refused.message)

    return _Shown(show_refusal, deny if denials_on else None)


def refusals_at(form: forms.BaseForm, place: Callable[[Refused], None]) -> _Shown:
    """What a service refuses inside `with` stands where `place` puts it; a missing right above the form."""

    def deny(denied: PermissionDenied) -> None:
        form.add_error(WHOLE_FORM, not_allowed(denied))

    return _Shown(place, deny)


def refusals_told(request: HtmxRequest) -> _Shown:
    """What a service refuses inside `with` is a message on the next page: for buttons, which have no form to show."""
    return _Shown(lambda refused: messages.error(request, refused.message))


def refusals_in(context: dict[str, Any], name: str, *, denials: bool = False) -> _Shown:
    """What a service refuses inside `with` is the sentence `name` of the page, which has no form to show it in.

    With `denials` a missing right is such a sentence too, and is no 403.
    """

    def deny(denied: PermissionDenied) -> None:
        context[name] = not_allowed(denied)

    def show_refusal(refused: Refused) -> None:
        context[name] = refused.message

    return _Shown(show_refusal, deny if denials else None)


def not_allowed(reason: object) -> str:
    """What a visitor is told of a denial, or of a decision's reason."""
    return _("Not allowed: %(reason)s.") % {"reason": reason}


class _Shown(AbstractContextManager[None, bool]):
    def __init__(
        self, refused: Callable[[Refused], None], denied: Callable[[PermissionDenied], None] | None = None
    ) -> None:
        self._refused = refused
        self._denied = denied

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if isinstance(error, Refused):
            self._refused(error)
            return True
        if isinstance(error, PermissionDenied) and self._denied is not None:
            self._denied(error)
            return True
        return False
