"""The text in which a client tells the stacks of its threads (jstack of GET_CONSUMER_RUNNING_INFO)."""

from __future__ import annotations


def threads_of(text: str) -> list[tuple[str, list[str]]]:
    """Each thread's name and the lines of its stack.

    A thread is a block between blank lines. Its first line is the name, padded, with `TID: … STATE: …`; in the Java
    client every further line begins with the name again.
    """
    threads = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        first, *rest = [line for line in block.split("\n") if line.strip()] or [""]
        name, mark, state = first.partition("TID:")
        name = name.strip()
        if not mark:
            continue
        threads.append((name, [f"TID:{state}".rstrip(), *(_frame(name, line) for line in rest)]))
    return threads


def _frame(name: str, line: str) -> str:
    return line.removeprefix(name).strip() if name else line.strip()
