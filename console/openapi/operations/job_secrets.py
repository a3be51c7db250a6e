"""What the texts of SQL jobs name: secrets, of which nobody is told the value, and variables."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from console.jobs import access
from console.openapi.envelope import Page, in_symbols, milliseconds, page_of
from console.openapi.operations.jobs import SYMBOLS
from console.openapi.registry import NOTHING, Call, Nothing, Paged, Parameters, Result, operation
from console.pipelines import queries
from console.pipelines import services as pipelines

SecretName = Annotated[str, Field(min_length=1, max_length=128, description="Name of the secret.", examples=["key_id"])]
VariableName = Annotated[
    str, Field(min_length=1, max_length=64, description="Name of the variable.", examples=["endpoint"])
]
Value = Annotated[str, StringConstraints(strip_whitespace=False, min_length=1, max_length=16_384)]


class SecretOnly(Parameters):
    secret: SecretName


class SecretPut(SecretOnly):
    value: Annotated[Value, Field(description="The value; it is never told again.")]


class VariableOnly(Parameters):
    variable: VariableName


class VariablePut(VariableOnly):
    value: Annotated[Value, Field(description="The value; versions that are deployed keep the old one.")]


class SecretDo(Result):
    """A secret, of which the value is not told."""

    secret: str
    changeTime: int = Field(description="Milliseconds since the epoch.")


class VariableDo(Result):
    """A variable."""

    variable: str
    value: str


@operation(
    "job/secrets",
    service="Job",
    summary="Names of the secrets of SQL jobs",
    parameters=Paged,
    result=SecretDo,
    paged=True,
    needs=(access.LIST_SECRETS,),
    extension=True,
)
def secrets(call: Call, parameters: Paged) -> Page:
    tenant = access.require_right(call.actor, access.LIST_SECRETS, "*", "job-secret")
    found = queries.secrets(tenant)
    return page_of(parameters, found, lambda one: SecretDo(secret=one.name, changeTime=milliseconds(one.changed_at)))


@operation(
    "job/putSecret",
    service="Job",
    summary="Save a secret of SQL jobs, or its new value",
    description="A text names it as `${secret_values.<name>}`; jobs have it from their next start on.",
    parameters=SecretPut,
    result=Nothing,
    needs=(access.PUT_SECRET,),
    changes=True,
    extension=True,
)
def put_secret(call: Call, parameters: SecretPut) -> dict[str, Any]:
    access.require_right(call.actor, access.PUT_SECRET, parameters.secret, "job-secret")
    with in_symbols(SYMBOLS):
        pipelines.set_secret(actor=call.actor, name=parameters.secret, value=parameters.value)
    return NOTHING


@operation(
    "job/deleteSecret",
    service="Job",
    summary="Delete a secret of SQL jobs",
    parameters=SecretOnly,
    result=Nothing,
    needs=(access.DELETE_SECRET,),
    changes=True,
    errors=("BIZ_SECRET_NOT_FOUND",),
    extension=True,
)
def delete_secret(call: Call, parameters: SecretOnly) -> dict[str, Any]:
    access.require_right(call.actor, access.DELETE_SECRET, parameters.secret, "job-secret")
    with in_symbols(SYMBOLS):
        pipelines.delete_secret(actor=call.actor, name=parameters.secret)
    return NOTHING


@operation(
    "job/variables",
    service="Job",
    summary="Variables of SQL jobs",
    parameters=Paged,
    result=VariableDo,
    paged=True,
    needs=(access.LIST_SECRETS,),
    extension=True,
)
def variables(call: Call, parameters: Paged) -> Page:
    tenant = access.require_right(call.actor, access.LIST_SECRETS, "*", "job-variable")
    return page_of(parameters, queries.variables(tenant), lambda one: VariableDo(variable=one.name, value=one.value))


@operation(
    "job/putVariable",
    service="Job",
    summary="Save a variable of SQL jobs, or its new value",
    description="A text names it as `${<name>}`.",
    parameters=VariablePut,
    result=Nothing,
    needs=(access.PUT_SECRET,),
    changes=True,
    extension=True,
)
def put_variable(call: Call, parameters: VariablePut) -> dict[str, Any]:
    access.require_right(call.actor, access.PUT_SECRET, parameters.variable, "job-variable")
    with in_symbols(SYMBOLS):
        pipelines.set_variable(actor=call.actor, name=parameters.variable, value=parameters.value)
    return NOTHING


@operation(
    "job/deleteVariable",
    service="Job",
    summary="Delete a variable of SQL jobs",
    parameters=VariableOnly,
    result=Nothing,
    needs=(access.DELETE_SECRET,),
    changes=True,
    errors=("BIZ_VARIABLE_NOT_FOUND",),
    extension=True,
)
def delete_variable(call: Call, parameters: VariableOnly) -> dict[str, Any]:
    access.require_right(call.actor, access.DELETE_SECRET, parameters.variable, "job-variable")
    with in_symbols(SYMBOLS):
        pipelines.delete_variable(actor=call.actor, name=parameters.variable)
    return NOTHING
