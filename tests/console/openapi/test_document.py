"""The OpenAPI document: valid, complete, and the same as the code and the docs say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from django.test import Client
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from console.openapi.document import COMMON_ERRORS, document
from console.openapi.envelope import CODES, Page, failure, success
from console.openapi.operations import OPERATIONS
from console.openapi.reference import markdown_table, references

ROOT = Path(__file__).resolve().parents[3]
VENDOR_OPERATIONS = 38
each_operation = pytest.mark.parametrize("path", sorted(OPERATIONS))


@pytest.fixture(scope="module")
def built() -> dict[str, Any]:
    return document()


def test_it_is_a_valid_document_of_openapi_3_1(built: dict[str, Any]) -> None:
    assert [error.message for error in OPENAPI_31_VALIDATOR.iter_errors(built)] == []


def test_every_schema_in_it_is_a_valid_json_schema(built: dict[str, Any]) -> None:
    for schema in built["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_reference_leads_somewhere(built: dict[str, Any]) -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                _, kind, group, name = value["$ref"].split("/")
                assert name in built[kind][group]
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(built)


def test_every_operation_stands_in_it_by_get_and_by_post(built: dict[str, Any]) -> None:
    assert set(built["paths"]) == {f"/json/{path}" for path in OPERATIONS}
    assert all({"get", "post"} <= set(item) for item in built["paths"].values())
    ids = [item[verb]["operationId"] for item in built["paths"].values() for verb in ("get", "post")]
    assert len(set(ids)) == len(ids)


def test_the_vendors_38_operations_are_there_and_ours_are_marked() -> None:
    assert sum(not operation.extension for operation in OPERATIONS.values()) == VENDOR_OPERATIONS
    assert {r.version for r in references() if r.extension} == {"gantry-1"}


@each_operation
def test_its_parameters_are_those_that_the_code_validates(built: dict[str, Any], path: str) -> None:
    fields = OPERATIONS[path].parameters.model_fields
    get = built["paths"][f"/json/{path}"]["get"]["parameters"]
    assert [parameter["name"] for parameter in get] == list(fields)
    assert {p["name"] for p in get if p["required"]} == {n for n, f in fields.items() if f.is_required()}


@each_operation
def test_it_says_what_the_operation_is_for_and_what_can_go_wrong(built: dict[str, Any], path: str) -> None:
    post = built["paths"][f"/json/{path}"]["post"]
    assert post["summary"] and not post["summary"].endswith(".")
    errors = post["x-gantry"]["errors"]
    assert set(COMMON_ERRORS) | set(OPERATIONS[path].errors) == set(errors)
    assert len(set(errors)) == len(errors) and set(errors) <= set(CODES)


def test_the_envelopes_of_the_code_fit_the_schemas(built: dict[str, Any]) -> None:
    def fits(name: str, body: bytes) -> None:
        schema = {"$ref": f"#/components/schemas/{name}", "components": built["components"]}
        jsonschema.validate(json.loads(body), schema)

    fits("Success", success({"instanceId": "x"}, "id").content)
    fits("Success", success(Page([], 1, 20, 0), "id").content)
    for symbol in CODES:
        fits("Failure", failure(symbol, "why", "id").content)
    with pytest.raises(jsonschema.ValidationError):
        fits("Failure", success({}, "id").content)


def test_everybody_may_read_it_and_nothing_of_a_tenant_is_in_it(db: None) -> None:
    client = Client()
    response = client.get("/json/openapi.json")
    assert response.status_code == 200 and response.json() == json.loads(json.dumps(document()))
    again = client.get("/json/openapi.json", headers={"If-None-Match": response["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_table_in_the_docs_is_the_registry() -> None:
    text = (ROOT / "docs" / "use" / "management-api.md").read_text()
    assert markdown_table() in text, "replace the table by what `manage.py openapi --table` prints"
