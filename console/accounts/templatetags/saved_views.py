"""The menu of a list's saved views."""

from __future__ import annotations

from typing import Any

from django import template

from console.accounts import saved_views

register = template.Library()


@register.inclusion_tag("accounts/_saved_views.html", takes_context=True)
def saved_views_of(context: template.Context, name: str, has_columns: bool = False) -> dict[str, Any]:
    """The views of the list `name` that the visitor keeps and is offered, and a form that keeps what is seen now."""
    request = context["request"]
    user = getattr(getattr(request, "actor", None), "user", None)
    if user is None:
        return {"list": ""}
    now = saved_views.of_page(request, name, has_columns=has_columns)
    return {
        "request": request,
        "csrf_token": context.get("csrf_token"),
        "list": name,
        "own": [(one, one.query == now) for one in saved_views.own(user, name)],
        "shared": [(one, one.query == now) for one in saved_views.shared(user, name)],
        "may_share": user.tenant_id is not None,
        "has_columns": has_columns,
    }
