"""One page or all of them, in both styles of paging: plain pages and query tasks."""

from __future__ import annotations

from typing import Any

from cli.catalog import Operation
from cli.config import Profile
from cli.transport import call

_BIGGEST = {"pages": "100", "task": "50"}


def collect(profile: Profile, operation: Operation, values: dict[str, str], *, every: bool = False) -> Any:
    """The data of one call, or with `every` that of all pages, joined. Raises CliError."""
    names = {parameter.name.lower(): parameter.name for parameter in operation.parameters}
    number, size = names.get("currentpage", ""), names.get("pagesize", "")
    if operation.paging and (every or operation.paging == "task"):
        values = {number: "1"} | values
    if every:
        values = {size: _BIGGEST[operation.paging]} | values
    envelope = call(profile, operation.path, values, region=operation.region_required)
    data = envelope["data"]
    if not every or data is None:
        return data
    if operation.paging == "pages":
        return _plain_pages(profile, operation, values, envelope, number)
    return _task_pages(profile, operation, values, data, names)


def _plain_pages(
    profile: Profile, operation: Operation, values: dict[str, str], first: dict[str, Any], number: str
) -> list[Any]:
    found = list(first["data"])
    page = int(values[number])
    # An entry deleted meanwhile moves the rest: an empty page ends it whatever the total said.
    while len(found) < first["total"]:
        page += 1
        entries = call(profile, operation.path, values | {number: str(page)})["data"]
        if not entries:
            break
        found += entries
    return found


def _task_pages(
    profile: Profile, operation: Operation, values: dict[str, str], first: dict[str, Any], names: dict[str, str]
) -> list[Any]:
    fields = {name.lower(): name for name in first}
    entries, number, task = fields["data"], names["currentpage"], names["taskid"]
    found = list(first[entries])
    for page in range(int(values[number]) + 1, int(first[fields["maxpagecount"]]) + 1):
        wanted = values | {task: str(first[fields["taskid"]]), number: str(page)}
        found += call(profile, operation.path, wanted)["data"][entries]
    return found
