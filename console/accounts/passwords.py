"""The password rule: 10 to 32 characters of at least two classes (letters, digits, special characters)."""

from __future__ import annotations

import string

from django.core.exceptions import ValidationError

from console.accounts.models import User

_CLASSES = (string.ascii_letters, string.digits, string.punctuation)


class PasswordRule:
    """Validator for AUTH_PASSWORD_VALIDATORS."""

    def validate(self, password: str, user: User | None = None) -> None:
        classes = sum(any(c in characters for c in password) for characters in _CLASSES)
        if not 10 <= len(password) <= 32 or classes < 2:
            raise ValidationError(self.get_help_text(), code="password_rule")

    def get_help_text(self) -> str:
        return "A password has 10 to 32 characters of at least two of: letters, digits, special characters."
