"""A topic as it is used now: its messages as they come, a page and what it asks for each second; and who sends them."""

from __future__ import annotations

from django import forms
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from brokercore.client.filtering import MessageFilter
from console.accounts.http import Request
from console.messaging import tail
from console.messaging.producers import NEWEST, senders
from console.messaging.queries import Source
from console.topics import access as topics
from console.web import htmx, streams
from console.web.languages import gettext_lazy
from console.web.live import FOLLOW

_READ = "mq:SUB"
"""What a client needs that subscribes."""


class TailForm(forms.Form):
    """What of the topic is shown."""

    tags = forms.CharField(
        label=gettext_lazy("Tag"), required=False, max_length=1024, help_text=gettext_lazy("One tag, or TagA || TagB.")
    )
    sql = forms.CharField(
        label=gettext_lazy("SQL92"),
        required=False,
        max_length=4096,
        help_text=gettext_lazy("Over properties, such as amount > 10 AND region = 'eu'."),
    )
    body = forms.CharField(
        label=gettext_lazy("Body text"),
        required=False,
        max_length=1024,
        help_text=gettext_lazy("Anywhere in it, in any case."),
    )

    def clean(self) -> dict[str, object]:
        """Adds `filter`."""
        cleaned = super().clean() or self.cleaned_data
        for name in ("tags", "sql"):
            try:
                MessageFilter(**{name: cleaned.get(name, "")})
            except ValueError as error:
                self.add_error(name, _("The filter is wrong: %(error)s.") % {"error": error})
        if self.errors:
            return cleaned
        wanted = tail.Filter(MessageFilter(cleaned["tags"], cleaned["sql"]), cleaned["body"])
        return cleaned | {"filter": wanted}


@require_GET
def page(request: Request, instance_id: str, name: str) -> HttpResponse:
    """The page, which begins where the topic ends now."""
    topic = topics.topic(request, instance_id, name, _READ)
    context = {
        "instance": topic.instance,
        "topic": topic,
        "form": TailForm(request.GET or None),
        "place": tail.dump(tail.end_of(Source.of_topic(topic))),
    }
    return render(request, "messaging/live.html", context)


@streams.part
@require_GET
def news(request: Request, instance_id: str, name: str) -> HttpResponse:
    """What came since the place of the query, newest first; headers tell where to go on and what was left out.

    422 with a sentence for a filter that is none.
    """
    topic = topics.topic(request, instance_id, name, _READ)
    form = TailForm(request.GET)
    source = Source.of_topic(topic)
    try:
        place = tail.load(request.GET.get("place", ""), topic.physical_name)
    except ValueError:
        return HttpResponse(_("The place in the topic cannot be read; load the page again."), status=422)
    if not form.is_valid():
        sentence = next(error for errors in form.errors.values() for error in errors)
        return HttpResponse(sentence, status=422, content_type="text/plain; charset=utf-8")
    found = tail.news(source, place, form.cleaned_data["filter"])
    response = HttpResponse(tail.lines(found.messages), content_type="text/plain; charset=utf-8")
    query = request.GET.copy()
    query["place"] = tail.dump(found.place)
    response["X-Gantry-Tail-Place"] = tail.steps(place, found.place)
    response["X-Gantry-Tail-Seen"] = str(found.seen)
    response["X-Gantry-Tail-Skipped"] = str(found.skipped)
    response[FOLLOW] = f"{reverse('messaging.live_news', args=[instance_id, name])}?{query.urlencode()}"
    return response


@streams.part
@require_GET
def producers(request: Request, instance_id: str, name: str) -> HttpResponse:
    """Who sends to a topic of the own account: the page, and its part that is asked for again."""
    topic = topics.topic(request, instance_id, name, "mq:QueryTopic")
    if topic.instance.tenant_id != request.actor.tenant.pk:
        raise Http404("only the owner of a topic sees who sends to it")
    context = {
        "instance": topic.instance,
        "topic": topic,
        "tab": "producers",
        "newest": NEWEST,
        "senders": senders(topic),
    }
    return htmx.page(request, "messaging/producers.html", "messaging/_producers.html", context)
