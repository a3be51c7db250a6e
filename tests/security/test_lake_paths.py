"""Attack: a location of the lake that means one thing to who decides and another to who opens.

Every form that something behind us could expand, decode or normalise, given to every door that takes a location or a
part of one: definitions, uploads, pages, stored rows.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from analytics.errors import LakeError
from analytics.lake import Place, lake_path
from analytics.lake.locations import parse_location
from console.accounts.models import User
from console.catalog import ddl
from console.catalog.definitions import literal
from console.catalog.models import Bucket, ExternalTable, Schema
from console.sql import specs
from console.sql.models import QueryTask
from console.web.errors import Refused
from tests.support.sql_cast import Cast, allow

KEYS = [
    # Hadoop's patterns
    "{a,b}", "{../,/x}", "t/{x,/etc/passwd}", "{../../../../etc/passwd,x}", "*", "?", "[a-z]", "a[^b]", "t/*/",
    "\\*", "{", "}",
    # ways up, and nothing
    "..", ".", "a/../b", "a/./b", "a//b", "/a", "a/b//", "public//secret/s.csv", "...//..", "a/ ../b", "a/.. /b",
    # what somebody may decode
    "%2e%2e/x", "a%2Fb", "%2f", "%252e%252e", "a%00b", "100%", "a#b", "a?b=c", "x=%2e%2e/%2f", "x=%", "x=%GG",
    # controls, and letters that are not what they look like
    "a\0b", "a\nb", "a\tb", "a\x7fb", "a\u2028b", "a\u202eb", "a\u200bb", "a\ufeffb", "a\u00a0b", "\uff0e\uff0e/x",
    "a\uff0fb",
    "a\u2024\u2024/b\u2025/\u2025", "e\u0301", "\ud800", "a\ue000b", "a\u0378b", "\uff5ba,b\uff5d", "a\uff0a",
    # signs of shells and of texts of SQL
    'a"b', "a\\b", "a|b", "a<b", "a`b", "a^b", " a", "a ", "x/ a/b",
]  # fmt: skip


@pytest.fixture
def lake(sql_cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder behind `oss://`; `demo` has the bucket `demo-lake`, `other` has `other-lake`."""
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))
    Bucket.objects.create(tenant=sql_cast.alice.tenant, name="demo-lake")
    Bucket.objects.create(tenant=sql_cast.charlie.tenant, name="other-lake")
    Bucket.objects.create(tenant=sql_cast.alice.tenant, name="demo")
    return tmp_path


def signed_in(user: User) -> Client:
    User.objects.filter(pk=user.pk).update(must_change_password=False)
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_a_location_that_somebody_could_read_otherwise_is_none(key: str) -> None:
    with pytest.raises(LakeError, match="is not a location of the lake"):
        parse_location(f"oss://demo-lake/t/{key}/x.csv")
    with pytest.raises(LakeError):
        Place("demo-lake", key)
    with pytest.raises(LakeError):
        Place("demo-lake", "t").child(key)


@pytest.mark.parametrize(
    "bucket", ["", "..", "a{b,c}d", "demo-lake%2f", "Demo", "demo.lake", "demo_lake", "*", "ab", "dé-mo"]
)
def test_a_bucket_has_a_plain_name(bucket: str) -> None:
    with pytest.raises(LakeError):
        parse_location(f"oss://{bucket}/t")


@pytest.mark.parametrize(
    "text",
    ["file:///etc/passwd", "/etc/passwd", "OSS://demo-lake/t", "oss:/demo-lake/t", " oss://demo-lake/t", "s3a://x/y"],
)
def test_only_one_way_to_begin_is_known(text: str) -> None:
    with pytest.raises(LakeError):
        parse_location(text)


@given(st.text(max_size=40))
def test_what_is_a_location_is_written_in_one_way(key: str) -> None:
    try:
        place = parse_location(f"oss://demo-lake/{key}")
    except LakeError:
        return
    assert f"oss://demo-lake/{key}".removesuffix("/") == place.location
    assert parse_location(place.location) == parse_location(place.as_folder) == place
    assert not set(place.key) & set("{}[]*?\\%\0") or "=" in place.key
    assert all(part not in {"", ".", ".."} for part in place.key.split("/") if place.key)


@pytest.mark.parametrize(
    "key",
    ["day=2026-01-15/x.csv", "at=10%3A00%2F/a.csv", "My Orders/a b.csv", "größe/価格.csv", "a+b@c(1),d;e~f!$&'=.csv"],
)
def test_honest_names_are_left_as_they_are(key: str) -> None:
    assert parse_location(f"oss://demo-lake/{key}").key == key


@pytest.mark.django_db
def test_no_door_takes_one(sql_cast: Cast, lake: Path) -> None:
    (lake / "demo-lake" / "t").mkdir(parents=True)
    client = signed_in(sql_cast.alice.person)
    page = reverse("sql.bucket", args=["demo-lake"])
    for key in KEYS:
        if "\ud800" in key:  # no client can write it
            continue
        for definition in ("external table demo.bad (a string) using csv", "schema bad"):
            with pytest.raises(Refused):
                ddl.run(sql_cast.alice, f"create {definition} location {literal(f'oss://demo-lake/t/{key}/x')}", "demo")
        with pytest.raises(Refused):
            ddl.run(
                sql_cast.alice, f"alter table demo.flights set location {literal(f'oss://demo-lake/{key}/x')}", "demo"
            )
        inner = f"t/{key}/x"
        assert client.get(page, {"folder": inner}).status_code in (400, 404), key
        assert client.get(page + "table", {"folder": inner}).status_code in (400, 404), key
        upload = {"folder": inner, "content": [SimpleUploadedFile("a.csv", b"x")]}
        assert client.post(page + "upload", upload).status_code in (400, 404), key
    assert not ExternalTable.objects.filter(name="bad").exists()
    assert not Schema.objects.filter(name="bad").exists()
    assert list((lake / "demo-lake" / "t").iterdir()) == []


@pytest.mark.django_db
def test_no_file_is_uploaded_under_a_pattern(sql_cast: Cast, lake: Path) -> None:
    client = signed_in(sql_cast.alice.person)
    for name in ("{a,b}.csv", "*.csv", "a%2fb.csv", "a?.csv", "[a].csv"):
        data = {"folder": "t", "content": [SimpleUploadedFile(name, b"x")]}
        assert client.post(reverse("sql.bucket_upload", args=["demo-lake"]), data).status_code == 422, name
    assert not (lake / "demo-lake" / "t").exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"location": "oss://demo-lake/{../other-lake,x}/"}, "no part of it may hold"),
        ({"location": "oss://demo-lake/a/../../other-lake/"}, "no part of it may be"),
        ({"location": "oss://other-lake/secret/"}, "not a folder in your buckets"),
        ({"location": "oss://gantry-metrics/tps/"}, "not a folder in your buckets"),
        ({"location": "file:///etc/"}, "must have the form"),
        ({"location": "oss://demo-lake/"}, "not a folder in your buckets"),
        ({"format": "text"}, "its format is text"),
        ({"format": "mq", "options": {"namesrv": "127.0.0.1:9876"}}, "its format is mq"),
        ({"options": {"path": "/etc/passwd"}}, "'path' is not supported"),
        ({"options": {"basePath": "/"}}, "'basePath' is not supported"),
        ({"options": {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem"}}, "is not supported"),
        ({"options": {"pathGlobFilter": "{a,../b}"}}, "pathGlobFilter"),
        ({"format": "csv", "options": {"compression": "org.apache.hadoop.io.compress.SnappyCodec"}}, "compression"),
    ],
    ids=str,
)
def test_a_row_from_before_is_judged_again_and_not_read(
    sql_cast: Cast,
    lake: Path,
    change: dict[str, object],
    told: str,
) -> None:
    ExternalTable.objects.filter(name="flights").update(**change)
    task = QueryTask.objects.create(
        id="q1", tenant=sql_cast.alice.tenant, creator=sql_cast.alice.person, table_schema="demo", statement="select 1",
        command="select 1", submitter="a", task_name="SELECT",
    )  # fmt: skip
    tables = {table.name: table for table in specs.spec_of(task).tables["demo"]}
    assert told in tables["flights"].problem
    assert "Drop it and create it again." in tables["flights"].problem
    assert tables["airlines"].problem == ""


DENIED = {
    "Version": "1",
    "Statement": [
        {"Effect": "Allow", "Action": "dla:*", "Resource": "*"},
        {"Effect": "Deny", "Action": "dla:*Bucket", "Resource": "acs:oss:*:*:demo-lake/public/secret/*"},
    ],
}


@pytest.fixture
def bob(sql_cast: Cast, lake: Path) -> Client:
    """May do everything, with `public/secret/*` denied."""
    for key, content in (("public/a.csv", "id\n1\n"), ("public/secret/s.csv", "id\n42\n")):
        (lake / "demo-lake" / key).parent.mkdir(parents=True, exist_ok=True)
        (lake / "demo-lake" / key).write_text(content)
    return signed_in(allow(sql_cast.bob.person, DENIED).person)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "key",
    ["public//secret/s.csv", "public/secret/s.csv", "/public/secret/s.csv", "public/./secret/s.csv",
     "public/secret//s.csv", "x/../public/secret/s.csv", "public/secret/s.csv/", "public%2Fsecret/s.csv",
     "public/secret/{s,t}.csv",      "public/*/s.csv"],
)  # fmt: skip
def test_a_denied_file_is_opened_by_no_spelling(bob: Client, key: str) -> None:
    base = reverse("sql.bucket", args=["demo-lake"])
    for what in ("file", "delete"):
        answer = (
            bob.post(f"{base}{what}/{key}", {"name": "s.csv"}) if what == "delete" else bob.get(f"{base}{what}/{key}")
        )
        assert answer.status_code in (403, 404), what
    assert bob.get(base, {"folder": key.rpartition("/")[0]}).status_code in (200, 403, 404)
    assert Path(lake_path("oss://demo-lake/public/secret/s.csv")).exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "resource",
    [
        "demo-lake/public/secret/*",
        "demo-lake/public/secret",
        "demo-lake/public/secret/",
        "demo-lake/public/secret/s.csv",
        "demo-lake/*/secret/s.*",
    ],
)
def test_a_deny_reaches_every_file_below_however_it_is_written(sql_cast: Cast, bob: Client, resource: str) -> None:
    policy = sql_cast.bob.person.policies.get()
    policy.document["Statement"][1]["Resource"] = f"acs:oss:*:*:{resource}"
    policy.save()
    base = reverse("sql.bucket", args=["demo-lake"])
    assert bob.get(f"{base}file/public/secret/s.csv").status_code == 403
    assert bob.get(f"{base}file/public/a.csv").status_code == 200


@pytest.mark.django_db
def test_a_definition_looks_into_no_denied_file(sql_cast: Cast, bob: Client) -> None:
    actor = allow(sql_cast.bob.person)
    with pytest.raises(Exception, match=r"denies dla:ReadBucket on .*public/secret/"):
        ddl.run(actor, "create external table demo.t using csv location 'oss://demo-lake/public/'", "demo")
    Schema.objects.filter(name="demo").update(location="oss://demo-lake/")
    page = bob.get(reverse("sql.bucket_table", args=["demo-lake"]), {"folder": "public"}).content.decode()
    assert "Not allowed" in page
    assert "CREATE EXTERNAL" not in page


@pytest.mark.django_db
def test_what_is_denied_below_is_not_deleted_with_what_is_above(sql_cast: Cast, bob: Client) -> None:
    schema = Schema.objects.get(name="demo")
    ExternalTable.objects.create(
        schema=schema, name="m", location="oss://demo-lake/public/", managed=True, format="csv"
    )
    actor = allow(sql_cast.bob.person)
    for statement in ("truncate table demo.m", "drop table demo.m"):
        with pytest.raises(Exception, match=r"denies dla:WriteBucket on .*public/secret/"):
            ddl.run(actor, statement, "demo")
    ExternalTable.objects.filter(name="m").delete()
    assert bob.post(reverse("sql.bucket_delete", args=["demo-lake"]), {"name": "demo-lake"}).status_code == 403
    assert Path(lake_path("oss://demo-lake/public/secret/s.csv")).exists()
