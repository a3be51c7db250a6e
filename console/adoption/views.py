"""Names of a cluster that no account has: read, adopted in three steps or by rule, forgotten, and last deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import django_tables2 as tables
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from brokercore.client.errors import ClientError
from console.accounts.http import Request
from console.accounts.models import Tenant
from console.accounts.services import draw_password
from console.accounts.services.tenants import create_tenant
from console.adoption import access, queries, services
from console.adoption import rules as rule_book
from console.adoption.forms import NEW, ChoiceForm, RuleForm, TargetForm
from console.adoption.listing import Kept, unowned_of
from console.adoption.models import Kind, Purpose, Run
from console.adoption.preview import preview
from console.adoption.queries import Line
from console.adoption.unowned import Unowned
from console.instances import broker
from console.instances.models import Cluster
from console.metrics.queries import rates
from console.topics.live import Rates
from console.web import deletion, forms, htmx
from console.web.errors import Refused
from console.web.languages import gettext_lazy, pgettext_lazy
from console.web.paging import CellColumn, LazyRows, column, configured, records, search_text

_NUMBER = column("num-cell")
_WIDE = column("d-none d-md-table-cell")
"""Of a column that a narrow screen tells below the name."""
_BY_FIGURES = frozenset({"rate", "amount"})
"""Columns by which the list is sorted only with the figures of all names."""

_SHOWN = 200
"""Names of a kind that the last step lists; the run's page has all of them."""


class UnownedTable(tables.Table):  # type: ignore[misc]
    """Name, what it does, and what speaks against adopting it."""

    chosen = CellColumn(template_name="adoption/_choice_cell.html", verbose_name="", orderable=False)
    name = CellColumn(template_name="adoption/_name_cell.html", verbose_name=gettext_lazy("Name"))
    kind = CellColumn(
        '{% include "includes/kind.html" with kind=record.kind %}', verbose_name=gettext_lazy("Kind"), attrs=_WIDE
    )
    rate = CellColumn(
        "{% load gantry %}{% number record.rate %}",
        verbose_name=gettext_lazy("Messages/s"),
        attrs=column("num-cell d-none d-md-table-cell"),
    )
    amount = CellColumn(
        template_name="adoption/_amount_cell.html",
        verbose_name=gettext_lazy("Stored / backlog"),
        attrs=_NUMBER,
    )
    last_use_ms = CellColumn(
        "{% load gantry %}{% if record.last_use_ms %}{% ago record.last_use_ms %}{% else %}–{% endif %}",
        verbose_name=gettext_lazy("Last message"),
        orderable=False,
        attrs=_WIDE,
    )

    class Meta:
        order_by = "name"


class AdoptedTable(tables.Table):  # type: ignore[misc]
    """What accounts have as the cluster had it."""

    chosen = CellColumn(
        template_name="adoption/_adopted_choice_cell.html",
        verbose_name="",
        orderable=False,
    )
    name = CellColumn(template_name="adoption/_adopted_cell.html", verbose_name=gettext_lazy("Name"))
    kind = CellColumn(
        '{% include "includes/kind.html" with kind=record.kind %}', verbose_name=gettext_lazy("Kind"), attrs=_WIDE
    )
    account = CellColumn("{{ record.account }}", verbose_name=gettext_lazy("Account"), attrs=_WIDE)

    class Meta:
        order_by = "name"


class RunTable(tables.Table):  # type: ignore[misc]
    """What was adopted and forgotten at once."""

    created_at = CellColumn(template_name="adoption/_run_cell.html", verbose_name=pgettext_lazy("noun", "Run"))
    instance = CellColumn(
        "{{ record.instance.tenant.name }} · {{ record.instance.name }}", verbose_name=gettext_lazy("Instance")
    )
    done = tables.Column(verbose_name=gettext_lazy("Done"), attrs=column("num-cell num"))
    refused = tables.Column(verbose_name=gettext_lazy("Not possible"), attrs=column("num-cell num"))
    total = tables.Column(verbose_name=gettext_lazy("Names"), attrs=column("num-cell num"))
    requester = tables.Column(verbose_name=gettext_lazy("By"))

    class Meta:
        order_by = "-created_at"


class RunNameTable(tables.Table):  # type: ignore[misc]
    """What became of each name."""

    name = CellColumn(template_name="adoption/_run_name_cell.html", verbose_name=gettext_lazy("Name"))
    kind = CellColumn("{{ record.get_kind_display }}", verbose_name=gettext_lazy("Kind"), attrs=_WIDE)
    state = CellColumn(template_name="adoption/_state_cell.html", verbose_name=gettext_lazy("State"))


class TakenTable(tables.Table):  # type: ignore[misc]
    """What a rule has taken."""

    name = CellColumn(template_name="adoption/_run_name_cell.html", verbose_name=gettext_lazy("Name"))
    kind = CellColumn("{{ record.get_kind_display }}", verbose_name=gettext_lazy("Kind"), attrs=_WIDE)
    run = CellColumn(
        "{% load gantry %}{% time record.run.created_at %}", verbose_name=gettext_lazy("Taken"), order_by="pk"
    )


@require_GET
def index(request: Request) -> HttpResponse:
    """Of one cluster its names at once."""
    access.anywhere(request.actor, "platform:ListUnowned")
    found = queries.clusters()
    if len(found) == 1:
        return redirect("adoption.unowned", found[0].pk)
    return render(request, "adoption/index.html", {"clusters": found})


@require_GET
def unowned(request: Request, cluster: int) -> HttpResponse:
    """Step 1: choose by list or pattern."""
    found = access.cluster(request.actor, cluster, "platform:ListUnowned")
    form = ChoiceForm(request.GET)
    context = {
        "cluster": found,
        "form": form,
        "clusters": queries.clusters(),
        "tab": "names",
        "outage": "",
        "error": "",
    }
    try:
        listing = queries.listed(found, form.choice([]))
        sort = request.GET.get("sort", "").lstrip("-")
        table = configured(request, UnownedTable(_rows(listing.names, rates(found) if sort in _BY_FIGURES else None)))
        shown = records(table)
        queries.add_last_use(found, shown)
        context |= {
            "table": table,
            "rates": queries.add_rates(found, shown),
            "listed_at": listing.at,
            "number": len(listing.names),
            "filtered": form.choice([]) != queries.Choice(),
        }
    except ClientError as error:
        context["outage"] = error.user_message
    except Refused as refused:
        context["error"] = refused.message
    return htmx.page(request, "adoption/unowned.html", "adoption/_unowned.html", context)


def _rows(names: list[Kept], figures: Rates | None) -> LazyRows[Kept]:
    """The names as rows; `figures` are those of all of them where the list is sorted by them."""
    keys: dict[str, Callable[[Kept], Any]] = {
        "name": lambda kept: unowned_of(kept).name,
        "kind": lambda kept: unowned_of(kept).kind.value,
    }
    if figures is not None:
        for place, column_name in enumerate(("rate", "amount")):
            keys[column_name] = lambda kept, place=place: queries.figures(unowned_of(kept), figures)[place]  # type: ignore[misc]
    return LazyRows(names, lambda kept: Line(unowned_of(kept)), keys)


@require_GET
def detail(request: Request, cluster: int, kind: str, name: str) -> HttpResponse:
    """What the cluster tells of one name: a topic's settings and queues, a group's progress."""
    found = access.cluster(request.actor, cluster, "platform:ListUnowned")
    context: dict[str, object] = {"cluster": found, "name": name, "kind": kind, "outage": ""}
    try:
        one = _named(found, kind, name)
        line = Line(one)
        admin = broker.admin(found)
        context |= {"one": one, "line": line, "rates": queries.add_rates(found, [line])}
        if one.kind is Kind.TOPIC:
            context |= {
                "config": admin.topics.config(name),
                "queues": sorted(admin.topics.stats(name).items()),
                "groups": admin.topics.groups(name),
            }
        else:
            context |= {"config": admin.groups.config(name), "queues": sorted(admin.groups.stats(name).queues.items())}
    except ClientError as error:
        context["outage"] = error.user_message
    return render(request, "adoption/detail.html", context)


def delete(request: Request, cluster: int, kind: str, name: str) -> HttpResponse:
    """Delete one from the cluster."""
    found = access.cluster(request.actor, cluster, "platform:DeleteUnowned")
    one = _named(found, kind, name)
    is_topic = one.kind is Kind.TOPIC
    warning = (
        _("It is deleted from the cluster %(cluster)s; something outside may use it. Its messages go with it.")
        if is_topic
        else _(
            "It is deleted from the cluster %(cluster)s; something outside may use it. Its offsets, retries and dead "
            "letters go with it."
        )
    )
    wanted = deletion.Deletion(
        kind=_("topic") if is_topic else _("group"),
        name=name,
        warning=warning % {"cluster": found.name},
        cancel_url=reverse("adoption.detail", args=[cluster, kind, name]),
    )
    return deletion.confirm(
        request,
        wanted,
        lambda: services.delete_from_cluster(actor=request.actor, cluster=found, name=one),
        ("adoption.unowned", str(cluster)),
    )


@never_cache
@require_POST
def adopt(request: Request, cluster: int) -> HttpResponse:
    """Steps 2 and 3: whose they will be, and what will be theirs. The answer may carry a first password, this once."""
    found = access.cluster(request.actor, cluster, "platform:AdoptNames")
    actor, step = request.actor, request.POST.get("step", "")
    keys = request.POST.getlist("name") if "listed" in request.POST or step else []
    choice = ChoiceForm(request.POST).choice(keys)
    accounts = queries.accounts(actor)
    given = request.POST if step else None
    initial = {"account": accounts[0].name if accounts else NEW, "instance_name": found.name}
    form = TargetForm(given, initial=initial, accounts=accounts, may_create=actor.is_platform_admin)
    context: dict[str, object] = {"cluster": found, "choice": choice, "step": step or "target"}
    if "listed" in request.POST and not keys:
        messages.error(request, _("No name was chosen: tick some, or take all that fit."))
        return htmx.done(request, "adoption.unowned", cluster)
    try:
        names = queries.chosen(found, choice)
    except ClientError as error:
        return forms.show(
            request, "adoption/adopt.html", form, context | {"outage": error.user_message, "step": "target"}
        )
    is_valid = bool(step) and form.is_valid()
    target = queries.account(actor, form.cleaned_data["account"]) if is_valid else None
    instance = queries.bare_instance(target, found) if target is not None else None
    outlook = preview(names, target, instance)
    context |= {"preview": outlook, "number": len(outlook.possible), "target": target, "instance": instance}
    context |= {"refused": outlook.refused[:_SHOWN], "differing": outlook.differing[:_SHOWN]}
    context |= {f"{kind}s": [one.name for one in outlook.of(kind)][:_SHOWN] for kind in Kind.values}
    context |= {f"{kind}_number": len(outlook.of(kind)) for kind in Kind.values}
    if not is_valid:
        return forms.show(request, "adoption/adopt.html", form, context | {"step": "target"})
    if step == "apply":
        password = draw_password() if target is None else ""
        with forms.refusals_on(form):
            run = _apply(request, found, form, outlook.possible, password)
            if not password:
                return redirect("adoption.run", run.pk)
            return render(request, "adoption/started.html", {"run": run, "password": password})
    return forms.show(request, "adoption/adopt.html", form, context | {"step": "preview"})


def _apply(request: Request, cluster: Cluster, form: TargetForm, names: Sequence[Unowned], password: str) -> Run:
    """Make what is missing of account and instance, all or nothing, and begin. Raises Refused."""
    data, actor = form.cleaned_data, request.actor
    return services.adopt_for(
        actor=actor,
        cluster=cluster,
        names=names,
        instance_name=data["instance_name"],
        tenant=queries.account(actor, data["account"]),
        make=lambda: create_tenant(
            actor=actor,
            name=data["new_account"],
            organization=data["organization"],
            password=password,
            must_change_password=True,
        ),
    )


@require_GET
def adopted(request: Request, cluster: int) -> HttpResponse:
    """What accounts have adopted, and can be forgotten."""
    found = access.cluster(request.actor, cluster, "platform:ListUnowned")
    form = ChoiceForm(request.GET)
    context: dict[str, object] = {"cluster": found, "form": form, "tab": "adopted", "error": ""}
    try:
        names = queries.adopted(request.actor, found, form.choice([]))
        context |= {
            "table": configured(request, AdoptedTable(names)),
            "number": len(names),
            "filtered": form.choice([]) != queries.Choice(),
        }
    except Refused as refused:
        context["error"] = refused.message
    return htmx.page(request, "adoption/adopted.html", "adoption/_adopted.html", context)


@require_POST
def forget(request: Request, cluster: int) -> HttpResponse:
    """Forget chosen names: what would be let go of, and with `confirmed` by a run for each instance."""
    found = access.cluster(request.actor, cluster, "platform:AdoptNames")
    confirmed = "confirmed" in request.POST
    keys = request.POST.getlist("name") if "listed" in request.POST or confirmed else []
    if "listed" in request.POST and not keys:
        messages.error(request, _("No name was chosen: tick some, or take all that fit."))
        return htmx.done(request, "adoption.adopted", cluster)
    choice = ChoiceForm(request.POST).choice(keys)
    with forms.refusals_told(request):
        names = queries.adopted(request.actor, found, choice)
        if not confirmed:
            context = {"cluster": found, "choice": choice, "number": len(names), "names": names[:_SHOWN]}
            return render(request, "adoption/forget.html", context)
        runs = services.forget_each(actor=request.actor, names=names)
        if len(runs) == 1:
            return redirect("adoption.run", runs[0].pk)
        return redirect("adoption.runs", cluster)
    return redirect("adoption.adopted", cluster)


@require_GET
def runs(request: Request, cluster: int) -> HttpResponse:
    """What was adopted and forgotten so far."""
    found = access.cluster(request.actor, cluster, "platform:ListUnowned")
    table = configured(request, RunTable(queries.runs(request.actor, found)))
    return htmx.page(
        request, "adoption/runs.html", "adoption/_runs.html", {"cluster": found, "table": table, "tab": "runs"}
    )


@require_GET
def run(request: Request, number: int) -> HttpResponse:
    """How far it is, and what became of each name."""
    found = access.run(request.actor, number, "platform:ListUnowned")
    text = search_text(request)
    context = {
        "run": found,
        "counts": queries.counts(found),
        "q": text,
        "table": configured(request, RunNameTable(queries.names(found, text))),
        "undoable": found.purpose == Purpose.ADOPT and found.ended_at is not None,
    }
    return htmx.page(request, "adoption/run.html", "adoption/_run.html", context)


def undo(request: Request, number: int) -> HttpResponse:
    """Forget what a run adopted; the cluster keeps it."""
    found = access.run(request.actor, number, "platform:AdoptNames")
    if request.method != "POST":
        return render(request, "adoption/undo.html", {"run": found, "counts": queries.counts(found)})
    with forms.refusals_told(request):
        return redirect("adoption.run", services.undo(actor=request.actor, run=found).pk)
    return redirect("adoption.run", number)


def rules(request: Request, cluster: int) -> HttpResponse:
    """The rules of a cluster; on POST a new one."""
    found = access.cluster(request.actor, cluster, "platform:CreateRule" if request.POST else "platform:ListUnowned")
    form = RuleForm(request.POST or None, accounts=queries.accounts(request.actor))
    if form.is_valid():
        data = form.cleaned_data
        with forms.refusals_on(form):
            rule = services.create_rule_for(
                actor=request.actor,
                tenant=_tenant(request, data["account"]),
                cluster=found,
                include=data["include"],
                exclude=data["exclude"],
                kind=data["kind"],
            )
            messages.success(
                request,
                _("What fits %(include)s is %(name)s's within a minute.")
                % {"include": rule.include, "name": rule.instance.tenant.name},
            )
            return redirect("adoption.rule", rule.pk)
    context = {"cluster": found, "rules": queries.rules(request.actor, found), "tab": "rules"}
    return forms.show(request, "adoption/rules.html", form, context)


@require_GET
def rule(request: Request, number: int) -> HttpResponse:
    """What a rule has taken, and where it conflicts with others."""
    found = access.rule(request.actor, number, "platform:ListUnowned")
    text = search_text(request)
    taken = queries.taken(found, text)
    context = {
        "rule": found,
        "cluster": found.cluster,
        "q": text,
        "table": configured(request, TakenTable(taken)),
        "conflicts": rule_book.conflicts_of(found) if request.actor.is_platform_admin else [],
    }
    return htmx.page(request, "adoption/rule.html", "adoption/_taken.html", context)


@require_POST
def rule_delete(request: Request, number: int) -> HttpResponse:
    """End a rule; what it took stays."""
    found = access.rule(request.actor, number, "platform:DeleteRule")
    services.delete_rule(actor=request.actor, rule=found)
    messages.success(
        request, _("The rule %(include)s has ended. What it took stays where it is.") % {"include": found.include}
    )
    return redirect("adoption.rules", found.cluster_id)


def _tenant(request: Request, account: str) -> Tenant:
    tenant = queries.account(request.actor, account)
    if tenant is None:
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID", _("There is no account %(account)s.") % {"account": account}, "account"
        )
    return tenant


def _named(cluster: Cluster, kind: str, name: str) -> Unowned:
    one = queries.find(cluster, kind, name)
    if one is None:
        raise Http404("no such name that no account has")
    return one
