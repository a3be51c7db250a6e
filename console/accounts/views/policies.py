"""Policies of the account: list, write, look at, delete; and the check of a document while it is typed."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access, policy_documents, queries, services
from console.accounts.forms import NewPolicyForm, PolicyForm
from console.accounts.http import Request
from console.accounts.tables import PolicyTable
from console.web import deletion, forms, htmx
from console.web.languages import gettext_lazy
from console.web.paging import configured, search_text

_KINDS = {"custom": gettext_lazy("Custom"), "system": gettext_lazy("System")}


@require_GET
def index(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:ListPolicies")
    text, kind = search_text(request), request.GET.get("kind", "")
    found = queries.policies_with_counts(tenant, text, kind if kind in _KINDS else "")
    context = {"table": configured(request, PolicyTable(found)), "q": text, "kind": kind, "kinds": _KINDS}
    return htmx.page(request, "accounts/policies.html", "accounts/_policies.html", context)


def create(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:CreatePolicy")
    examples = policy_documents.examples(tenant)
    _unused, document = examples.get(request.GET.get("start", ""), examples["publish"])
    form = NewPolicyForm(request.POST or None, initial={"document": policy_documents.formatted(document)})
    if form.is_valid():
        with forms.refusals_on(form):
            policy = services.create_policy(actor=request.actor, **form.cleaned_data)
            messages.success(
                request, _("Policy %(policy)s is ready. Attach it to grant its rights.") % {"policy": policy.name}
            )
            return redirect("accounts.policy", policy.name)
    return forms.show(request, "accounts/policy_create.html", form, {"examples": _examples(examples)})


def detail(request: Request, name: str) -> HttpResponse:
    policy = access.policy(request, name, "ram:UpdatePolicy" if request.method == "POST" else "ram:GetPolicy")
    text = policy_documents.formatted(policy.document)
    form = PolicyForm(request.POST or None, initial={"description": policy.description, "document": text})
    if form.is_valid():
        with forms.refusals_on(form):
            services.update_policy(actor=request.actor, policy=policy, **form.cleaned_data)
            messages.success(request, _("Saved. It takes effect at once, at the broker within two seconds."))
            return redirect("accounts.policy", policy.name)
    context = {
        "policy": policy,
        "text": text,
        "holders": queries.holders(request.actor.tenant, policy),
    }
    return forms.show(request, "accounts/policy.html", form, context)


def delete(request: Request, name: str) -> HttpResponse:
    policy = access.policy(request, name, "ram:DeletePolicy")
    wanted = deletion.Deletion(
        kind=_("policy"),
        name=policy.name,
        warning=_("Only a policy that is attached to nobody can be deleted. Its document is lost for good."),
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


def _examples(examples: dict[str, tuple[str, dict[str, object]]]) -> list[dict[str, str]]:
    return [
        {"name": name, "title": title, "text": policy_documents.formatted(document)}
        for name, (title, document) in examples.items()
    ]
