"""Pages of the queue service's topics. A service that does not answer is shown as an outage by the middleware."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from brokercore.smq.wire.topics import TopicState
from console.accounts.http import Request
from console.queues.topics import access, queries, services
from console.queues.topics.forms import AttributesForm, PublishForm, SubscribeForm, SubscriptionForm, TopicForm
from console.queues.topics.tables import TopicTable
from console.web import deletion, forms, htmx
from console.web.paging import configured, search_text

_ACTIONS = {
    "update": "mns:SetTopicAttributes",
    "delete": "mns:DeleteTopic",
    "publish": "mns:PublishMessage",
    "subscribe": "mns:Subscribe",
    "set_subscription": "mns:SetSubscriptionAttributes",
    "unsubscribe": "mns:Unsubscribe",
    "list": "mns:ListSubscriptionByTopic",
}


@require_GET
def topic_list(request: Request) -> HttpResponse:
    tenant = access.topics(request, "mns:ListTopic")
    text = search_text(request)
    listing = queries.listing(tenant, text)
    context = {
        "table": configured(request, TopicTable(listing.rows)),
        "listing": listing,
        "q": text,
        "may_create": access.may(request, "mns:CreateTopic", "*"),
    }
    return htmx.page(request, "queues/topics/list.html", "queues/topics/_list.html", context)


def topic_create(request: Request) -> HttpResponse:
    access.topics(request, "mns:CreateTopic", request.POST.get("name", "").strip() or "*")
    form = TopicForm(request.POST or None)
    if form.is_valid():
        name = form.cleaned_data["name"]
        with forms.refusals_on(form):
            made = services.create_topic(actor=request.actor, name=name, attributes=form.attributes())
            said = (
                _("Topic %(name)s is ready.") if made else _("Topic %(name)s was there already, just like this.")
            ) % {"name": name}
            messages.success(request, said)
            return redirect("queue_topics.detail", name)
    return forms.show(request, "queues/topics/create.html", form)


@require_GET
def topic_detail(request: Request, name: str) -> HttpResponse:
    topic = access.topic(request, name, "mns:GetTopicAttributes")
    return render(request, "queues/topics/detail.html", _about(request, topic))


def topic_update(request: Request, name: str) -> HttpResponse:
    topic = access.topic(request, name, "mns:SetTopicAttributes")
    form = AttributesForm(request.POST) if request.method == "POST" else AttributesForm.of_state(topic)
    if form.is_valid():
        with forms.refusals_on(form):
            services.set_topic(actor=request.actor, name=name, attributes=form.attributes())
            messages.success(request, _("The attributes of %(name)s are changed.") % {"name": name})
            return redirect("queue_topics.detail", name)
    return forms.show(request, "queues/topics/update.html", form, {"topic": topic})


def topic_delete(request: Request, name: str) -> HttpResponse:
    access.topic(request, name, "mns:DeleteTopic")
    wanted = deletion.Deletion(
        kind=_("topic"),
        name=name,
        warning=_("Its subscriptions end, and what they wait for is dropped."),
        cancel_url=reverse("queue_topics.detail", args=[name]),
    )
    return deletion.confirm(
        request, wanted, lambda: services.delete_topic(actor=request.actor, name=name), ("queue_topics.list",)
    )


def topic_publish(request: Request, name: str) -> HttpResponse:
    topic = access.topic(request, name, "mns:PublishMessage")
    form = PublishForm(request.POST or None)
    if form.is_valid():
        with forms.refusals_on(form):
            message_id = services.publish_message(actor=request.actor, name=name, **form.cleaned_data)
            messages.success(request, _("Message %(message_id)s is published.") % {"message_id": message_id})
            return redirect("queue_topics.detail", name)
    return forms.show(request, "queues/topics/publish.html", form, {"topic": topic})


def topic_subscribe(request: Request, name: str) -> HttpResponse:
    topic = access.topic(request, name, "mns:Subscribe", request.POST.get("name", "").strip() or "*")
    form = SubscribeForm(request.POST or None)
    if form.is_valid():
        with forms.refusals_on(form, denials_on="receiver"):
            made = services.subscribe(actor=request.actor, topic=name, **form.cleaned_data)
            said = _("%(name)s is subscribed.") if made else _("%(name)s was subscribed already, just like this.")
            messages.success(request, said % {"name": form.cleaned_data["name"]})
            return redirect("queue_topics.detail", name)
    return forms.show(request, "queues/topics/subscribe.html", form, {"topic": topic})


def subscription_update(request: Request, name: str, subscription: str) -> HttpResponse:
    state = access.subscription(request, name, subscription, "mns:SetSubscriptionAttributes")
    known = {"strategy": state.subscription.strategy, "tag": state.subscription.tag}
    form = SubscriptionForm(request.POST) if request.method == "POST" else SubscriptionForm(initial=known)
    if form.is_valid():
        with forms.refusals_on(form):
            services.set_subscription(actor=request.actor, topic=name, name=subscription, **form.cleaned_data)
            messages.success(request, _("%(subscription)s is changed.") % {"subscription": subscription})
            return redirect("queue_topics.detail", name)
    return forms.show(request, "queues/topics/update_subscription.html", form, {"topic": name, "state": state})


def topic_unsubscribe(request: Request, name: str, subscription: str) -> HttpResponse:
    access.topic(request, name, "mns:Unsubscribe", subscription)
    wanted = deletion.Deletion(
        kind=_("subscription"),
        name=subscription,
        warning=_("What it waits for is dropped."),
        cancel_url=reverse("queue_topics.detail", args=[name]),
        verb=_("End"),
    )
    return deletion.confirm(
        request,
        wanted,
        lambda: services.unsubscribe(actor=request.actor, topic=name, name=subscription),
        ("queue_topics.detail", name),
    )


def _about(request: Request, topic: TopicState) -> dict[str, Any]:
    """What the page of one topic shows, and what the visitor may do with it."""
    may = {word: access.may(request, action, topic.name) for word, action in _ACTIONS.items()}
    subscriptions = queries.subscriptions(request.actor.tenant, topic.name) if may["list"] else []
    return {
        "topic": topic,
        "may": may,
        "subscriptions": subscriptions,
        "created_ms": topic.created * 1000,
        "modified_ms": topic.modified * 1000,
    }
