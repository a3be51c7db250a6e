"""What a connector raises in a Python process of Spark's, from where only its text comes back."""

import re


class ConnectorFailed(Exception):  # noqa: N818
    """A source or a sink cannot go on; the message is a sentence for the pipeline's owner."""


_SAID = re.compile(r"(?:ConnectorFailed|MessagesUnreadable): (.+)")


def said(text: str) -> str | None:
    """The sentence of a connector in what Spark says of an error; None when no connector is to blame."""
    found = _SAID.search(text)
    return found[1].strip() if found else None
