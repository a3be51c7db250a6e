"""What the pages of topics and groups ask for. The rules are the services'."""

from __future__ import annotations

from django import forms

from console.topics.models import OrderType, Permission

_NAME = {"autocomplete": "off", "spellcheck": "false", "autofocus": True}


class TopicForm(forms.Form):
    """A new topic."""

    name = forms.CharField(
        label="Name",
        max_length=127,
        widget=forms.TextInput(attrs=_NAME),
        help_text="3 to 64 letters, digits, - or _. It cannot be changed, and does not begin with CID or GID.",
    )
    order_type = forms.TypedChoiceField(
        label="Message type",
        coerce=int,
        initial=OrderType.NORMAL,
        widget=forms.RadioSelect,
        choices=[
            (OrderType.NORMAL, "Normal: no order, highest throughput"),
            (OrderType.PARTITIONALLY_ORDERED, "Partitionally ordered: in order per sharding key, 8 queues"),
            (OrderType.GLOBALLY_ORDERED, "Globally ordered: in order overall, 1 queue"),
            (OrderType.TRANSACTIONAL, "Transactional: delivered once the sender's transaction committed"),
            (OrderType.DELAYED, "Scheduled or delayed: delivered at a time"),
        ],
    )
    remark = forms.CharField(label="Description", max_length=256, required=False)


class ModeForm(forms.Form):
    """The read/write mode of a topic."""

    perm = forms.TypedChoiceField(label="Mode", coerce=int, choices=Permission.choices)


class GroupForm(forms.Form):
    """A new group."""

    group_id = forms.CharField(
        label="Group ID",
        max_length=64,
        initial="GID_",
        widget=forms.TextInput(attrs=_NAME),
        help_text="Begins with GID_ or GID-, 5 to 64 letters, digits, - or _. It cannot be changed.",
    )
    remark = forms.CharField(label="Description", max_length=256, required=False)
