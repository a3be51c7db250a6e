"""A team brings its Apache RocketMQ: `GANTRY_NAMESRV=… make up`, and its own topics, groups and backlog are there.

Nothing is made, changed or deleted on the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from brokercore.client import Admin, ConsumeResult, Credentials, Message, Producer, PushConsumer
from tests.e2e.cluster import cluster_environment, cluster_of
from tests.e2e.conftest import Visitor
from tests.support.apache import ApacheRocketMQ
from tests.support.product import Product, eventually

GROUP, SENT = "order-service", 7


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheRocketMQ]:
    """A cluster that was there before: two topics, and a group that has consumed some and given up on one."""
    cluster = cluster_of(tmp_path_factory.mktemp("apache"))
    key = Credentials(cluster.admin_key, cluster.admin_secret)
    seen: list[object] = []
    with Admin(cluster.namesrv, key) as admin:
        for topic in ("orders", "payments"):
            admin.topics.create(topic, queues=4)
        admin.groups.create(GROUP)
    with (
        Producer(cluster.namesrv, key, "team") as producer,
        PushConsumer(cluster.namesrv, key, GROUP, max_reconsume_times=0) as consumer,
    ):

        @consumer.on_message
        def handle(message: Any) -> ConsumeResult:
            seen.append(message)
            return ConsumeResult.RECONSUME_LATER if message.body == b"broken" else ConsumeResult.SUCCESS

        consumer.subscribe("orders").start()
        eventually(lambda: producer.send(Message("orders", b"first")) and seen, seconds=30, every=1)
        producer.send(Message("orders", b"broken"))
        eventually(lambda: any(one.body == b"broken" for one in seen), seconds=30)  # type: ignore[attr-defined]
    with Producer(cluster.namesrv, key, "team") as producer:
        for number in range(SENT):
            producer.send(Message("orders", b"order %d" % number))
    yield cluster
    cluster.stop()


def on_cluster(apache: ApacheRocketMQ) -> dict[str, Any]:
    """Everything that somebody could have made or changed."""
    with Admin(apache.namesrv, Credentials(apache.admin_key, apache.admin_secret)) as admin:
        found: dict[str, Any] = {"topics": admin.topics.configs(), "groups": admin.groups.configs()}
        for name, address in admin.brokers.addresses().items():
            found[f"settings of {name}"] = admin.brokers.config(name.partition("/")[0])
            found[f"users of {name}"] = admin.acl.users(address)
            found[f"lists of {name}"] = admin.acl.lists(address)
        return found


@pytest.fixture(scope="module")
def before(apache: ApacheRocketMQ) -> dict[str, Any]:
    return on_cluster(apache)


@pytest.fixture(scope="module")
def team(
    apache: ApacheRocketMQ, before: dict[str, Any], browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Visitor]:
    """Who did what the README says."""
    environ = cluster_environment(apache)
    del environ["GANTRY_DEMO_DATA"]
    copy = Product(tmp_path_factory.mktemp("gantry") / "home", environ=environ)
    try:
        copy.start(seconds=420)
        visitor = Visitor(browser.new_context(viewport={"width": 1280, "height": 900}).new_page(), copy)
        visitor.sign_in()
        yield visitor
        copy.stop()
    finally:
        if copy.process is not None:
            copy.process.kill()


def test_the_lag_of_their_own_group_stands_on_the_first_page(team: Visitor) -> None:
    page = team.page
    assert team.product.demo["username"] == "admin@admin"
    expect(page.get_by_role("main")).not_to_contain_text("flights")
    # It fills by itself: nobody clicks.
    row = page.locator("#backlogs").get_by_role("row").filter(has_text=GROUP)
    expect(row.get_by_role("cell", name=str(SENT), exact=True)).to_be_visible()
    team.shoot("own-overview")
    row.get_by_role("link", name=GROUP, exact=True).click()
    expect(page.get_by_role("heading", name=GROUP, exact=True)).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("orders")
    team.shoot("own-group")


def test_their_messages_are_found_and_a_dead_letter_is_sent_again(team: Visitor) -> None:
    page = team.go("~/messages/")
    page.get_by_label("Topic").fill("orders")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#search table tbody tr").first).to_be_visible()
    page = team.go(f"~/groups/{GROUP}/dead-letters/")
    expect(page.locator("input[name=letter]")).to_have_count(1)
    team.shoot("own-dead-letters")
    page.locator("input[name=letter]").check()
    page.get_by_role("button", name="Resend selected").click()
    page.get_by_role("dialog").get_by_role("button", name="Resend").click()
    expect(page.locator("#resent").get_by_text("resent", exact=True)).to_have_count(1)


def test_what_nobody_has_is_no_drift_and_what_comes_later_is_theirs(team: Visitor, apache: ApacheRocketMQ) -> None:
    page = team.go("/drift/")
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    with Admin(apache.namesrv, Credentials(apache.admin_key, apache.admin_secret)) as admin:
        admin.topics.create("later", queues=4)

    def is_there() -> bool:
        team.go("~/topics/")
        return page.get_by_role("link", name="later", exact=True).count() == 1

    eventually(is_there, seconds=120, every=2, what="a topic that was made later")
    with Admin(apache.namesrv, Credentials(apache.admin_key, apache.admin_secret)) as admin:
        admin.topics.delete("later")


def test_nothing_was_made_or_changed_on_the_cluster(
    team: Visitor, apache: ApacheRocketMQ, before: dict[str, Any]
) -> None:
    for path in ("/", "/instances/", "~/topics/", "~/groups/", "~/statistics/", "/sql/", "/platform/", "/queues/"):
        team.go(path)
    after = on_cluster(apache)
    for kind, known in before.items():
        for name in {*known} | {*after[kind]}:
            assert after[kind].get(name) == known.get(name), (kind, name)
    assert not any("script error" in trouble for trouble in team.troubles)
