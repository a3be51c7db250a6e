"""Roles of the account: whom they trust, what they may, who is in them now; and assuming one."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access, picker, policy_documents, policy_queries, services, subjects, user_queries
from console.accounts.forms.policies import NewRoleForm, RoleForm
from console.accounts.models import Role
from console.accounts.tables.policies import RoleTable, SessionTable
from console.web import deletion, htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request
from console.web.paging import configured, search_text

_STATES = {"used": "With live sessions", "unused": "Without"}


@require_GET
def index(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:ListRoles")
    text, state = search_text(request), request.GET.get("state", "")
    found = policy_queries.roles(tenant, text, state if state in _STATES else "")
    context = {"table": configured(request, RoleTable(found)), "q": text, "state": state, "states": _STATES}
    return htmx.page(request, "accounts/roles.html", "accounts/_roles.html", context)


def create(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:CreateRole")
    examples = policy_documents.trust_examples(tenant)
    _, document = examples.get(request.GET.get("start", ""), examples["account"])
    form = NewRoleForm(request.POST or None, initial={"trust_policy": policy_documents.formatted(document)})
    if request.method == "POST" and form.is_valid():
        try:
            role = services.create_role(actor=request.actor, policies=[], **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, f"Role {role.name} is there. Attach policies: without one it may do nothing.")
            return redirect("accounts.role", role.name)
    shown = [{"name": n, "title": t, "text": policy_documents.formatted(d)} for n, (t, d) in examples.items()]
    status = 422 if form.is_bound else 200
    return render(request, "accounts/role_create.html", {"form": form, "examples": shown}, status=status)


def detail(request: Request, name: str) -> HttpResponse:
    role = _role(request, name, "ram:UpdateRole" if request.method == "POST" else "ram:GetRole")
    initial = {
        "description": role.description,
        "max_session_s": role.max_session_s,
        "trust_policy": policy_documents.formatted(role.trust_policy),
    }
    form = RoleForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            services.update_role(actor=request.actor, role=role, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, "Saved. Sessions that run go on until they end.")
            return redirect("accounts.role", role.name)
    context = {
        "role": role,
        "arn": services.role_arn(role),
        "form": form,
        "picker": _picker(role),
        "table": configured(request, SessionTable(policy_queries.sessions(role)), per_page=10),
    }
    return render(request, "accounts/role.html", context, status=422 if form.is_bound else 200)


def delete(request: Request, name: str) -> HttpResponse:
    role = _role(request, name, "ram:DeleteRole")
    wanted = deletion.Deletion(
        kind="role",
        name=role.name,
        warning="Its sessions end at once, and whatever assumes it is refused from then on.",
        cancel_url=reverse("accounts.role", args=[role.name]),
    )
    return deletion.confirm(
        request, wanted, lambda: services.delete_role(actor=request.actor, role=role), ("accounts.roles",)
    )


@require_GET
def find_policies(request: Request, name: str) -> HttpResponse:
    role = _role(request, name, "ram:AttachPolicyToRole")
    text = search_text(request)
    found = user_queries.attachable_policies(request.actor.tenant, role, text)
    return picker.respond(request, _picker(role).showing(text, picker.of_policies(found)))


@require_POST
def attach_policy(request: Request, name: str) -> HttpResponse:
    role = _role(request, name, "ram:AttachPolicyToRole")
    policy = subjects.policy(request)
    services.attach_role_policy(actor=request.actor, role=role, policy=policy)
    messages.success(request, f"{policy.name} is attached. It holds at once, at the broker within two seconds.")
    return htmx.done(request, "accounts.role", role.name)


@require_POST
def detach_policy(request: Request, name: str) -> HttpResponse:
    role = _role(request, name, "ram:DetachPolicyFromRole")
    policy = subjects.policy(request)
    services.detach_role_policy(actor=request.actor, role=role, policy=policy)
    messages.success(request, f"{policy.name} is detached. It holds at once, at the broker within two seconds.")
    return htmx.done(request, "accounts.role", role.name)


@require_POST
def end_sessions(request: Request, name: str) -> HttpResponse:
    role = _role(request, name, "ram:EndRoleSession")
    ended = services.end_sessions(actor=request.actor, role=role, access_key_id=request.POST.get("session", ""))
    messages.success(request, f"{ended} session{'' if ended == 1 else 's'} ended; the keys work no more.")
    return htmx.done(request, "accounts.role", role.name)


def _role(request: Request, name: str, action: str) -> Role:
    tenant = access.service(request, "ram", action, f"role/{name}")
    role = policy_queries.role(tenant, name)
    if role is None:
        raise Http404("no such role")
    return role


def _picker(role: Role) -> picker.Picker:
    find, add = (reverse(f"accounts.role_{step}_policies", args=[role.name]) for step in ("find", "add"))
    back = reverse("accounts.role", args=[role.name])
    return picker.Picker("policies-candidates", "Search policies to attach", find, add, "Attach", back)
