"""The policy simulator. Everybody may simulate themselves; others, roles and pasted policies need a right."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from brokercore.policy import parse_policy
from console.accounts import access, policy_documents, queries
from console.accounts.actor import Actor
from console.accounts.http import Request
from console.accounts.models import Tenant
from console.rights import simulation
from console.rights.forms import ME, ROLE, TEXT, USER, SimulationForm
from console.web import forms

_RIGHT = "ram:SimulatePolicy"
_STARTS = ("who", "user", "role", "action", "resource")


def index(request: Request) -> HttpResponse:
    """The form; with POST also the decision. A link may fill the form in."""
    tenant = request.actor.tenant
    filled = {name: request.GET[name] for name in _STARTS if name in request.GET}
    initial = {"who": ME, "source_ip": request.actor.source_ip, "tls": request.actor.secure} | filled
    form = SimulationForm(request.POST or None, initial=initial, only_me=not access.may(request.actor, _RIGHT, "*"))
    context: dict[str, object] = {"actions": policy_documents.ACTIONS}
    if form.is_valid():
        if form.cleaned_data["who"] != ME:
            access.service(request, "ram", _RIGHT)
        actor = _actor(tenant, request.actor, form)
        if actor is not None:
            target = simulation.find_target(tenant, form.cleaned_data["resource"])
            pasted = parse_policy(form.cleaned_data["document"], "pasted") if form.cleaned_data["who"] == TEXT else None
            context["simulated"] = simulation.simulate(actor, form.cleaned_data["action"], target, pasted)
    return forms.show(request, "accounts/simulator.html", form, context)


@require_GET
def names(request: Request) -> HttpResponse:
    """What a field of the simulator offers while it is typed in: users, roles, or resources."""
    tenant = access.service(request, "ram", _RIGHT)
    kind = request.GET.get("kind", "")
    text = request.GET.get(kind, "").strip()[:128]
    if kind == USER:
        users = queries.found_users(tenant, queries.UserFilter(text=text))
        found = [user.username for user in users[: simulation.NAMES]]
    elif kind == ROLE:
        found = [role.name for role in queries.roles(tenant, text)[: simulation.NAMES]]
    else:
        found = simulation.resource_names(tenant, text)
    return render(request, "accounts/_simulator_names.html", {"names": found})


def _actor(tenant: Tenant, visitor: Actor, form: SimulationForm) -> Actor | None:
    """Who is simulated; None, with an error beside the field, for nobody."""
    who, context = form.cleaned_data["who"], form.circumstances
    if who == ROLE:
        role = queries.role(tenant, form.cleaned_data["role"])
        if role is None:
            form.add_error("role", _("The account has no such role."))
            return None
        return simulation.as_role(role, context)
    if who == USER:
        user = queries.user(tenant, form.cleaned_data["user"])
        if user is None:
            form.add_error("user", _("The account has no such user."))
            return None
        return simulation.as_user(user, context)
    return simulation.in_circumstances(visitor, context)
