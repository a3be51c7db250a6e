"""Numbers that name accounts and users."""

from __future__ import annotations

import secrets
import string

TENANT_DIGITS, USER_DIGITS = 16, 18


def new_uid(length: int) -> str:
    """So many random digits, the first of them not 0."""
    return secrets.choice("123456789") + "".join(secrets.choice(string.digits) for _ in range(length - 1))
