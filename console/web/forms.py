"""Forms and refused input."""

from __future__ import annotations

from django import forms

from console.web.errors import Refused


def add_refusal(form: forms.Form, refused: Refused) -> None:
    """Show a service's refusal beside the field it names, or above the form."""
    form.add_error(refused.field if refused.field in form.fields else None, refused.message)
