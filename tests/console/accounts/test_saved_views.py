"""Views of lists: kept by name, by each person, bounded, one of them the default, shared with the account."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.urls import reverse

from console.accounts import saved_views
from console.accounts.models import SavedView
from console.audit.models import Entry
from console.web.errors import Refused
from tests.support.cast import Cast, make_topic

TOPICS = "topics_TopicTable"


@pytest.fixture
def listed(cast: Cast) -> str:
    """The list of topics, of which there are some."""
    for name in ("orders", "orders-old", "payments"):
        make_topic(cast.alice, cast.instance, name)
    return reverse("topics.list", args=[cast.instance.instance_id])


def keep(cast: Cast, address: str, name: str, who: str = "alice", **more: str) -> str:
    """Keep what the address shows, as the menu does; where it leads."""
    data = {"list": TOPICS, "next": address, "name": name, "columns": "1", **more}
    answer = cast.client(who).post(reverse("accounts.saved_view_keep"), data)
    assert answer.status_code == 302
    return str(answer["Location"])


def offered(cast: Cast, address: str, who: str = "alice") -> dict[str, str]:
    """The menu of the list: where each view leads, by what is written there."""
    page = cast.client(who).get(f"{address}?view=all").content.decode()
    menu = page.split('class="dropdown list-views"')[1].split("</details>")[0]
    links = re.findall(r'<a class="dropdown-item" href="([^"]*)"[^>]*><span class="text-break">([^<]*)<', menu)
    return {unescape(name): unescape(url) for url, name in links}


def test_a_view_is_the_filter_the_order_and_the_columns_under_a_name(cast: Cast, listed: str) -> None:
    client = cast.client("alice")
    client.post(reverse("columns"), {"list": TOPICS, "column": ["perm", "queues"], "shown": ["queues"]})
    assert (
        keep(cast, f"{listed}?q=orders&sort=-name&page=1", "Orders, last first")
        == f"{listed}?q=orders&sort=-name&page=1"
    )
    client.post(reverse("columns"), {"list": TOPICS, "column": ["perm", "queues"], "default": "yes"})
    (address,) = offered(cast, listed).values()
    assert address == f"{listed}?q=orders&sort=-name&without=perm"
    page = client.get(address).content.decode()
    assert re.findall(r'class="name"[^>]*>([\w-]+)<', page) == ["orders-old", "orders"]
    assert 'data-label="Queues"' in page
    assert 'data-label="Mode"' not in page
    assert re.search(r'aria-current="true"><span class="text-break">Orders, last first', page)
    # Columns chosen now count, and the address does not say others.
    answer = client.post(reverse("columns"), {"list": TOPICS, "column": ["perm"], "shown": ["perm"], "next": address})
    assert answer["Location"] == f"{listed}?q=orders&sort=-name"


def test_the_list_opens_with_the_default_until_all_of_it_is_asked_for(cast: Cast, listed: str) -> None:
    client = cast.client("alice")
    assert client.get(listed).status_code == 200
    keep(cast, f"{listed}?q=pay", "Payments", default="1")
    answer = client.get(listed)
    assert (answer.status_code, answer["Location"]) == (302, f"{listed}?q=pay&without=")
    assert client.get(listed, headers={"HX-Request": "true"}).status_code == 200
    page = client.get(f"{listed}?view=all").content.decode()
    assert "orders-old" in page
    keep(cast, f"{listed}?q=orders", "Orders", default="1")
    assert list(SavedView.objects.filter(is_default=True).values_list("name", flat=True)) == ["Orders"]


def test_a_view_that_finds_nothing_can_be_left(cast: Cast, listed: str) -> None:
    page = cast.client("alice").get(f"{listed}?q=nothing-like-it").content.decode()
    assert f'href="{listed}?view=all"' in page


def test_each_person_has_its_own_and_gets_what_is_shared_in_the_account(cast: Cast, listed: str) -> None:
    keep(cast, f"{listed}?q=orders", "Mine")
    keep(cast, f"{listed}?q=pay", "<b>Ours</b>", shared="1")
    assert set(offered(cast, listed)) == {"Mine", "<b>Ours</b>"}
    assert offered(cast, listed, "rita") == {"<b>Ours</b>": f"{listed}?q=pay&without="}
    assert "<b>Ours" not in cast.client("rita").get(listed).content.decode()
    theirs = reverse("topics.list", args=[cast.charlies.instance_id])
    make_topic(cast.charlie, cast.charlies, "secret")
    assert offered(cast, theirs, "charlie") == {}


def test_views_are_renamed_made_the_default_and_deleted_by_who_keeps_them(cast: Cast, listed: str) -> None:
    keep(cast, f"{listed}?q=orders", "Orders")
    keep(cast, f"{listed}?q=pay", "Payments")
    view = SavedView.objects.get(name="Orders")
    url = reverse("accounts.saved_view_change", args=[TOPICS, view.pk])
    for stranger in ("bob", "charlie"):
        assert cast.client(stranger).post(url, {"name": "x"}).status_code == 404
    client = cast.client("alice")
    client.post(url, {"name": "  All   orders ", "default": "1", "next": listed})
    view.refresh_from_db()
    assert (view.name, view.is_default, view.shared) == ("All orders", True, False)
    answer = client.post(url, {"name": "Payments", "next": listed}, follow=True)
    assert "You have a view Payments of this list already." in answer.content.decode()
    page = client.get(reverse("accounts.saved_views", args=[TOPICS]), {"next": "//evil.example/"}).content.decode()
    assert 'value="All orders"' in page
    assert 'href="//evil' not in page
    # Browsers take tabs and ends of lines out of an address: this one is //evil.example/ to them.
    for disguised in ("/\t//evil.example/", "/\n//evil.example/", "/\\\t/evil.example/"):
        page = client.get(reverse("accounts.saved_views", args=[TOPICS]), {"next": disguised}).content.decode()
        assert "evil.example" not in page, disguised
    client.post(url, {"delete": "1"})
    assert set(offered(cast, listed)) == {"Payments"}
    kinds = Entry.objects.filter(action__startswith="accounts.view.").values_list("action", flat=True)
    assert set(kinds) == {"accounts.view.create", "accounts.view.update", "accounts.view.delete"}


def test_there_are_so_many_a_list_and_one_of_a_name_is_replaced(cast: Cast, listed: str) -> None:
    for number in range(saved_views.MOST):
        keep(cast, listed, f"View {number}")
    answer = cast.client("alice").get(keep(cast, listed, "One more") + "?view=all")
    assert f"You keep {saved_views.MOST} views of this list" in answer.content.decode()
    keep(cast, f"{listed}?q=new", "View 1")
    assert SavedView.objects.filter(user=cast.alice).count() == saved_views.MOST
    assert SavedView.objects.get(name="View 1").query == "q=new&without="


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": " "}, "1 to 60 printable"), ({"name": "x" * 61}, "1 to 60 printable"),
        ({"name": "a\x00b"}, "printable"), ({"list_name": "../etc"}, "no such list"),
        ({"list_name": "topics_NoSuchTable"}, "no such list"),
        ({"query": "q=" + "x" * 2000}, "2,000 characters"),
    ],
)  # fmt: skip
def test_what_is_no_view_is_refused(cast: Cast, wrong: dict[str, str], said: str) -> None:
    given = {"name": "n", "list_name": TOPICS, "query": ""} | wrong
    with pytest.raises(Refused, match=said):
        saved_views.keep(actor=cast.actor("alice"), is_default=False, share=False, **given)


def test_lists_with_filters_of_their_own_have_views_too(cast: Cast) -> None:
    client = cast.client("alice")
    pages = [reverse(name) for name in ("instances.list", "accounts.users", "audit.list")]
    for page in pages:
        assert 'class="dropdown list-views"' in client.get(page).content.decode(), page
    audit = reverse("audit.list")
    keep(cast, f"{audit}?q=deleted&result=denied", "Refused", columns="", list="audit_EntryTable", default="1")
    assert client.get(audit)["Location"] == f"{audit}?q=deleted&result=denied"


def test_an_address_of_many_fields_is_a_list_like_any_other(cast: Cast, listed: str) -> None:
    many = "&".join(f"a{number}=1" for number in range(150))
    assert cast.client("alice").get(f"{listed}?{many}").status_code == 200
    keep(cast, f"{listed}?q=orders&{many}", "Many")
    assert "q=orders" in SavedView.objects.get(name="Many").query


def test_a_view_that_is_shared_leads_to_a_list(cast: Cast, listed: str) -> None:
    keep(cast, f"{listed}?q=a%00b&sort=-name", "Ours", shared="1")
    address = offered(cast, listed, "rita")["Ours"]
    assert address == f"{listed}?sort=-name&without="
    assert cast.client("rita").get(address).status_code == 200
