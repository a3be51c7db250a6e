"""The pages: names that no account has, three steps to an account, a run, rules, and who may see any of it."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from brokercore.client import TopicConfig
from console.accounts.models import Organization, Tenant, TenantLimits
from console.adoption import rules, services, worker
from console.adoption.models import Kind, Rule, Run
from console.adoption.unowned import differing, on_cluster, unowned
from console.instances import broker as clients
from console.instances.models import Instance
from console.topics.as_is import topic_settings
from console.topics.models import Group, Topic
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_instance, make_topic, on_broker

ODD = "walk|100%_odd"


def _text(client: Client, name: str, *arguments: Any, status: int = 200, **query: str) -> str:
    answer = client.get(reverse(name, args=arguments), query)
    assert answer.status_code == status
    return html.unescape(answer.content.decode())


def test_names_are_chosen_given_to_a_new_account_and_forgotten_again(cast: Cast) -> None:
    admin, petra, pk = clients.admin(cast.cluster), cast.client("petra"), cast.cluster.pk
    for name in (ODD, "walk-payments", "walk-test"):
        admin.topics.create(name)
    admin.groups.create("walk-service")
    before = on_broker(cast.cluster)
    page = _text(petra, "adoption.unowned", pk, include="walk*", exclude="*test")
    assert ODD in page and "walk-service" in page and "walk-test" not in page
    assert "Queues" in _text(petra, "adoption.detail", pk, "topic", ODD)
    assert "consumed nothing so far" in _text(petra, "adoption.detail", pk, "group", "walk-service")
    chosen = {"include": "walk*", "exclude": "*test", "kind": ""}
    adopt = reverse("adoption.adopt", args=[pk])
    assert "Step 2 of 3" in petra.post(adopt, chosen).content.decode()
    target = {
        "account": "+",
        "new_account": "team",
        "organization": str(Organization.objects.get().pk),
        "instance_name": "ours",
    }
    preview = html.unescape(petra.post(adopt, chosen | target | {"step": "preview"}).content.decode())
    assert "Step 3 of 3" in preview and ODD in preview
    assert not Tenant.objects.filter(name="team").exists()
    done = petra.post(adopt, chosen | target | {"step": "apply"}).content.decode()
    assert "admin@team" in done and "shown this once" in done
    run = Run.objects.get()
    worker.work(run.pk)
    instance = Instance.objects.get(tenant__name="team", independent_naming=False)
    assert set(instance.topics.values_list("name", flat=True)) == {ODD, "walk-payments"}
    assert "3</span> of" in _text(petra, "adoption.run", run.pk)
    assert ODD not in _text(petra, "adoption.unowned", pk, include="walk*")
    petra.post(reverse("adoption.undo", args=[run.pk]))
    worker.work(Run.objects.latest("pk").pk)
    assert not instance.topics.exists() and not instance.groups.exists()
    assert on_broker(cast.cluster) == before


def test_a_rules_page_shows_what_it_took_and_its_conflicts(cast: Cast) -> None:
    petra, pk = cast.client("petra"), cast.cluster.pk
    clients.admin(cast.cluster).topics.create("page-payments")
    for account, pattern in (("acme", "page-*"), ("umbrella", "page-pay*")):
        answer = petra.post(reverse("adoption.rules", args=[pk]), {"include": pattern, "account": account})
        assert answer.status_code == 302
    rules.apply(cast.cluster)
    wide, close = Rule.objects.order_by("pk")
    assert "page-payments" in _text(petra, "adoption.rule", close.pk) and "Conflicts" in _text(
        petra, "adoption.rule", wide.pk
    )
    refused = petra.post(reverse("adoption.rules", args=[pk]), {"include": "a[b]", "account": "acme"})
    assert refused.status_code == 422 and "is no pattern" in html.unescape(refused.content.decode())
    petra.post(reverse("adoption.rule_delete", args=[close.pk]))
    assert Rule.objects.count() == 1 and Topic.objects.filter(name="page-payments").exists()


@pytest.mark.parametrize("name", ["index", "unowned", "rules", "runs"])
def test_accounts_see_nothing_of_it_unless_they_may_adopt(cast: Cast, name: str) -> None:
    arguments = [] if name == "index" else [cast.cluster.pk]
    for who in ("alice", "bob"):
        _text(cast.client(who), f"adoption.{name}", *arguments, status=403)
    assert "Unowned names" not in _text(cast.client("alice"), "instances.overview")
    Tenant.objects.filter(name="acme").update(may_adopt=True)
    _text(cast.client("alice"), f"adoption.{name}", *arguments, status=302 if name == "index" else 200)
    assert "Unowned names" in _text(cast.client("alice"), "instances.overview")
    _text(cast.client("bob"), f"adoption.{name}", *arguments, status=403)


def test_an_account_that_may_adopt_has_names_for_itself_alone(cast: Cast) -> None:
    Tenant.objects.filter(name="acme").update(may_adopt=True)
    clients.admin(cast.cluster).topics.create("self-service")
    alice, adopt = cast.client("alice"), reverse("adoption.adopt", args=[cast.cluster.pk])
    for account in ("umbrella", "+"):
        given = {"name": "topic:self-service", "step": "apply", "account": account, "new_account": "x1"}
        assert alice.post(adopt, given).status_code == 422
    assert alice.post(adopt, {"name": "topic:self-service", "step": "apply", "account": "acme"}).status_code == 302
    worker.work(Run.objects.get().pk)
    assert Topic.objects.get(name="self-service").instance.tenant == cast.acme
    _text(cast.client("charlie"), "adoption.run", Run.objects.get().pk, status=403)


def test_deletion_is_offered_on_the_page_of_a_name_and_wants_it_typed(cast: Cast) -> None:
    clients.admin(cast.cluster).topics.create("to-delete")
    petra, delete = cast.client("petra"), reverse("adoption.delete", args=[cast.cluster.pk, "topic", "to-delete"])
    assert "Delete" not in _text(petra, "adoption.unowned", cast.cluster.pk, include="to-delete")
    assert petra.post(delete, {"name": "wrong"}).status_code == 422
    assert "to-delete" in on_broker(cast.cluster)
    assert petra.post(delete, {"name": "to-delete"}).status_code == 302
    assert "to-delete" not in on_broker(cast.cluster)


def test_drift_names_nothing_that_no_account_has_and_leads_here(cast: Cast) -> None:
    clients.admin(cast.cluster).topics.create("not-drift")
    page = _text(cast.client("petra"), "drift.index")
    assert "not-drift" not in page and reverse("adoption.index") in page


def test_adopted_names_open_on_every_page(cast: Cast) -> None:
    admin = clients.admin(cast.cluster)
    group = "order|service%1"
    admin.topics.create(ODD)
    admin.groups.create(group)
    Tenant.objects.filter(name="acme").update(may_adopt=True)
    given = {"name": [f"topic:{ODD}", f"group:{group}"], "step": "apply", "account": "acme"}
    alice = cast.client("alice")
    alice.post(reverse("adoption.adopt", args=[cast.cluster.pk]), given)
    worker.work(Run.objects.get().pk)
    instance = Topic.objects.get(name=ODD).instance.instance_id
    for page in ("topics.detail", "topics.live", "messaging.publish", "metrics.topic", "grants.topic", "topics.delete"):
        assert ODD in _text(alice, page, instance, ODD) or page == "topics.live"
    for page in ("messaging.status", "groups.detail", "messaging.reset", "messaging.dead_letters", "metrics.group"):
        assert group in _text(alice, page, instance, group)
    assert ODD in _text(alice, "topics.list", instance) and group in _text(alice, "groups.list", instance)
    sent = alice.post(reverse("messaging.publish", args=[instance, ODD]), {"body": "hello", "key": "k1"})
    assert sent.status_code == 200 and "alert-success" in sent.content.decode()
    assert Group.objects.get().group_id == group


def test_an_outage_is_no_empty_list(cast: Cast, monkeypatch: pytest.MonkeyPatch, broker: BrokerProcess) -> None:
    from brokercore.client.errors import ClientError
    from console.adoption import unowned

    def away(cluster: object) -> None:
        raise ClientError("No connection to the broker.")

    monkeypatch.setattr(unowned, "on_cluster", away)
    page = _text(cast.client("petra"), "adoption.unowned", cast.cluster.pk)
    assert "does not answer" in page and "Every name has an account" not in page


def test_single_names_are_forgotten_and_what_fits_a_pattern(cast: Cast) -> None:
    admin, petra, pk = clients.admin(cast.cluster), cast.client("petra"), cast.cluster.pk
    ours = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    theirs = make_instance(cast.charlie, cast.cluster, name="bare", independent_naming=False)
    for name in (ODD, "let-go-1", "let-go-2"):
        admin.topics.create(name)
    admin.groups.create("let-go-1")
    make_topic(cast.alice, ours, "made-here")
    wanted = (ODD, "let-go-1")
    for instance, names in ((ours, wanted), (theirs, ("let-go-2",))):
        chosen = [one for one in unowned(cast.cluster) if one.name in names]
        worker.work(services.adopt(actor=cast.actor("petra"), instance=instance, names=chosen).pk)
    before = on_broker(cast.cluster)
    page = _text(petra, "adoption.adopted", pk)
    assert ODD in page and "let-go-2" in page and "umbrella" in page and "made-here" not in page
    forget = reverse("adoption.forget", args=[pk])
    assert petra.post(forget, {"listed": "1"}).status_code == 302
    asked = petra.post(forget, {"listed": "1", "name": ["topic:let-go-1"]}).content.decode()
    assert "Forget one name" in asked and not Run.objects.filter(purpose="forget").exists()
    petra.post(forget, {"confirmed": "1", "name": ["topic:let-go-1"]})
    worker.work(Run.objects.latest("pk").pk)
    assert not Topic.objects.filter(name="let-go-1").exists() and Group.objects.filter(group_id="let-go-1").exists()
    assert "let-go-1" in _text(petra, "adoption.unowned", pk, include="let-go-1")
    petra.post(forget, {"confirmed": "1", "include": "*", "exclude": "walk*"})
    for run in Run.objects.filter(purpose="forget", ended_at=None):
        worker.work(run.pk)
    assert set(Topic.objects.filter(adopted=True).values_list("name", flat=True)) == {ODD}
    assert Topic.objects.filter(name="made-here").exists() and on_broker(cast.cluster) == before


def test_an_account_that_may_adopt_forgets_its_own_names_alone(cast: Cast) -> None:
    theirs = make_instance(cast.charlie, cast.cluster, name="bare", independent_naming=False)
    clients.admin(cast.cluster).topics.create("charlies-name")
    names = [one for one in unowned(cast.cluster) if one.name == "charlies-name"]
    worker.work(services.adopt(actor=cast.actor("petra"), instance=theirs, names=names).pk)
    Tenant.objects.filter(name="acme").update(may_adopt=True)
    alice = cast.client("alice")
    assert "charlies-name" not in _text(alice, "adoption.adopted", cast.cluster.pk)
    alice.post(reverse("adoption.forget", args=[cast.cluster.pk]), {"confirmed": "1", "name": ["topic:charlies-name"]})
    assert Topic.objects.filter(name="charlies-name").exists() and Run.objects.count() == 1


def test_the_last_step_says_what_is_too_much_and_where_brokers_differ(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("wide-1", "wide-2"):
        clients.admin(cast.cluster).topics.create(name, queues=3)
    TenantLimits.objects.create(tenant=cast.acme, topics=1)
    there = on_cluster(cast.cluster)
    told = {Kind.TOPIC: {"wide-1": "queues: 3 on broker-a, 4 on broker-b"}, Kind.GROUP: {}}
    monkeypatch.setattr("console.adoption.unowned.on_cluster", lambda cluster: replace(there, differing=told))
    given = {"include": "wide-*", "account": "acme", "instance_name": "ours"}
    adopt, petra = reverse("adoption.adopt", args=[cast.cluster.pk]), cast.client("petra")
    page = html.unescape(petra.post(adopt, given | {"step": "preview"}).content.decode())
    assert "The account acme may have 1 topics and has 0: 2 more are 1 too many." in page
    assert "Brokers differ" in page and "queues: 3 on broker-a, 4 on broker-b" in page
    refused = petra.post(adopt, given | {"step": "apply"})
    assert refused.status_code == 422 and "1 too many" in refused.content.decode()
    assert not Run.objects.exists()


def test_settings_in_which_brokers_differ_are_named(cast: Cast) -> None:
    one, other = TopicConfig("x", write_queues=8), TopicConfig("x", write_queues=4, perm=4)
    told = differing({"b": {"x": other}, "a": {"x": one, "y": one}, "c": {"x": one}}, topic_settings)
    assert told == {
        "x": "queues: 8 on a, 4 on b, 8 on c; mode: read and write on a, read only on b, read and write on c"
    }
    assert differing({"a": {"x": one}}, topic_settings) == {}
