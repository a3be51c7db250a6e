"""The form of an inflow task: its five steps, and the document that it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from analytics.inflow import task_sinks, task_sources
from analytics.inflow.delivery import RetryPolicy
from analytics.inflow.expressions import Language
from analytics.inflow.fields import INPUTS, METHODS, Method
from analytics.inflow.pattern import MAX_TEXT
from analytics.inflow.task_sources import DEFAULT_INTERVAL, DEFAULT_MESSAGES, MOST_INTERVAL, MOST_MESSAGES
from console.accounts.actor import Actor
from console.inflow import offers, providers, sinks
from console.inflow.documents import source_of
from console.inflow.providers import PROVIDERS
from console.inflow.providers.shape import PLAIN, Provider
from console.inflow.sample_events import LONGEST_SAMPLE
from console.inflow.sinks import DESTINATIONS
from console.inflow.sinks.shape import Destination
from console.inflow.sinks.topic import TopicDestination
from console.pipelines import event_logs
from console.pipelines.event_logs import Login
from console.web import zone
from console.web.languages import gettext_lazy
from console.web.moments import MomentField

_CODE = PLAIN | {"class": "font-monospace"}
PARTS = {
    "body": gettext_lazy("Message body"),
    "properties": gettext_lazy("Custom property"),
    "key": gettext_lazy("Message key"),
    "tag": gettext_lazy("Message tag"),
}
STEPS = {
    "source": gettext_lazy("Source"),
    "filtering": gettext_lazy("Filtering"),
    "transformation": gettext_lazy("Transformation"),
    "sink": gettext_lazy("Sink"),
    "properties": gettext_lazy("Task properties"),
}
#: What each kind of transform is told.
_TRANSFORMS = {"expression": ("language", "expression"), "function": ("url",), "sql": ("sql",)}
_QUERY = """select e.id, e.after:amount::decimal(10,2) as amount, c.name
from events e left join shop.customers c on c.id = e.after:customer::int"""
_STEP_OF = {
    "pattern": "filtering",
    "transform": "transformation", "language": "transformation", "expression": "transformation",
    "url": "transformation", "sql": "transformation",
    **{name: "sink" for one in DESTINATIONS.values() for name in ("sink_kind", *one.fields)},
    "retry": "properties", "faults": "properties", "dead_kind": "properties", "dead_letters": "properties",
    "dead_instance": "properties", "dead_queue": "properties",
}  # fmt: skip
_FIELD_OF = {
    "source.kind": "provider", "source.messages": "messages", "source.interval": "interval",
    "transform": "transform", "transform.kind": "transform",
    "transform.language": "language", "transform.expression": "expression", "transform.url": "url",
    "transform.sql": "sql",
    "sink.kind": "sink_kind", "deadLetterTopic": "dead_letters", "deadLetterInstance": "dead_instance",
    "deadLetterQueue": "dead_queue",
}  # fmt: skip
_INPUT: dict[str, tuple[str, type[forms.Widget], int, dict[str, Any]]] = {
    "path": ("JSONPath", forms.TextInput, 1024, {"placeholder": "$.data.tableName"}),
    "value": (gettext_lazy("Fixed value"), forms.TextInput, 64 * 1024, {}),
    "parameters": (
        gettext_lazy("Parameters"),
        forms.Textarea,
        64 * 1024,
        {"rows": 2, "placeholder": '{"table": "$.data.tableName"}'},
    ),
    "template": (gettext_lazy("Template"), forms.Textarea, 64 * 1024, {"rows": 3, "placeholder": "${table}"}),
}
_PLACE = re.compile(r"sink\.(body|properties|key|tag)(?:\.(method|path|value|parameters|template))?.*")


def field_of(place: str, provider: Provider, destination: Destination) -> str:
    """The field of the form for a place in the document, such as `sink.key.path`; the place itself for another."""
    if place.startswith("pattern"):
        return "pattern"
    if place.startswith("sink.routes"):
        return "routes"
    if found := _PLACE.fullmatch(place):
        return f"{found[1]}_{found[2] or 'method'}"
    if place.startswith("source.") and (name := provider.places.get(place.removeprefix("source."))):
        return name
    if place.startswith("sink.") and (name := destination.places.get(place.split(".")[1])):
        return name
    return _FIELD_OF.get(place, place)


def step_of(field: str) -> str:
    """The step in which a field stands."""
    part = field.partition("_")[0]
    return "sink" if field not in _STEP_OF and part in PARTS else _STEP_OF.get(field, "source")


class TaskForm(forms.Form):
    """A new task, or another version of one."""

    name = forms.CharField(
        label=gettext_lazy("Task name"),
        max_length=127,
        widget=forms.TextInput(attrs=PLAIN),
        help_text=gettext_lazy("1 to 127 letters, digits, hyphens and underscores. It cannot be changed."),
    )
    description = forms.CharField(label=gettext_lazy("Description"), max_length=255, required=False)
    provider = forms.ChoiceField(
        label=gettext_lazy("Data provider"),
        choices=[(one.kind, one.title) for one in PROVIDERS.values()],
        required=False,
        help_text=gettext_lazy("Where the events come from."),
    )
    offset = MomentField(
        label=zone.labelled(gettext_lazy("Consumer offset")),
        required=False,
        help_text=gettext_lazy("Counts at the first consumption only; empty for the first event that there is."),
    )
    messages = forms.IntegerField(
        label=gettext_lazy("Messages"),
        min_value=1,
        max_value=MOST_MESSAGES,
        initial=DEFAULT_MESSAGES,
        help_text=gettext_lazy("Of a batch, at most; 1 to %(most_messages)s.", most_messages=f"{MOST_MESSAGES:,}"),
    )
    interval = forms.IntegerField(
        label=gettext_lazy("Interval (seconds)"),
        min_value=0,
        max_value=MOST_INTERVAL,
        initial=DEFAULT_INTERVAL,
        help_text=gettext_lazy(
            "For which a batch is waited for, at most; 0 to %(most_interval)s.", most_interval=MOST_INTERVAL
        ),
    )
    pattern = forms.CharField(
        label=gettext_lazy("Event pattern"),
        required=False,
        max_length=MAX_TEXT,
        widget=forms.Textarea(
            attrs=_CODE | {"rows": 10, "placeholder": '{"data": {"tableName": ["orders"], "operation": ["INSERT"]}}'}
        ),
        help_text=gettext_lazy("JSON of the shape of the events; empty lets all of them pass."),
    )
    transform = forms.ChoiceField(
        label=gettext_lazy("Transformation"),
        choices=[
            ("", gettext_lazy("None")),
            ("expression", gettext_lazy("An expression over each event")),
            ("function", gettext_lazy("A function of yours, by HTTP")),
            ("sql", gettext_lazy("A query (SQL) over each batch, with tables of the catalog")),
        ],
        required=False,
        widget=forms.RadioSelect,
        initial="",
    )
    language = forms.ChoiceField(
        label=gettext_lazy("Language"),
        choices=[(Language.JMESPATH, "JMESPath"), (Language.JSONATA, "JSONata")],
        required=False,
        initial=Language.JMESPATH,
    )
    expression = forms.CharField(
        label=gettext_lazy("Expression"),
        required=False,
        max_length=8 * 1024,
        widget=forms.Textarea(attrs=_CODE | {"rows": 5, "placeholder": "merge(@, {data: data.after})"}),
        help_text=gettext_lazy(
            "Of the event, which is @ in JMESPath and $ in JSONata. An object is the event from here "
            "on, an array several, null none. Its field gantrytopic names the topic that it goes to."
        ),
    )
    url = forms.CharField(
        label=gettext_lazy("Address of the function"),
        required=False,
        max_length=2048,
        widget=forms.TextInput(attrs=PLAIN | {"placeholder": "https://functions.example.com/clean"}),
        help_text=gettext_lazy("It gets a JSON array of events by POST, and answers an array of events."),
    )
    sql = forms.CharField(
        label=gettext_lazy("Query"),
        required=False,
        max_length=64 * 1024,
        widget=forms.Textarea(attrs=_CODE | {"rows": 8, "placeholder": _QUERY}),
        help_text=gettext_lazy(
            "One SELECT over the table events. A column event is the event from here on; else the "
            "columns are its data. A column gantrytopic names the topic that it goes to."
        ),
    )
    sink_kind = forms.ChoiceField(
        label=gettext_lazy("Service type"),
        choices=[(one.kind, one.title) for one in DESTINATIONS.values()],
        required=False,
        help_text=gettext_lazy("Where the messages go."),
    )
    retry = forms.ChoiceField(
        label=gettext_lazy("Retry policy"),
        choices=[
            (RetryPolicy.BACKOFF, gettext_lazy("Backoff: 3 times, after 10 to 20 s each")),
            (
                RetryPolicy.EXPONENTIAL,
                gettext_lazy("Exponential decay: 176 times, after 1, 2, 4 … 512 s, which is about a day"),
            ),
        ],
        widget=forms.RadioSelect,
        initial=RetryPolicy.BACKOFF,
    )
    faults = forms.ChoiceField(
        label=gettext_lazy("Fault tolerance"),
        choices=[
            (
                "allowed",
                gettext_lazy("Allowed: an event that fails is a dead letter, or discarded, and the task goes on"),
            ),
            ("prohibited", gettext_lazy("Prohibited: the task stops, and is Ready")),
        ],
        widget=forms.RadioSelect,
        initial="allowed",
    )
    dead_kind = forms.ChoiceField(
        label=gettext_lazy("Dead letters"),
        choices=[
            ("", gettext_lazy("None: what fails is discarded")),
            ("topic", gettext_lazy("Into a topic")),
            ("queue", gettext_lazy("Into a queue")),
        ],
        required=False,
    )
    dead_instance = forms.ChoiceField(label=gettext_lazy("Instance of the dead-letter topic"), required=False)
    dead_letters = forms.CharField(
        label=gettext_lazy("Dead-letter topic"),
        required=False,
        max_length=127,
        widget=forms.TextInput(attrs=PLAIN | {"list": "inflow-topics"}),
        help_text=gettext_lazy(
            "It gets the original event, with the reason in its properties. Of a task with a topic "
            "it is of the same instance."
        ),
    )
    dead_queue = forms.CharField(
        label=gettext_lazy("Dead-letter queue"),
        required=False,
        max_length=120,
        widget=forms.TextInput(attrs=PLAIN | {"list": "inflow-queues"}),
        help_text=gettext_lazy("It gets the original event and the reason, as a JSON object."),
    )
    sample = forms.CharField(
        label=gettext_lazy("Sample event"),
        required=False,
        max_length=LONGEST_SAMPLE,
        widget=forms.Textarea(attrs=_CODE | {"rows": 3}),
        help_text=gettext_lazy("JSON; empty for the last event of the source."),
    )

    def __init__(self, *args: Any, actor: Actor, document: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """`document` is that of the task that is changed."""
        self._actor, self._base = actor, dict(document or {})
        kwargs.setdefault("initial", _initial(self._base))
        super().__init__(*args, **kwargs)
        base = source_of(self._base)
        for one in PROVIDERS.values():
            self.fields |= one.made(actor, base if providers.of(base) is one else {})
        sink = sinks.sink_of(self._base)
        for to in DESTINATIONS.values():
            found = sink if sinks.of(sink) is to else {}
            self.fields |= to.made(actor, found)
            told = to.initial(actor, found)
            self.initial.update({name: value for name, value in told.items() if value is not None})
        self._offer_dead_letters()
        for part, title in PARTS.items():
            self._add_part(part, title)
        if document is not None:
            self.fields["name"].disabled = True

    def _offer_dead_letters(self) -> None:
        self.fields["dead_instance"].choices = offers.instances(self._actor)  # type: ignore[attr-defined]
        is_known = bool(self._base.get("deadLetterTopic")) and not isinstance(self.destination, TopicDestination)
        if is_known:
            found = str(self._base.get("deadLetterInstance") or "")
            topic = str(self._base["deadLetterTopic"])
            self.initial["dead_instance"] = offers.instance_of(self._actor, found, topic)

    def _add_part(self, part: str, title: str) -> None:
        methods = METHODS[part]
        self.fields[f"{part}_method"] = forms.ChoiceField(
            label=title,
            choices=[(one.value, one.label) for one in methods],
            required=False,  # one is chosen always
            initial=methods[0].value,
        )
        for name in dict.fromkeys(name for one in methods for name in INPUTS[one]):
            label, widget, most, attrs = _INPUT[name]
            self.fields[f"{part}_{name}"] = forms.CharField(
                label=label,
                required=False,
                max_length=most,
                strip=name != "template",
                widget=widget(attrs=_CODE | attrs),
            )
        self.initial.setdefault(f"{part}_method", methods[0].value)

    @property
    def chosen(self) -> Provider:
        """The provider that is chosen; that of the task which is changed, or the first, while nobody has chosen."""
        told = self["provider"].value()
        return PROVIDERS.get(str(told or ""), providers.of(source_of(self._base)))

    @property
    def _before(self) -> Mapping[str, Any]:
        """The source of the task that is changed; empty where another provider is chosen."""
        source = source_of(self._base)
        return source if providers.of(source) is self.chosen else {}

    @property
    def destination(self) -> Destination:
        """The sink that is chosen; that of the task which is changed, or a topic, while nobody has chosen."""
        told = self["sink_kind"].value()
        return DESTINATIONS.get(str(told or ""), sinks.of(sinks.sink_of(self._base)))

    @property
    def sink_fields(self) -> list[dict[str, Any]]:
        """The fields of all kinds of sinks, each with the kind that has it."""
        return [{"field": self[name], "of": one.kind} for one in DESTINATIONS.values() for name in one.fields]

    @property
    def destinations(self) -> list[Destination]:
        """All kinds of sinks."""
        return list(DESTINATIONS.values())

    @property
    def source_fields(self) -> list[dict[str, Any]]:
        """The fields of all providers, each with the kinds that have it."""
        names = dict.fromkeys(name for one in PROVIDERS.values() for name in one.fields)
        return [
            {"field": self[name], "of": " ".join(one.kind for one in PROVIDERS.values() if name in one.fields)}
            for name in names
        ]

    @property
    def offered(self) -> list[Provider]:
        """All providers."""
        return list(PROVIDERS.values())

    @cached_property
    def sources(self) -> list[event_logs.Source]:
        """The change tracking tasks that the actor may read."""
        return event_logs.sources.get().sources(self._actor)

    def clean_language(self) -> str:
        """Without one JMESPath."""
        return self.cleaned_data["language"] or Language.JMESPATH

    def clean_group(self) -> str:
        """Without the source that it is of."""
        source, _unused, group = str(self.cleaned_data["group"]).partition("/")
        if group and self.cleaned_data.get("source") not in (None, "", source):
            raise forms.ValidationError(_("Choose a consumer group of the change tracking task."))
        return group

    def clean(self) -> dict[str, Any]:
        """What the chosen source and sink need is there; what was chosen of another one does not matter."""
        told = super().clean() or {}
        of_sources = {name for one in PROVIDERS.values() for name in one.fields} - set(self.chosen.fields)
        of_sinks = {name for one in DESTINATIONS.values() for name in one.fields} - set(self.destination.fields)
        for name in (of_sources | of_sinks) & set(self.errors):
            del self.errors[name]
        dead = {"topic": ("dead_letters",), "queue": ("dead_queue",)}.get(told.get("dead_kind", ""), ())
        source = () if "provider" in self.errors else self.chosen.required
        for name in (*source, *self.destination.required, *dead):
            if not told.get(name) and name not in self.errors:
                self.add_error(name, str(self.fields[name].error_messages["required"]))
        return told

    @property
    def document(self) -> dict[str, Any]:
        """The document of what was sent, as far as the form itself has nothing against it."""
        told = getattr(self, "cleaned_data", {})
        found: dict[str, Any] = {"name": told.get("name") or self._base.get("name", "")}
        if told.get("description"):
            found["description"] = told["description"]
        found["source"] = self._source(told)
        if told.get("pattern", "").strip():
            found["pattern"] = _json_or_text(told["pattern"])
        if kind := told.get("transform"):
            found["transform"] = {"kind": kind} | {name: told.get(name, "") for name in _TRANSFORMS[kind]}
        found["sink"] = self._sink(told)
        found |= {"retry": told.get("retry", ""), "faults": told.get("faults", "")}
        return found | self._dead_letters(told)

    @property
    def login(self) -> Login:
        """Of the consumer group."""
        return Login(self.cleaned_data.get("account", ""), self.cleaned_data.get("password", ""))

    @property
    def unsent(self) -> dict[str, Any]:
        """The document of a form that nobody has sent: that of the task which is changed."""
        return self._base or {"source": _with_kind(self.chosen, self.chosen.unsent(self._actor))}

    def _source(self, told: Mapping[str, Any]) -> dict[str, Any]:
        found = _with_kind(self.chosen, self.chosen.document(told, self._before))
        return found | {name: told[name] for name in ("messages", "interval") if told.get(name) is not None}

    def _sink(self, told: Mapping[str, Any]) -> dict[str, Any]:
        base, destination = sinks.sink_of(self._base), self.destination
        found = destination.document(self._actor, told, base if sinks.of(base) is destination else {})
        for part in destination.parts:
            if method := told.get(f"{part}_method"):
                inputs: dict[str, Any] = {name: told.get(f"{part}_{name}", "") for name in INPUTS[Method(method)]}
                if "parameters" in inputs:
                    inputs["parameters"] = _parameters(inputs["parameters"])
                found[part] = {"method": method} | inputs
        return found if destination.kind == task_sinks.TOPIC else {"kind": destination.kind, **found}

    def _dead_letters(self, told: Mapping[str, Any]) -> dict[str, Any]:
        kind = told.get("dead_kind")
        if kind == "queue":
            return {"deadLetterQueue": told.get("dead_queue", "")}
        if kind != "topic":
            return {}
        found = {"deadLetterTopic": told.get("dead_letters", "")}
        namespace = offers.namespace_of(self._actor, told.get("dead_instance", ""))
        if namespace and self.destination.kind != task_sinks.TOPIC:
            found["deadLetterInstance"] = namespace
        return found

    def add_place_error(self, place: str, sentence: str) -> None:
        """What is wrong with a place of the document stands at its field, or above the form."""
        field = field_of(place, self.chosen, self.destination)
        typed = dict(self.cleaned_data)
        self.add_error(field if field in self.fields else None, sentence)
        # Django forgets the value of a field with an error; what the form leads to is made of what was typed.
        self.cleaned_data = typed

    @property
    def step(self) -> str:
        """The first step in which something is wrong; the first of all where nothing is."""
        wrong = {step_of(name) for name in self.errors} if self.is_bound else set()
        return next((step for step in STEPS if step in wrong), "source")

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The parts of a message, each with its method and the inputs of all methods, and the sinks that have it."""
        return [
            {
                "name": part,
                "of": " ".join(one.kind for one in DESTINATIONS.values() if part in one.parts),
                "method": self[f"{part}_method"],
                "inputs": [
                    {
                        "field": self[f"{part}_{name}"],
                        "of": " ".join(one.value for one in METHODS[part] if name in INPUTS[one]),
                    }
                    for name in dict.fromkeys(name for one in METHODS[part] for name in INPUTS[one])
                ],
            }
            for part in PARTS
        ]


def _with_kind(provider: Provider, source: dict[str, Any]) -> dict[str, Any]:
    """A part `source`; that of changes names no kind, as such documents never did."""
    return source if provider.kind == task_sources.CHANGES else {"kind": provider.kind, **source}


def _initial(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the form has for a document."""
    source, sink = source_of(document), sinks.sink_of(document)
    provider = providers.of(source)
    transform = document.get("transform") or {}
    pattern = document.get("pattern") or ""
    found = {
        "name": document.get("name"),
        "description": document.get("description"),
        "provider": provider.kind,
        "messages": source.get("messages", DEFAULT_MESSAGES),
        "interval": source.get("interval", DEFAULT_INTERVAL),
        "pattern": pattern if isinstance(pattern, str) else json.dumps(pattern, indent=2, ensure_ascii=False),
        "transform": transform.get("kind", ""),
        **{name: transform.get(name) for names in _TRANSFORMS.values() for name in names},
        "sink_kind": sinks.of(sink).kind,
        "retry": document.get("retry", RetryPolicy.BACKOFF),
        "faults": document.get("faults", "allowed"),
        "dead_kind": "queue" if document.get("deadLetterQueue") else "topic" if document.get("deadLetterTopic") else "",
        "dead_letters": document.get("deadLetterTopic"),
        "dead_queue": document.get("deadLetterQueue"),
    }
    found |= provider.initial(source)
    if source.get("startTimeMs") is not None:
        found["offset"] = zone.local(source["startTimeMs"])
    for part in PARTS:
        for name, value in (sink.get(part) or {}).items():
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            found[f"{part}_{name}"] = shown
    return {name: value for name, value in found.items() if value is not None}


def _json_or_text(text: str) -> Any:
    """A pattern as an object, so that versions show it by its lines; as it was typed where it is none, or not alike."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    # Of names that stand there twice JSON keeps one, and the pattern's own reader refuses both.
    return found if isinstance(found, dict) and _is_alike(text, found) else text


def _is_alike(text: str, found: Any) -> bool:
    return "".join(text.split()) == "".join(json.dumps(found, ensure_ascii=False).split())


def _parameters(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
