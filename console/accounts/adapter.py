"""How django-allauth behaves here."""

from __future__ import annotations

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """Users are made by their tenant's administrator, never by themselves."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False
