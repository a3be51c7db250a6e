"""A copy on a cluster of Apache RocketMQ: `GANTRY_NAMESRV=… make up` starts no broker, and the console works on theirs.

test_2_walk.py and test_3_sql.py walk through everything on such a copy with `GANTRY_TEST_BROKER=apache`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from brokercore.client import Admin, ConsumeResult, Credentials, Message, Producer, PushConsumer
from brokercore.client.errors import NoPermission
from tests.e2e.cluster import cluster_environment, cluster_of
from tests.e2e.conftest import Visitor
from tests.e2e.test_3_sql import BY_CARRIER, Database, hint
from tests.support.apache import ApacheRocketMQ
from tests.support.product import Product, eventually, free_ports

TOPIC, GROUP = "cluster-orders", "GID_cluster"


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheRocketMQ]:
    cluster = cluster_of(tmp_path_factory.mktemp("apache"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def copy(apache: ApacheRocketMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A copy that was given two name servers, the first of which is not there."""
    environ = cluster_environment(apache)
    environ["GANTRY_NAMESRV"] = f"127.0.0.1:{free_ports(1)[0]};{apache.namesrv}"
    found = Product(tmp_path_factory.mktemp("gantry") / "home", environ=environ)
    try:
        yield found.start()
        found.stop()
    finally:
        if found.process is not None:
            found.process.kill()


@pytest.fixture(scope="module")
def demo(browser: Browser, copy: Product) -> Visitor:
    """The demo tenant's administrator."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, timezone_id="Europe/Berlin")
    visitor = Visitor(context.new_page(), copy)
    visitor.sign_in()
    return visitor


@pytest.fixture(scope="module")
def own(copy: Product) -> Credentials:
    """The AccessKey of demo.json, which became a user of the cluster."""
    return Credentials(copy.demo["access_key_id"], copy.demo["access_key_secret"])


def physical(copy: Product, name: str) -> str:
    return f"{copy.demo['instance_id']}%{name}"


def test_no_broker_is_started_and_the_cluster_is_in_sync(copy: Product, browser: Browser) -> None:
    assert not any(line.split()[-1:] == ["brokercore"] for line in copy.processes().values())
    page = Visitor(browser.new_context().new_page(), copy).page
    page.goto(f"{copy.demo['console']}/platform/clusters/1/")
    page.get_by_label("User name").fill(copy.demo["platform"]["username"])
    page.get_by_label("Password").fill(copy.demo["platform"]["password"])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="DefaultCluster", exact=True).wait_for()

    def synced() -> bool:
        page.goto(f"{copy.demo['console']}/platform/clusters/1/")
        row = page.get_by_role("row").filter(has_text=copy.demo["access_key_id"])
        return row.count() == 1 and "In sync" in row.inner_text()

    eventually(synced, seconds=60, every=1, what="the demo's key is on the cluster")
    expect(page.get_by_text("V5_3_3")).to_be_visible()
    page.context.close()


def test_a_topic_and_a_group_are_made_on_the_cluster(demo: Visitor, copy: Product, apache: ApacheRocketMQ) -> None:
    page = demo.go("~/create-topic/")
    page.get_by_label("Name").fill(TOPIC)
    page.get_by_label(re.compile("^Partitionally ordered")).check()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name=TOPIC, exact=True)).to_be_visible()
    page = demo.go("~/create-group/")
    page.get_by_label("Group ID").fill(GROUP)
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("link", name=GROUP, exact=True)).to_be_visible()
    with Admin(apache.namesrv, Credentials(apache.admin_key, apache.admin_secret)) as admin:
        assert admin.topics.config(physical(copy, TOPIC)).message_type == "FIFO"
        # Behind the console's back, for the comparison further down.
        admin.groups.create(physical(copy, GROUP), retry_max_times=3)


def test_a_message_is_published_found_by_id_and_by_key_and_opened(demo: Visitor) -> None:
    page = demo.go(f"~/topics/{TOPIC}/publish/")
    page.get_by_label("Body").fill("世界")
    page.get_by_label("Sharding key").fill("one")
    page.get_by_label("Key", exact=True).fill("cluster-key-1")
    page.get_by_role("button", name="Publish").click()
    message_id = page.locator("#publish .alert-success a").inner_text()
    for query in (f"by=id&message_id={message_id}", "by=key&key=cluster-key-1"):

        def found(query: str = query) -> bool:
            # The brokers index keys a moment after they acknowledge.
            demo.go(f"~/messages/?search=1&topic={TOPIC}&{query}")
            return page.get_by_role("link", name=message_id).count() > 0

        eventually(found, seconds=20, every=0.5, what=query)
    page.get_by_role("link", name=message_id).first.click()
    expect(page.get_by_role("heading", name="Message", exact=True)).to_be_visible()
    assert "世界" in page.get_by_role("main").inner_text()


def test_what_a_consumer_fails_on_is_a_dead_letter_that_can_be_sent_again(
    demo: Visitor, copy: Product, apache: ApacheRocketMQ, own: Credentials
) -> None:
    seen: list[str] = []
    with (
        # A letter dies at its first failure, so that nobody waits for sixteen.
        PushConsumer(apache.namesrv, own, physical(copy, GROUP), max_reconsume_times=0) as consumer,
        Producer(apache.namesrv, own, physical(copy, GROUP)) as producer,
    ):

        @consumer.on_message
        def fail(message: object) -> ConsumeResult:
            seen.append(str(message))
            return ConsumeResult.RECONSUME_LATER

        consumer.subscribe(physical(copy, "flights")).start()
        eventually(lambda: producer.send(Message(physical(copy, "flights"), b"lost")) and seen, seconds=30, every=1)
        page = demo.page

        def status() -> str:
            demo.go(f"~/groups/{GROUP}/")
            return (
                page.get_by_role("main").inner_text() if page.locator("#clients").get_by_text("PYTHON").count() else ""
            )

        assert "flights" in eventually(status, seconds=30, every=1, what="the consumer's status")

        def letters() -> int:
            demo.go(f"~/groups/{GROUP}/dead-letters/")
            return page.locator("input[name=letter]").count()

        eventually(letters, seconds=60, every=1, what="a dead letter")
    page.locator("input[name=letter]").first.check()
    page.get_by_role("button", name="Resend selected").click()
    page.get_by_role("dialog").get_by_role("button", name="Resend").click()
    expect(page.locator("#resent").get_by_text("resent", exact=True)).to_have_count(1)


def test_the_offset_of_a_group_is_reset(demo: Visitor) -> None:
    page = demo.go(f"~/groups/{GROUP}/reset/")
    page.get_by_label("Topic").fill("flights")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="Effect in flights")).to_be_visible()
    page.get_by_role("button", name="Reset the offset").click()
    expect(page.get_by_role("heading", name="Effect in flights")).to_be_hidden()


def test_async_sql_tells_its_end_on_a_topic_and_reads_messages(copy: Product) -> None:
    database = Database(copy)
    task = database.ended(database.submit(hint(copy) + BY_CARRIER), notified=True, seconds=180)
    assert (task["status"], task["mq_status"], task["mq_error_msg"] or "") == ("SUCCESS", "SUCCESS", "")
    told = f"/*+ run_async=true */ select * from mq.`{copy.demo['instance_id']}%query-done`"
    read = database.ended(database.submit(told), seconds=180)
    assert (read["status"], read["row_count"]) == ("SUCCESS", 1)
    database.connection.close()


def test_the_curves_are_drawn(demo: Visitor) -> None:
    def sampled() -> bool:
        demo.go("~/topics/flights/statistics/")
        return demo.page.locator("[data-chart]").count() > 0

    eventually(sampled, seconds=90, every=2, what="samples of the topic flights")
    expect(demo.page.locator("[data-chart] svg.main-svg").first).to_be_visible()


def test_only_what_was_changed_behind_the_consoles_back_is_drift(demo: Visitor) -> None:
    page = demo.go("/drift/")
    page.get_by_role("button", name="Check now").click()
    # The redeliveries of one group.
    expect(page.get_by_role("row").filter(has_text=GROUP)).to_have_count(1)
    expect(page.get_by_text("Missing on the broker")).to_have_count(0)


def test_a_disabled_key_is_refused_by_the_cluster_within_ten_seconds(
    demo: Visitor, copy: Product, apache: ApacheRocketMQ, own: Credentials
) -> None:
    def refused() -> bool:
        with Producer(apache.namesrv, own, physical(copy, GROUP)) as producer:
            try:
                producer.send(Message(physical(copy, "flights"), b"still?"))
            except NoPermission:
                return True
        return False

    assert not refused()
    demo.go("/keys/").get_by_role("button", name="Disable", exact=True).click()
    eventually(refused, seconds=10, every=0.5, what="the refusal of a disabled key")


def test_a_cluster_that_is_away_is_an_outage_and_no_empty_list(demo: Visitor, apache: ApacheRocketMQ) -> None:
    """The last one: it ends the cluster."""
    apache.stop()
    page = demo.go(f"~/messages/?search=1&topic={TOPIC}&by=key&key=cluster-key-1")
    expect(page.get_by_text("No connection to", exact=False).first).to_be_visible()
    page = demo.go(f"~/groups/{GROUP}/")
    expect(page.get_by_text("does not answer", exact=False).first).to_be_visible()
    assert not any("script error" in trouble for trouble in demo.troubles)
