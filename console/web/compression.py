"""Pages go compressed to browsers that take it."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

from console.web.live import FOLLOW


class CompressionMiddleware(GZipMiddleware):
    """Compresses pages and their parts, with padding of random length against guessing by size (BREACH); nothing else.

    Files and streams leave as they are: a part of a file must keep its length, a stream its pace.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_page = FOLLOW in response or response.get("Content-Type", "").startswith("text/html")
        if response.streaming or not is_page:
            return response
        return super().process_response(request, response)
