"""Clusters: what there are, how each is, how it is reached, and how far rights were carried over to its brokers."""

from __future__ import annotations

import django_tables2 as tables
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access as accounts
from console.accounts.http import Request
from console.audit import record as audit
from console.cluster import access, brokers, queries, registry, services, trial
from console.cluster.forms import AddForm, ClusterForm
from console.instances.models import Cluster
from console.web import deletion, forms, htmx, regions
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, column, configured, search_text

_TRY = "try"
"""The button of a form that tries what is written, and keeps nothing."""


class UserTable(tables.Table):  # type: ignore[misc]
    """AccessKeys, what of them is on the cluster, and where that is less than here."""

    access_key_id = CellColumn(template_name="cluster/_key_cell.html", verbose_name=gettext_lazy("AccessKey"))
    state = CellColumn(template_name="cluster/_state_cell.html", verbose_name=gettext_lazy("State"))
    entries = tables.Column(verbose_name=gettext_lazy("Entries"), attrs=column("num-cell num"))
    narrower = CellColumn(
        template_name="cluster/_narrower_cell.html",
        verbose_name=gettext_lazy("More restrictive on the brokers"),
        orderable=False,
    )
    synced_at = CellColumn(
        "{% load gantry %}{% if record.synced_at %}{% ago record.synced_at %}{% endif %}",
        verbose_name=gettext_lazy("Copied"),
    )

    class Meta:
        order_by = "access_key_id"


@require_GET
def index(request: Request) -> HttpResponse:
    """The rows; each asks for the health of its cluster by itself, so that none waits for one that is away."""
    accounts.platform(request, "platform:ListClusters", "cluster")
    region, text = regions.wanted(request), search_text(request)
    found = queries.clusters().filter(name__icontains=text)
    context = {
        "clusters": found.filter(region=region) if region else found,
        "several_regions": regions.are_several(),
        "q": text,
    } | regions.choice(region)
    return htmx.page(request, "cluster/index.html", "cluster/_clusters.html", context)


@require_GET
def health(request: Request, number: int) -> HttpResponse:
    cluster = access.cluster(request, number, "platform:GetCluster")
    context = {"cluster": cluster, "health": brokers.health_of(cluster), "several_regions": regions.are_several()}
    return render(request, "cluster/_row.html", context)


@require_GET
def detail(request: Request, number: int) -> HttpResponse:
    cluster = access.cluster(request, number, "platform:GetCluster")
    text = search_text(request)
    context = {
        "cluster": cluster,
        "several_regions": regions.are_several(),
        "overview": queries.overview(cluster),
        "own_lists": services.carries_over_to(cluster),
        "table": configured(request, UserTable(queries.users(cluster, text))),
        "q": text,
    }
    return htmx.page(request, "cluster/detail.html", "cluster/_users.html", context)


@never_cache
def add(request: Request) -> HttpResponse:
    actor = accounts.platform(request, "platform:CreateCluster", "cluster")
    form = AddForm(request.POST or None, initial={"access_control": "none"})
    tried: list[trial.Step] = []
    if form.is_valid():
        with forms.refusals_on(form):
            if _TRY in request.POST:
                tried = trial.tried(registry.draft(form.wanted()))
            else:
                cluster = registry.add(actor=actor, name=form.cleaned_data["name"], wanted=form.wanted())
                messages.success(request, _("The cluster %(cluster)s is added.") % {"cluster": cluster.name})
                return redirect("platform.cluster", cluster.pk)
    return _form(request, "cluster/add.html", form, {"tried": tried})


@never_cache
def edit(request: Request, number: int) -> HttpResponse:
    cluster = access.cluster(request, number, "platform:UpdateCluster")
    initial = vars(registry.wanted_of(cluster))
    form = ClusterForm(request.POST or None, initial=initial, cluster=cluster)
    tried: list[trial.Step] = []
    if form.is_valid():
        with forms.refusals_on(form):
            if _TRY in request.POST:
                tried = trial.tried(registry.draft(form.wanted(cluster), cluster))
            else:
                registry.change(actor=request.actor, cluster=cluster, wanted=form.wanted(cluster))
                messages.success(request, _("Saved."))
                return redirect("platform.cluster", cluster.pk)
    return _form(request, "cluster/edit.html", form, {"cluster": cluster, "tried": tried})


def _form(request: Request, template: str, form: ClusterForm, context: dict[str, object]) -> HttpResponse:
    """What is tried comes back as a part, so that the secrets that were typed stay in the form."""
    if _TRY in request.POST and htmx.is_fragment(request):
        return render(request, "cluster/_tried.html", {"form": form} | context)
    return forms.show(request, template, form, context)


@require_POST
def test(request: Request, number: int) -> HttpResponse:
    """Try the cluster as it is."""
    cluster = access.cluster(request, number, "platform:GetCluster")
    context = {"cluster": cluster, "tried": trial.tried(cluster)}
    return htmx.page(request, "cluster/tried.html", "cluster/_tried.html", context)


def remove(request: Request, number: int) -> HttpResponse:
    cluster = access.cluster(request, number, "platform:DeleteCluster")
    return deletion.confirm(
        request,
        _deletion(cluster),
        lambda: registry.remove(actor=request.actor, cluster=cluster),
        ("platform.clusters",),
    )


def _deletion(cluster: Cluster) -> deletion.Deletion:
    return deletion.Deletion(
        kind=_("cluster"),
        name=cluster.name,
        warning=_(
            "Its brokers stay as they are, with all topics, messages and users. Nobody may have an instance on it."
        ),
        cancel_url=reverse("platform.cluster", args=[cluster.pk]),
        verb=_("Remove"),
    )


@require_POST
def synchronise(request: Request, number: int) -> HttpResponse:
    """Compare everything now; the answer does not wait for it."""
    cluster = access.cluster(request, number, "platform:SynchroniseCluster")
    if services.carries_over_to(cluster):
        services.kick(thorough=True)
        audit.record(request.actor, "platform.cluster.synchronise", cluster.name)
        messages.success(request, _("A worker compares the keys with the brokers now."))
    elif cluster.embedded:
        messages.info(request, _("These brokers read the console's own table; there is nothing to compare."))
    else:
        messages.info(request, _("Nothing is copied to the brokers of this cluster; there is nothing to compare."))
    return htmx.done(request, "platform.cluster", cluster.pk)
