"""What the pages of topics and groups ask for. The rules are the services'."""

from __future__ import annotations

from typing import Any

from django import forms

from console.topics.models import DeliveryOrder, OrderType, Permission, Relation

_REMARK = "What others read in lists, up to 256 characters."
_NAME = {"autocomplete": "off", "spellcheck": "false", "autofocus": True}


class TopicForm(forms.Form):
    """A new topic."""

    name = forms.CharField(
        label="Name",
        max_length=127,
        widget=forms.TextInput(attrs=_NAME),
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
            (OrderType.TRANSACTIONAL, "Transactional: delivered when the sender's transaction is committed"),
            (OrderType.DELAYED, "Scheduled or delayed: delivered at a time"),
        ],
        help_text="It cannot be changed: producers and consumers are written for one type.",
    )
    remark = forms.CharField(label="Description", max_length=256, required=False, help_text=_REMARK)

    def __init__(self, *args: Any, most: int, **kwargs: Any) -> None:
        """`most` are the characters that the instance has room for in a name."""
        super().__init__(*args, **kwargs)
        self.fields[
            "name"
        ].help_text = f"3 to {most} letters, digits, - or _. It cannot be changed, and does not begin with CID or GID."


class ModeForm(forms.Form):
    """The read/write mode of a topic."""

    perm = forms.TypedChoiceField(label="Mode", coerce=int, choices=Permission.choices)


_ORDERS = [
    (DeliveryOrder.AUTOMATIC, "Automatic: in order once the group subscribes to ordered topics only"),
    (DeliveryOrder.ORDERLY, "In order: one batch of a queue at a time"),
    (DeliveryOrder.CONCURRENTLY, "Without order: highest throughput"),
]


class OrderForm(forms.Form):
    """Whether a group's clients get messages in order."""

    delivery_order = forms.ChoiceField(label="Delivery order", choices=DeliveryOrder.choices)


class GroupForm(forms.Form):
    """A new group."""

    group_id = forms.CharField(
        label="Group ID",
        max_length=64,
        initial="GID_",
        widget=forms.TextInput(attrs=_NAME),
        help_text="Begins with GID_ or GID-, 5 to 64 letters, digits, - or _. It cannot be changed.",
    )
    delivery_order = forms.ChoiceField(
        label="Delivery order",
        choices=_ORDERS,
        initial=DeliveryOrder.AUTOMATIC,
        required=False,
        widget=forms.RadioSelect,
        help_text="For gRPC clients, and others that pop. Consumers that lock queues keep the order themselves.",
    )
    remark = forms.CharField(label="Description", max_length=256, required=False, help_text=_REMARK)

    def clean_delivery_order(self) -> str:
        return self.cleaned_data["delivery_order"] or DeliveryOrder.AUTOMATIC


class GrantForm(forms.Form):
    """A new grant on a topic: to another account by its ID, or to a RAM user of the own one."""

    receiver = forms.ChoiceField(
        label="Share with",
        initial="account",
        widget=forms.RadioSelect,
        choices=[("account", "Another account"), ("user", "A RAM user of this account")],
    )
    tenant = forms.CharField(
        label="Account ID",
        required=False,
        max_length=20,
        widget=forms.TextInput(attrs={"autocomplete": "off", "inputmode": "numeric", "spellcheck": "false"}),
        help_text="16 digits; the other account finds it in the menu at the top right.",
    )
    user = forms.CharField(
        label="RAM user",
        required=False,
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "off", "list": "ram-users", "spellcheck": "false"}),
    )
    relation = forms.TypedChoiceField(
        label="Right", coerce=int, initial=Relation.SUBSCRIBE, widget=forms.RadioSelect, choices=Relation.choices
    )
