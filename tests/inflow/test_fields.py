"""What of an event becomes a message: each method in each place, templates, and values that no message can hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.inflow.fields import (
    INPUTS,
    MAX_BODY,
    MAX_KEY,
    MAX_PROPERTIES,
    MAX_PROPERTIES_SIZE,
    MAX_TAG,
    MAX_UNIQUE_ID,
    METHODS,
    EventRejected,
    Fields,
    FieldsError,
    Message,
    Method,
)
from analytics.inflow.templates import Template, json_of
from brokercore.protocol.properties import MAX_PROPERTIES as MOST_ENCODED
from brokercore.protocol.properties import decode_properties, encode_properties

ROOM = 1024
"""Of what clients and brokers add to the properties of a message."""

EVENT: dict[str, Any] = {
    "id": "17",
    "type": "dts:Change",
    "data": {
        "operation": "INSERT",
        "tableName": "orders",
        "primaryKey": {"id": 7},
        "userProperties": {"a": "1", "n": 2, "nested": {"x": [1, True]}, "none": None, "empty": ""},
        "systemProperties": {"UNIQ_KEY": "AC10", "KEYS": "k1 k2", "TAGS": "t"},
        "before": None,
        "count": 3,
        "price": 2.50,
        "ok": True,
        "quote": 'say "hi"\n\\',
        "blank": "  ",
        "empty": "",
        "list": [1, "ä"],
    },
}
COMPLETE = {"method": "complete_data"}


def extraction(path: str) -> dict[str, Any]:
    return {"method": "data_extraction", "path": path}


def fixed(value: str) -> dict[str, Any]:
    return {"method": "fixed_value", "value": value}


def template(text: str, **parameters: str) -> dict[str, Any]:
    return {"method": "template", "parameters": parameters, "template": text}


def build(event: Mapping[str, Any] = EVENT, **parts: Mapping[str, Any]) -> Message:
    return Fields.compile({"body": COMPLETE, **parts}).build(event)


def data(**values: object) -> dict[str, Any]:
    return {"data": values}


def rejected(event: Mapping[str, Any] = EVENT, **parts: Mapping[str, Any]) -> str:
    with pytest.raises(EventRejected) as caught:
        build(event, **parts)
    said = str(caught.value)
    assert said.endswith(".")
    assert "\n" not in said
    assert said.startswith(f"{caught.value.field}: ")
    said.encode()
    return said


def refused(document: Any) -> str:
    with pytest.raises(FieldsError) as caught:
        Fields.compile(document)
    said = str(caught.value)
    assert said.endswith(".")
    assert "\n" not in said
    assert said.startswith(f"{caught.value.field}: " if caught.value.field else "The fields ")
    said.encode()
    return said


def test_the_example_of_a_template_gives_each_user_property_and_the_table() -> None:
    properties = template(
        '{"EB_SYS_EMBED_OBJECT":"${all}","sourceTable":"${table}"}',
        all="$.data.userProperties",
        table="$.data.tableName",
    )
    event = {"data": {"userProperties": {"a": "1"}, "tableName": "orders"}}
    assert build(event, properties=properties).properties == {"a": "1", "sourceTable": "orders"}


def test_the_example_task_sends_the_whole_event_with_its_primary_key_and_operation() -> None:
    fields = Fields.compile(
        {"body": COMPLETE, "key": extraction("$.data.primaryKey"), "tag": extraction("$.data.operation")}
    )
    message = fields.build(EVENT)
    assert json.loads(message.body) == EVENT
    assert message == Message(message.body, {}, '{"id":7}', "INSERT")
    with pytest.raises(AttributeError):
        message.tag = "other"  # type: ignore[misc]


def test_a_message_event_of_the_vendors_form_becomes_the_message_that_it_was() -> None:
    event = {
        "data": {
            "body": "text",
            "userProperties": {"a": "1"},
            "systemProperties": {"UNIQ_KEY": "AC10", "KEYS": "k", "TAGS": "t"},
        }
    }
    message = build(
        event,
        body=extraction("$.data.body"),
        key=extraction("$.data.systemProperties.KEYS"),
        tag=extraction("$.data.systemProperties.TAGS"),
        properties=template(
            '{"EB_SYS_EMBED_OBJECT":"${userProperties}","UNIQ_KEY":"${id}"}',
            userProperties="$.data.userProperties",
            id="$.data.systemProperties.UNIQ_KEY",
        ),
    )
    assert message == Message(b"text", {"a": "1"}, "k", "t", unique_id="AC10")


OFFERED = {
    "body": {"complete_data", "data_extraction", "fixed_value", "template"},
    "properties": {"not_specified", "data_extraction", "template"},
    "key": {"not_specified", "data_extraction", "fixed_value", "template"},
    "tag": {"not_specified", "data_extraction", "fixed_value", "template"},
}


@pytest.mark.parametrize("part", OFFERED)
@pytest.mark.parametrize("method", Method)
def test_each_method_is_taken_where_it_is_offered_and_refused_elsewhere(part: str, method: Method) -> None:
    inputs: dict[str, Any] = {
        "path": "$.data.userProperties",
        "value": "v",
        "parameters": {"v": "$.data.tableName"},
        "template": '{"a":"${v}"}',
    }
    document = {"body": COMPLETE, part: {"method": method.value, **{name: inputs[name] for name in INPUTS[method]}}}
    if method.value in OFFERED[part]:
        assert method in METHODS[part]
        Fields.compile(document).build(EVENT)
    else:
        offered = ", ".join(METHODS[part])
        assert refused(document) == f"{part}.method: {method.label} is not offered here; there are {offered}."


def test_methods_are_called_as_on_the_pages() -> None:
    labels = ["Not Specified", "Complete Data", "Data Extraction", "Fixed Value", "Template"]
    assert [method.label for method in Method] == labels


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("$.data.tableName", "orders"),
        ("$.data.count", "3"),
        ("$.data.price", "2.5"),
        ("$.data.ok", "true"),
        ("$.data.primaryKey", '{"id":7}'),
        ("$.data.list", '[1,"ä"]'),
        ("$.data.list[*]", '[1,"ä"]'),
        ("$.data.quote", 'say "hi"\n\\'),
        ("$", json.dumps(EVENT, ensure_ascii=False, separators=(",", ":"))),
    ],
)
def test_an_extracted_body_is_the_text_of_the_value(path: str, body: str) -> None:
    assert build(body=extraction(path)).body == body.encode()


def test_a_body_without_a_value_rejects_the_event() -> None:
    assert rejected(body=extraction("$.data.body")) == "body: the event has nothing at $.data.body."
    assert rejected(body=extraction("$.data.before")) == "body: the event has null at $.data.before."
    assert rejected(body=extraction("$.data.empty")) == "body: the body is empty."
    assert rejected(body=template("x${v}", v="$.no")) == "body: the event has no value for ${v}."
    assert rejected(body=template('{"a":${v}}', v="$.no")) == "body: the event has no value for ${v}."
    null = "body: the value for ${v} is null, which is no text."
    assert rejected(body=template("x${v}", v="$.data.before")) == null
    assert rejected(body=template('{"a":"${v}"}', v="$.data.before")) == null
    assert build(body=template('{"a":${v}}', v="$.data.before")).body == b'{"a":null}'


@pytest.mark.parametrize("part", ["key", "tag"])
def test_a_key_and_a_tag_are_the_text_of_a_value_or_not_set(part: str) -> None:
    def built(told: Mapping[str, Any]) -> object:
        return getattr(build(**{part: told}), part)

    assert built({"method": "not_specified"}) is None
    assert getattr(build(), part) is None
    assert built(fixed("change")) == "change"
    assert built(extraction("$.data.tableName")) == "orders"
    assert built(extraction("$.data.count")) == "3"
    assert built(extraction("$.data.ok")) == "true"
    assert built(extraction("$.data.primaryKey")) == '{"id":7}'
    assert built(extraction("$.data.no")) is None
    assert built(extraction("$.data.before")) is None
    assert built(extraction("$.data.empty")) is None
    assert built(extraction("$.data.blank")) is None
    both = {"t": "$.data.tableName", "n": "$.data.count"}
    assert built(template("${t}-${n}", **both)) == "orders-3"
    assert built(template("${t}-${no}", **both, no="$.no")) is None
    assert built(template("${t}-${no}", **both, no="$.data.before")) is None
    assert built(template("${b}", b="$.data.blank")) is None


def test_properties_are_entries_of_the_object_at_a_path() -> None:
    expected = {"a": "1", "n": "2", "nested": '{"x":[1,true]}'}
    assert build(properties=extraction("$.data.userProperties")).properties == expected
    assert build(properties=extraction("$.data.no")).properties == {}
    assert build(properties=extraction("$.data.before")).properties == {}
    words = "must be an object, of which each entry is a property."
    for path in ("$.data.tableName", "$.data.list", "$..userProperties"):
        said = rejected(properties=extraction(path))
        assert said == f"properties: what the event has at {path} {words}"


def test_a_template_of_properties_has_texts_numbers_and_one_embedded_object() -> None:
    told = template(
        '{"fixed": "x", "n": 1.50, "yes": true, "EB_SYS_EMBED_OBJECT": ${all}, "a": "${t}/${c}", "c": ${c},'
        ' "q": "${q}", "gone": "${none}", "null": "-${before}", "esc": "\\"${t}\\"", "o": "${key}", "e": "${empty}"}',
        all="$.data.userProperties",
        t="$.data.tableName",
        c="$.data.count",
        q="$.data.quote",
        none="$.none",
        before="$.data.before",
        key="$.data.primaryKey",
        empty="$.data.empty",
    )
    assert (
        build(properties=told).properties
        == {
            "fixed": "x",
            "n": "1.50",
            "yes": "true",
            "a": "orders/3",  # the template's own entry, not that of the embedded object
            "nested": '{"x":[1,true]}',
            "c": "3",
            "q": 'say "hi"\n\\',
            "esc": '"orders"',
            "o": '{"id":7}',
        }
        or build(properties=told).properties["n"] == "1.50"
    )
    embedded = template('{"EB_SYS_EMBED_OBJECT":"${v}"}', v="$.data.tableName")
    said = "properties: the value for ${v} must be an object, of which each entry is a property."
    assert rejected(properties=embedded) == said
    assert build(data(), properties=embedded).properties == {}


@pytest.mark.parametrize(
    ("text", "body", "is_json"),
    [
        ("${t}: ${q}", 'orders: say "hi"\n\\', False),
        ("no parameter", "no parameter", False),
        ("${o} ${l} ${n} ${ok}", '{"id":7} [1,"ä"] 3 true', False),
        ('{"a":"${q}"}', '{"a":"say \\"hi\\"\\n\\\\"}', True),
        ('{"a":${q}}', '{"a":"say \\"hi\\"\\n\\\\"}', True),
        ('{"a":"<${q}>", "b": ${n}, "c": "${n}", "${t}": ${o}}',
         '{"a":"<say \\"hi\\"\\n\\\\>", "b": 3, "c": "3", "orders": {"id":7}}', True),
        ('{"o":"${o}"}', '{"o":"{\\"id\\":7}"}', True),
        ('[${n},"${t}"]', '[3,"orders"]', True),
        ('\n {"a": "\\\\${t}"}', '\n {"a": "\\\\orders"}', True),
        ("[${t}] text", "[orders] text", False),
        ("[NaN, ${n}]", "[NaN, 3]", False),
        ('["\\${q}n"]', '["\\say "hi"\n\\n"]', False),
        ('"${q}"', '"say "hi"\n\\"', False),
        ("$${t}} $t {", "$orders} $t {", False),
    ],
)  # fmt: skip
def test_a_template_is_text_or_stays_json_whatever_the_values_are(text: str, body: str, is_json: bool) -> None:
    paths = {"t": "tableName", "q": "quote", "n": "count", "o": "primaryKey", "l": "list", "ok": "ok"}
    parameters = {name: f"$.data.{path}" for name, path in paths.items()}
    assert build(body=template(text, **parameters)).body.decode() == body
    assert Template.compile(text, parameters).is_json is is_json
    if is_json:
        json.loads(body)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.text(),
        st.text()
        | st.text(st.sampled_from('a\x00\x1f\x7f\n"\\\u2028\ud800'))
        | st.integers()
        | st.booleans()
        | st.none(),
        max_size=5,
    )
)
def test_a_primary_key_is_written_as_any_other_object(value: dict[str, Any]) -> None:
    assert json_of(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@given(JSON_VALUES)
def test_a_json_template_gives_back_each_value(value: Any) -> None:
    body = build({"v": value}, body=template('{"v": ${v}, "x": [${v}]}', v="$.v")).body
    assert json.loads(body) == {"v": value, "x": [value]}
    if isinstance(value, str):
        quoted = build({"v": value}, body=template('{"v": "<${v}>"}', v="$.v")).body
        assert json.loads(quoted) == {"v": f"<{value}>"}


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "The fields are an object of body, properties, key, tag."),
        ({}, "body: a method is needed; there are complete_data, data_extraction, fixed_value, template."),
        ({"body": COMPLETE, "keys": {}}, "keys: there is no such field; there are body, properties, key, tag."),
        ({"body": "complete_data"}, 'body: this is an object with a method, such as {"method": "template", …}.'),
        ({"body": {}}, "body.method: this is no method; there are complete_data"),
        ({"body": {"method": ["x"]}}, "body.method: this is no method; there are complete_data"),
        ({"body": {"method": "complete_data", "path": "$"}}, "body.path: Complete Data is told nothing else."),
        ({"body": {"method": "template", "path": "$"}}, "body.path: Template is told parameters and template."),
        ({"body": {"method": "data_extraction"}}, "body.path: Data Extraction needs a text here."),
        ({"body": extraction("data.a")}, "body.path: a path begins with $, such as $.data.tableName."),
        ({"body": extraction("$..a..b")}, "body.path: .. stands at most once in a path."),
        ({"body": fixed(" ")}, "body.value: Fixed Value needs a text here."),
        ({"body": fixed("x" * 65_537)}, "body.value: it has 65,537 bytes; at most 65,536 are allowed."),
        ({"body": fixed("\ud800")}, "body.value: a text has half of a surrogate pair, which UTF-8 cannot write."),
        ({"body": {"method": "template", "template": "x"}},
         'body.parameters: this is an object of names and paths, such as {"table": "$.data.tableName"}.'),
        ({"body": template("x", **{"a b": "$.a"})},
         "body.parameters.a b: a name has 1 to 64 letters, digits, dots, _ and -."),
        ({"body": {"method": "template", "parameters": {"a": 1}, "template": "x"}},
         "body.parameters.a: this is a path, such as $.data.tableName."),
        ({"body": template("x", a="constant")}, "body.parameters.a: a path begins with $"),
        ({"body": template("x", **{f"p{n}": "$" for n in range(101)})},
         "body.parameters: there are 101 parameters; at most 100 are allowed."),
        ({"body": {"method": "template", "parameters": {}, "template": {"a": 1}}},
         "body.template: Template needs a text here."),
        ({"body": template("a\n b${c}", a="$.a", b="$.b")}, "body.template: ${c} is not among the parameters: a, b."),
        ({"body": template("${c}")}, "body.template: ${c} is not among the parameters, of which there are none."),
        ({"body": template("a\nb ${a b}")},
         "body.template: line 2, column 3: ${ begins a parameter, such as ${name}."),
        ({"body": template("${")}, "body.template: line 1, column 1: ${ begins a parameter, such as ${name}."),
        ({"body": template('{"a":\n ${a},}', a="$.a")},
         "body.template: what begins with { is JSON, and line 2, column 7 is not: "),
        ({"body": template('{"a": ${a}${a}}', a="$.a")}, "body.template: what begins with { is JSON, and line 1, "),
        ({"body": template('{"a": NaN}')},
         "body.template: what begins with { is JSON, and NaN is nothing that JSON has."),
        ({"body": template("\ud800")}, "body.template: it has a character that no text may have"),
        ({"body": template("x" * 65_537)}, "body.template: it has 65,537 bytes; at most 65,536 are allowed."),
        ({"body": COMPLETE, "key": extraction("$[")}, "key.path: column "),
        ({"body": COMPLETE, "key": fixed("a\nb")},
         "key.value: a key has no control characters, such as the end of a line."),
        ({"body": COMPLETE, "key": fixed("k" * 4_097)}, "key.value: it has 4,097 bytes; at most 4,096 are allowed."),
        ({"body": COMPLETE, "tag": fixed("a||b")},
         "tag.value: a tag has no | and no control characters, such as the end of a line."),
        ({"body": COMPLETE, "tag": fixed("a\x02b")}, "tag.value: a tag has no | and no control characters"),
        ({"body": COMPLETE, "tag": fixed("t" * 257)}, "tag.value: it has 257 bytes; at most 256 are allowed."),
        ({"body": COMPLETE, "tag": fixed("  ")}, "tag.value: Fixed Value needs a text here."),
    ],
)  # fmt: skip
def test_each_mistake_of_the_document_is_refused_with_its_field(document: Any, sentence: str) -> None:
    said = refused(document)
    assert said == sentence if sentence.endswith(".") else said.startswith(sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x", "it must be a JSON object, and line 1, column 1 is not: expecting value."),
        ('["a"]', 'it must be a JSON object, such as {"table": "${table}"}.'),
        ('{"a": ${v}\n,}', "it must be a JSON object, and line 2, column "),
        ('{"a": "1", "a": "2"}', "the name a stands twice."),
        (
            '{"EB_SYS_EMBED_OBJECT": "${v}", "EB_SYS_EMBED_OBJECT": "${v}"}',
            "the name EB_SYS_EMBED_OBJECT stands twice.",
        ),
        ('{"a": {"b": "1"}}', "a must be a text, a number, true or false."),
        ('{"a": null}', "a must be a text, a number, true or false."),
        ('{"EB_SYS_EMBED_OBJECT": "x${v}"}', "EB_SYS_EMBED_OBJECT is one parameter, such as ${all}, and nothing else."),
        ('{"EB_SYS_EMBED_OBJECT": "x"}', "EB_SYS_EMBED_OBJECT is one parameter"),
        ('{"KEYS": "${v}"}', "KEYS is no property; the field key sets it."),
        ('{"TAGS": "${v}"}', "TAGS is no property; the field tag sets it."),
        ('{"DELAY": "3"}', "the property DELAY is the message service's own."),
        ('{"__STARTDELIVERTIME": "3"}', "the property __STARTDELIVERTIME is the message service's own."),
        ('{"": "3"}', "the name of a property is blank or has control characters."),
        ('{"a\\u0001b": "3"}', "the name of a property is blank or has control characters."),
        ('{"${v}": "3"}', "the name of a property has no parameters; they stand in its value."),
        ('{"a": "x\\u0002y"}', "the property a has U+0001 or U+0002, which separate properties."),
        ('{"a": "${w}"}', "${w} is not among the parameters: v."),
        ('{"a": "\\ud800"}', "it has a character that no text may have"),
        (json.dumps({"n" * 129: "x"}), "the name of the property " + "n" * 60 + "… is longer than 128 bytes."),
    ],
)
def test_each_mistake_of_a_template_of_properties_is_refused(text: str, sentence: str) -> None:
    said = refused({"body": COMPLETE, "properties": template(text, v="$.v")})
    assert said.startswith(f"properties.template: {sentence}")


def test_values_of_hostile_events_never_break_the_message() -> None:
    whole = extraction("$.data")
    separator = "properties: the property a has U+0001 or U+0002, which separate properties."
    for sign in "\x01\x02":
        assert rejected(data(a=f"x{sign}TAGS{sign}y"), properties=whole) == separator
        assert rejected(data(a=sign), properties=template('{"a":"${v}"}', v="$.data.a")) == separator
        assert "control characters" in rejected({"data": {f"a{sign}": "x"}}, properties=whole)
        assert "control characters" in rejected(data(a=sign), key=extraction("$.data.a"))
        assert "control characters" in rejected(data(a=f"t{sign}"), tag=template("${v}", v="$.data.a"))
    assert rejected(data(TAGS="x"), properties=whole) == "properties: TAGS is no property; the field tag sets it."
    assert rejected(data(UNIQ_KEY="x"), properties=whole) == (
        "properties: the property UNIQ_KEY is the message service's own."
    )
    assert rejected({"data": {" ": "x"}}, properties=whole).startswith("properties: the name of a property is blank")
    assert rejected(data(a="x||y"), tag=extraction("$.data.a")).startswith("tag: a tag has no |")
    assert rejected(data(a="k\r\n"), key=extraction("$.data.a")).startswith("key: a key has no control characters")
    # Signs that JSON escapes are no danger in the JSON of an object.
    assert build(data(a={"x": "\x01\x02"}), properties=whole).properties == {"a": '{"x":"\\u0001\\u0002"}'}


def test_lengths_are_bounded_and_nothing_is_cut_off() -> None:
    at = extraction("$.data.a")
    assert build(data(a="ä" * (MAX_KEY // 2)), key=at).key == "ä" * (MAX_KEY // 2)
    assert rejected(data(a="ä" * (MAX_KEY // 2 + 1)), key=at) == "key: it has 4,098 bytes; at most 4,096 are allowed."
    assert build(data(a="t" * MAX_TAG), tag=at).tag == "t" * MAX_TAG
    assert rejected(data(a="t" * (MAX_TAG + 1)), tag=at) == "tag: it has 257 bytes; at most 256 are allowed."
    assert rejected(data(a="t" * 300), tag=template("${v}", v="$.data.a")) == (
        "tag: with its values the template has more than 256 characters, the most allowed."
    )
    assert len(build(data(a="b" * MAX_BODY), body=at).body) == MAX_BODY
    assert rejected(data(a="b" * (MAX_BODY + 1)), body=at) == (
        "body: the body has 4,194,305 bytes; at most 4,194,304 are allowed."
    )
    # Many places of one long value are not joined first.
    bomb = template("${v}" * 10_000, v="$.data.a")
    assert rejected(data(a="b" * MAX_BODY), body=bomb) == (
        "body: with its values the template has more than 4,194,304 characters, the most allowed."
    )
    whole = extraction("$.data")
    many = {f"p{n}": "x" for n in range(MAX_PROPERTIES)}
    assert build(data(**many), properties=whole).properties == many
    assert rejected(data(**many, more="x"), properties=whole) == (
        "properties: there are 129 properties; at most 128 are allowed."
    )
    assert rejected(data(a="x" * MAX_PROPERTIES_SIZE), properties=whole) == (
        "properties: the properties have 16,387 bytes; at most 16,384 are allowed."
    )
    assert rejected({"data": {"n" * 129: "x"}}, properties=whole).endswith("is longer than 128 bytes.")
    unique = template('{"UNIQ_KEY":"${v}"}', v="$.data.a")
    assert build(data(a="u" * MAX_UNIQUE_ID), properties=unique).unique_id == "u" * MAX_UNIQUE_ID
    assert rejected(data(a="u" * (MAX_UNIQUE_ID + 1)), properties=unique).startswith("properties: it has 257 bytes")
    assert build(data(), properties=unique).unique_id is None


def test_values_that_json_or_utf8_has_not_reject_the_event() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    reason = "a value is NaN, infinite, longer than a number may be, or nothing that JSON has."
    for value, said in (
        (math.nan, reason),
        (math.inf, reason),
        (10**5000, reason),
        (b"x", reason),
        ({"x": {1, 2}}, reason),
        (deep, "a value is nested too deep to be written."),
        ("\ud800", "a text has half of a surrogate pair, which UTF-8 cannot write."),
    ):
        event = data(a=value)
        assert rejected(event) == f"body: {said}"
        body = fixed("x")
        assert rejected(event, body=body, key=extraction("$.data.a")) == f"key: {said}"
        assert rejected(event, body=body, tag=template("${v}", v="$.data.a")) == f"tag: {said}"
        assert rejected(event, body=body, properties=extraction("$.data")) == f"properties: {said}"
    assert rejected(data(a=deep), body=extraction("$..b")) == (
        "body: the event is nested too deep to be searched by $..b."
    )
    with pytest.raises(EventRejected, match=r"^An event is an object\.$"):
        build([EVENT])  # type: ignore[arg-type]


def test_the_document_comes_back_as_json_that_builds_the_same() -> None:
    document = {
        "body": template('{"a": ${v}}', v=" $.data.tableName "),
        "properties": template('{"EB_SYS_EMBED_OBJECT":"${all}"}', all="$.data.userProperties"),
        "key": extraction("$.data.primaryKey"),
    }
    fields = Fields.compile(document)
    stored = json.loads(json.dumps(fields.to_document()))
    assert stored == {
        "body": template('{"a": ${v}}', v="$.data.tableName"),
        "properties": document["properties"],
        "key": document["key"],
        "tag": {"method": "not_specified"},
    }
    again = Fields.compile(stored)
    assert again.to_document() == stored
    assert again.build(EVENT) == fields.build(EVENT)
    # It is a copy.
    fields.to_document()["body"]["parameters"]["v"] = "$"
    assert fields.to_document() == stored


HOSTILE = st.text(st.sampled_from("aT\x00\x01\x02\x7f\n\r |\"'\\${}ä\ud800😀"), max_size=6) | st.sampled_from(
    ["TAGS", "UNIQ_KEY", "DELAY", "${v}", "x" * 5_000]
)
HOSTILE_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=500, deadline=None)
@given(HOSTILE_VALUES, HOSTILE_VALUES, st.dictionaries(HOSTILE, HOSTILE_VALUES, max_size=4))
def test_what_is_built_can_be_sent_and_is_received_as_it_was(a: Any, b: Any, properties: dict[str, Any]) -> None:
    fields = Fields.compile(
        {
            "body": template('{"a": ${a}, "b": "${b}"}', a="$.a", b="$.b"),
            "properties": template('{"EB_SYS_EMBED_OBJECT": ${p}, "own": "${a}-${b}"}', a="$.a", b="$.b", p="$.p"),
            "key": extraction("$.a"),
            "tag": template("${b}", b="$.b"),
        }
    )
    try:
        message = fields.build({"a": a, "b": b, "p": properties})
    except EventRejected as error:
        str(error).encode()
        assert "\n" not in str(error)
        return
    json.loads(message.body)
    own = {"TAGS": message.tag or "", "KEYS": message.key or ""}
    encoded = encode_properties(message.properties | own)
    assert len(encoded) + ROOM < MOST_ENCODED
    assert decode_properties(encoded) == message.properties | {name: text for name, text in own.items() if text}
