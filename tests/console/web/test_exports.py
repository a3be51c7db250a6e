"""Files of rows: nothing in them runs in a spreadsheet."""

from __future__ import annotations

import csv

import pytest

from console.web import exports
from console.web.languages import gettext_lazy


def cell(value: object) -> str:
    _, line = exports.as_csv(["name"], [[value]])
    ((found,),) = csv.reader([line])
    return found


@pytest.mark.parametrize("begins", ["=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠"])
def test_a_text_that_would_be_a_formula_begins_with_an_apostrophe(begins: str) -> None:
    assert cell(f"{begins}1+1") == f"'{begins}1+1"
    assert cell(f"a{begins}1") == f"a{begins}1"


def test_numbers_are_as_they_are_and_other_values_are_texts() -> None:
    assert [cell(value) for value in (-5, -0.25, 0, True, gettext_lazy("Normal"))] == [
        "-5",
        "-0.25",
        "0",
        "True",
        "Normal",
    ]
