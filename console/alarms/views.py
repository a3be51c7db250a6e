"""Pages of alarms: what fires and what did, the rules, and who is told."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from console.accounts import saved_views
from console.accounts.actor import Actor
from console.accounts.http import Request
from console.alarms import access, curves, figures, prometheus, queries, services
from console.alarms.forms import RecipientForm, RuleForm
from console.alarms.models import Alarm, Rule
from console.alarms.tables import AlarmTable, RecipientTable, RuleTable
from console.web import bulk, deletion, forms, htmx, streams
from console.web.paging import configured, search_text


@streams.part
@require_GET
@saved_views.opens_with_default("alarms_AlarmTable")
def alarm_list(request: Request) -> HttpResponse:
    tenant, text = access.alarms(request.actor, access.QUERY), search_text(request)
    firing, may = list(queries.firing(tenant)), _may(request.actor)
    context = may | {
        "firing": firing,
        "bulk": _firing_bar(may, firing),
        "table": configured(request, AlarmTable(queries.history(tenant, text=text))),
        "q": text,
        "last_round_ms": queries.last_round_ms(),
        "has_rules": queries.rules(tenant).exists(),
        "tab": "alarms",
    }
    return htmx.page(request, "alarms/list.html", "alarms/_list.html", context)


@require_POST
def alarm_acknowledge(request: Request, number: int) -> HttpResponse:
    alarm = access.alarm(request.actor, number, access.ACKNOWLEDGE)
    with forms.refusals_told(request):
        services.acknowledge(actor=request.actor, alarm=alarm)
    return htmx.done(request, "alarms.list")


@require_POST
def alarm_acknowledge_many(request: Request) -> HttpResponse:
    """Acknowledge the alarms that were chosen of those that fire, each by itself."""
    actor = request.actor
    tenant = access.alarms(actor, access.ACKNOWLEDGE)

    def find(keys: list[str]) -> list[bulk.Thing]:
        numbers = [int(key) for key in keys if key.isascii() and key.isdecimal() and len(key) < 18]
        return [
            bulk.Thing(
                str(one.pk),
                one.told,
                _("%(name)s sees to it.") % {"name": one.acknowledged_by} if one.acknowledged_at else "",
            )
            for one in queries.firing(tenant)
            if one.pk in numbers
        ]

    def act(key: str) -> str:
        if not (key.isascii() and key.isdecimal() and len(key) < 18):
            raise Http404("no such alarm")
        services.acknowledge(actor=actor, alarm=access.alarm(actor, int(key), access.ACKNOWLEDGE))
        return ""

    deed = bulk.Deed(
        title=_("Acknowledge alarms"),
        question=lambda n: ngettext("Acknowledge %(n)s alarm", "Acknowledge %(n)s alarms", n) % {"n": n},
        back=reverse("alarms.list"),
        find=find,
        every=lambda _: [str(one.pk) for one in queries.firing(tenant)],
        act=act,
        warning=_("Everybody sees that you see to them."),
    )
    return bulk.answer(request, deed)


def _firing_bar(may: dict[str, Any], firing: list[Alarm]) -> bulk.Bar | None:
    """What is offered for alarms that fire and nobody sees to."""
    open_ones = [one for one in firing if one.acknowledged_at is None]
    if not may["may"]["acknowledge"] or len(open_ones) < 2:
        return None
    offer = bulk.Offer(_("Acknowledge"), reverse("alarms.acknowledge_many"), "check")
    return bulk.Bar([offer], {one.pk: str(one.pk) for one in open_ones}, len(open_ones), "")


@streams.part
@require_GET
@saved_views.opens_with_default("alarms_RuleTable")
def rule_list(request: Request) -> HttpResponse:
    tenant, text = access.alarms(request.actor, access.QUERY), search_text(request)
    table = configured(request, RuleTable(queries.rules(tenant, text)))
    context = _may(request.actor) | {"table": table, "q": text, "tab": "rules"}
    return htmx.page(request, "alarms/rules.html", "alarms/_rules.html", context)


@require_GET
def rules_prometheus(request: Request) -> HttpResponse:
    """The rules for Prometheus, as a file."""
    tenant = access.alarms(request.actor, access.QUERY)
    headers = {"content-disposition": f'attachment; filename="gantry-{tenant.name}.yml"'}
    return HttpResponse(prometheus.rules_file(tenant), content_type="application/yaml; charset=utf-8", headers=headers)


def rule_create(request: Request) -> HttpResponse:
    """The query says what it is about, where it was come from: `condition`, `instance`, `names`, `threshold`."""
    tenant = access.alarms(request.actor, access.PUT)
    posted = request.POST if request.method == "POST" else None
    form = RuleForm(posted, actor=request.actor, wanted=request.GET)
    if form.is_valid():
        with forms.refusals_on(form, denials_on=forms.WHOLE_FORM):
            rule = services.create_rule(actor=request.actor, values=form.values)
            messages.success(request, _("The rule %(rule)s is on.") % {"rule": rule.name})
            return redirect("alarms.rule", rule.pk)
    context = _may(request.actor) | {"has_recipients": queries.recipients(tenant).exists()}
    return forms.show(request, "alarms/rule_create.html", form, context)


@streams.part
@require_GET
def rule_detail(request: Request, number: int) -> HttpResponse:
    rule = access.rule(request.actor, number, access.QUERY)
    context = _may(request.actor, f"alarm/{number}") | {
        "rule": rule,
        "recipients": queries.recipients_of(rule),
        "open": queries.open_of(rule),
        "table": configured(request, AlarmTable(queries.history(rule.tenant, rule=rule))),
        "last_round_ms": queries.last_round_ms(),
    }
    if htmx.is_fragment(request):  # the curve comes by itself
        return htmx.page(request, "alarms/rule.html", "alarms/_rule.html", context)
    return htmx.page(request, "alarms/rule.html", "alarms/_rule.html", context | _curve(request, rule))


@streams.part
@require_GET
def rule_curve(request: Request, number: int) -> HttpResponse:
    """The curve of a rule, which the page asks for again; `hours` is one of those of which there is one."""
    rule = access.rule(request.actor, number, access.QUERY)
    found = _curve(request, rule)
    if not found:
        raise Http404("no curve of this rule")
    return htmx.page(request, "alarms/_curve.html", "alarms/_curve.html", found | {"rule": rule})


def _curve(request: Request, rule: Rule) -> dict[str, Any]:
    """What the page shows of it; nothing for a rule without a curve, or who may not see what it watches."""
    offered = curves.hours_of(rule)
    if not offered or not access.may_see(request.actor, rule):
        return {}
    asked = request.GET.get("hours", "")
    hours = next((one for one in offered if str(one) == asked), offered[0])
    found = curves.curve(request.actor, rule, hours)
    return {
        "curve": found,
        "figure": figures.figure(rule, found),
        "keys": list(zip(found.lines, figures.COLOURS, strict=False)),
        "unit": rule.watched.unit_word,
        "hours": hours,
        "all_hours": offered,
    }


def rule_update(request: Request, number: int) -> HttpResponse:
    rule = access.rule(request.actor, number, access.PUT)
    posted = request.POST if request.method == "POST" else None
    form = RuleForm(posted, actor=request.actor, rule=rule)
    if form.is_valid():
        with forms.refusals_on(form, denials_on=forms.WHOLE_FORM):
            services.change_rule(actor=request.actor, rule=rule, values=form.values)
            messages.success(request, _("The rule %(name)s is changed.") % {"name": form.cleaned_data["name"]})
            return redirect("alarms.rule", number)
    context = _may(request.actor) | {"rule": rule, "has_recipients": True}
    return forms.show(request, "alarms/rule_update.html", form, context)


@require_POST
def rule_enable(request: Request, number: int) -> HttpResponse:
    rule = access.rule(request.actor, number, access.PUT)
    with forms.refusals_told(request):
        services.enable_rule(actor=request.actor, rule=rule, enabled=request.POST.get("enabled") == "true")
    return htmx.done(request, "alarms.rule", number)


def rule_delete(request: Request, number: int) -> HttpResponse:
    rule = access.rule(request.actor, number, access.DELETE)
    wanted = deletion.Deletion(
        kind=_("alarm rule"),
        name=rule.name,
        warning=_("Nobody is told by it any more. What it told stays in the history."),
        cancel_url=reverse("alarms.rule", args=[number]),
    )
    return deletion.confirm(
        request, wanted, lambda: services.delete_rule(actor=request.actor, rule=rule), ("alarms.rules",)
    )


@streams.part
@require_GET
def recipient_list(request: Request) -> HttpResponse:
    tenant = access.alarms(request.actor, access.QUERY)
    table = configured(request, RecipientTable(queries.with_last_notices(tenant)))
    context = _may(request.actor) | {"table": table, "tab": "recipients"}
    return htmx.page(request, "alarms/recipients.html", "alarms/_recipients.html", context)


def recipient_create(request: Request) -> HttpResponse:
    access.recipients(request.actor, access.PUT_RECIPIENT)
    form = RecipientForm(request.POST if request.method == "POST" else None, actor=request.actor)
    if form.is_valid():
        with forms.refusals_on(form, denials_on=forms.WHOLE_FORM):
            recipient = services.create_recipient(actor=request.actor, values=form.values)
            messages.success(
                request,
                _("%(recipient)s can be told. Send a test to see that it arrives.") % {"recipient": recipient.name},
            )
            return redirect("alarms.recipients")
    return forms.show(request, "alarms/recipient_create.html", form)


def recipient_update(request: Request, number: int) -> HttpResponse:
    recipient = access.recipient(request.actor, number, access.PUT_RECIPIENT)
    posted = request.POST if request.method == "POST" else None
    form = RecipientForm(posted, actor=request.actor, recipient=recipient)
    if form.is_valid():
        with forms.refusals_on(form, denials_on=forms.WHOLE_FORM):
            services.change_recipient(actor=request.actor, recipient=recipient, values=form.values)
            messages.success(request, _("%(name)s is changed.") % {"name": form.cleaned_data["name"]})
            return redirect("alarms.recipients")
    return forms.show(request, "alarms/recipient_update.html", form, {"recipient": recipient})


@require_POST
def recipient_test(request: Request, number: int) -> HttpResponse:
    recipient = access.recipient(request.actor, number, access.PUT_RECIPIENT)
    with forms.refusals_told(request):
        services.test_recipient(actor=request.actor, recipient=recipient)
        messages.info(
            request,
            _("A test is on its way to %(recipient)s; the list tells what becomes of it.")
            % {"recipient": recipient.name},
        )
    return htmx.done(request, "alarms.recipients")


def recipient_delete(request: Request, number: int) -> HttpResponse:
    recipient = access.recipient(request.actor, number, access.DELETE_RECIPIENT)
    wanted = deletion.Deletion(
        kind=_("recipient"),
        name=recipient.name,
        warning=_("It is told nothing any more, and leaves the rules that tell it."),
        cancel_url=reverse("alarms.recipients"),
    )
    return deletion.confirm(
        request,
        wanted,
        lambda: services.delete_recipient(actor=request.actor, recipient=recipient),
        ("alarms.recipients",),
    )


def _may(actor: Actor, what: str = "alarm/*") -> dict[str, Any]:
    return {
        "may": {
            "put": access.may(actor, access.PUT, what),
            "delete": access.may(actor, access.DELETE, what),
            "acknowledge": access.may(actor, access.ACKNOWLEDGE),
            "put_recipient": access.may(actor, access.PUT_RECIPIENT, "recipient/*"),
            "delete_recipient": access.may(actor, access.DELETE_RECIPIENT, "recipient/*"),
        }
    }
