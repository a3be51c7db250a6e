"""What ends a start: one sentence for the person at the terminal, exit status 1."""


class LauncherError(Exception):
    """A start that cannot go on. The text says what is wrong, where, and what to do about it."""
