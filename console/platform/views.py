"""Pages of the platform's administrator: accounts, organizations with their resource sets and AccessKeys, settings."""

from __future__ import annotations

import django_tables2 as tables
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access, services
from console.accounts.http import Request
from console.accounts.models import AccessKey, Organization, ResourceSet, Tenant
from console.accounts.organizations import chain
from console.accounts.services import keys as key_services
from console.accounts.services import organizations as organization_services
from console.accounts.services import tenants
from console.platform import queries
from console.platform.forms import (
    AccountForm,
    ConfirmForm,
    FilterForm,
    KeyForm,
    LimitsForm,
    NameForm,
    OrganizationChoice,
    OrganizationForm,
)
from console.rights import limits
from console.rights.services import set_limits
from console.web import deletion, forms, htmx
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, column, configured, search_text


class AccountTable(tables.Table):  # type: ignore[misc]
    """Who there is, and what they have."""

    name = CellColumn(template_name="platform/_account_cell.html", verbose_name=gettext_lazy("Account"))
    organization = tables.Column(accessor="organization__name", verbose_name=gettext_lazy("Organization"))
    enabled = CellColumn(template_name="platform/_enabled_cell.html", verbose_name=gettext_lazy("State"))
    instance_count = tables.Column(verbose_name=gettext_lazy("Instances"), attrs=column("num-cell num"))
    topic_count = tables.Column(verbose_name=gettext_lazy("Topics"), attrs=column("num-cell num"))
    group_count = tables.Column(verbose_name=gettext_lazy("Groups"), attrs=column("num-cell num"))
    user_count = tables.Column(verbose_name=gettext_lazy("Users"), attrs=column("num-cell num"))
    created_at = CellColumn(
        "{% load gantry %}{% time record.created_at 'date' %}", verbose_name=gettext_lazy("Created")
    )

    class Meta:
        order_by = "name"


@require_GET
def accounts(request: Request) -> HttpResponse:
    access.platform(request, "platform:ListAccounts", "account/*")
    form = FilterForm(request.GET)
    context = {"form": form, "table": configured(request, AccountTable(queries.accounts(**form.wanted())))}
    return htmx.page(request, "platform/accounts.html", "platform/_accounts.html", context)


@never_cache
def account_create(request: Request) -> HttpResponse:
    """The answer carries the first password, this once: no redirect could."""
    actor = access.platform(request, "platform:CreateAccount", "account/*")
    form = AccountForm(request.POST or None, initial={"organization": request.GET.get("organization", "")})
    if form.is_valid():
        password = services.draw_password()
        with forms.refusals_on(form):
            user = tenants.create_tenant(actor=actor, password=password, must_change_password=True, **form.cleaned_data)
            context = {"account": user.tenant, "administrator": user, "password": password, "new": True}
            return render(request, "platform/account_password.html", context)
    return forms.show(request, "platform/account_create.html", form)


def account(request: Request, name: str) -> HttpResponse:
    """On POST: put the account under another organization."""
    account = _account(request, name, "platform:UpdateAccount" if request.method == "POST" else "platform:GetAccount")
    form = OrganizationChoice(request.POST or None, initial={"organization": account.organization_id})
    if form.is_valid():
        with forms.refusals_on(form):
            tenants.move_tenant(actor=request.actor, tenant=account, organization=form.cleaned_data["organization"])
            messages.success(
                request,
                _("%(account)s belongs to %(organization)s.")
                % {"account": account.name, "organization": account.organization},
            )
            return redirect("platform.account", account.name)
    context = {"account": account, "administrator": queries.administrator(account)}
    return forms.show(request, "platform/account.html", form, context)


def account_switch(request: Request, name: str) -> HttpResponse:
    """Open or close the account; closing asks for its name."""
    account = _account(request, name, "platform:UpdateAccount")
    form = ConfirmForm(request.POST or None, name=account.name)
    if form.is_valid():
        tenants.set_tenant_enabled(actor=request.actor, tenant=account, enabled=not account.enabled)
        said = (
            _("%(account)s is enabled.")
            if account.enabled
            else _("%(account)s is disabled: its keys stop within two seconds.")
        )
        messages.success(request, said % {"account": account.name})
        return redirect("platform.account", account.name)
    return forms.show(request, "platform/account_switch.html", form, {"account": account})


@never_cache
def account_reset(request: Request, name: str) -> HttpResponse:
    """A new first password for the administrator, shown once; bound devices and sessions go."""
    account = _account(request, name, "platform:ResetAdministrator")
    form = ConfirmForm(request.POST or None, name=account.name)
    if form.is_valid():
        password = services.draw_password()
        user = tenants.reset_administrator(actor=request.actor, tenant=account, password=password)
        context = {"account": account, "administrator": user, "password": password}
        return render(request, "platform/account_password.html", context)
    return forms.show(request, "platform/account_reset.html", form, {"account": account})


def account_limits(request: Request, name: str) -> HttpResponse:
    """On POST: set the account's own limits."""
    account = _account(request, name, "platform:UpdateAccount" if request.method == "POST" else "platform:GetAccount")
    given = request.POST if request.method == "POST" else None
    form = LimitsForm(given, initial=limits.own(account), defaults=settings.TENANT_LIMITS)
    if form.is_valid():
        with forms.refusals_on(form):
            set_limits(actor=request.actor, tenant=account, values=form.cleaned_data)
            messages.success(request, _("Saved. The brokers hold these limits within two seconds."))
            return redirect("platform.account_limits", account.name)
    lines, use = limits.lines(account)
    return forms.show(request, "platform/account_limits.html", form, {"account": account, "lines": lines, "use": use})


@require_GET
def settings_page(request: Request) -> HttpResponse:
    access.platform(request, "platform:GetSettings", "settings")
    origin = request.build_absolute_uri("/").rstrip("/")
    return render(request, "platform/settings.html", {"sections": queries.settings_sections(origin)})


def _account(request: Request, name: str, action: str) -> Tenant:
    access.platform(request, action, f"account/{name}")
    account = queries.account(name)
    if account is None:
        raise Http404("no such account")
    return account


@require_GET
def organizations(request: Request) -> HttpResponse:
    access.platform(request, "platform:ListOrganizations", "organization/*")
    text = search_text(request)
    context = {"branches": queries.tree(text), "q": text}
    return htmx.page(request, "platform/organizations.html", "platform/_organizations.html", context)


def organization_create(request: Request) -> HttpResponse:
    actor = access.platform(request, "platform:CreateOrganization", "organization/*")
    form = OrganizationForm(request.POST or None, initial={"parent": request.GET.get("parent", "")})
    if form.is_valid():
        with forms.refusals_on(form):
            made = organization_services.create_organization(actor=actor, **form.cleaned_data)
            messages.success(
                request, _("Organization %(made)s has the ID %(made2)s.") % {"made": made.name, "made2": made.pk}
            )
            return redirect("platform.organization", made.pk)
    return forms.show(request, "platform/organization_create.html", form)


def organization(request: Request, number: int) -> HttpResponse:
    """On POST: rename it."""
    found = _organization(
        request, number, "platform:UpdateOrganization" if request.POST else "platform:GetOrganization"
    )
    form = NameForm(request.POST or None, initial={"name": found.name})
    if form.is_valid():
        with forms.refusals_on(form):
            organization_services.rename_organization(actor=request.actor, organization=found, **form.cleaned_data)
            messages.success(request, _("Saved."))
            return redirect("platform.organization", found.pk)
        found.refresh_from_db()
    return forms.show(request, "platform/organization.html", form, _organization_context(found))


def organization_delete(request: Request, number: int) -> HttpResponse:
    found = _organization(request, number, "platform:DeleteOrganization")
    asked = deletion.Deletion(
        kind=_("organization"),
        name=found.name,
        warning=_("Only an empty organization can be deleted. Callers who send its ID are refused from then on."),
        cancel_url=reverse("platform.organization", args=[found.pk]),
    )
    return deletion.confirm(
        request,
        asked,
        lambda: organization_services.delete_organization(actor=request.actor, organization=found),
        ("platform.organizations",),
    )


def resource_set_create(request: Request, number: int) -> HttpResponse:
    found = _organization(request, number, "platform:CreateResourceSet")
    form = NameForm(request.POST or None)
    if form.is_valid():
        with forms.refusals_on(form):
            made = organization_services.create_resource_set(
                actor=request.actor, organization=found, **form.cleaned_data
            )
            messages.success(
                request, _("Resource set %(made)s has the ID %(made2)s.") % {"made": made.name, "made2": made.pk}
            )
            return redirect("platform.organization", found.pk)
    return forms.show(request, "platform/resource_set.html", form, {"organization": found})


def resource_set(request: Request, number: int) -> HttpResponse:
    found = _resource_set(request, number, "platform:UpdateResourceSet")
    form = NameForm(request.POST or None, initial={"name": found.name})
    if form.is_valid():
        with forms.refusals_on(form):
            organization_services.rename_resource_set(actor=request.actor, resource_set=found, **form.cleaned_data)
            messages.success(request, _("Saved."))
            return redirect("platform.organization", found.organization_id)
    context = {"organization": found.organization, "resource_set": found}
    return forms.show(request, "platform/resource_set.html", form, context)


def resource_set_delete(request: Request, number: int) -> HttpResponse:
    found = _resource_set(request, number, "platform:DeleteResourceSet")
    asked = deletion.Deletion(
        kind=_("resource set"),
        name=found.name,
        warning=_("Only a resource set without instances can be deleted."),
        cancel_url=reverse("platform.organization", args=[found.organization_id]),
    )
    return deletion.confirm(
        request,
        asked,
        lambda: organization_services.delete_resource_set(actor=request.actor, resource_set=found),
        ("platform.organization", str(found.organization_id)),
    )


def _organization_context(found: Organization) -> dict[str, object]:
    return {
        "organization": found,
        "above": chain(found)[:-1],
        "children": found.children.order_by("name"),
        "accounts": found.tenants.order_by("name")[:100],
        "resource_sets": queries.resource_sets(found),
        "regions": queries.regions_of(found),
    }


def _organization(request: Request, number: int, action: str) -> Organization:
    access.platform(request, action, f"organization/{number}")
    found = queries.organization(number)
    if found is None:
        raise Http404("no such organization")
    return found


def _resource_set(request: Request, number: int, action: str) -> ResourceSet:
    access.platform(request, action, f"resource-set/{number}")
    found = queries.resource_set(number)
    if found is None:
        raise Http404("no such resource set")
    return found


@never_cache
def organization_keys(request: Request, number: int) -> HttpResponse:
    """On POST: issue a pair. The answer carries the secret, this once."""
    action = "platform:CreateOrganizationKey" if request.method == "POST" else "platform:ListOrganizationKeys"
    actor = access.platform(request, action, f"organization/{number}")
    found = queries.organization(number)
    if found is None or found.parent_id is not None:
        raise Http404("no such level-1 organization")
    form = KeyForm(request.POST or None, organization=found)
    issued = None
    if form.is_valid():
        with forms.refusals_on(form):
            issued = key_services.create_organization_key(actor=actor, organization=found, **form.cleaned_data)
            form = KeyForm(organization=found)
    keys = list(queries.keys(found))
    context = {
        "organization": found,
        "issued": issued,
        "keys": keys,
        "may_create": len(keys) < key_services.MAX_KEYS_PER_ORGANIZATION,
    }
    return forms.show(request, "platform/organization_keys.html", form, context)


@require_POST
def organization_key_switch(request: Request, access_key_id: str) -> HttpResponse:
    key = _key(request, access_key_id, "platform:UpdateOrganizationKey")
    enabled = request.POST.get("enabled") == "true"
    key_services.set_organization_key_enabled(actor=request.actor, key=key, enabled=enabled)
    said = _("%(key)s is enabled.") if enabled else _("%(key)s is disabled.")
    messages.success(request, said % {"key": key.access_key_id})
    return htmx.done(request, "platform.organization_keys", key.organization_id)


def organization_key_delete(request: Request, access_key_id: str) -> HttpResponse:
    key = _key(request, access_key_id, "platform:DeleteOrganizationKey")
    number = key.organization_id
    asked = deletion.Deletion(
        kind=_("AccessKey"),
        name=key.access_key_id,
        warning=_("Programs that sign with it are refused within two seconds."),
        cancel_url=reverse("platform.organization_keys", args=[number]),
    )
    return deletion.confirm(
        request,
        asked,
        lambda: key_services.delete_organization_key(actor=request.actor, key=key),
        ("platform.organization_keys", str(number)),
    )


def _key(request: Request, access_key_id: str, action: str) -> AccessKey:
    access.platform(request, action, f"organization-key/{access_key_id}")
    key = queries.key(access_key_id)
    if key is None:
        raise Http404("no such AccessKey of an organization")
    return key
