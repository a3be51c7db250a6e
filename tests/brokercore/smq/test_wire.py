"""What a client of the queue service sends is read or refused with a sentence, and what is answered is read back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import (
    Delivery,
    Draft,
    Place,
    Sent,
    deliveries_document,
    error_document,
    read_drafts,
    read_handle,
    read_handles,
    refused_handles_document,
    sent_document,
    write_handle,
)
from brokercore.smq.wire.queues import read_attributes
from brokercore.smq.wire.requests import Operation, read_call
from brokercore.smq.wire.signature import credentials, is_signed, require_fresh, sign, text_to_sign
from brokercore.smq.wire.xml import NAMESPACE

NOW = datetime(2026, 11, 23, 15, 0, tzinfo=UTC)
#: What XML can hold.
TEXTS = st.text(
    st.characters(
        codec="utf-8", exclude_categories=["Cs", "Cc"], include_characters="\t\n\r", exclude_characters="\ufffe\uffff"
    ),
    min_size=1,
)


def refusal(work: object, *arguments: object) -> SmqError:
    with pytest.raises(SmqError) as refused:
        work(*arguments)  # type: ignore[operator]
    return refused.value


# --- Signatures


def test_the_text_to_sign_is_that_of_the_vendors_page() -> None:
    headers = {
        "content-md5": "ZDgxNjY5ZjFlMDQ5MGM0YWMwMWE5ODlmZDVlYmQxYjI=",
        "content-type": "text/xml;charset=utf-8",
        "date": "Wed, 28 May 2012 12:00:00 GMT",
        "x-mns-version": "2015-06-06",
        "x-mns-a": "first",
        "host": "not signed",
    }
    assert text_to_sign("PUT", "/queues/q?metaoverride=true", headers) == (
        "PUT\nZDgxNjY5ZjFlMDQ5MGM0YWMwMWE5ODlmZDVlYmQxYjI=\ntext/xml;charset=utf-8\nWed, 28 May 2012 12:00:00 GMT\n"
        "x-mns-a:first\nx-mns-version:2015-06-06\n/queues/q?metaoverride=true"
    )


def test_a_signature_holds_for_its_text_and_secret_alone() -> None:
    signature = sign("secret", "text")
    assert is_signed("secret", "text", signature)
    assert not is_signed("secret", "texT", signature)
    assert not is_signed("secreT", "text", signature)
    assert not is_signed("secret", "text", "é")


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, Code.MISSING_AUTHORIZATION_HEADER),
        ("", Code.MISSING_AUTHORIZATION_HEADER),
        ("MNS id", Code.INVALID_AUTHORIZATION_HEADER),
        ("MNS :signature", Code.INVALID_AUTHORIZATION_HEADER),
        ("MNS id:", Code.INVALID_AUTHORIZATION_HEADER),
        ("OSS id:signature", Code.INVALID_AUTHORIZATION_HEADER),
    ],
)
def test_an_authorization_of_another_form_is_refused(header: str | None, code: Code) -> None:
    assert refusal(credentials, {} if header is None else {"authorization": header}).code is code


@pytest.mark.parametrize(
    ("date", "code"),
    [
        (None, Code.MISSING_DATE_HEADER),
        ("yesterday", Code.INVALID_DATE_HEADER),
        ("Mon, 99 Nov 2026 15:00:00 GMT", Code.INVALID_DATE_HEADER),
        (format_datetime(NOW - timedelta(minutes=15, seconds=1), usegmt=True), Code.TIME_EXPIRED),
        (format_datetime(NOW + timedelta(minutes=15, seconds=1), usegmt=True), Code.TIME_EXPIRED),
    ],
)
def test_a_request_without_a_date_of_now_is_refused(date: str | None, code: Code) -> None:
    assert refusal(require_fresh, {} if date is None else {"date": date}, NOW).code is code


def test_clocks_may_differ_by_a_quarter_of_an_hour() -> None:
    for minutes in (-15, 0, 15):
        require_fresh({"date": format_datetime(NOW + timedelta(minutes=minutes), usegmt=True)}, NOW)


# --- Operations


@pytest.mark.parametrize(
    ("line", "operation", "name", "resource"),
    [
        ("PUT /queues/q", Operation.CREATE_QUEUE, "q", "/queues/q"),
        ("PUT /queues/q?metaoverride=true", Operation.SET_QUEUE_ATTRIBUTES, "q", "/queues/q"),
        ("GET /queues/q", Operation.GET_QUEUE_ATTRIBUTES, "q", "/queues/q"),
        ("GET /queues", Operation.LIST_QUEUE, "", "/queues/"),
        ("DELETE /queues/q", Operation.DELETE_QUEUE, "q", "/queues/q"),
        ("POST /queues/q/messages", Operation.SEND_MESSAGE, "q", "/queues/q/messages"),
        ("GET /queues/q/messages?waitseconds=3", Operation.RECEIVE_MESSAGE, "q", "/queues/q/messages"),
        ("GET /queues/q/messages?peekonly=true", Operation.PEEK_MESSAGE, "q", "/queues/q/messages"),
        ("PUT /queues/q/messages?ReceiptHandle=h", Operation.CHANGE_MESSAGE_VISIBILITY, "q", "/queues/q/messages"),
        ("DELETE /queues/q/messages", Operation.DELETE_MESSAGE, "q", "/queues/q/messages"),
        ("POST /topics/t/messages", Operation.PUBLISH_MESSAGE, "t", "/topics/t/messages"),
        ("PUT /topics/t/subscriptions/s", Operation.SUBSCRIBE, "t", "/topics/t/subscriptions/s"),
        ("GET /topics/t/subscriptions", Operation.LIST_SUBSCRIPTION_BY_TOPIC, "t", "/topics/t/subscriptions/"),
        ("GET /?accountmeta=true", Operation.GET_ACCOUNT_ATTRIBUTES, "", "/"),
        ("POST /commonbuy/openservice", Operation.OPEN_SERVICE, "", "/"),
    ],
)
def test_method_and_path_tell_the_operation(line: str, operation: Operation, name: str, resource: str) -> None:
    call = read_call(*line.split(" "))
    assert (call.operation, call.name, call.resource) == (operation, name, resource)


@pytest.mark.parametrize(
    "line", ["POST /queues/q", "POST /", "PATCH /queues", "GET /queues/q/messages/m", "GET /admin"]
)
def test_what_is_no_operation_is_refused(line: str) -> None:
    method, target = line.split(" ")
    assert refusal(read_call, method, target).code is Code.INVALID_REQUEST_URL


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("-q", Code.INVALID_QUEUE_NAME),
        ("q_1", Code.INVALID_QUEUE_NAME),
        ("q%3a", Code.INVALID_QUEUE_NAME),
        ("%C3%A9", Code.INVALID_QUEUE_NAME),
        ("q" * 121, Code.QUEUE_NAME_LENGTH_ERROR),
    ],
)
def test_names_that_no_queue_can_have_are_refused(name: str, code: Code) -> None:
    assert refusal(read_call, "GET", f"/queues/{name}").code is code
    assert read_call("GET", f"/queues/{'q' * 120}").name == "q" * 120


def test_parameters_are_read_in_any_case_and_a_plus_sign_is_one() -> None:
    call = read_call("PUT", "/queues/q/messages?ReceiptHandle=1-a+b==&VISIBILITYtimeout=5")
    assert call.query["receipthandle"] == "1-a+b=="
    assert call.number("visibilityTimeout", 1, 10, 0) == 5


@pytest.mark.parametrize("text", ["-1", "17", "1.0", "x", "1" * 30, "\u0663"])
def test_a_number_out_of_its_range_is_refused(text: str) -> None:
    call = read_call("GET", f"/queues/q/messages?numOfMessages={text}")
    assert refusal(call.number, "numOfMessages", 1, 16, 1).code is Code.INVALID_ARGUMENT


@given(st.text(), st.text())
@example("GET", "?")
@example("GET", "//queues//q//")
def test_whatever_stands_in_a_request_line_is_an_operation_or_refused(method: str, target: str) -> None:
    try:
        read_call(method, target)
    except SmqError:
        return


# --- Bodies


def test_attributes_are_read_with_their_ranges() -> None:
    leaves = b"<DelaySeconds> 5 </DelaySeconds><LoggingEnabled>True</LoggingEnabled>"
    body = b"<Queue xmlns='http://mns.aliyuncs.com/doc/v1'>" + leaves + b"</Queue>"
    assert read_attributes(body) == {"DelaySeconds": 5, "LoggingEnabled": 1}
    assert read_attributes(b"") == {}
    refused = refusal(read_attributes, b"<Queue><VisibilityTimeout>0</VisibilityTimeout></Queue>")
    assert refused.message == "VisibilityTimeout is '0'; allowed are whole numbers from 1 to 43200."


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<Message><MessageBody>a<b&c</MessageBody></Message>", Code.MALFORMED_XML),
        (b"", Code.MALFORMED_XML),
        (b"<Queue/>", Code.INVALID_ARGUMENT),
        (b"<!DOCTYPE x [<!ENTITY e 'eeee'>]><Message><MessageBody>&e;</MessageBody></Message>", Code.MALFORMED_XML),
        (b"<Message>" * 20 + b"</Message>" * 20, Code.INVALID_ARGUMENT),
        (b"<Message/>", Code.INVALID_ARGUMENT),
        (b"<Message><MessageBody/></Message>", Code.INVALID_ARGUMENT),
        (b"<Message><MessageBody>x</MessageBody><Priority>17</Priority></Message>", Code.INVALID_ARGUMENT),
        (b"<Message><MessageBody>x</MessageBody><DelaySeconds>604801</DelaySeconds></Message>", Code.INVALID_ARGUMENT),
        (b"<Messages/>", Code.INVALID_ARGUMENT),
        (
            b"<Messages>" + b"<Message><MessageBody>x</MessageBody></Message>" * 17 + b"</Messages>",
            Code.INVALID_ARGUMENT,
        ),
        ('<?xml version="1.0" encoding="utf-16"?><!DOCTYPE x><Message/>'.encode("utf-16"), Code.MALFORMED_XML),
    ],
)
def test_a_body_that_cannot_be_meant_is_refused(body: bytes, code: Code) -> None:
    assert refusal(read_drafts, body).code is code


@given(st.binary(max_size=300))
@example(b"<Message xmlns:x='u'><x:MessageBody>b</x:MessageBody></Message>")
def test_whatever_bytes_come_are_read_or_refused(body: bytes) -> None:
    for read in (read_drafts, read_attributes, read_handles):
        try:
            read(body)
        except SmqError:
            continue


@given(TEXTS)
@example("\r\n <&> ]]> \t")
def test_a_body_comes_back_as_it_was_sent(text: str) -> None:
    root = ElementTree.Element("Message")
    ElementTree.SubElement(root, "MessageBody").text = text.replace("\r", "\n")
    (draft,), is_batch = read_drafts(ElementTree.tostring(root))
    assert (draft.body.decode(), is_batch) == (text.replace("\r", "\n"), False)
    delivery = Delivery("id", Draft(text.encode()).kept(1_700_000_000_001), 8, 1, 1, "handle", 2)
    answer = ElementTree.fromstring(deliveries_document([delivery], is_batch=False))
    assert answer.findtext(f"{{{NAMESPACE}}}MessageBody") == text


def test_properties_come_back_with_each_delivery() -> None:
    entry = "<PropertyValue><Name>n</Name><Value>1</Value><Type>NUMBER</Type></PropertyValue>"
    given_properties = f"<UserProperties>{entry}</UserProperties>"
    body = f"<Message><MessageBody>x</MessageBody>{given_properties}</Message>".encode()
    ((draft,), _) = read_drafts(body)
    delivery = Delivery("id", draft.kept(1), 8, 1, 1)
    assert given_properties.encode() in deliveries_document([delivery], is_batch=False)


# --- Handles and answers


@given(st.integers(1, 16), st.integers(0, 2**48 - 1), st.binary(min_size=8, max_size=8))
def test_a_handle_is_read_as_it_was_written_and_needs_no_escaping(priority: int, number: int, nonce: bytes) -> None:
    place = Place(priority, number).packed()
    handle = write_handle("0011223344556677", place, nonce)
    assert read_handle(handle) == ("0011223344556677", place, nonce)
    assert Place.read(place) == (priority, number)
    assert all(sign.isascii() and (sign.isalnum() or sign in "-_=") for sign in handle)


@given(st.text())
@example("1-")
@example("1-" + "A" * 32)
def test_a_text_that_is_no_handle_is_refused(text: str) -> None:
    try:
        read_handle(text)
    except SmqError as error:
        assert error.code is Code.RECEIPT_HANDLE_ERROR


def test_the_order_of_places_is_the_order_of_delivery() -> None:
    places = [Place(1, 900), Place(8, 1), Place(8, 2), Place(8, 1 << 40), Place(16, 1)]
    assert sorted(place.packed() for place in places) == [place.packed() for place in places]


def test_errors_stand_in_the_namespace_that_the_java_sdk_reads() -> None:
    answer = error_document(SmqError(Code.QUEUE_NOT_EXIST, "The queue <q> does not exist."), "RID", "http://host")
    root = ElementTree.fromstring(answer)
    assert root.tag == "{http://mns.aliyuncs.com/doc/v1}Error"
    assert [child.tag.rpartition("}")[2] for child in root] == ["Code", "Message", "RequestId", "HostId"]
    assert root[1].text == "The queue <q> does not exist."


def test_batches_that_failed_in_part_have_the_elements_that_sdks_read_and_no_other() -> None:
    why = SmqError(Code.INVALID_ARGUMENT, "too large")
    sent = ElementTree.fromstring(sent_document([Sent("id", b"\x01" * 16, "handle"), why], is_batch=True))
    assert [[leaf.tag.rpartition("}")[2] for leaf in entry] for entry in sent] == [
        ["MessageId", "MessageBodyMD5"],
        ["ErrorCode", "ErrorMessage"],
    ]
    refused = ElementTree.fromstring(refused_handles_document([("h", why)]))
    assert [leaf.tag.rpartition("}")[2] for leaf in refused[0]] == ["ErrorCode", "ErrorMessage", "ReceiptHandle"]


def test_a_delayed_message_is_answered_with_a_handle() -> None:
    answer = ElementTree.fromstring(sent_document([Sent("id", b"\x01" * 16, "handle")], is_batch=False))
    assert answer.findtext(f"{{{NAMESPACE}}}ReceiptHandle") == "handle"
