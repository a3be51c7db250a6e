"""Temporary keys of a role for the visitor (STS AssumeRole). The role decides who may, and the visitor's policies."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from console.accounts import services
from console.accounts.forms.policies import AssumeForm
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request


@never_cache
def assume(request: Request) -> HttpResponse:
    """The answer carries the secret, this once: no redirect could."""
    tenant = request.actor.tenant
    wanted = {"role": request.GET.get("role", "")[:150], "session_name": request.actor.name[:32]}
    form = AssumeForm(request.POST or None, initial=wanted)
    context: dict[str, object] = {"form": form}
    if request.method == "POST" and form.is_valid():
        try:
            role = services.find_role(form.cleaned_data.pop("role"), tenant)
            context["issued"] = services.assume_role(actor=request.actor, role=role, **form.cleaned_data)
            context["role"] = role
        except Refused as refused:
            add_refusal(form, refused)
        except PermissionDenied as denied:
            form.add_error(None, str(denied))
    status = 422 if form.is_bound and "issued" not in context else 200
    return render(request, "accounts/role_assume.html", context, status=status)
