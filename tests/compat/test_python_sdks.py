"""The vendor's two Python SDKs of the public cloud, with nothing changed but the endpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from alibabacloud_ons20190214 import models as ons
from alibabacloud_ons20190214.client import Client as OnsClient
from alibabacloud_sts20150401.client import Client as StsClient
from alibabacloud_tea_openapi.exceptions import ClientException as TeaException
from alibabacloud_tea_openapi.utils_models import Config
from aliyunsdkcore.acs_exception.exceptions import ServerException
from aliyunsdkcore.auth.credentials import StsTokenCredential
from aliyunsdkcore.client import AcsClient
from aliyunsdkcore.request import CommonRequest
from aliyunsdkons.request.v20190214 import (
    OnsGroupListRequest,
    OnsInstanceCreateRequest,
    OnsInstanceInServiceListRequest,
    OnsRegionListRequest,
    OnsTopicCreateRequest,
    OnsTopicListRequest,
    OnsTrendTopicInputTpsRequest,
)
from pytest_django.live_server_helper import LiveServer

from console.accounts import services as accounts
from console.accounts.services import IssuedKey
from console.instances.addresses import tcp_address
from console.instances.models import DEFAULT_TPS, Instance
from console.topics.models import Topic
from tests.console.live import Live
from tests.support.cast import Cast, make_topic
from tests.support.patience import Patience

pytestmark = pytest.mark.django_db(transaction=True)
TIMEOUT_S = 40
#: Some operations take 60 calls a minute, whatever the clock says and however long something takes.
LONGEST_PAUSE_S = 1.5


def until(look: Callable[[], Any]) -> Any:
    """Ask again until the answer is not empty, or the time is over."""
    patience, pause = Patience(TIMEOUT_S, LONGEST_PAUSE_S), 0.1
    while True:
        found = look()
        if found or patience.is_over():
            return found
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def key(cast: Cast) -> IssuedKey:
    return accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice)


@pytest.fixture
def endpoint(live_server: LiveServer) -> str:
    return str(live_server.url).removeprefix("http://")


def config(endpoint: str, key: IssuedKey, **more: Any) -> Config:
    return Config(
        access_key_id=key.access_key_id,
        access_key_secret=key.access_key_secret,
        security_token=key.security_token or None,
        endpoint=endpoint,
        protocol="http",
        region_id="cn-hangzhou",
        **more,
    )


@pytest.fixture(params=["ACS3", "V1"])
def client(request: pytest.FixtureRequest, endpoint: str, key: IssuedKey) -> OnsClient:
    """The newer SDK, signing with headers as it does by itself, and in the older way as it can be told to."""
    return OnsClient(config(endpoint, key, signature_algorithm="v2" if request.param == "V1" else None))


@pytest.fixture
def tea(endpoint: str, key: IssuedKey) -> OnsClient:
    return OnsClient(config(endpoint, key))


class Core:
    """The older SDK; answers are JSON."""

    def __init__(self, endpoint: str, key: IssuedKey) -> None:
        if key.security_token:
            token = StsTokenCredential(key.access_key_id, key.access_key_secret, key.security_token)
            self.client = AcsClient(region_id="cn-hangzhou", credential=token)
        else:
            self.client = AcsClient(key.access_key_id, key.access_key_secret, "cn-hangzhou")
        self.endpoint = endpoint

    def __call__(self, request: Any, **fields: Any) -> dict[str, Any]:
        request.set_endpoint(self.endpoint)
        for name, value in fields.items():
            getattr(request, f"set_{name}")(value)
        answer: dict[str, Any] = json.loads(self.client.do_action_with_exception(request))
        return answer


@pytest.fixture
def core(endpoint: str, key: IssuedKey) -> Iterator[Core]:
    yield Core(endpoint, key)


def test_the_newer_sdk_makes_and_lists_instance_topic_and_group(client: OnsClient, cast: Cast) -> None:
    made = client.ons_instance_create(ons.OnsInstanceCreateRequest(instance_name="from-sdk", remark="très bien + 1"))
    instance_id = made.body.data.instance_id
    assert made.status_code == 200
    assert made.body.request_id
    assert instance_id.startswith(f"MQ_INST_{cast.acme.uid}_")

    client.ons_topic_create(
        ons.OnsTopicCreateRequest(instance_id=instance_id, topic="orders_a", message_type=1, remark="a b*c~d/é")
    )
    client.ons_group_create(ons.OnsGroupCreateRequest(instance_id=instance_id, group_id="GID_a", group_type="tcp"))

    [topic] = client.ons_topic_list(ons.OnsTopicListRequest(instance_id=instance_id)).body.data.publish_info_do
    assert (topic.topic, topic.message_type, topic.instance_id, topic.remark) == (
        "orders_a", 1, instance_id, "a b*c~d/é",
    )  # fmt: skip
    assert (topic.owner, topic.relation, topic.relation_name, topic.service_status) == (
        cast.acme.uid, 1, "Owner", 0,
    )  # fmt: skip
    assert topic.independent_naming is True
    assert abs(topic.create_time / 1000 - time.time()) < 300
    [group] = client.ons_group_list(ons.OnsGroupListRequest(instance_id=instance_id)).body.data.subscribe_info_do
    assert (group.group_id, group.group_type, group.owner) == ("GID_a", "tcp", cast.acme.uid)
    listed = client.ons_instance_in_service_list(ons.OnsInstanceInServiceListRequest()).body.data.instance_vo
    mine = {i.instance_id: i for i in listed}
    assert (mine[instance_id].instance_name, mine[instance_id].instance_status) == ("from-sdk", 5)


def test_the_older_sdk_makes_lists_and_deletes(core: Core, cast: Cast) -> None:
    assert core(OnsRegionListRequest.OnsRegionListRequest())["Data"]["RegionDo"][0]["OnsRegionId"] == "mq-private"
    made = core(OnsInstanceCreateRequest.OnsInstanceCreateRequest(), InstanceName="older", Remark="é +*~ 漢")
    instance_id = made["Data"]["InstanceId"]
    for name in ("t-1", "t-2"):
        core(OnsTopicCreateRequest.OnsTopicCreateRequest(), InstanceId=instance_id, Topic=name, MessageType=0)
    listed = core(OnsTopicListRequest.OnsTopicListRequest(), InstanceId=instance_id, UserId="unused")
    assert [t["Topic"] for t in listed["Data"]["PublishInfoDo"]] == ["t-1", "t-2"]
    one = core(OnsTopicListRequest.OnsTopicListRequest(), InstanceId=instance_id, Topic="t-2")
    assert [t["Topic"] for t in one["Data"]["PublishInfoDo"]] == ["t-2"]
    assert core(OnsGroupListRequest.OnsGroupListRequest(), InstanceId=instance_id)["Data"]["SubscribeInfoDo"] == []
    names = core(OnsInstanceInServiceListRequest.OnsInstanceInServiceListRequest())["Data"]["InstanceVO"]
    assert "older" in {i["InstanceName"] for i in names}


def test_a_topic_list_is_not_cut_at_a_page(tea: OnsClient, cast: Cast) -> None:
    names = [f"t-{n:03}" for n in range(203)]
    Topic.objects.bulk_create(
        Topic(instance=cast.instance, name=name, physical_name=cast.instance.physical_name(name), order_type=0)
        for name in names
    )
    listed = tea.ons_topic_list(ons.OnsTopicListRequest(instance_id=cast.instance.instance_id))
    assert [t.topic for t in listed.body.data.publish_info_do] == names


def test_errors_come_as_the_sdks_exceptions_with_our_code_and_sentence(tea: OnsClient, core: Core, cast: Cast) -> None:
    instance_id = cast.instance.instance_id
    make_topic(cast.alice, cast.instance, "taken")
    with pytest.raises(TeaException) as exists:
        tea.ons_topic_create(ons.OnsTopicCreateRequest(instance_id=instance_id, topic="taken", message_type=0))
    assert (exists.value.code, exists.value.status_code) == ("BIZ_TOPIC_EXISTED", 409)
    assert "taken" in exists.value.message
    assert exists.value.request_id

    with pytest.raises(ServerException) as missing:
        core(OnsTopicCreateRequest.OnsTopicCreateRequest(), InstanceId=instance_id, MessageType=0)
    assert missing.value.get_error_code() == "BIZ_FIELD_CHECK_INVALID"
    assert missing.value.get_error_msg() == "The parameter Topic is missing."
    assert missing.value.get_http_status() == 400

    with pytest.raises(TeaException) as absent:
        tea.list_tag_resources(ons.ListTagResourcesRequest(instance_id=instance_id, resource_type="TOPIC"))
    assert absent.value.code == "InvalidAction.NotFound"
    with pytest.raises(TeaException, match="allowed is tcp"):
        tea.ons_group_create(ons.OnsGroupCreateRequest(instance_id=instance_id, group_id="GID_http", group_type="http"))


def test_a_wrong_secret_and_an_unknown_key_have_the_gateways_code(endpoint: str, key: IssuedKey) -> None:
    wrong = IssuedKey(key.access_key_id, "not the secret", "", None)
    with pytest.raises(TeaException) as newer:
        OnsClient(config(endpoint, wrong)).ons_region_list()
    assert newer.value.code == "SignatureDoesNotMatch"
    with pytest.raises(ServerException) as older:
        Core(endpoint, wrong)(OnsRegionListRequest.OnsRegionListRequest())
    # The SDK found the text that the server signed equal to its own, and concludes what is wrong.
    assert older.value.get_error_code() == "InvalidAccessKeySecret"
    nobody = IssuedKey("LTAInobody", "not the secret", "", None)
    with pytest.raises(TeaException) as unknown:
        OnsClient(config(endpoint, nobody)).ons_region_list()
    assert (unknown.value.code, unknown.value.status_code) == ("SignatureDoesNotMatch", 400)  # who asks learns no ids


def test_a_ram_user_without_a_policy_is_refused_with_the_reason(endpoint: str, cast: Cast) -> None:
    nora = accounts.create_access_key(actor=cast.actor("nora"), user=cast.nora)
    make_topic(cast.alice, cast.instance, "seen")
    with pytest.raises(TeaException) as refused:
        OnsClient(config(endpoint, nora)).ons_topic_create(
            ons.OnsTopicCreateRequest(instance_id=cast.instance.instance_id, topic="mine", message_type=0)
        )
    assert (refused.value.code, refused.value.status_code) == ("Forbidden.RAM", 403)
    assert "mq:CreateTopic" in refused.value.message


def test_the_caller_learns_who_it_is(endpoint: str, key: IssuedKey, cast: Cast) -> None:
    body = StsClient(config(endpoint, key)).get_caller_identity().body
    assert (body.account_id, body.identity_type, body.arn) == (
        cast.acme.uid, "Account", f"acs:ram::{cast.acme.uid}:root",
    )  # fmt: skip
    bob = accounts.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    body = StsClient(config(endpoint, bob)).get_caller_identity().body
    assert (body.identity_type, body.arn, body.user_id) == (
        "RAMUser", f"acs:ram::{cast.acme.uid}:user/bob", cast.bob.uid,
    )  # fmt: skip
    request = CommonRequest(product="Sts", version="2015-04-01", action_name="GetCallerIdentity")
    request.set_method("POST")
    assert Core(endpoint, bob)(request)["Arn"] == body.arn


def _send(live: Live, topic: Topic, count: int, **fields: Any) -> list[str]:
    return [live.send(topic, f"body {n}".encode(), **fields).message_id for n in range(count)]


def test_messages_that_a_client_sent_are_found_by_key_id_and_time(client: OnsClient, live: Live) -> None:
    began = int(time.time() * 1000)
    topic, instance_id = live.topic(), live.instance.instance_id
    sent = _send(live, topic, 7, keys="order-7", tags="created")

    def by_key() -> Any:
        request = ons.OnsMessageGetByKeyRequest(instance_id=instance_id, topic=topic.name, key="order-7")
        found = client.ons_message_get_by_key(request).body.data.ons_rest_message_do
        return found if len(found) == 7 else None

    found = until(by_key)
    assert {m.msg_id for m in found} == set(sent)
    assert (found[0].topic, found[0].instance_id, found[0].reconsume_times) == (topic.name, instance_id, 0)
    assert {p.name: p.value for p in found[0].property_list.message_property}["TAGS"] == "created"
    assert found[0].store_timestamp >= began

    one = ons.OnsMessageGetByMsgIdRequest(instance_id=instance_id, topic=topic.name, msg_id=sent[0])
    assert client.ons_message_get_by_msg_id(one).body.data.msg_id == sent[0]
    detail = ons.OnsMessageDetailRequest(instance_id=instance_id, topic=topic.name, msg_id=sent[0])
    data = client.ons_message_detail(detail).body.data
    assert (data.body_str, data.body) == ("body 0", "Ym9keSAw")
    assert {p.name for p in data.property_list} >= {"KEYS", "TAGS"}

    def page(number: int, task_id: str | None = None) -> Any:
        request = ons.OnsMessagePageQueryByTopicRequest(
            instance_id=instance_id, topic=topic.name, begin_time=began - 1000, end_time=began + 60_000,
            current_page=number, page_size=5, task_id=task_id,
        )  # fmt: skip
        return client.ons_message_page_query_by_topic(request).body.msg_found_do

    first = page(1)
    assert (first.current_page, first.max_page_count, len(first.msg_found_list.ons_rest_message_do)) == (1, 2, 5)
    second = page(2, first.task_id)
    assert len(second.msg_found_list.ons_rest_message_do) == 2
    pages = first.msg_found_list.ons_rest_message_do + second.msg_found_list.ons_rest_message_do
    assert {m.msg_id for m in pages} == set(sent)
    assert pages[0].instance_id == instance_id

    status = client.ons_topic_status(ons.OnsTopicStatusRequest(instance_id=instance_id, topic=topic.name)).body.data
    assert (status.total_count, status.perm) == (7, 6)
    assert status.last_time_stamp >= began


def test_a_consumer_group_is_told_of_as_the_sdk_expects_it(client: OnsClient, live: Live) -> None:
    topic, group, instance_id = live.topic(), live.group(), live.instance.instance_id
    [sent] = _send(live, topic, 1)
    got = live.consume(group, topic)
    assert until(lambda: got)
    mine = {"instance_id": instance_id, "group_id": group.group_id}

    status = until(
        lambda: [
            s
            for s in [client.ons_consumer_status(ons.OnsConsumerStatusRequest(**mine, detail=True)).body.data]
            if s.online and s.total_diff == 0
        ]
    )[0]
    assert (status.consume_model, status.subscription_same) == ("CLUSTERING", True)
    [connection] = status.connection_set.connection_do
    assert connection.client_id
    [information] = status.consumer_connection_info_list.consumer_connection_info_do
    assert topic.name in {s.topic for s in information.subscription_set.subscription_data}
    accumulated = client.ons_consumer_accumulate(ons.OnsConsumerAccumulateRequest(**mine, detail=True)).body.data
    assert (accumulated.online, accumulated.total_diff) == (True, 0)
    assert topic.name in {t.topic for t in accumulated.detail_in_topic_list.detail_in_topic_do}
    [connection] = client.ons_consumer_get_connection(
        ons.OnsConsumerGetConnectionRequest(**mine)
    ).body.data.connection_list.connection_do
    assert connection.client_addr
    details = client.ons_group_sub_detail(ons.OnsGroupSubDetailRequest(**mine)).body.data
    assert details.online is True
    assert topic.name in {s.topic for s in details.subscription_data_list.subscription_data_list}
    subscribed = client.ons_topic_sub_detail(
        ons.OnsTopicSubDetailRequest(instance_id=instance_id, topic=topic.name)
    ).body.data
    assert [s.group_id for s in subscribed.subscription_data_list.subscription_data_list] == [group.group_id]
    span = client.ons_consumer_time_span(ons.OnsConsumerTimeSpanRequest(**mine, topic=topic.name)).body.data
    assert span.max_time_stamp >= span.min_time_stamp > 0
    [track] = client.ons_message_trace(
        ons.OnsMessageTraceRequest(instance_id=instance_id, topic=topic.name, msg_id=sent)
    ).body.data.message_track
    assert (track.consumer_group, track.track_type) == (group.group_id, "CONSUMED")

    client.ons_group_consumer_update(ons.OnsGroupConsumerUpdateRequest(**mine, read_enable=False))
    group.refresh_from_db()
    assert group.read_enabled is False


def test_a_backlog_is_skipped_by_a_reset(tea: OnsClient, live: Live) -> None:
    topic, group, instance_id = live.topic(), live.group(), live.instance.instance_id
    got = live.consume(group, topic)
    _send(live, topic, 1)
    assert until(lambda: got)
    live.stop_consumers()
    _send(live, topic, 3)
    mine = {"instance_id": instance_id, "group_id": group.group_id}

    def backlog() -> int:
        accumulated = tea.ons_consumer_accumulate(ons.OnsConsumerAccumulateRequest(**mine))
        return int(accumulated.body.data.total_diff)

    assert until(lambda: backlog() == 3)
    tea.ons_consumer_reset_offset(ons.OnsConsumerResetOffsetRequest(**mine, topic=topic.name, type=0))
    assert until(lambda: backlog() == 0)


def test_dead_letters_are_found_and_sent_again(tea: OnsClient, live: Live) -> None:
    began = int(time.time() * 1000)
    topic, group, instance_id = live.topic(), live.group(), live.instance.instance_id
    live.consume(group, topic, fail=True, retries=0)
    [sent] = _send(live, topic, 1)
    mine = {"instance_id": instance_id, "group_id": group.group_id}

    def letters() -> Any:
        request = ons.OnsDLQMessagePageQueryByGroupIdRequest(
            **mine, begin_time=began - 1000, end_time=began + 120_000, current_page=1, page_size=20
        )
        try:
            return tea.ons_dlqmessage_page_query_by_group_id(request).body.msg_found_do
        except TeaException as error:
            assert error.code == "BIZ_NO_MESSAGE"
            return None

    found = until(letters)
    [letter] = found.msg_found_list.ons_rest_message_do
    assert (letter.msg_id, letter.topic, found.max_page_count) == (sent, topic.name, 1)
    one = tea.ons_dlqmessage_get_by_id(ons.OnsDLQMessageGetByIdRequest(**mine, msg_id=sent)).body.data
    assert (one.msg_id, one.instance_id) == (sent, instance_id)
    assert one.property_list.message_property
    live.stop_consumers()
    got = live.consume(group, topic)
    again = tea.ons_dlqmessage_resend_by_id(ons.OnsDLQMessageResendByIdRequest(**mine, msg_id=sent)).body.data
    assert again.msg_id == [sent]
    assert until(lambda: got)


def test_a_trend_has_a_record_for_each_period(client: OnsClient, core: Core, live: Live) -> None:
    topic, instance_id = live.topic(), live.instance.instance_id
    end = int(time.time() // 60) * 60_000
    trend = client.ons_trend_topic_input_tps(
        ons.OnsTrendTopicInputTpsRequest(
            instance_id=instance_id, topic=topic.name, begin_time=end - 600_000, end_time=end, period=1, type=1
        )
    ).body.data
    assert (trend.title, trend.yunit) == (topic.name, "TPS")
    records = trend.records.stats_data_do
    assert len(records) >= 10
    assert records[1].x - records[0].x == 60_000
    raw = core(
        OnsTrendTopicInputTpsRequest.OnsTrendTopicInputTpsRequest(),
        InstanceId=instance_id, Topic=topic.name, BeginTime=end - 600_000, EndTime=end, Period=5, Type=0,
    )  # fmt: skip
    assert raw["Data"]["YUnit"] == "messages"


def test_base_info_tells_where_clients_connect_and_the_instance_can_be_deleted(tea: OnsClient, cast: Cast) -> None:
    made = tea.ons_instance_create(ons.OnsInstanceCreateRequest(instance_name="short-lived")).body.data
    mine = {"instance_id": made.instance_id}
    tea.ons_instance_update(ons.OnsInstanceUpdateRequest(**mine, instance_name="renamed"))
    information = tea.ons_instance_base_info(ons.OnsInstanceBaseInfoRequest(**mine)).body.instance_base_info
    assert (information.instance_name, information.independent_naming) == ("renamed", True)
    assert information.max_tps == DEFAULT_TPS
    address = tcp_address(Instance.objects.get(instance_id=made.instance_id))
    assert information.endpoints.tcp_endpoint == address.removeprefix("http://")
    tea.ons_topic_create(ons.OnsTopicCreateRequest(**mine, topic="t-1", message_type=0))
    tea.ons_topic_update(ons.OnsTopicUpdateRequest(**mine, topic="t-1", perm=4))
    tea.ons_group_create(ons.OnsGroupCreateRequest(**mine, group_id="GID_1"))
    with pytest.raises(TeaException) as full:
        tea.ons_instance_delete(ons.OnsInstanceDeleteRequest(**mine))
    assert full.value.code == "BIZ_INSTANCE_NOT_EMPTY"
    tea.ons_topic_delete(ons.OnsTopicDeleteRequest(**mine, topic="t-1"))
    tea.ons_group_delete(ons.OnsGroupDeleteRequest(**mine, group_id="GID_1"))
    tea.ons_instance_delete(ons.OnsInstanceDeleteRequest(**mine))
    assert not Topic.objects.filter(instance__instance_id=made.instance_id)
