"""Pages are compressed for browsers that take it; files and streams are not."""

from __future__ import annotations

import gzip
from typing import Any

from django.http import HttpResponse, StreamingHttpResponse
from django.test import Client, RequestFactory

from console.web.compression import CompressionMiddleware


def test_the_sign_in_page_comes_compressed(db: None) -> None:
    answer = Client().get("/account/login/", headers={"Accept-Encoding": "gzip"})
    assert answer["Content-Encoding"] == "gzip" and "Accept-Encoding" in answer["Vary"]
    assert b"Sign in" in gzip.decompress(answer.content)
    assert "Content-Encoding" not in Client().get("/account/login/")


def test_pages_are_compressed_and_files_are_not() -> None:
    request = RequestFactory().get("/", headers={"Accept-Encoding": "gzip"})
    text = b"<p>many words</p>" * 100

    def answered(response: HttpResponse | StreamingHttpResponse) -> Any:
        return CompressionMiddleware(lambda _: response)(request)

    page = answered(HttpResponse(text))
    assert page["Content-Encoding"] == "gzip" and gzip.decompress(page.content) == text
    assert "Content-Encoding" not in answered(HttpResponse(text, content_type="text/csv"))
    assert "Content-Encoding" not in answered(StreamingHttpResponse([text], content_type="text/html"))
