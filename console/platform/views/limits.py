"""What an account may take of the brokers, and what it takes."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render

from console.accounts import access, limits
from console.accounts.services.limits import set_limits
from console.platform import queries
from console.platform.forms import LimitsForm
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request


def index(request: Request, name: str) -> HttpResponse:
    """On POST: set the account's own limits."""
    action = "platform:UpdateAccount" if request.method == "POST" else "platform:GetAccount"
    access.platform(request, action, f"account/{name}")
    account = queries.account(name)
    if account is None:
        raise Http404("no such account")
    given = request.POST if request.method == "POST" else None
    form = LimitsForm(given, initial=limits.own(account), defaults=settings.TENANT_LIMITS)
    if request.method == "POST" and form.is_valid():
        try:
            set_limits(actor=request.actor, tenant=account, values=form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, "Saved. The brokers hold these limits within two seconds.")
            return redirect("platform.account_limits", account.name)
    lines, use = limits.lines(account)
    context = {"account": account, "form": form, "lines": lines, "use": use}
    return render(request, "platform/account_limits.html", context, status=422 if form.is_bound else 200)
