"""What can go wrong with a statement, as the caller sees it.

AnalyticsError
├── QueryRefused      the guard does not let the statement through; nothing was executed
├── QueryFailed       Spark gave up on the statement; the message is its reason in one sentence
│   └── QueryTimedOut the time limit was reached
├── QueryCancelled    somebody asked for it
├── PipelineRefused   a pipeline cannot run as it is told, with this start and every further one
├── PipelineFenced    a later runner has taken the pipeline over
├── PipelineFailed    a pipeline ended by an error of its source, its query or its sink
│   ├── EngineBusy    … of the machine
│   │   └── EngineOutdated the engine may not connect to brokers that it will reach once it has started again
│   └── PipelineEnded  … that no further start helps; somebody has to change something first
├── EngineLost        the JVM died; the process must end, since a dead gateway cannot be used again
├── EngineUnavailable no Java, no Spark master; nothing was executed
└── LakeError         a location is malformed or missing
    └── LakeUnavailable the storage behind the lake does not answer, or lets us not in
"""

from collections.abc import Iterable


class AnalyticsError(Exception):
    """Base of all errors of analytics; `user_message` may be shown to users."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.user_message = message


class QueryRefused(AnalyticsError):  # noqa: N818
    """The statement is not allowed. `line` and `column` (from 1) tell where, when Spark's parser knows.

    `condition` is Spark's name for the same where it has one, such as TABLE_OR_VIEW_NOT_FOUND.
    """

    def __init__(
        self, message: str, line: int | None = None, column: int | None = None, *, condition: str = "QUERY_REFUSED"
    ) -> None:
        super().__init__(message)
        self.condition = condition
        self.line = line
        self.column = column


class QueryFailed(AnalyticsError):  # noqa: N818
    """Spark could not run the statement. `condition` is its error condition, such as TABLE_OR_VIEW_NOT_FOUND."""

    def __init__(self, message: str, condition: str | None = None) -> None:
        super().__init__(message)
        self.condition = condition


class QueryTimedOut(QueryFailed):
    """The statement ran longer than its time limit and was stopped."""


class QueryCancelled(AnalyticsError):  # noqa: N818
    """The statement was cancelled while it ran."""


class PipelineRefused(AnalyticsError):  # noqa: N818
    """A pipeline cannot run: its plan, its queue or the state that it is to go on from does not fit.

    Every further start would be refused as well. `line` is that of the statement in the job's text, when one is to
    blame.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class PipelineFenced(AnalyticsError):  # noqa: N818
    """A runner with a higher fencing number has the pipeline's state; this one must end and touch nothing.

    `number` is that runner's, where it is known.
    """

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


class PipelineFailed(AnalyticsError):  # noqa: N818
    """A running pipeline ended. `line` is that of the statement in the job's text, when one is to blame."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class PipelineEnded(PipelineFailed):
    """A running pipeline ended, and is not to be started again by itself.

    `is_misset` tells whether what it is set to cannot be, such as a topic that is not there; else it met what it is
    told to stop for.
    """

    def __init__(self, message: str, line: int | None = None, *, is_misset: bool = False) -> None:
        super().__init__(message, line)
        self.is_misset = is_misset


class EngineBusy(PipelineFailed):
    """The machine had no time, or a cluster no place, for a process of the engine; it says nothing of the pipeline."""


class EngineOutdated(EngineBusy):
    """The engine that runs may not connect to these `host:port`, and another one may; nothing was executed.

    It started before they were known. What needs them waits, and is tried again.
    """

    def __init__(self, message: str, line: int | None = None, *, addresses: Iterable[str] = ()) -> None:
        super().__init__(message, line)
        self.addresses = tuple(addresses)


class EngineLost(AnalyticsError):  # noqa: N818
    """The JVM behind Spark is gone. The worker must end; its supervisor starts a new one.

    `culprit` is the task for which it was ended, when that is known: then no other is to blame.
    """

    def __init__(self, message: str, *, culprit: str | None = None) -> None:
        super().__init__(message)
        self.culprit = culprit


class EngineUnavailable(AnalyticsError):  # noqa: N818
    """Spark could not be started, or does not let us in; nothing of the statement was executed."""


class LakeError(AnalyticsError):
    """A location in the lake is malformed, outside the lake, or does not exist (`is_missing`)."""

    def __init__(self, message: str, *, is_missing: bool = False) -> None:
        super().__init__(message)
        self.is_missing = is_missing


class LakeUnavailable(LakeError):  # noqa: N818
    """The storage behind the lake does not answer, lets us not in, or is not set up: no caller's fault."""
