"""The pages of dead letters: found by what they are, sent again after a question, put aside, taken away as files."""

from __future__ import annotations

import csv
import json
import re
import time
from typing import Any

import pytest
from django.urls import reverse

from brokercore.client import Message
from console.accounts.models import Policy
from console.audit.models import Entry
from console.messaging import dead_letters
from console.messaging.models import Discard, Resend
from console.messaging.records import MessageRecord
from console.topics.models import Group, Topic
from tests.console.live import Live
from tests.support.broker import eventually
from tests.support.cast import Cast


def text(response: Any) -> str:
    return str(response.content.decode())


def url(live: Live, name: str, group: Group, *more: Any) -> str:
    return reverse(name, args=[live.instance.instance_id, group.group_id, *more])


def listed(live: Live, cast: Cast, group: Group, **query: str) -> set[str]:
    """Ids that the list shows for these filters."""
    page = cast.client("alice").get(url(live, "messaging.dead_letters", group), query)
    assert page.status_code == 200
    return set(re.findall(r'aria-label="Letter (\w+)"', text(page)))


def post(cast: Cast, who: str, path: str, **data: Any) -> Any:
    return cast.client(who).post(path, data, headers={"HX-Request": "true"})


def buried(live: Live, group: Group, topic: Topic, *messages: Message, retries: int = 0) -> list[MessageRecord]:
    """Messages that a consumer gave up; newest letter first."""
    for one in messages:
        live.producer.send(one)
    live.consume(group, topic, fail=True, retries=retries)

    def all_dead() -> list[MessageRecord]:
        now_ms = int(time.time() * 1000)
        page = dead_letters.search(live.actor, group, now_ms - 600_000, now_ms + 1000, page_size=50)
        return page.messages if page is not None and page.total == len(messages) else []

    found: list[MessageRecord] = eventually(all_dead, 30)
    live.stop_consumers()
    return found


def message(topic: Topic, body: str, **more: Any) -> Message:
    return Message(topic.physical_name, body.encode(), **more)


def test_letters_are_found_by_what_they_are(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    assert "No dead letters" in text(cast.client("alice").get(url(live, "messaging.dead_letters", group)))
    letters = buried(
        live,
        group,
        topic,
        message(topic, "a Kettle", tags="tea", keys="k-1 k-2", properties={"error": "TimeoutError: no water"}),
        message(topic, "a pan", tags="soup", keys="k-2"),
    )
    by_tag = {one.tag: one.message_id for one in letters}
    tea, soup = by_tag["tea"], by_tag["soup"]
    assert listed(live, cast, group) == {tea, soup}
    for wanted, found in (
        ({"tag": "tea"}, {tea}),
        ({"tag": "te"}, set()),
        ({"key": "k-2"}, {tea, soup}),
        ({"key": "k-1"}, {tea}),
        ({"property": "error=TimeoutError: no water"}, {tea}),
        ({"property": "timeouterror"}, {tea}),
        ({"property": "error"}, {tea}),
        ({"body": "kettle"}, {tea}),
        ({"body": "a ", "tag": "soup"}, {soup}),
        ({"reason": "early"}, {tea, soup}),
        ({"reason": "used"}, set()),
        ({"message_id": soup}, {soup}),
        ({"message_id": "NOTHING"}, set()),
        ({"begin": "2026-01-01T00:00:00", "end": "2026-01-01T01:00:00"}, set()),
        ({"begin": "2026-01-01T00:00:00"}, {tea, soup}),
    ):
        assert listed(live, cast, group, **wanted) == found, wanted
    refused = cast.client("alice").get(url(live, "messaging.dead_letters", group), {"reason": "bad luck"})
    assert refused.status_code == 422


def test_a_letter_is_shown_beside_what_it_was_and_told_why_it_died(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    (one,) = buried(live, group, topic, message(topic, "x", properties={"error": "no <b>water"}))
    path = url(live, "messaging.dead_letter", group, one.position)
    page = text(cast.client("alice").get(path))
    assert reverse("messaging.message", args=[live.instance.instance_id, topic.name, one.message_id]) in page
    assert "the client gave up after 1 delivery" in page
    assert "no &lt;b&gt;water" in page
    assert "RETRY_TOPIC" in page
    preview = text(cast.client("alice").get(path, {"preview": "1"}, headers={"HX-Request": "true"}))
    assert preview.lstrip().startswith('<aside id="letter-preview"')
    topic.delete()
    assert "is no longer in this instance" in text(cast.client("alice").get(path))


def test_that_an_original_may_not_be_read_is_said(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    (one,) = buried(live, group, topic, message(topic, "secret of the topic"))
    policy = Policy.objects.create(
        tenant=cast.acme,
        name="letters-only",
        document={
            "Version": "1",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Action": "mq:*",
                    "Resource": [f"acs:mq:*:*:{live.instance.physical_name(group.group_id)}"],
                },
                {"Effect": "Allow", "Action": "mq:QueryInstance", "Resource": "*"},
            ],
        },
    )
    cast.nora.policies.add(policy)
    page = text(cast.client("nora").get(url(live, "messaging.dead_letter", group, one.position)))
    assert "The original is in a topic whose messages you may not read." in page
    assert "Edit and publish anew" not in page


def test_sending_again_asks_and_says_who_is_online(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    (one,) = buried(live, group, topic, message(topic, "x"))
    path = url(live, "messaging.resend", group)
    asked = post(cast, "bob", path, letter=str(one.position))
    assert (asked.status_code, Resend.objects.exists()) == (200, False)
    assert "No consumer of the group is online" in text(asked)
    whole = text(cast.client("bob").post(path, {"letter": str(one.position)}))
    assert "<html" in whole
    assert f'name="letter" value="{one.position}"' in whole
    got = live.consume(group, topic)
    eventually(lambda: "1 consumer of the group is online" in text(post(cast, "bob", path, letter=str(one.position))))
    assert not got
    done = post(cast, "bob", path, letter=str(one.position), confirmed="1", shown=str(one.position))
    assert done["HX-Retarget"] == "#resent"
    assert "closeDialog" in done["HX-Trigger"]
    # What was sent is unticked, and is ticked with nothing else any more.
    ticks = re.findall(r'<input class="form-check-input"[^>]*hx-swap-oob="true">', text(done))
    assert [("data-check-alone" in tick, " checked" in tick) for tick in ticks] == [(True, False)]
    eventually(lambda: got)
    again = text(post(cast, "bob", path, letter=str(one.position)))
    assert "It was sent again before." in again
    assert listed(live, cast, group, state="unsent") == set()
    assert listed(live, cast, group, state="sent") == {one.message_id}


def test_what_is_discarded_is_out_of_the_list_until_it_is_put_back(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    one, other = buried(live, group, topic, message(topic, "x"), message(topic, "y"))
    path = url(live, "messaging.discard", group)
    assert post(cast, "rita", path, letter=str(one.position)).status_code == 403
    done = text(post(cast, "bob", path, letter=str(one.position)))
    assert 'discarded</span><span class="font-monospace' in done
    assert Discard.objects.get().actor == cast.bob
    assert listed(live, cast, group) == {other.message_id}
    assert listed(live, cast, group, state="discarded") == {one.message_id}
    assert listed(live, cast, group, state="all") == {one.message_id, other.message_id}
    assert listed(live, cast, group, state="unsent") == {other.message_id}
    assert "put back" in text(post(cast, "bob", path, letter=str(one.position), back="1"))
    assert listed(live, cast, group) == {one.message_id, other.message_id}
    done_by = [
        entry.action for entry in Entry.objects.filter(action__startswith="messaging.dead_letter").order_by("id")
    ]
    assert done_by == ["messaging.dead_letter.discard", "messaging.dead_letter.restore"]


def test_all_of_a_range_are_sent_page_by_page_with_a_result_for_each(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    live_ids = []
    for number in range(60):
        live_ids.append(live.send(topic, b"x", tags="odd" if number % 2 else "even").message_id)
    live.consume(group, topic, fail=True, retries=0)
    hour_ago = int(time.time() * 1000) - 3_600_000

    def all_dead() -> bool:
        page = dead_letters.search(live.actor, group, hour_ago, hour_ago + 7_200_000)
        return page is not None and page.total == 60

    eventually(all_dead, 30)
    live.stop_consumers()
    path = url(live, "messaging.resend_all", group)
    assert post(cast, "rita", path, range="1h").status_code == 403
    asked = text(post(cast, "bob", path, range="1h"))
    assert "<strong>60</strong> letters of this range" in asked
    assert not Resend.objects.exists()
    task = re.search(r'name="task" value="([^"]+)"', asked)[1]  # type: ignore[index]
    first = text(post(cast, "bob", path, task=task))
    assert "50 resent" in first
    assert 'hx-trigger="load, submit"' in first
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', first))
    second = text(post(cast, "bob", path, **fields))
    assert "60 resent" in second
    assert "Done." in second
    told = set(re.findall(r'<span class="font-monospace small text-break">(\w+)</span>', first + second))
    assert told == set(live_ids)
    assert Resend.objects.filter(group=group, error="").count() == 60

    all_again = text(post(cast, "bob", path, range="1h"))
    odd = text(post(cast, "bob", path, range="1h", tag="odd"))
    assert "All 30 letters were sent again before" in odd
    assert 'class="btn btn-primary"' not in odd
    task = re.search(r'name="task" value="([^"]+)"', all_again)[1]  # type: ignore[index]
    assert "50 left out because they were sent again before" in text(post(cast, "bob", path, task=task))
    assert post(cast, "bob", path, task="gone").status_code == 422
    whole = text(cast.client("bob").post(path, {"range": "1h"}))
    assert 'name="task"' in whole


def test_letters_go_into_files_that_a_spreadsheet_runs_nothing_of(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    buried(
        live, group, topic, message(topic, "=1+1", tags="a"), Message(topic.physical_name, b"\xff\x00", keys="k1 k2"),
    )  # fmt: skip
    alice = cast.client("alice")

    def rows(form: str, **query: str) -> str:
        response = alice.get(url(live, "messaging.dead_letter_export", group, form), query)
        assert response["Content-Disposition"].startswith("attachment;")
        return b"".join(response).decode()

    lines = [json.loads(line) for line in rows("jsonl").splitlines()]
    bodies = {(line["body"], line["body_base64"]) for line in lines}
    assert bodies == {("=1+1", False), ("/wA=", True)}
    assert {line["topic"] for line in lines} == {topic.name}
    table = list(csv.DictReader(rows("csv").splitlines()))
    assert {row["body"] for row in table} == {"'=1+1", "/wA="}
    assert {row["keys"] for row in table} == {"", "k1 k2"}
    assert [json.loads(line)["tag"] for line in rows("jsonl", tag="a").splitlines()] == ["a"]
    assert alice.get(url(live, "messaging.dead_letter_export", group, "xlsx")).status_code == 404
    assert Entry.objects.filter(action="messaging.dead_letter.export").count() == 3
    assert rows("jsonl", tag="nothing") == ""


def test_a_letter_is_edited_and_published_anew(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    one, binary = buried(
        live, group, topic, Message(topic.physical_name, b"\xff"),
        message(topic, '{"n": 1}', tags="t", keys="k1 k2", properties={"trace": "7"}),
    )  # fmt: skip
    if one.body == b"\xff":
        one, binary = binary, one
    publish = reverse("messaging.publish", args=[live.instance.instance_id, topic.name])
    page = text(cast.client("bob").get(publish, {"group": group.group_id, "letter": str(one.position)}))
    assert "{&quot;n&quot;: 1}" in page
    assert "trace=7" in page
    assert "RETRY_TOPIC" not in page
    assert 'value="k1 k2"' in page
    no_text = text(cast.client("bob").get(publish, {"group": group.group_id, "letter": str(binary.position)}))
    assert "is no text" in no_text
    gone = cast.client("bob").get(publish, {"group": group.group_id, "letter": "broker-a:0:99"})
    assert gone.status_code == 404
    other = cast.client("bob").get(publish, {"group": "GID_of_nobody", "letter": str(one.position)})
    assert other.status_code == 404


@pytest.mark.parametrize("name", ["messaging.resend", "messaging.discard", "messaging.resend_all"])
def test_nothing_is_changed_by_who_may_only_look_or_is_a_stranger(live: Live, cast: Cast, name: str) -> None:
    group = live.group()
    got = {
        who: post(cast, who, url(live, name, group), letter="broker-a:0:0").status_code for who in ("rita", "charlie")
    }
    assert got == {"rita": 403, "charlie": 404}


def test_who_may_only_look_is_offered_no_button(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    (one,) = buried(live, group, topic, message(topic, "x"))
    addresses = [url(live, name, group) for name in ("messaging.resend", "messaging.resend_all", "messaging.discard")]
    anew = reverse("messaging.publish", args=[live.instance.instance_id, topic.name])
    for page in (url(live, "messaging.dead_letters", group), url(live, "messaging.dead_letter", group, one.position)):
        offered = {
            who: {address for address in [*addresses, anew] if f'"{address}' in text(cast.client(who).get(page))}
            for who in ("rita", "bob")
        }
        assert offered["rita"] == set()
        assert addresses[0] in offered["bob"]
        assert (anew in offered["bob"]) == page.endswith(f"{one.position}/")
