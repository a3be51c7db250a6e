"""Organizations as a tree, and the resource sets in them."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from console.accounts import access
from console.accounts.models import Organization, ResourceSet
from console.accounts.organizations import chain
from console.accounts.services import organizations as services
from console.platform import queries
from console.platform.forms import NameForm, OrganizationForm
from console.web import deletion, htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request
from console.web.paging import search_text


@require_GET
def index(request: Request) -> HttpResponse:
    access.platform(request, "platform:ListOrganizations", "organization/*")
    text = search_text(request)
    context = {"branches": queries.tree(text), "q": text}
    return htmx.page(request, "platform/organizations.html", "platform/_organizations.html", context)


def create(request: Request) -> HttpResponse:
    actor = access.platform(request, "platform:CreateOrganization", "organization/*")
    form = OrganizationForm(request.POST or None, initial={"parent": request.GET.get("parent", "")})
    if request.method == "POST" and form.is_valid():
        try:
            made = services.create_organization(actor=actor, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, f"Organization {made.name} has the ID {made.pk}.")
            return redirect("platform.organization", made.pk)
    return render(request, "platform/organization_create.html", {"form": form}, status=422 if form.is_bound else 200)


def detail(request: Request, number: int) -> HttpResponse:
    """On POST: rename it."""
    found = _organization(
        request, number, "platform:UpdateOrganization" if request.POST else "platform:GetOrganization"
    )
    form = NameForm(request.POST or None, initial={"name": found.name})
    if request.method == "POST" and form.is_valid():
        try:
            services.rename_organization(actor=request.actor, organization=found, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
            found.refresh_from_db()
        else:
            messages.success(request, "Saved.")
            return redirect("platform.organization", found.pk)
    return render(request, "platform/organization.html", _context(found, form), status=422 if form.is_bound else 200)


def delete(request: Request, number: int) -> HttpResponse:
    found = _organization(request, number, "platform:DeleteOrganization")
    asked = deletion.Deletion(
        kind="organization",
        name=found.name,
        warning="Only an empty organization can be deleted. Callers who send its ID are refused from then on.",
        cancel_url=reverse("platform.organization", args=[found.pk]),
    )
    return deletion.confirm(
        request,
        asked,
        lambda: services.delete_organization(actor=request.actor, organization=found),
        ("platform.organizations",),
    )


def create_set(request: Request, number: int) -> HttpResponse:
    found = _organization(request, number, "platform:CreateResourceSet")
    form = NameForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            made = services.create_resource_set(actor=request.actor, organization=found, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, f"Resource set {made.name} has the ID {made.pk}.")
            return redirect("platform.organization", found.pk)
    context = {"form": form, "organization": found}
    return render(request, "platform/resource_set.html", context, status=422 if form.is_bound else 200)


def rename_set(request: Request, number: int) -> HttpResponse:
    found = _set(request, number, "platform:UpdateResourceSet")
    form = NameForm(request.POST or None, initial={"name": found.name})
    if request.method == "POST" and form.is_valid():
        try:
            services.rename_resource_set(actor=request.actor, resource_set=found, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, "Saved.")
            return redirect("platform.organization", found.organization_id)
    context = {"form": form, "organization": found.organization, "resource_set": found}
    return render(request, "platform/resource_set.html", context, status=422 if form.is_bound else 200)


def delete_set(request: Request, number: int) -> HttpResponse:
    found = _set(request, number, "platform:DeleteResourceSet")
    asked = deletion.Deletion(
        kind="resource set",
        name=found.name,
        warning="Only a resource set without instances can be deleted.",
        cancel_url=reverse("platform.organization", args=[found.organization_id]),
    )
    return deletion.confirm(
        request,
        asked,
        lambda: services.delete_resource_set(actor=request.actor, resource_set=found),
        ("platform.organization", str(found.organization_id)),
    )


def _context(found: Organization, form: NameForm) -> dict[str, object]:
    return {
        "organization": found,
        "above": chain(found)[:-1],
        "children": found.children.order_by("name"),
        "accounts": found.tenants.order_by("name")[:100],
        "resource_sets": queries.resource_sets(found),
        "form": form,
    }


def _organization(request: Request, number: int, action: str) -> Organization:
    access.platform(request, action, f"organization/{number}")
    found = queries.organization(number)
    if found is None:
        raise Http404("no such organization")
    return found


def _set(request: Request, number: int, action: str) -> ResourceSet:
    access.platform(request, action, f"resource-set/{number}")
    found = queries.resource_set(number)
    if found is None:
        raise Http404("no such resource set")
    return found
