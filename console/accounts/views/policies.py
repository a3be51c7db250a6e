"""Policies of the account: list, write, look at, delete; and the check of a document while it is typed."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access, policy_documents, policy_queries, services
from console.accounts.forms.policies import NewPolicyForm, PolicyForm
from console.accounts.models import Policy
from console.accounts.tables.policies import PolicyTable
from console.web import deletion, htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request
from console.web.paging import configured, search_text

_KINDS = {"custom": "Custom", "system": "System"}


@require_GET
def index(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:ListPolicies")
    text, kind = search_text(request), request.GET.get("kind", "")
    found = policy_queries.policies(tenant, text, kind if kind in _KINDS else "")
    context = {"table": configured(request, PolicyTable(found)), "q": text, "kind": kind, "kinds": _KINDS}
    return htmx.page(request, "accounts/policies.html", "accounts/_policies.html", context)


def create(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:CreatePolicy")
    examples = policy_documents.examples(tenant)
    _, document = examples.get(request.GET.get("start", ""), examples["publish"])
    form = NewPolicyForm(request.POST or None, initial={"document": policy_documents.formatted(document)})
    if request.method == "POST" and form.is_valid():
        try:
            policy = services.create_policy(actor=request.actor, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, f"Policy {policy.name} is there. It gives rights to whom it is attached.")
            return redirect("accounts.policy", policy.name)
    context = {"form": form, "examples": _examples(examples)}
    return render(request, "accounts/policy_create.html", context, status=422 if form.is_bound else 200)


def detail(request: Request, name: str) -> HttpResponse:
    policy = _policy(request, name, "ram:UpdatePolicy" if request.method == "POST" else "ram:GetPolicy")
    text = policy_documents.formatted(policy.document)
    form = PolicyForm(request.POST or None, initial={"description": policy.description, "document": text})
    if request.method == "POST" and form.is_valid():
        try:
            services.update_policy(actor=request.actor, policy=policy, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, "Saved. It holds at once, at the broker within two seconds.")
            return redirect("accounts.policy", policy.name)
    context = {
        "policy": policy,
        "form": form,
        "text": text,
        "holders": policy_queries.holders(request.actor.tenant, policy),
    }
    return render(request, "accounts/policy.html", context, status=422 if form.is_bound else 200)


def delete(request: Request, name: str) -> HttpResponse:
    policy = _policy(request, name, "ram:DeletePolicy")
    wanted = deletion.Deletion(
        kind="policy",
        name=policy.name,
        warning="It is attached to nobody, or it cannot be deleted. What it says is gone for good.",
        cancel_url=reverse("accounts.policy", args=[policy.name]),
    )
    return deletion.confirm(
        request, wanted, lambda: services.delete_policy(actor=request.actor, policy=policy), ("accounts.policies",)
    )


@require_POST
def check(request: Request) -> HttpResponse:
    """What the grammar says to a document; nothing is stored, so everybody with an account may ask."""
    tenant = request.actor.tenant
    trust = "trust_policy" in request.POST
    text = request.POST.get("trust_policy" if trust else "document", "")
    checked = policy_documents.check(text, tenant, trust=trust)
    return render(request, "accounts/_policy_check.html", {"checked": checked})


def _policy(request: Request, name: str, action: str) -> Policy:
    tenant = access.service(request, "ram", action, f"policy/{name}")
    policy = policy_queries.policy(tenant, name)
    if policy is None:
        raise Http404("no such policy")
    return policy


def _examples(examples: dict[str, tuple[str, dict[str, object]]]) -> list[dict[str, str]]:
    return [
        {"name": name, "title": title, "text": policy_documents.formatted(document)}
        for name, (title, document) in examples.items()
    ]
