"""Health, for process runners and load balancers."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.db import connection
from django.http import HttpRequest, JsonResponse


@login_not_required
def health(request: HttpRequest) -> JsonResponse:
    """200 when the process serves and its database answers."""
    connection.ensure_connection()
    return JsonResponse({"status": "ok"})
