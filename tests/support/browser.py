"""Django's test client without its cost: a new one looks for all static files again, which takes 20 ms."""

from __future__ import annotations

from django.test import Client
from django.test.client import ClientHandler

#: The middleware, made at the first request of the process and then used by every browser.
_handler = ClientHandler(enforce_csrf_checks=False)


def browser() -> Client:
    """One without cookies that nobody signed in with."""
    found = Client()
    found.handler = _handler
    return found
