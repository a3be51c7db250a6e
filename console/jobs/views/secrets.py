"""Secrets and variables that the texts of jobs name. The value of a secret is on no page."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from console.accounts.http import Request
from console.jobs import access
from console.jobs.forms import SecretForm, VariableForm
from console.pipelines import queries, services
from console.web import deletion, forms


@require_GET
def secret_list(request: Request) -> HttpResponse:
    tenant = access.secrets(request, access.LIST_SECRETS)
    actor = request.actor
    sees_variables = access.may_list(actor, "job-variable")
    context = {
        "secrets": queries.secrets(tenant),
        "sees_variables": sees_variables,
        "variables": queries.variables(tenant) if sees_variables else [],
        "may_put": access.may(actor, access.PUT_SECRET, thing="job-secret"),
        "may_put_variable": access.may(actor, access.PUT_SECRET, thing="job-variable"),
        "may_delete": access.may(actor, access.DELETE_SECRET, thing="job-secret"),
        "may_delete_variable": access.may(actor, access.DELETE_SECRET, thing="job-variable"),
    }
    return render(request, "jobs/secrets.html", context)


def secret_put(request: Request) -> HttpResponse:
    """A secret, or a new value of one."""
    name = (request.POST.get("name") or request.GET.get("name", "")).strip()
    access.secrets(request, access.PUT_SECRET, name or "*")
    form = SecretForm(request.POST if request.method == "POST" else None, initial={"name": name})
    if form.is_valid():
        with forms.refusals_on(form):
            services.set_secret(actor=request.actor, **form.cleaned_data)
            messages.success(request, _("The secret %(name)s is saved.") % {"name": form.cleaned_data["name"]})
            return redirect("jobs.secrets")
    return forms.show(request, "jobs/put.html", form, {"thing": "secret", "is_new": not name})


def secret_delete(request: Request, name: str) -> HttpResponse:
    access.secrets(request, access.DELETE_SECRET, name)
    warning = _("Jobs that name it go on running, and cannot be started again without it.")
    wanted = deletion.Deletion(kind=_("secret"), name=name, warning=warning, cancel_url=reverse("jobs.secrets"))
    return deletion.confirm(
        request, wanted, lambda: services.delete_secret(actor=request.actor, name=name), ("jobs.secrets",)
    )


def variable_put(request: Request) -> HttpResponse:
    """A variable, or a new value of one."""
    name = (request.POST.get("name") or request.GET.get("name", "")).strip()
    tenant = access.secrets(request, access.PUT_SECRET, name or "*", "job-variable")
    known = queries.variables(tenant).filter(name=name).first()
    initial = {"name": name, "value": known.value if known else ""}
    form = VariableForm(request.POST if request.method == "POST" else None, initial=initial)
    if form.is_valid():
        with forms.refusals_on(form):
            services.set_variable(actor=request.actor, **form.cleaned_data)
            messages.success(request, _("The variable %(name)s is saved.") % {"name": form.cleaned_data["name"]})
            return redirect("jobs.secrets")
    return forms.show(request, "jobs/put.html", form, {"thing": "variable", "is_new": not name})


def variable_delete(request: Request, name: str) -> HttpResponse:
    access.secrets(request, access.DELETE_SECRET, name, "job-variable")
    warning = _("Deployed versions keep its value; texts that name it cannot be deployed again.")
    wanted = deletion.Deletion(kind=_("variable"), name=name, warning=warning, cancel_url=reverse("jobs.secrets"))
    return deletion.confirm(
        request, wanted, lambda: services.delete_variable(actor=request.actor, name=name), ("jobs.secrets",)
    )
