"""The files that every page needs, as one of each kind: a page asks for two in place of nine.

Each file keeps its place in `static/`, where it is read and changed. The address of a bundle has the digest of what is
in it, so a browser keeps it for good, and asks anew after an upgrade.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from console.web.middleware import GetResponse

BUNDLES = {
    "page.css": ("css/tabler.css", "css/tokens.css", "css/base.css", "css/layout.css", "css/lists.css"),
    "page.js": (
        "vendor/htmx-2.0.11/htmx.min.js",
        "vendor/idiomorph-0.7.4/idiomorph-ext.min.js",
        *("js/texts.js", "js/live.js", "js/stream.js", "js/app.js", "js/bulk.js", "js/dates.js", "js/go.js"),
    ),
}
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_FOREVER = "public, max-age=31536000, immutable"
_FOLDER = "/bundles/"


@dataclass(frozen=True)
class _Bundle:
    plain: bytes
    compressed: bytes
    digest: str


def bundle_url(name: str) -> str:
    """The address of a bundle as it is now."""
    return f"{_FOLDER}{_bundle(name).digest}/{name}"


class BundleMiddleware:
    """Answers for the bundles, before sessions and all else that pages need."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path_info.startswith(_FOLDER) or request.method not in ("GET", "HEAD"):
            return self.get_response(request)
        digest, _, name = request.path_info.removeprefix(_FOLDER).partition("/")
        if name not in BUNDLES:
            return self.get_response(request)
        bundle = _bundle(name)
        takes_gzip = "gzip" in request.headers.get("Accept-Encoding", "")
        response = HttpResponse(
            bundle.compressed if takes_gzip else bundle.plain, content_type=_TYPES[name.rpartition(".")[2]]
        )
        if takes_gzip:
            response["Content-Encoding"] = "gzip"
        response["Vary"] = "Accept-Encoding"
        # The address of another release gets what is there now, and nobody keeps it.
        response["Cache-Control"] = _FOREVER if digest == bundle.digest else "no-store"
        return response


def _bundle(name: str) -> _Bundle:
    files = [Path(settings.STATIC_ROOT) / path for path in BUNDLES[name]]
    return _made(name, tuple(file.stat().st_mtime_ns for file in files))


@lru_cache(maxsize=8)
def _made(name: str, _changed: tuple[int, ...]) -> _Bundle:
    # Each script is closed: the next one begins a statement of its own.
    end = b";\n" if name.endswith(".js") else b"\n"
    plain = b"".join((Path(settings.STATIC_ROOT) / path).read_bytes() + end for path in BUNDLES[name])
    return _Bundle(plain, gzip.compress(plain, 9, mtime=0), hashlib.sha256(plain).hexdigest()[:16])
