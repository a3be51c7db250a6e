"""The languages of pages: which one a request is answered in (docs/develop/translation.md).

Who chose a language has it in a cookie; else the browser's `Accept-Language` decides, else it is English. Machines get
English whatever their library sends: texts of APIs are part of what programs were written against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.utils.functional import lazy

#: Where programs ask and no person reads.
_MACHINES = ("/json/", "/rpc/", "/hooks/", "/mcp", "/metrics", "/healthz")


class LanguageMiddleware:
    """Answers the request in the language of its cookie, else of its browser."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith(_MACHINES):
            with translation.override(settings.LANGUAGE_CODE):
                return self.get_response(request)
        language = translation.get_language_from_request(request)
        with translation.override(language):
            response = self.get_response(request)
        patch_vary_headers(response, ("Accept-Language",))
        response.headers.setdefault("Content-Language", language)
        return response


def _said(text: str, values: Mapping[str, object]) -> str:
    said = translation.gettext(text)
    return said % values if values else said


_lazy = lazy(_said, str)


def gettext_lazy(text: str, **values: object) -> str:
    """A text in the language of whoever it is shown to, for what is declared before anybody asks: labels, help texts.

    `values` stand in its places. It stands for a `str` wherever texts are shown, compared or formatted; what joins or
    serialises it takes `str(text)`.
    """
    return _lazy(text, values)


pgettext_lazy = cast("Callable[[str, str], str]", translation.pgettext_lazy)
"""The same for a text that has another meaning elsewhere: the first argument says which it is here."""
