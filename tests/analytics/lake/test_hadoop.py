"""What Spark is told of the lake."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics import lake, settings
from analytics.errors import EngineUnavailable, LakeUnavailable

S3 = {
    "GANTRY_LAKE": "s3://",
    "GANTRY_LAKE_ENDPOINT": "https://storage.example.com",
    "GANTRY_LAKE_ACCESS_KEY_ID": "the-id",
    "GANTRY_LAKE_ACCESS_KEY_SECRET": "the-secret",
}


@pytest.fixture
def set_to(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in S3.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("set_to")
def test_s3a_reaches_the_lake_and_its_key_is_not_in_what_spark_is_started_with() -> None:
    assert lake.spark_url("oss://alice-lake/t/") == "s3a://alice-lake/t"
    configuration = lake.spark_configuration()
    assert configuration["spark.hadoop.fs.s3a.endpoint"] == "https://storage.example.com"
    assert configuration["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert not any("the-id" in value or "the-secret" in value for value in configuration.values())
    assert lake.hadoop_secrets() == {"fs.s3a.access.key": "the-id", "fs.s3a.secret.key": "the-secret"}
    assert "the-secret" not in repr(settings.load())


@pytest.mark.usefixtures("set_to")
def test_hadoops_file_system_of_oss_can_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_LAKE_HADOOP", "oss")
    assert lake.spark_url("oss://alice-lake/t/") == "oss://alice-lake/t"
    assert lake.spark_configuration()["spark.hadoop.fs.oss.endpoint"] == "https://storage.example.com"
    assert lake.hadoop_secrets() == {"fs.oss.accessKeyId": "the-id", "fs.oss.accessKeySecret": "the-secret"}


@pytest.mark.usefixtures("set_to")
def test_a_secret_can_be_a_file_and_one_that_cannot_be_read_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("GANTRY_LAKE_ACCESS_KEY_SECRET")
    monkeypatch.setenv("GANTRY_LAKE_ACCESS_KEY_SECRET_FILE", str(tmp_path / "secret"))
    with pytest.raises(LakeUnavailable, match=r"GANTRY_LAKE_ACCESS_KEY_SECRET_FILE names .* which cannot be read"):
        settings.load()
    (tmp_path / "secret").write_text("from a file\n")
    assert lake.hadoop_secrets()["fs.s3a.secret.key"] == "from a file"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("GANTRY_LAKE", "gs://bucket", "allowed are a folder, s3:// and s3://bucket/prefix/"),
        ("GANTRY_LAKE_HADOOP", "hdfs", "allowed are s3a and oss"),
        ("GANTRY_LAKE_PATH_STYLE", "yes", "allowed are true and false"),
    ],
)
@pytest.mark.usefixtures("set_to")
def test_an_odd_setting_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(LakeUnavailable, match=message):
        settings.load()


def test_a_folder_needs_nothing_and_jars_are_found_by_pattern(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert lake.spark_configuration() == {}
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).touch()
    monkeypatch.setenv("GANTRY_SPARK_JARS", f"{tmp_path}/*.jar")
    assert lake.spark_configuration() == {"spark.jars": f"{tmp_path}/a.jar,{tmp_path}/b.jar"}
    monkeypatch.setenv("GANTRY_SPARK_JARS", f"{tmp_path}/none-*.jar")
    with pytest.raises(EngineUnavailable, match="and there is no such file"):
        lake.spark_configuration()
