"""The languages of pages: which one a request is answered in (docs/develop/translation.md).

Who chose a language has it in a cookie; else the browser's `Accept-Language` decides, else it is English. Machines get
English whatever their library sends: texts of APIs are part of what programs were written against.

What is kept is in English whoever caused it: a translated text of a request remembers what it was (`english`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.utils.functional import Promise, lazy
from django.utils.translation import trans_real

#: Where programs ask and no person reads.
_MACHINES = ("/json/", "/rpc/", "/hooks/", "/mcp", "/metrics", "/healthz")


class LanguageMiddleware:
    """Answers the request in the language of its cookie, else of its browser."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        _remember()

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


class Said(str):
    """A translated text that knows its English, also after values were put into its places."""

    _of: str
    _values: Any

    def __new__(cls, text: str, of: str, values: Any = None) -> Said:
        """`of` is the English text, or the text into whose places the `values` were put."""
        said = super().__new__(cls, text)
        said._of, said._values = of, values
        return said

    @property
    def english(self) -> str:
        """The text in English."""
        text = english(self._of)
        if isinstance(self._values, Mapping):
            return text % {name: _english_value(value) for name, value in self._values.items()}
        return text if self._values is None else text % _english_value(self._values)

    def __mod__(self, values: Any) -> Said:
        return Said(super().__mod__(values), self, values)

    def lower(self) -> Said:
        """As of any text, and so its English."""
        return Said(super().lower(), english(self).lower())

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def english(text: object) -> str:
    """What a text is in English, for who keeps it: a translated one, one that is lazy, or what an exception says."""
    if isinstance(text, Said):
        return text.english
    if isinstance(text, Promise):
        with kept():
            return str(text)
    if isinstance(text, BaseException) and len(text.args) == 1 and isinstance(text.args[0], Said | Promise):
        return english(text.args[0])
    return str(text)


def _english_value(value: Any) -> Any:
    return english(value) if isinstance(value, Said | Promise | BaseException) else value


class _Remembering(trans_real.DjangoTranslation):
    """A catalogue whose texts know their English."""

    def gettext(self, message: str) -> str:
        text = super().gettext(message)
        return text if text is message else Said(text, message.rpartition(trans_real.CONTEXT_SEPARATOR)[2])

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        of = msgid1 if n == 1 else msgid2
        return Said(super().ngettext(msgid1, msgid2, n), of.rpartition(trans_real.CONTEXT_SEPARATOR)[2])


def _remember() -> None:
    """Have texts of other languages than English remember it, wherever this process translates."""
    for code, _name in settings.LANGUAGES:
        found = trans_real._translations  # type: ignore[attr-defined]
        if code != settings.LANGUAGE_CODE and not isinstance(found.get(code), _Remembering):
            found[code] = _Remembering(code)


@contextmanager
def kept() -> Iterator[None]:
    """As a `with` or a decorator: texts that are made within are kept, or told to programs, and so in English.

    What is kept is read by people of every language, and looked up by its words. A text that is also shown at once is
    lazy: `str` of it within is what is kept.
    """
    with translation.override(settings.LANGUAGE_CODE):
        yield


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
