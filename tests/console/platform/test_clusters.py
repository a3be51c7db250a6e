"""Platform, Clusters: added, tried, changed and removed by the platform's administrator, without touching a broker."""

from __future__ import annotations

import re
import secrets
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.core.management.base import CommandError
from django.urls import reverse

from brokercore.client import Admin, Credentials
from console.audit.models import Entry
from console.cluster import trial
from console.cluster.trial import Outcome
from console.instances import broker as clients
from console.instances.addresses import access_point
from console.instances.models import AccessControl, Cluster
from console.instances.queries import clusters
from console.metrics import sampler
from console.metrics.store import Store
from console.topics.models import Topic
from tests.console.beside import OTHER_KEY, OTHER_SECRET, other, other_broker
from tests.console.openapi.caller import Caller
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_group, make_instance, make_topic, on_broker

__all__ = ["other", "other_broker"]
pytestmark = pytest.mark.django_db(transaction=True)


def words(page: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", page).split())


def form(other_broker: BrokerProcess, **changed: str) -> dict[str, str]:
    return {
        "name": "theirs",
        "namesrv": other_broker.namesrv,
        "access_key_id": OTHER_KEY,
        "access_key_secret": OTHER_SECRET,
        "access_control": "none",
    } | changed


def outcomes(steps: list[trial.Step]) -> list[tuple[str, str]]:
    return [(str(step.outcome), step.text) for step in steps]


def test_a_cluster_is_added_tried_shown_changed_and_removed(cast: Cast, other_broker: BrokerProcess) -> None:
    petra = cast.client("petra")
    before = _configs(other_broker)
    tried = petra.post(reverse("platform.cluster_add"), form(other_broker, **{"try": "true"})).content.decode()
    assert f"The name server {other_broker.namesrv} answers." in words(tried)
    assert not Cluster.objects.filter(name="theirs").exists()
    answer = petra.post(reverse("platform.cluster_add"), form(other_broker))
    made = Cluster.objects.get(name="theirs")
    assert (answer.status_code, answer["Location"]) == (302, reverse("platform.cluster", args=[made.pk]))
    assert OTHER_SECRET not in made.secret_encrypted
    detail = petra.get(reverse("platform.cluster", args=[made.pk])).content.decode()
    assert "broker-a" in detail and other_broker.namesrv in detail and OTHER_KEY in detail
    row = words(petra.get(reverse("platform.cluster_health", args=[made.pk])).content.decode())
    assert "answers" in row and "broker-a" in row
    pages = [detail, petra.get(reverse("platform.cluster_edit", args=[made.pk])).content.decode(), tried]
    assert not any(OTHER_SECRET in page or made.secret_encrypted in page for page in pages)
    changed = form(other_broker, access_key_secret="", read_only="on", proxy="mq.example.com:8081")
    assert petra.post(reverse("platform.cluster_edit", args=[made.pk]), changed).status_code == 302
    made.refresh_from_db()
    assert (made.read_only, made.proxy) == (True, "mq.example.com:8081")
    assert clients.admin(made).brokers.masters()  # the secret is still there
    removed = petra.post(reverse("platform.cluster_remove", args=[made.pk]), {"name": "theirs"})
    assert (removed.status_code, Cluster.objects.filter(pk=made.pk).exists()) == (302, False)
    acts = [entry.action for entry in Entry.objects.filter(action__startswith="platform.cluster.").order_by("pk")]
    assert acts == ["platform.cluster.create", "platform.cluster.update", "platform.cluster.delete"]
    assert not any(OTHER_SECRET in str(entry.detail) for entry in Entry.objects.all())
    assert _configs(other_broker) == before


def _configs(other_broker: BrokerProcess) -> dict[str, Any]:
    with Admin(other_broker.namesrv, Credentials(OTHER_KEY, OTHER_SECRET)) as admin:
        return {**admin.topics.configs(), **admin.groups.configs()}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "9lives"}, "A name begins with a letter"),
        ({"name": "DefaultCluster"}, "is the name of the first cluster"),
        ({"namesrv": "mq.example.com"}, "A name server is host:port"),
        ({"namesrv": "mq:0"}, "A name server is host:port"),
        ({"namesrv": ";"}, "several separated by ;"),
        ({"access_key_secret": ""}, "Write the secret"),
        ({"access_key_id": ""}, "Write the AccessKey that this secret belongs to"),
        ({"tls": "on", "authority": "not PEM"}, "This is no certificate in PEM"),
        ({"authority": "-----BEGIN"}, "of use with TLS only"),
        ({"tls": "on", "certificate": "-----BEGIN"}, "Write the private key"),
        ({"tls": "on", "certificate": "-----BEGIN", "key": "-----BEGIN"}, "do not belong together"),
        ({"proxy": "nowhere"}, "The proxy is host:port"),
        ({"access_control": "magic"}, "Select a valid choice"),
    ],
)
def test_what_makes_no_sense_is_told_beside_its_field(
    cast: Cast, other_broker: BrokerProcess, changed: dict[str, str], said: str
) -> None:
    answer = cast.client("petra").post(reverse("platform.cluster_add"), form(other_broker, **changed))
    assert answer.status_code == 422
    assert said in words(answer.content.decode())
    assert Cluster.objects.count() == 1


def test_two_clusters_share_no_name_and_no_name_server(cast: Cast, other: Cluster, other_broker: BrokerProcess) -> None:
    petra, add = cast.client("petra"), reverse("platform.cluster_add")
    assert "name server of the cluster other" in words(petra.post(add, form(other_broker)).content.decode())
    taken = petra.post(add, form(other_broker, name="other", namesrv="10.0.0.5:9876"))
    assert "There is already a cluster other." in words(taken.content.decode())


def test_a_cluster_with_instances_stays_and_tells_whose(cast: Cast, other: Cluster) -> None:
    make_instance(cast.charlie, other, name="theirs")
    remove = reverse("platform.cluster_remove", args=[other.pk])
    answer = cast.client("petra").post(remove, {"name": "other"})
    assert answer.status_code == 422
    assert "has instances: theirs of umbrella." in words(answer.content.decode())
    first = cast.client("petra").post(
        reverse("platform.cluster_remove", args=[cast.cluster.pk]), {"name": "DefaultCluster"}
    )
    assert "cannot be removed: it is the embedded one." in words(first.content.decode())
    assert Cluster.objects.count() == 2


def test_what_was_sampled_goes_with_its_cluster(cast: Cast, other: Cluster) -> None:
    assert sampler.sample_cluster(other)
    assert Store("other").latest() is not None
    cast.client("petra").post(reverse("platform.cluster_remove", args=[other.pk]), {"name": "other"})
    assert Store("other").latest() is None


def test_a_trial_tells_each_step(cast: Cast, other: Cluster) -> None:
    told = outcomes(trial.tried(other))
    assert told[:2] == [
        ("fine", f"The name server {other.namesrv} answers."),
        ("fine", "The name servers know 1 broker: broker-a."),
    ]
    assert told[2][0] == "fine" and told[2][1].startswith("broker-a at ") and "answers, with version" in told[2][1]
    assert ("fine", "The account may read routes and settings.") in told
    assert any(outcome == "open" and "make and change topics was not tried" in text for outcome, text in told)


def test_a_trial_of_the_embedded_cluster_is_fine_throughout(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance, f"tried-{secrets.token_hex(4)}")
    told = trial.tried(cast.cluster)
    assert {step.outcome for step in told} == {Outcome.FINE}, told
    assert "The account may search messages." in [step.text for step in told]


def test_a_trial_tells_what_does_not_answer_and_what_is_refused(cast: Cast, other: Cluster) -> None:
    away = Cluster(name="away", namesrv="127.0.0.1:1")
    ((outcome, text),) = outcomes(trial.tried(away))
    assert outcome == "failed" and text.startswith("The name server 127.0.0.1:1 does not answer: ")
    half = Cluster.objects.get(pk=other.pk)
    half.namesrv = f"127.0.0.1:1;{half.namesrv}"
    told = outcomes(trial.tried(half))
    assert [outcome for outcome, _ in told[:3]] == ["failed", "fine", "fine"]
    other.access_key_id = "nobody"
    refused = outcomes(trial.tried(other))
    assert refused[-1][0] == "failed"
    assert "refuses the account" in refused[-1][1] or "does not answer" in refused[-1][1]


def test_a_secret_of_another_master_key_is_an_outage_that_says_so(cast: Cast, other: Cluster) -> None:
    other.secret_encrypted = Fernet(Fernet.generate_key()).encrypt(b"secret").decode()
    other.save()
    page = cast.client("petra").get(reverse("platform.cluster", args=[other.pk])).content.decode()
    assert "was stored with another GANTRY_MASTER_KEY" in page
    assert "was stored with another GANTRY_MASTER_KEY" in trial.tried(other)[0].text


def test_the_engine_may_reach_the_addresses_of_clusters_that_were_added(cast: Cast, other: Cluster) -> None:
    brokers = clients.admin(other).brokers.addresses().values()
    Cluster.objects.create(name="away", region=cast.cluster.region, namesrv="127.0.0.1:1;mq.example.com:9876")
    assert clients.added_addresses() == {other.namesrv, *brokers, "127.0.0.1:1", "mq.example.com:9876"}


def test_a_trial_changes_nothing(cast: Cast, other: Cluster) -> None:
    before = on_broker(other)
    trial.tried(other)
    assert on_broker(other) == before


def test_a_cluster_that_is_away_keeps_no_other_from_being_shown(cast: Cast, other: Cluster) -> None:
    Cluster.objects.create(name="away", region=cast.cluster.region, namesrv="127.0.0.1:1")
    petra = cast.client("petra")
    page = petra.get(reverse("platform.clusters")).content.decode()
    assert all(name in page for name in ("DefaultCluster", "other", "away"))
    shown = {
        one.name: words(petra.get(reverse("platform.cluster_health", args=[one.pk])).content.decode())
        for one in clusters(cast.cluster.region)
    }
    assert "does not answer" in shown["away"]
    assert "does not answer" not in shown["other"] + shown["DefaultCluster"]
    away = petra.get(reverse("platform.cluster", args=[Cluster.objects.get(name="away").pk]))
    assert (away.status_code, "The cluster away does not answer" in away.content.decode()) == (200, True)


def test_an_account_sees_the_clusters_that_it_is_on(cast: Cast, other: Cluster) -> None:
    storage = reverse("instances.overview_storage")
    assert "other" not in words(cast.client("alice").get(storage).content.decode())
    make_instance(cast.alice, other, name="there")
    assert "other" in words(cast.client("alice").get(storage).content.decode())


def test_clients_are_told_where_their_cluster_is(cast: Cast, other: Cluster) -> None:
    servers = "mq.example.com:9877;mq2.example.com:9876"
    Cluster.objects.filter(pk=other.pk).update(namesrv=servers, proxy="mq.example.com:8081")
    there = make_instance(cast.alice, other, name="there")
    there.refresh_from_db()
    assert access_point(there) == f"http://{there.instance_id}.mq.example.com:9877"
    page = cast.client("alice").get(reverse("instances.client", args=[there.instance_id])).content.decode()
    assert servers in page and "mq.example.com:8081" in page


def test_a_client_certificate_is_kept_encrypted_and_belongs_to_its_key(
    cast: Cast, other_broker: BrokerProcess, tmp_path: Path
) -> None:
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=gantry"]
    for name in ("one", "two"):
        out = ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.crt")]
        subprocess.run([*made, *out], check=True, capture_output=True)
    key, certificate = (tmp_path / "one.key").read_text(), (tmp_path / "one.crt").read_text()
    given = form(other_broker, tls="on", authority=certificate, certificate=certificate)
    petra, add = cast.client("petra"), reverse("platform.cluster_add")
    other_key = (tmp_path / "two.key").read_text()
    assert "do not belong together" in words(petra.post(add, given | {"key": other_key}).content.decode())
    assert petra.post(add, given | {"key": key}).status_code == 302
    cluster = Cluster.objects.get(name="theirs")
    assert clients.tls_of(cluster) is not None
    assert "PRIVATE" not in cluster.key_encrypted
    page = petra.get(reverse("platform.cluster_edit", args=[cluster.pk])).content.decode()
    assert "PRIVATE" not in page and cluster.key_encrypted not in page


def test_the_first_cluster_keeps_what_the_settings_say(cast: Cast) -> None:
    edit = reverse("platform.cluster_edit", args=[cast.cluster.pk])
    page = cast.client("petra").get(edit).content.decode()
    assert 'name="namesrv"' not in page and 'name="access_control"' not in page
    given = {"namesrv": "10.9.9.9:9876", "access_key_id": "x", "read_only": "on", "access_control": "acl2"}
    assert cast.client("petra").post(edit, given).status_code == 302
    before = cast.cluster.namesrv
    cast.cluster.refresh_from_db()
    assert (cast.cluster.namesrv, cast.cluster.access_key_id, cast.cluster.read_only) == (before, "", True)
    assert cast.cluster.access_control == AccessControl.AUTOMATIC


def test_pages_of_a_read_only_cluster_show_everything_and_offer_no_change(cast: Cast, other: Cluster) -> None:
    name = f"kept-{secrets.token_hex(4)}"
    there = make_instance(cast.alice, other, name="there", independent_naming=False)
    make_topic(cast.alice, there, name)
    make_group(cast.alice, there, f"GID_{name}")
    alice, number = cast.client("alice"), there.instance_id
    of_topic, of_group = [number, name], [number, f"GID_{name}"]
    offered = {
        reverse("topics.list", args=[number]): reverse("topics.create", args=[number]),
        reverse("topics.detail", args=of_topic): reverse("topics.delete", args=of_topic),
        reverse("metrics.topic", args=of_topic): reverse("messaging.publish", args=of_topic),
        reverse("groups.list", args=[number]): reverse("groups.create", args=[number]),
        reverse("groups.detail", args=of_group): reverse("groups.delete", args=of_group),
        reverse("messaging.status", args=of_group): reverse("messaging.reset", args=of_group),
    }
    for read_only in (False, True):
        Cluster.objects.filter(pk=other.pk).update(read_only=read_only)
        for page, change in offered.items():
            text = alice.get(page).content.decode()
            assert (f'href="{change}"' in text) is not read_only, (page, read_only)
            assert ("The cluster other is read-only" in text) is read_only, page
    given = {"name": f"{name}-2", "order_type": "0"}
    refused = alice.post(reverse("topics.create", args=[number]), given)
    assert (refused.status_code, "The cluster other is read-only" in refused.content.decode()) == (422, True)
    mode = alice.post(reverse("topics.mode", args=of_topic), {"perm": "4"})
    assert "The cluster other is read-only" in mode.content.decode()
    assert Topic.objects.get(physical_name=name).perm == 6
    Cluster.objects.filter(pk=other.pk).update(read_only=False)


def test_a_read_only_cluster_is_told_by_the_management_api(cast: Cast, other: Cluster) -> None:
    there = make_instance(cast.alice, other, name="there", independent_naming=False)
    Cluster.objects.filter(pk=other.pk).update(read_only=True)
    given = {"instanceId": there.instance_id, "topic": "new", "orderType": "0"}
    assert Caller.of(cast.alice).symbol("topic/create", **given) == "BIZ_CLUSTER_READ_ONLY"


def said(*arguments: str) -> str:
    out = StringIO()
    call_command("cluster", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_line_adds_tries_changes_and_removes(
    cast: Cast, other_broker: BrokerProcess, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{OTHER_SECRET}\n")
    how = ("--namesrv", other_broker.namesrv, "--access-key-id", OTHER_KEY, "--secret-file", str(secret))
    assert "is added" in said("add", "theirs", *how)
    assert "answers." in said("test", "theirs")
    said("change", "theirs", "--read-only", "yes")
    assert f"theirs\tAdded here\t{other_broker.namesrv}\tread-only" in said("list")
    made = Cluster.objects.get(name="theirs")
    assert clients.admin(made).brokers.masters()
    made.namesrv = "127.0.0.1:1"
    made.save()
    with pytest.raises(CommandError, match="The test of theirs failed"):
        said("test", "theirs")
    said("remove", "theirs")
    with pytest.raises(CommandError, match="There is no cluster theirs; there is: DefaultCluster"):
        said("remove", "theirs")
    with pytest.raises(CommandError, match="is the embedded one"):
        said("remove", "DefaultCluster")
    assert Entry.objects.filter(action__startswith="platform.cluster.", channel="command").count() == 3
