"""What was and happened of pipelines, SQL jobs and inflow tasks alike: versions, events, lines of their logs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from console.openapi.envelope import Page, milliseconds, page_of
from console.openapi.registry import Paged, Parameters, Positive, Result
from console.pipelines import journal, queries
from console.pipelines.models import Pipeline, Version
from console.web.errors import Refused

ABOUT_LOG = (
    f"The newest {journal.MOST_SHOWN} lines, or those behind a cursor; the oldest first. "
    f"A log keeps {journal.MOST_KEPT:,} lines, 1 MiB at most; older ones are gone."
)
NO_VERSION = "BIZ_VERSION_NOT_FOUND"


class VersionOnly(Parameters):
    version: Positive = Field(description="Number of the version.")


class LogBehind(Parameters):
    after: Annotated[str, Field(max_length=32, description="The cursor of the last line that is known.")] = ""


class VersionRow(Result):
    """A version."""

    version: int
    author: str
    createTime: int = Field(description="Milliseconds since the epoch.")


class VersionDo(VersionRow):
    """A version with its text."""

    text: str


class EventDo(Result):
    """Something that happened to a pipeline."""

    event: str = Field(
        description="A state; claimed, lost, restarting, deployed, savepoint, savepoint deleted, lake full, "
        "lake has room."
    )
    message: str
    version: int | None
    time: int = Field(description="Milliseconds since the epoch.")


class LogLine(Result):
    """A line of a log."""

    cursor: str
    level: str = Field(description="info, warning, error, or print for rows of a table `print`.")
    text: str
    time: int = Field(description="Milliseconds since the epoch.")


def versions(parameters: Paged, pipeline: Pipeline) -> Page:
    """A page of the versions, the newest first."""
    return page_of(parameters, queries.versions(pipeline), row_of)


def row_of(version: Version) -> VersionRow:
    """A version without its text."""
    return VersionRow(version=version.number, author=version.author, createTime=milliseconds(version.created_at))


def version(pipeline: Pipeline, number: int) -> VersionDo:
    """One of the versions. Raises Refused for one that there is not."""
    found = queries.version(pipeline, number)
    if found is None:
        raise Refused(NO_VERSION, f"{pipeline.name} has no version {number}.", "version")
    return VersionDo(**row_of(found).model_dump(), text=found.text)


def events(parameters: Paged, pipeline: Pipeline) -> Page:
    """A page of the events, the newest first."""
    return page_of(
        parameters,
        queries.events(pipeline),
        lambda one: EventDo(event=one.kind, message=one.sentence, version=one.version, time=milliseconds(one.at)),
    )


def log(pipeline: Pipeline, after: str) -> list[LogLine]:
    """The lines behind a cursor, or the newest ones."""
    lines = journal.lines(pipeline.pk, after)
    return [LogLine(cursor=one.cursor, level=one.level, text=one.text, time=one.at_ms) for one in lines]
