"""Roles of the account: whom they trust, what they may, who is in them now; and assuming one."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access, policy_documents, queries, services
from console.accounts.forms import AssumeForm, NewRoleForm, RoleForm
from console.accounts.http import Request
from console.accounts.tables import RoleTable, SessionTable
from console.accounts.views import attaching
from console.web import deletion, forms, htmx
from console.web.languages import gettext_lazy
from console.web.paging import configured, search_text

_STATES = {"used": gettext_lazy("With active sessions"), "unused": gettext_lazy("Without")}


@require_GET
def index(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:ListRoles")
    text, state = search_text(request), request.GET.get("state", "")
    found = queries.roles(tenant, text, state if state in _STATES else "")
    context = {"table": configured(request, RoleTable(found)), "q": text, "state": state, "states": _STATES}
    return htmx.page(request, "accounts/roles.html", "accounts/_roles.html", context)


def create(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:CreateRole")
    examples = policy_documents.trust_examples(tenant)
    _unused, document = examples.get(request.GET.get("start", ""), examples["account"])
    form = NewRoleForm(request.POST or None, initial={"trust_policy": policy_documents.formatted(document)})
    if form.is_valid():
        with forms.refusals_on(form):
            role = services.create_role(actor=request.actor, policies=[], **form.cleaned_data)
            messages.success(
                request,
                _("Role %(role)s is ready. Attach policies: without one it may do nothing.") % {"role": role.name},
            )
            return redirect("accounts.role", role.name)
    shown = [{"name": n, "title": t, "text": policy_documents.formatted(d)} for n, (t, d) in examples.items()]
    return forms.show(request, "accounts/role_create.html", form, {"examples": shown})


def detail(request: Request, name: str) -> HttpResponse:
    role = access.role(request, name, "ram:UpdateRole" if request.method == "POST" else "ram:GetRole")
    initial = {
        "description": role.description,
        "max_session_s": role.max_session_s,
        "trust_policy": policy_documents.formatted(role.trust_policy),
    }
    form = RoleForm(request.POST or None, initial=initial)
    if form.is_valid():
        with forms.refusals_on(form):
            services.update_role(actor=request.actor, role=role, **form.cleaned_data)
            messages.success(request, _("Saved. Active sessions continue until they end."))
            return redirect("accounts.role", role.name)
    context = {
        "role": role,
        "arn": services.role_arn(role),
        "picker": attaching.policies_for(role),
        "table": configured(request, SessionTable(queries.sessions(role)), per_page=10),
    }
    return forms.show(request, "accounts/role.html", form, context)


def delete(request: Request, name: str) -> HttpResponse:
    role = access.role(request, name, "ram:DeleteRole")
    wanted = deletion.Deletion(
        kind=_("role"),
        name=role.name,
        warning=_("Its sessions end at once, and whatever assumes it is refused from then on."),
        cancel_url=reverse("accounts.role", args=[role.name]),
    )
    return deletion.confirm(
        request, wanted, lambda: services.delete_role(actor=request.actor, role=role), ("accounts.roles",)
    )


@require_GET
def find_policies(request: Request, name: str) -> HttpResponse:
    role = access.role(request, name, "ram:AttachPolicyToRole")
    return attaching.find_policies(request, role)


@require_POST
def attach_policy(request: Request, name: str) -> HttpResponse:
    role = access.role(request, name, "ram:AttachPolicyToRole")
    return attaching.attach(
        request, role, lambda policy: services.attach_role_policy(actor=request.actor, role=role, policy=policy)
    )


@require_POST
def detach_policy(request: Request, name: str) -> HttpResponse:
    role = access.role(request, name, "ram:DetachPolicyFromRole")
    return attaching.detach(
        request, role, lambda policy: services.detach_role_policy(actor=request.actor, role=role, policy=policy)
    )


@require_POST
def end_sessions(request: Request, name: str) -> HttpResponse:
    role = access.role(request, name, "ram:EndRoleSession")
    ended = services.end_sessions(actor=request.actor, role=role, access_key_id=request.POST.get("session", ""))
    messages.success(
        request,
        ngettext(
            "%(ended)s session ended; its keys no longer work.",
            "%(ended)s sessions ended; their keys no longer work.",
            ended,
        )
        % {"ended": ended},
    )
    return htmx.done(request, "accounts.role", role.name)


@never_cache
def assume(request: Request) -> HttpResponse:
    """The answer carries the secret, this once: no redirect could."""
    tenant = request.actor.tenant
    wanted = {"role": request.GET.get("role", "")[:150], "session_name": request.actor.name[:32]}
    form = AssumeForm(request.POST or None, initial=wanted)
    context: dict[str, object] = {}
    if form.is_valid():
        try:
            with forms.refusals_on(form):
                role = services.find_role(form.cleaned_data.pop("role"), tenant)
                context["issued"] = services.assume_role(actor=request.actor, role=role, **form.cleaned_data)
                context["role"] = role
        except PermissionDenied as denied:
            form.add_error(None, str(denied))
    return forms.show(request, "accounts/role_assume.html", form, context)
