"""What a connector raises in a Python process of Spark's, from where only its text comes back.

ConnectorFailed             another start may help
├── ConnectorStopped        none does: it met what it is told to stop for
└── ConnectorMisset         none does: what it is set to cannot be
"""

import re

from analytics.errors import PipelineEnded, PipelineFailed


class ConnectorFailed(Exception):  # noqa: N818
    """A source or a sink cannot go on; the message is a sentence for the pipeline's owner."""


class ConnectorStopped(ConnectorFailed):
    """It met something that its owner wants to be asked about, and goes on when somebody starts it again."""


class ConnectorMisset(ConnectorFailed):
    """What it is set to is not there, or is not allowed."""


_SAID = re.compile(r"(ConnectorFailed|ConnectorStopped|ConnectorMisset|MessagesUnreadable): (.+)")


def said(text: str) -> str | None:
    """The sentence of a connector in what Spark says of an error; None when no connector is to blame."""
    found = _SAID.search(text)
    return found[2].strip() if found else None


def failure_of(text: str, line: int | None) -> PipelineFailed | None:
    """What a pipeline has ended with, by what Spark says; None when no connector is to blame."""
    found = _SAID.search(text)
    if found is None:
        return None
    if found[1] in (ConnectorStopped.__name__, ConnectorMisset.__name__):
        return PipelineEnded(found[2].strip(), line, is_misset=found[1] == ConnectorMisset.__name__)
    return PipelineFailed(found[2].strip(), line)
