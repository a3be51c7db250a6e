"""Where a secret is read from, and what is said when it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokercore.secret_files import SecretError, read_secret


def test_the_variable_comes_before_its_file_and_that_before_the_usual_one(tmp_path: Path) -> None:
    given, usual = tmp_path / "given", tmp_path / "usual"
    given.write_text("from the file\n")
    usual.write_text("from home\n")
    assert read_secret({"S": "plain", "S_FILE": str(given)}, "S", usual) == "plain"
    assert read_secret({"S": "", "S_FILE": str(given)}, "S", usual) == "from the file"
    assert read_secret({"S_FILE": ""}, "S", usual) == "from home"


def test_nothing_at_all_is_empty(tmp_path: Path) -> None:
    assert read_secret({}, "S") == ""
    assert read_secret({}, "S", tmp_path / "none") == ""


def test_a_named_file_that_is_not_there_is_an_error_and_never_the_usual_one(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("from home")
    with pytest.raises(SecretError, match=r"^S_FILE names /no/such, which cannot be read: No such file"):
        read_secret({"S_FILE": "/no/such"}, "S", tmp_path / "usual")


def test_a_usual_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert read_secret({}, "S", tmp_path / "loop") == ""
    with pytest.raises(SecretError, match=r"^S is not set, and .* cannot be read: File name too long"):
        read_secret({}, "S", tmp_path / ("x" * 300))
