"""`python -m tests.support.tabler`: writes static/css/tabler.css, which is what our pages use of Tabler's stylesheet.

A rule is kept when every class of its selector is a word of a template, a script or a module of the console, or begins
as one that is put together there (`bg-{{ colour }}-lt`). What is kept stays as it is, in its order. A test writes it
anew and compares, so a class that a page takes up comes along.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHOLE = ROOT / "static" / "vendor" / "tabler-core-1.6.1" / "tabler.min.css"
USED = ROOT / "static" / "css" / "tabler.css"
_SOURCES = (("templates", "*.html"), ("static/js", "*.js"), ("console", "*.py"))
_WORD = re.compile(r"[A-Za-z][\w-]*")
_PUT_TOGETHER = re.compile(r"([A-Za-z][\w-]*-)(?=\{)")
_CLASS = re.compile(r"\.((?:[A-Za-z_-]|\\.)(?:[\w-]|\\.)*)")
#: What stands in these names other elements, or says what an element is not.
_ASIDE = re.compile(r":(?:not|is|where|has)\((?:[^()]|\([^()]*\))*\)")
_NAMED = re.compile(r"(?:animation(?:-name)?):([^;}]*)")


def used() -> str:
    """The part of Tabler's stylesheet that the sources of the console can use."""
    text = "\n".join(
        file.read_text(encoding="utf-8") for folder, kind in _SOURCES for file in sorted((ROOT / folder).rglob(kind))
    )
    words, beginnings = set(_WORD.findall(text)), tuple(set(_PUT_TOGETHER.findall(text)))
    whole = WHOLE.read_text(encoding="utf-8")
    start = whole.index("*/") + 2
    licence = whole[whole.index("/*!") : start]
    kept = "".join(_kept(whole[start:].partition("/*#")[0], words, beginnings))
    animations = set(_WORD.findall(" ".join(_NAMED.findall(kept))))
    return f"{licence}\n{''.join(_moving(kept, animations))}\n"


def _blocks(css: str) -> Iterator[tuple[str, str]]:
    """Each rule or at-rule with what its braces hold."""
    place = 0
    while (opened := css.find("{", place)) >= 0:
        depth, end = 1, opened + 1
        while depth:
            depth += {"{": 1, "}": -1}.get(css[end], 0)
            end += 1
        yield css[place:opened].strip(), css[opened + 1 : end - 1]
        place = end


def _kept(css: str, words: set[str], beginnings: tuple[str, ...]) -> Iterator[str]:
    for head, body in _blocks(css):
        if head.startswith("@media"):
            if inner := "".join(_kept(body, words, beginnings)):
                yield f"{head}{{{inner}}}"
        elif head.startswith("@"):
            yield f"{head}{{{body}}}"
        elif selectors := [one for one in _selectors(head) if _is_used(one, words, beginnings)]:
            yield f"{','.join(selectors)}{{{body}}}"


def _selectors(head: str) -> list[str]:
    """Those between the commas that are not within brackets."""
    found, depth = [""], 0
    for letter in head:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found


def _is_used(selector: str, words: set[str], beginnings: tuple[str, ...]) -> bool:
    classes = [name.replace("\\", "") for name in _CLASS.findall(_ASIDE.sub("", selector))]
    return all(name in words or name.startswith(beginnings) for name in classes)


def _moving(css: str, animations: set[str]) -> Iterator[str]:
    for head, body in _blocks(css):
        if not head.startswith("@keyframes") or head.split()[1] in animations:
            yield f"{head}{{{body}}}"


if __name__ == "__main__":
    USED.write_text(used(), encoding="utf-8")
