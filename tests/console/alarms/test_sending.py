"""Notices arrive in each recipient's own form, once they are sent by the outbox."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable
from datetime import timedelta
from email.header import decode_header, make_header
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings as django_settings
from django.core.exceptions import PermissionDenied
from django.urls import reverse

from console.accounts.crypto import decrypt
from console.alarms import services
from console.alarms.models import Alarm, Condition, Recipient, RecipientKind
from console.alarms.services import RecipientValues
from console.outbox import tasks
from console.outbox.models import ALARM, Notification, NotificationStatus
from console.pipelines.models import Pipeline, State
from console.queues import services as queue_services
from console.topics.models import OrderType
from console.web.errors import Refused
from tests.console.alarms.conftest import MakeRule, Sampled
from tests.console.live import Live
from tests.support.broker import eventually
from tests.support.cast import Cast, make_group
from tests.support.mail import MailServer, mail_server
from tests.support.queue_service import QueueServiceProcess
from tests.support.receivers import Pushed, receiver

pytestmark = [pytest.mark.django_db, pytest.mark.broker]
SECRET = "sesam-open-thou"

Make = Callable[..., Recipient]


@pytest.fixture
def make(cast: Cast) -> Make:
    def made(kind: RecipientKind, **values: Any) -> Recipient:
        number = Recipient.objects.count()
        told = RecipientValues(name=f"{kind.label} <b>" + f" {number}" * bool(number), kind=kind, **values)
        return services.create_recipient(actor=cast.actor("alice"), values=told)

    return made


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery does not run here; and names may have what chats take for markup."""
    monkeypatch.setattr("console.outbox.services.kick", lambda *_, **__: None)
    monkeypatch.setattr(services, "_NAME", re.compile(r".{1,64}"))


@pytest.fixture
def mail(settings: Any) -> Any:
    with mail_server() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", server.port, False
        settings.DEFAULT_FROM_EMAIL = "gantry@example.com"
        yield server


def tried(cast: Cast, recipient: Recipient) -> Notification:
    """The notice of a test, after the outbox tried to send it."""
    services.test_recipient(actor=cast.actor("alice"), recipient=recipient)
    notice = Notification.objects.filter(notify_by=ALARM).latest("pk")
    tasks.deliver(notice.pk)
    notice.refresh_from_db()
    return notice


def test_a_webhook_gets_the_whole_content_signed(
    cast: Cast, make: Make, make_rule: MakeRule, sampled: Sampled, settings: Any
) -> None:
    settings.CONSOLE_URL = "https://gantry.example.com"
    with receiver() as taker:
        recipient = make(RecipientKind.WEBHOOK, address=f"{taker.url}/hook?token=t", secret=SECRET)
        make_rule(Condition.BACKLOG, threshold=100, recipients=[recipient])
        group = make_group(cast.alice, cast.instance, "GID_pay")
        sampled(backlog={group: 500})
        sampled.round()
        notice = Notification.objects.get(notify_by=ALARM)
        tasks.deliver(notice.pk)
        (pushed,) = taker.pushed
    notice.refresh_from_db()
    assert notice.status == NotificationStatus.SUCCESS
    assert pushed.path == "/hook?token=t"
    expected = hmac.new(SECRET.encode(), pushed.body, hashlib.sha256).hexdigest()
    assert pushed.headers["x-gantry-signature"] == f"sha256={expected}"
    content = json.loads(pushed.body)
    alarm = Alarm.objects.get()
    assert content == {
        "event": "fired", "account": "acme", "rule": "Backlog of a group", "condition": "group.backlog",
        "severity": "warning", "subject": f"group:{cast.instance.instance_id}:GID_pay",
        "sentence": "GID_pay has a backlog of 500 messages (instance orders)", "value": 500.0, "threshold": 100.0,
        "unit": "messages", "since": int(alarm.began_at.timestamp() * 1000), "repeats": 0, "ended": None,
        "alarm": alarm.pk,
        "page": f"https://gantry.example.com{alarm.path}",
    }  # fmt: skip
    assert notice.key == f"alarm-{alarm.pk}-fired"


def test_slack_gets_a_text_in_which_nothing_is_markup(cast: Cast, make: Make) -> None:
    with receiver() as taker:
        recipient = make(RecipientKind.SLACK, address=f"{taker.url}/services/T0/B0/x")
        assert tried(cast, recipient).status == NotificationStatus.SUCCESS
        (content,) = (json.loads(body) for body in taker.bodies)
    first, last = content["text"].splitlines()
    assert first == "[Test] This is a test of Slack &lt;b&gt;: alarms of acme arrive here"
    assert last.endswith("/alarms/recipients/")


def test_dingtalk_is_signed_in_its_query_and_refuses_in_its_answer(cast: Cast, make: Make) -> None:
    def reply(pushed: Pushed) -> bytes:
        return b'{"errcode":310000,"errmsg":"sign not match"}' if len(taker.pushed) > 1 else b'{"errcode":0}'

    with receiver(reply) as taker:
        recipient = make(RecipientKind.DINGTALK, address=f"{taker.url}/robot/send?access_token=t", secret=SECRET)
        assert tried(cast, recipient).status == NotificationStatus.SUCCESS
        notice = Notification.objects.latest("pk")
        Notification.objects.filter(pk=notice.pk).update(status=NotificationStatus.PENDING)
        tasks.deliver(notice.pk)
        told = parse_qs(urlsplit(taker.pushed[0].path).query)
        content = json.loads(taker.bodies[0])
    notice.refresh_from_db()
    assert (notice.status, notice.error) == ("PENDING", "DingTalk refused the message: sign not match.")
    (at,) = told["timestamp"]
    expected = hmac.new(SECRET.encode(), f"{at}\n{SECRET}".encode(), hashlib.sha256).digest()
    assert told["sign"] == [base64.b64encode(expected).decode()]
    assert told["access_token"] == ["t"]
    assert content["msgtype"] == "text"
    assert content["text"]["content"].startswith("[Test] This is a test of DingTalk")


def test_feishu_is_signed_in_its_body(cast: Cast, make: Make) -> None:
    with receiver(lambda _: b'{"code":0,"msg":"success"}') as taker:
        recipient = make(RecipientKind.FEISHU, address=f"{taker.url}/open-apis/bot/v2/hook/x", secret=SECRET)
        assert tried(cast, recipient).status == NotificationStatus.SUCCESS
        content = json.loads(taker.bodies[0])
    expected = hmac.new(f"{content['timestamp']}\n{SECRET}".encode(), b"", hashlib.sha256).digest()
    assert content["sign"] == base64.b64encode(expected).decode()
    assert content["msg_type"] == "text"


def test_what_an_error_says_calls_nobody_in_a_chat_and_is_no_header_of_a_mail(
    cast: Cast, make: Make, make_rule: MakeRule, sampled: Sampled, mail: MailServer
) -> None:
    """The reason of a failed pipeline is the text of somebody else's program."""
    evil = 'x\r\nBcc: eve@example.com\r\n\r\n<script>\x00\u2028\u202e<at user_id="all">all</at> <!channel> @everyone'
    Pipeline.objects.create(name="late", tenant=cast.acme, state=State.FAILED, reason=evil)
    with receiver(lambda _: b'{"code":0,"errcode":0}') as taker:
        kinds = (RecipientKind.SLACK, RecipientKind.FEISHU, RecipientKind.DINGTALK)
        recipients = [make(kind, address=taker.url) for kind in kinds]
        recipients.append(make(RecipientKind.MAIL, address="ann@example.com"))
        make_rule(Condition.PIPELINE, recipients=recipients)
        sampled.round()
        for notice in Notification.objects.filter(notify_by=ALARM):
            tasks.deliver(notice.pk)
        bodies = {"&lt;" in body: json.loads(body) for body in taker.bodies if "msgtype" not in body}
        (dingtalk,) = (json.loads(body) for body in taker.bodies if "msgtype" in body)
    assert not Notification.objects.exclude(status=NotificationStatus.SUCCESS).exists()
    slack, feishu = bodies[True], bodies[False]
    assert "<" not in slack["text"] + feishu["content"]["text"]
    assert "at" not in dingtalk
    (message,), (receivers,) = mail.messages, mail.receivers
    assert receivers == ["ann@example.com"]
    assert message["Bcc"] is None
    # PostgreSQL keeps another character for the NUL, so the subject is encoded, and folded before its first word.
    subject = str(message["Subject"]).strip()
    assert subject.startswith("[Warning] SQL job late has failed: x Bcc: eve@example.com <script>")
    assert message.get_content_type() == "text/plain"


def test_mail_goes_to_allowed_domains_only(cast: Cast, make: Make, mail: MailServer, settings: Any) -> None:
    recipient = make(RecipientKind.MAIL, address="ann@example.net")
    settings.MAIL_DOMAINS = ["example.com", "*.example.org", "exämple.de"]
    notice = tried(cast, recipient)
    refusal = (
        "'ann@example.net' is of a domain that mail may not go to; allowed are example.com, *.example.org, exämple.de."
    )
    assert (notice.status, notice.error) == (NotificationStatus.FAILURE, refusal)
    assert mail.messages == []
    for address in (
        "ann@example.net", "ann@sub.example.com", "ann@example.com.evil.net", "ann@example.org",
        "ann@badexample.org", "ann@example.com,eve@evil.net", '"ann@example.com"@evil.net',
    ):  # fmt: skip
        with pytest.raises(Refused, match="is of a domain that mail may not go to; allowed are") as refused:
            make(RecipientKind.MAIL, address=address)
        assert refused.value.field == "address"
    fine = make(RecipientKind.MAIL, address="ann@EXAMPLE.com, bo@mail.example.org, di@xn--exmple-cua.de")
    assert tried(cast, fine).status == NotificationStatus.SUCCESS
    assert len(mail.receivers[0]) == 3


def test_an_answer_of_somebody_else_is_not_taken_for_a_chats(cast: Cast, make: Make) -> None:
    with receiver(lambda _: b"<html>") as taker:
        notice = tried(cast, make(RecipientKind.FEISHU, address=taker.url))
    assert notice.error == "Feishu answered something else than it does for its robots."


def test_people_are_told_in_their_language_and_programs_in_english(
    cast: Cast, make: Make, make_rule: MakeRule, sampled: Sampled, mail: MailServer
) -> None:
    with receiver(lambda _: b'{"code":0,"errcode":0}') as taker:
        recipients = [
            make(RecipientKind.MAIL, address="ann@example.com", language="zh-hans"),
            make(RecipientKind.DINGTALK, address=taker.url, language="zh-hans"),
            make(RecipientKind.SLACK, address=taker.url),
            make(RecipientKind.WEBHOOK, address=taker.url, language="zh-hans"),
        ]
        make_rule(Condition.BACKLOG, name="积压", threshold=100, recipients=recipients, zone="Asia/Shanghai")
        group = make_group(cast.alice, cast.instance, "GID_pay")
        sampled(backlog={group: 500})
        sampled.round()
        sampled(backlog={group: 5})
        sampled.round(timedelta(minutes=1))
        for notice in Notification.objects.filter(notify_by=ALARM).order_by("pk"):
            tasks.deliver(notice.pk)
        bodies = [json.loads(body) for body in taker.bodies]
    assert not Notification.objects.exclude(status=NotificationStatus.SUCCESS).exists()
    fired, ended = sorted(mail.messages, key=lambda one: "fired" not in one["Message-ID"])
    alarm = Alarm.objects.get()
    began = alarm.began_at.astimezone(ZoneInfo("Asia/Shanghai"))
    subject = "[警告] GID_pay 堆积 500 条消息（实例 orders）"
    assert str(fired["Subject"]).strip() == subject  # it is folded before its first word
    assert str(fired.get_content()).splitlines() == [
        subject,
        "账号 acme 的规则 积压",
        f"自 {began:%Y-%m-%d %H:%M:%S} 起（Asia/Shanghai）",
        f"{django_settings.CONSOLE_URL}{alarm.path}",
    ]
    assert str(ended["Subject"]).strip().startswith("[已结束] GID_pay")
    assert " 至 " in str(ended.get_content())
    # A header is ASCII on its way (RFC 2047).
    (raw,) = {value for name, value in fired.raw_items() if name == "Subject"}
    assert raw.isascii() and raw.strip().startswith("=?utf-8?")
    assert str(make_header(decode_header(raw.strip()))) == subject
    dingtalk = [one["text"]["content"] for one in bodies if one.get("msgtype") == "text"]
    slack = [one["text"] for one in bodies if isinstance(one.get("text"), str)]
    assert dingtalk[0].startswith("[警告] GID_pay 堆积 500 条消息")
    assert slack[0].splitlines()[:2] == [
        "[Warning] GID_pay has a backlog of 500 messages (instance orders)",
        "Rule 积压 of account acme",
    ]
    (program, *_) = (one for one in bodies if "event" in one)
    assert program["sentence"] == "GID_pay has a backlog of 500 messages (instance orders)"
    assert not {"facts", "zone"} & program.keys()


def test_the_language_is_that_of_who_makes_the_recipient_unless_another_is_chosen(cast: Cast) -> None:
    alice, page = cast.client("alice"), reverse("alarms.recipient_create")
    chinese = {"accept-language": "zh-CN"}
    assert '<option value="zh-hans" selected>' in alice.get(page, headers=chinese).content.decode()
    assert '<option value="en" selected>' in alice.get(page).content.decode()
    told = {"name": "ann", "kind": "mail", "address": "ann@example.com", "language": "zh-hans"}
    assert alice.post(page, told).status_code == 302
    ann = Recipient.objects.get(name="ann")
    assert (ann.language, ann.language_word) == ("zh-hans", "简体中文")
    values = RecipientValues(name="ann", kind=RecipientKind.MAIL, address="ann@example.com", language="fr")
    with pytest.raises(Refused, match="'fr' is no language of notices; there are en, zh-hans") as refused:
        services.change_recipient(actor=cast.actor("alice"), recipient=ann, values=values)
    assert refused.value.field == "language"


def test_mail_goes_to_all_addresses(cast: Cast, make: Make, mail: MailServer) -> None:
    recipient = make(RecipientKind.MAIL, address="ann@example.com, bo@example.com")
    assert tried(cast, recipient).status == NotificationStatus.SUCCESS
    (message,), (receivers,) = mail.messages, mail.receivers
    assert receivers == ["ann@example.com", "bo@example.com"]
    assert message["Subject"] == "[Test] This is a test of Mail <b>: alarms of acme arrive here"
    assert message["From"] == "gantry@example.com"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message.get_content().splitlines()[0] == message["Subject"]


@pytest.mark.parametrize(("status", "becomes"), [(550, NotificationStatus.FAILURE), (450, NotificationStatus.PENDING)])
def test_a_mailbox_that_is_refused_for_good_or_for_now(
    cast: Cast, make: Make, mail: MailServer, status: int, becomes: NotificationStatus
) -> None:
    mail.refused["gone@example.com"] = status
    notice = tried(cast, make(RecipientKind.MAIL, address="gone@example.com"))
    assert (notice.status, notice.error) == (becomes, f"The mail server refused all addresses (status {status}).")


def test_without_a_mail_server_it_is_said(cast: Cast, make: Make, settings: Any) -> None:
    settings.EMAIL_HOST = ""
    notice = tried(cast, make(RecipientKind.MAIL, address="ann@example.com"))
    assert notice.status == NotificationStatus.FAILURE
    assert "GANTRY_SMTP_HOST" in notice.error


@pytest.mark.parametrize("order_type", [OrderType.NORMAL, OrderType.PARTITIONALLY_ORDERED])
def test_a_topic_gets_a_message(cast: Cast, make: Make, live: Live, order_type: OrderType) -> None:
    topic = live.topic(order_type)
    got = live.consume(live.group(), topic)
    notice = tried(cast, make(RecipientKind.TOPIC, instance=live.instance, topic=topic.name))
    assert (notice.status, notice.error) == (NotificationStatus.SUCCESS, "")
    message = eventually(lambda: got and got[0])
    assert (message.message_id, message.tags) == (notice.message_id, "alarm")
    assert json.loads(message.body)["event"] == "test"


def test_a_queue_gets_a_message(cast: Cast, make: Make, queues: QueueServiceProcess) -> None:
    queue_services.create_queue(actor=cast.actor("alice"), name="alarms", attributes={})
    notice = tried(cast, make(RecipientKind.QUEUE, queue="alarms"))
    assert (notice.status, notice.error) == (NotificationStatus.SUCCESS, "")
    (message,) = queue_services.receive_messages(actor=cast.actor("alice"), name="alarms")
    assert json.loads(base64.b64decode(message.body))["event"] == "test"


def test_no_request_goes_where_none_may(cast: Cast, make: Make, settings: Any) -> None:
    settings.SMQ_PUSH_ALLOW = []
    with receiver() as taker:
        notice = tried(cast, make(RecipientKind.WEBHOOK, address=taker.url))
        assert taker.pushed == []
    assert notice.status == NotificationStatus.FAILURE
    assert "no public address" in notice.error


def test_a_redirect_is_not_followed_and_an_outage_is_tried_again(cast: Cast, make: Make) -> None:
    with receiver() as other, receiver(lambda _: (302, {"location": other.url})) as taker:
        notice = tried(cast, make(RecipientKind.WEBHOOK, address=taker.url))
        assert other.pushed == []
    assert notice.status == NotificationStatus.FAILURE
    assert "redirects" in notice.error
    notice = tried(cast, make(RecipientKind.SLACK, address=taker.url))
    assert notice.status == NotificationStatus.PENDING
    assert "could not be connected to" in notice.error


def test_who_was_deleted_is_told_nothing(cast: Cast, make: Make) -> None:
    with receiver() as taker:
        recipient = make(RecipientKind.WEBHOOK, address=taker.url)
        services.test_recipient(actor=cast.actor("alice"), recipient=recipient)
        services.delete_recipient(actor=cast.actor("alice"), recipient=recipient)
        notice = Notification.objects.latest("pk")
        tasks.deliver(notice.pk)
        assert taker.pushed == []
    notice.refresh_from_db()
    assert (notice.status, notice.error) == (NotificationStatus.FAILURE, "The recipient was deleted.")


def test_nobody_is_flooded_with_tests(cast: Cast, make: Make) -> None:
    recipient = make(RecipientKind.WEBHOOK, address="http://127.0.0.1:9/")
    services.test_recipient(actor=cast.actor("alice"), recipient=recipient)
    with pytest.raises(Refused, match="less than 30 seconds"):
        services.test_recipient(actor=cast.actor("alice"), recipient=recipient)


def test_a_secret_stays_with_the_address_that_it_was_typed_in_for(cast: Cast, make: Make) -> None:
    recipient = make(RecipientKind.WEBHOOK, address="http://127.0.0.1:9/a", secret=SECRET)
    actor = cast.actor("alice")

    def change(**values: Any) -> None:
        told = RecipientValues(name="other", kind=RecipientKind.WEBHOOK, **values)
        services.change_recipient(actor=actor, recipient=recipient, values=told)

    change()
    assert decrypt(recipient.secret_encrypted) == SECRET
    assert decrypt(recipient.address_encrypted) == "http://127.0.0.1:9/a"
    change(address="http://127.0.0.1:9/elsewhere")
    assert recipient.secret_encrypted == ""


@pytest.mark.parametrize(
    ("kind", "values", "says"),
    [
        (RecipientKind.MAIL, {"address": "ann"}, "'ann' is no address of mail."),
        (RecipientKind.MAIL, {"address": ""}, "Mail goes to 1 to 20 addresses."),
        (RecipientKind.MAIL, {"address": "a@b.example\nBcc: c@d.example"}, "'Bcc:' is no address of mail."),
        (RecipientKind.WEBHOOK, {"address": "file:///etc/passwd"}, "An endpoint's URL begins with http"),
        (RecipientKind.SLACK, {"address": "http://user:pass@example.com/"}, "no user"),
        (RecipientKind.TOPIC, {"topic": "nobodys"}, "There is no topic 'nobodys' in the instance."),
        (RecipientKind.QUEUE, {"queue": "../x"}, "A queue's name has 1 to 255 letters"),
    ],
)
def test_what_can_be_no_recipient_is_refused(
    make: Make, kind: RecipientKind, values: dict[str, Any], says: str
) -> None:
    with pytest.raises(Refused, match=says.replace("(", r"\(")):
        make(kind, **values)


def test_a_topic_or_queue_that_one_may_not_send_to_is_refused(cast: Cast, live: Live) -> None:
    topic = live.topic()
    for values in (
        RecipientValues(name="a", kind=RecipientKind.TOPIC, instance=live.instance, topic=topic.name),
        RecipientValues(name="b", kind=RecipientKind.QUEUE, queue="orders"),
    ):
        with pytest.raises(PermissionDenied):
            services.create_recipient(actor=cast.actor("rita"), values=values)
    assert not Recipient.objects.exists()
