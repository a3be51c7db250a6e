"""Tenant accounts: list, create, open and close, and their administrator's way back in."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from console.accounts import access, services
from console.accounts.models import Tenant
from console.accounts.services import tenants
from console.platform import queries
from console.platform.forms import AccountForm, ConfirmForm, FilterForm, OrganizationChoice
from console.platform.tables import AccountTable
from console.web import htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request
from console.web.paging import configured


@require_GET
def index(request: Request) -> HttpResponse:
    access.platform(request, "platform:ListAccounts", "account/*")
    form = FilterForm(request.GET)
    context = {"form": form, "table": configured(request, AccountTable(queries.accounts(**form.wanted())))}
    return htmx.page(request, "platform/accounts.html", "platform/_accounts.html", context)


@never_cache
def create(request: Request) -> HttpResponse:
    """The answer carries the first password, this once: no redirect could."""
    actor = access.platform(request, "platform:CreateAccount", "account/*")
    form = AccountForm(request.POST or None, initial={"organization": request.GET.get("organization", "")})
    if request.method == "POST" and form.is_valid():
        password = services.draw_password()
        try:
            user = tenants.create_tenant(actor=actor, password=password, must_change_password=True, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            context = {"account": user.tenant, "administrator": user, "password": password, "new": True}
            return render(request, "platform/account_password.html", context)
    return render(request, "platform/account_create.html", {"form": form}, status=422 if form.is_bound else 200)


def detail(request: Request, name: str) -> HttpResponse:
    """On POST: put the account under another organization."""
    account = _account(request, name, "platform:UpdateAccount" if request.method == "POST" else "platform:GetAccount")
    form = OrganizationChoice(request.POST or None, initial={"organization": account.organization_id})
    if request.method == "POST" and form.is_valid():
        try:
            tenants.move_tenant(actor=request.actor, tenant=account, organization=form.cleaned_data["organization"])
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, f"{account.name} belongs to {account.organization}.")
            return redirect("platform.account", account.name)
    context = {"account": account, "administrator": queries.administrator(account), "form": form}
    return render(request, "platform/account.html", context, status=422 if form.is_bound else 200)


def switch(request: Request, name: str) -> HttpResponse:
    """Open or close the account; closing asks for its name."""
    account = _account(request, name, "platform:UpdateAccount")
    form = ConfirmForm(request.POST or None, name=account.name)
    if request.method == "POST" and form.is_valid():
        tenants.set_tenant_enabled(actor=request.actor, tenant=account, enabled=not account.enabled)
        state = "enabled" if account.enabled else "disabled: its keys stop within two seconds"
        messages.success(request, f"{account.name} is {state}.")
        return redirect("platform.account", account.name)
    context = {"account": account, "form": form}
    return render(request, "platform/account_switch.html", context, status=422 if form.is_bound else 200)


@never_cache
def reset(request: Request, name: str) -> HttpResponse:
    """A new first password for the administrator, shown once; bound devices and sessions go."""
    account = _account(request, name, "platform:ResetAdministrator")
    form = ConfirmForm(request.POST or None, name=account.name)
    if request.method == "POST" and form.is_valid():
        password = services.draw_password()
        user = tenants.reset_administrator(actor=request.actor, tenant=account, password=password)
        context = {"account": account, "administrator": user, "password": password}
        return render(request, "platform/account_password.html", context)
    context = {"account": account, "form": form}
    return render(request, "platform/account_reset.html", context, status=422 if form.is_bound else 200)


def _account(request: Request, name: str, action: str) -> Tenant:
    access.platform(request, action, f"account/{name}")
    account = queries.account(name)
    if account is None:
        raise Http404("no such account")
    return account
