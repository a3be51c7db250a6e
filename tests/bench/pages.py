"""How long the console takes for the pages that people open most."""

from __future__ import annotations

import re
import time
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, HTTPHandler, OpenerDirector, Request, build_opener

from tests.bench import figures
from tests.bench.copy import running_copy

VISITS = 30
WARM_UP = 3
_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


class SignInError(Exception):
    """The console did not let us in."""


def main(demo_file: Path | None) -> str:
    """Time the pages of the copy of `demo_file`, or of one of their own, and return the table."""
    with running_copy(demo_file) as demo:
        browser = sign_in(demo)
        instance = f"{demo['console']}/i/{demo['instance_id']}"
        pages = {
            "overview": f"{demo['console']}/",
            "topic list": f"{instance}/topics/",
            "group page": f"{instance}/groups/{demo['group']}/",
        }
        series = {name: _times(browser, address) for name, address in pages.items()}
    head = (f"page, {VISITS} visits after {WARM_UP}; ms", "median", "p95")
    return figures.table(head, [(name, *figures.median_and_p95(values)) for name, values in series.items()])


class _From(HTTPHandler):
    """Connects from an address of its own, as the console counts requests by address."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self._host = host

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(partial(HTTPConnection, source_address=(self._host, 0)), req)


def sign_in(demo: dict[str, Any], *, host: str = "127.0.0.1") -> OpenerDirector:
    """A browser at address `host` that is signed in as `username`. Raises SignInError."""
    browser = build_opener(HTTPCookieProcessor(CookieJar()), _From(host))
    address = f"{demo['console']}/account/login/"
    with browser.open(address, timeout=60) as answer:
        token = token_of(answer.read().decode())
    fields = {"csrfmiddlewaretoken": token, "login": demo["username"], "password": demo["password"]}
    with browser.open(Request(address, urlencode(fields).encode(), {"Referer": address}), timeout=60) as answer:
        if "/account/login" in answer.geturl():
            raise SignInError(f"{demo['username']} was not let in")
    return browser


def token_of(page: str) -> str:
    """What a form of the page proves that it came from there with. Raises SignInError."""
    token = _TOKEN.search(page)
    if not token:
        raise SignInError("the page has no form")
    return token[1]


def _times(browser: OpenerDirector, address: str) -> list[float]:
    """Milliseconds of each visit, the whole page read; the first ones fill caches and are not counted."""
    times = []
    for number in range(WARM_UP + VISITS):
        began = time.perf_counter()
        with browser.open(address) as answer:
            answer.read()
            if answer.geturl() != address:
                raise SignInError(f"{address} led to {answer.geturl()}")
        if number >= WARM_UP:
            times.append((time.perf_counter() - began) * 1000)
    return times
