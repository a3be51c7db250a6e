"""What is recorded, and what never is."""

from __future__ import annotations

from console.audit.models import Entry
from console.audit.record import record
from console.audit.record.masking import masked
from tests.support.cast import Cast


def test_it_masks_every_value_whose_name_tells_a_secret() -> None:
    detail = {
        "name": "x",
        "password": "p",
        "nested": {"AccessKeySecret": "s", "list": [{"security_token": "t", "kept": 1}]},
        "API_KEY": "k",
    }
    assert masked(detail) == {
        "name": "x",
        "password": "***",
        "nested": {"AccessKeySecret": "***", "list": [{"security_token": "***", "kept": 1}]},
        "API_KEY": "***",
    }


def test_an_entry_says_who_from_where_by_what(cast: Cast) -> None:
    actor = cast.actor("bob")
    actor.channel, actor.source_ip, actor.access_key_id, actor.request_id = "api", "10.0.0.1", "LTAI1", "r-1"
    record(actor, "topics.topic.create", "t", detail={"secret": "s"})
    entry = Entry.objects.latest("pk")
    assert (entry.tenant, entry.actor, entry.channel, entry.source_ip) == (cast.acme, "bob@acme", "api", "10.0.0.1")
    assert (entry.access_key_id, entry.request_id, entry.detail) == ("LTAI1", "r-1", {"secret": "***"})
