"""Users of the tenant: list, create, policies, sign-in. Permissions are those of `ram:…`."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access, queries, services
from console.accounts.forms.users import PasswordForm, PoliciesForm, UserForm
from console.accounts.models import User
from console.accounts.tables.users import UserTable
from console.web import htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request
from console.web.paging import configured, search_text


@require_GET
def index(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:ListUsers")
    text = search_text(request)
    table = configured(request, UserTable(queries.users(tenant).filter(username__icontains=text)))
    return htmx.page(request, "accounts/users.html", "accounts/_users.html", {"table": table, "q": text})


def create(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:CreateUser")
    form = UserForm(request.POST or None, tenant=tenant)
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data | {"policies": list(form.cleaned_data["policies"])}
        try:
            user = services.create_user(actor=request.actor, **values)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, f"User {user.username} can sign in with the first password.")
            return redirect("accounts.user", user.username)
    status = 422 if form.is_bound else 200
    return render(request, "accounts/user_create.html", {"form": form}, status=status)


def detail(request: Request, username: str) -> HttpResponse:
    user = _user(request, username, "ram:AttachPolicyToUser" if request.method == "POST" else "ram:GetUser")
    form = PoliciesForm(request.POST or None, tenant=request.actor.tenant, initial={"policies": user.policies.all()})
    if request.method == "POST":
        # No box ticked sends no field, which is not the same as no form.
        form = PoliciesForm(request.POST, tenant=request.actor.tenant)
        if form.is_valid() and not user.is_tenant_admin:
            services.set_user_policies(actor=request.actor, user=user, policies=list(form.cleaned_data["policies"]))
            messages.success(request, "Saved. The policies hold at once, at the broker within two seconds.")
            return redirect("accounts.user", user.username)
    context = {"account": user, "form": form, "password_form": PasswordForm(), "keys": user.access_keys.all()}
    return render(request, "accounts/user.html", context, status=422 if form.is_bound else 200)


@require_POST
def switch(request: Request, username: str) -> HttpResponse:
    user = _user(request, username, "ram:UpdateUser")
    enabled = request.POST.get("enabled") == "true"
    try:
        services.set_user_enabled(actor=request.actor, user=user, enabled=enabled)
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        messages.success(request, f"{user.username} is {'enabled' if enabled else 'disabled, with all AccessKeys'}.")
    return htmx.done(request, "accounts.user", user.username)


@require_POST
def password(request: Request, username: str) -> HttpResponse:
    user = _user(request, username, "ram:UpdateLoginProfile")
    try:
        services.reset_password(actor=request.actor, user=user, password=request.POST.get("password", ""))
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        messages.success(request, f"{user.username} must change the new password at the next sign-in.")
    return htmx.done(request, "accounts.user", user.username)


def _user(request: Request, username: str, action: str) -> User:
    tenant = access.service(request, "ram", action)
    user = queries.users(tenant).filter(username=username).first()
    if user is None:
        raise Http404("no such user")
    return user
