"""What the pages of topics and groups ask for. The rules are the services'."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _

from console.topics.models import DeliveryOrder, OrderType, Permission, Relation
from console.web.languages import gettext_lazy

_REMARK = gettext_lazy("What others read in lists, up to 256 characters.")
_NAME = {"autocomplete": "off", "spellcheck": "false", "autofocus": True}


class TopicForm(forms.Form):
    """A new topic."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=127,
        widget=forms.TextInput(attrs=_NAME),
    )
    order_type = forms.TypedChoiceField(
        label=gettext_lazy("Message type"),
        coerce=int,
        initial=OrderType.NORMAL,
        widget=forms.RadioSelect,
        choices=[
            (OrderType.NORMAL, gettext_lazy("Normal: no order, highest throughput")),
            (
                OrderType.PARTITIONALLY_ORDERED,
                gettext_lazy("Partitionally ordered: in order per sharding key, 8 queues"),
            ),
            (OrderType.GLOBALLY_ORDERED, gettext_lazy("Globally ordered: in order overall, 1 queue")),
            (
                OrderType.TRANSACTIONAL,
                gettext_lazy("Transactional: delivered when the sender's transaction is committed"),
            ),
            (OrderType.DELAYED, gettext_lazy("Scheduled or delayed: delivered at a time")),
        ],
        help_text=gettext_lazy("It cannot be changed: producers and consumers are written for one type."),
    )
    remark = forms.CharField(label=gettext_lazy("Description"), max_length=256, required=False, help_text=_REMARK)

    def __init__(self, *args: Any, most: int, **kwargs: Any) -> None:
        """`most` are the characters that the instance has room for in a name."""
        super().__init__(*args, **kwargs)
        self.fields["name"].help_text = _(
            "3 to %(most)s letters, digits, - or _. It cannot be changed, and does not begin with CID or GID."
        ) % {"most": most}


class ModeForm(forms.Form):
    """The read/write mode of a topic."""

    perm = forms.TypedChoiceField(label=gettext_lazy("Mode"), coerce=int, choices=Permission.choices)


_ORDERS = [
    (DeliveryOrder.AUTOMATIC, gettext_lazy("Automatic: in order once the group subscribes to ordered topics only")),
    (DeliveryOrder.ORDERLY, gettext_lazy("In order: one batch of a queue at a time")),
    (DeliveryOrder.CONCURRENTLY, gettext_lazy("Without order: highest throughput")),
]


class OrderForm(forms.Form):
    """Whether a group's clients get messages in order."""

    delivery_order = forms.ChoiceField(label=gettext_lazy("Delivery order"), choices=DeliveryOrder.choices)


class GroupForm(forms.Form):
    """A new group."""

    group_id = forms.CharField(
        label=gettext_lazy("Group ID"),
        max_length=64,
        initial="GID_",
        widget=forms.TextInput(attrs=_NAME),
        help_text=gettext_lazy("Begins with GID_ or GID-, 5 to 64 letters, digits, - or _. It cannot be changed."),
    )
    delivery_order = forms.ChoiceField(
        label=gettext_lazy("Delivery order"),
        choices=_ORDERS,
        initial=DeliveryOrder.AUTOMATIC,
        required=False,
        widget=forms.RadioSelect,
        help_text=gettext_lazy(
            "For gRPC clients, and others that pop. Consumers that lock queues keep the order themselves."
        ),
    )
    remark = forms.CharField(label=gettext_lazy("Description"), max_length=256, required=False, help_text=_REMARK)

    def clean_delivery_order(self) -> str:
        return self.cleaned_data["delivery_order"] or DeliveryOrder.AUTOMATIC


class GrantForm(forms.Form):
    """A new grant on a topic: to another account by its ID, or to a RAM user of the own one."""

    receiver = forms.ChoiceField(
        label=gettext_lazy("Share with"),
        initial="account",
        widget=forms.RadioSelect,
        choices=[("account", gettext_lazy("Another account")), ("user", gettext_lazy("A RAM user of this account"))],
    )
    tenant = forms.CharField(
        label=gettext_lazy("Account ID"),
        required=False,
        max_length=20,
        widget=forms.TextInput(attrs={"autocomplete": "off", "inputmode": "numeric", "spellcheck": "false"}),
        help_text=gettext_lazy("16 digits; the other account finds it in the menu at the top right."),
    )
    user = forms.CharField(
        label=gettext_lazy("RAM user"),
        required=False,
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "off", "list": "ram-users", "spellcheck": "false"}),
    )
    relation = forms.TypedChoiceField(
        label=gettext_lazy("Right"),
        coerce=int,
        initial=Relation.SUBSCRIBE,
        widget=forms.RadioSelect,
        choices=Relation.choices,
    )
