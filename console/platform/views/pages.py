"""The settings of this copy in one place, read only: what callers and clients must be told."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.accounts import access
from console.platform import addresses
from console.web.http import Request


@require_GET
def settings(request: Request) -> HttpResponse:
    access.platform(request, "platform:GetSettings", "settings")
    origin = request.build_absolute_uri("/").rstrip("/")
    return render(request, "platform/settings.html", {"sections": addresses.sections(origin)})
