"""The policy simulator. Everybody may simulate themselves; others, roles and pasted policies need a right."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from brokercore.policy import parse_policy
from console.accounts import access, actions, policy_queries, simulation, subjects, user_queries
from console.accounts.actor import Actor
from console.accounts.forms.simulator import ME, ROLE, TEXT, USER, SimulationForm
from console.accounts.models import Tenant
from console.web import htmx
from console.web.http import Request

_RIGHT = "ram:SimulatePolicy"
_STARTS = ("who", "user", "role", "action", "resource")


def index(request: Request) -> HttpResponse:
    """The form; with POST also the decision. A link may fill the form in."""
    tenant = request.actor.tenant
    filled = {name: request.GET[name] for name in _STARTS if name in request.GET}
    initial = {"who": ME, "source_ip": request.actor.source_ip, "tls": request.actor.secure} | filled
    form = SimulationForm(request.POST or None, initial=initial, only_me=not subjects.may(request.actor, _RIGHT, "*"))
    context: dict[str, object] = {"form": form, "actions": actions.ACTIONS}
    if request.method == "POST" and form.is_valid():
        if form.cleaned_data["who"] != ME:
            access.service(request, "ram", _RIGHT)
        actor = _actor(tenant, request.actor, form)
        if actor is not None:
            target = simulation.find_target(tenant, form.cleaned_data["resource"])
            pasted = parse_policy(form.cleaned_data["document"], "pasted") if form.cleaned_data["who"] == TEXT else None
            context["simulated"] = simulation.simulate(actor, form.cleaned_data["action"], target, pasted)
    if form.is_bound and "simulated" not in context:
        return htmx.invalid(request, "accounts/simulator.html", context)
    return render(request, "accounts/simulator.html", context)


@require_GET
def names(request: Request) -> HttpResponse:
    """What a field of the simulator offers while it is typed in: users, roles, or resources."""
    tenant = access.service(request, "ram", _RIGHT)
    kind = request.GET.get("kind", "")
    text = request.GET.get(kind, "").strip()[:128]
    if kind == USER:
        users = user_queries.found_users(tenant, user_queries.UserFilter(text=text))
        found = [user.username for user in users[: simulation.NAMES]]
    elif kind == ROLE:
        found = [role.name for role in policy_queries.roles(tenant, text)[: simulation.NAMES]]
    else:
        found = simulation.resource_names(tenant, text)
    return render(request, "accounts/_simulator_names.html", {"names": found})


def _actor(tenant: Tenant, visitor: Actor, form: SimulationForm) -> Actor | None:
    """Who is simulated; None, with an error beside the field, for nobody."""
    who, context = form.cleaned_data["who"], form.circumstances
    if who == ROLE:
        role = policy_queries.role(tenant, form.cleaned_data["role"])
        if role is None:
            form.add_error("role", "The account has no such role.")
            return None
        return simulation.as_role(role, context)
    if who == USER:
        user = user_queries.user(tenant, form.cleaned_data["user"])
        if user is None:
            form.add_error("user", "The account has no such user.")
            return None
        return simulation.as_user(user, context)
    return simulation.in_circumstances(visitor, context)
