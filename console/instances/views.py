"""The pages of instances."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.db.models import Q
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from console.accounts import access as accounts
from console.accounts import downloads, saved_views
from console.accounts import queries as account_queries
from console.accounts.http import Request
from console.instances import access, queries, services
from console.instances.addresses import name_servers, names_resolve, tcp_address
from console.instances.forms import CreateForm, InstanceForm
from console.instances.models import Instance
from console.instances.snippets import snippets
from console.instances.tables import InstanceTable
from console.web import deletion, forms, htmx, regions
from console.web.paging import configured, search_text


@require_GET
@saved_views.opens_with_default("instances_InstanceTable")
def index(request: Request) -> HttpResponseBase:
    tenant = accounts.tenant(request, "mq:QueryInstance")
    text = search_text(request)
    found = queries.instances_with_counts(tenant).filter(Q(name__icontains=text) | Q(instance_id__icontains=text))
    region = regions.wanted(request)
    table = configured(request, InstanceTable(queries.of_region(found, region)))
    if downloads.is_wanted(request):
        return downloads.csv(request, table, "instances.instance.export", "instances")
    context = {"table": table, "q": text} | regions.choice(region)
    return htmx.page(request, "instances/list.html", "instances/_list.html", context)


def create(request: Request) -> HttpResponse:
    tenant = accounts.tenant(request, "mq:CreateInstance")
    places = [one for one in regions.regions() if access.may_create(request.actor, one.id)]
    initial = {"region": request.GET.get("region", "")}
    form = CreateForm(request.POST or None, tenant=tenant, places=places, initial=initial)
    if form.is_valid():
        with forms.refusals_on(form):
            instance = services.create_instance(actor=request.actor, **form.cleaned_data)
            messages.success(request, _("Instance %(instance)s is ready.") % {"instance": instance.name})
            return redirect("instances.detail", instance.instance_id)
    return forms.show(request, "instances/create.html", form)


@require_GET
def detail(request: Request, instance_id: str) -> HttpResponse:
    instance = access.instance(request, instance_id, "mq:QueryInstance")
    context = {
        "tab": "information",
        "endpoint": tcp_address(instance),
        "names_resolve": names_resolve(instance.cluster),
        "topic_count": instance.topics.count(),
        "group_count": instance.groups.count(),
        "rates": queries.rates(instance),
    }
    return render(request, "instances/detail.html", {"instance": instance} | context)


@require_GET
def client(request: Request, instance_id: str) -> HttpResponse:
    instance = access.instance(request, instance_id, "mq:QueryInstance")
    own = account_queries.access_keys(instance.tenant, request.user)
    key = own.filter(enabled=True).first()
    topic, group = instance.topics.order_by("pk").first(), instance.groups.order_by("pk").first()
    context = {
        "instance": instance,
        "tab": "client",
        "key": key,
        "snippets": snippets(
            instance,
            access_key_id=key.access_key_id if key else "",
            topic=topic.name if topic else "",
            group_id=group.group_id if group else "",
        ),
    }
    return render(request, "instances/client.html", context)


def update(request: Request, instance_id: str) -> HttpResponse:
    instance = access.instance(request, instance_id, "mq:UpdateInstance")
    initial = {
        "name": instance.name,
        "remark": instance.remark,
        "resource_set": instance.resource_set_id,
        "max_send_tps": instance.max_send_tps,
        "max_receive_tps": instance.max_receive_tps,
    }
    form = InstanceForm(request.POST or None, initial=initial, tenant=instance.tenant)
    if form.is_valid():
        with forms.refusals_on(form):
            services.change_instance(actor=request.actor, instance=instance, **form.cleaned_data)
            messages.success(request, _("Saved."))
            return redirect("instances.detail", instance.instance_id)
    return forms.show(request, "instances/update.html", form, {"instance": instance})


def delete(request: Request, instance_id: str) -> HttpResponse:
    instance = access.instance(request, instance_id, "mq:DeleteInstance")
    return deletion.confirm(
        request,
        _deletion(instance),
        lambda: services.delete_instance(actor=request.actor, instance=instance),
        ("instances.list",),
    )


def _deletion(instance: Instance) -> deletion.Deletion:
    return deletion.Deletion(
        kind=_("instance"),
        name=instance.name,
        warning=_("Its ID and access point are gone for good. Topics and groups must be deleted first."),
        cancel_url=reverse("instances.detail", args=[instance.instance_id]),
    )


@login_not_required
@require_GET
def name_server_address(request: Request) -> HttpResponse:
    """What the vendor's clients ask at the address of their property `ONSAddr`, and take as their name servers.

    They ask before they sign anything, so it is open to everybody; it tells of the cluster of the settings alone.
    """
    cluster = queries.cluster_of_settings()
    if cluster is None:
        raise Http404("the settings name no cluster")
    return HttpResponse(name_servers(cluster), content_type="text/plain; charset=utf-8")
