"""Nodes of a state file as values; every mistake is named with its line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import yaml

from gantry_cli.errors import CliError
from gantry_cli.texts import _, kind_word

_TAG = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_T = TypeVar("_T")


class Reader:
    """Turns nodes of one file into values. Every method raises CliError with `file:line`."""

    def __init__(self, file: str) -> None:
        self._file = file

    def where(self, node: yaml.Node) -> str:
        """`file:line` of a node."""
        return f"{self._file}:{node.start_mark.line + 1}"

    def mapping(self, node: yaml.Node, *, needed: tuple[str, ...], known: tuple[str, ...]) -> dict[str, yaml.Node]:
        """The entries of an object, which has all of `needed`, and nothing but those and `known`."""
        if not isinstance(node, yaml.MappingNode):
            said = {"where": self.where(node), "fields": ", ".join(needed)}
            raise CliError(_("%(where)s: an object is expected here, with %(fields)s.") % said)
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self.text(key)
            if name in found:
                raise CliError(_("%(where)s: %(name)s appears twice.") % {"where": self.where(key), "name": name})
            if name not in needed + known:
                raise CliError(_unknown(self.where(key), name, needed + known))
            found[name] = value
        missing = [name for name in needed if name not in found]
        if missing:
            raise CliError(_("%(where)s: %(name)s is missing.") % {"where": self.where(node), "name": missing[0]})
        return found

    def entries(self, node: yaml.Node) -> list[yaml.Node]:
        """The entries of a list; nothing after the colon is an empty one."""
        if isinstance(node, yaml.ScalarNode) and node.tag == _TAG + "null":
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise CliError(_("%(where)s: a list is expected here.") % {"where": self.where(node)})
        return list(node.value)

    def text(self, node: yaml.Node) -> str:
        """A text as it is written; nothing is the empty one."""
        if not isinstance(node, yaml.ScalarNode):
            raise CliError(_("%(where)s: a text is expected here.") % {"where": self.where(node)})
        return "" if node.tag == _TAG + "null" else str(node.value)

    def integer(self, node: yaml.Node) -> int:
        """A whole number."""
        text = self.text(node)
        if not _INTEGER.fullmatch(text):
            raise CliError(_("%(where)s: %(text)r is not a whole number.") % {"where": self.where(node), "text": text})
        return int(text)

    def boolean(self, node: yaml.Node) -> bool:
        """true or false."""
        text = self.text(node)
        if text not in ("true", "false"):
            said = {"where": self.where(node), "text": text}
            raise CliError(_("%(where)s: %(text)r is neither true nor false.") % said)
        return text == "true"

    def word(self, node: yaml.Node, words: dict[str, int]) -> int:
        """The number of one of the words; the number itself is understood too."""
        text = self.text(node)
        if text in words:
            return words[text]
        if _INTEGER.fullmatch(text) and int(text) in words.values():
            return int(text)
        raise CliError(not_one_of(self.where(node), text, words))

    def plain(self, node: yaml.Node) -> Any:
        """The value as JSON knows it; what YAML takes for a date stays a text."""
        if isinstance(node, yaml.MappingNode):
            return {self.text(key): self.plain(value) for key, value in node.value}
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(value) for value in node.value]
        text, tag = str(node.value), node.tag.removeprefix(_TAG)
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() in ("true", "yes", "on")
        if tag == "int" and _INTEGER.fullmatch(text):
            return int(text)
        return float(text) if tag == "float" else text


def not_one_of(where: str, text: str, words: Iterable[str]) -> str:
    """The sentence for a text that is none of the words."""
    said = {"where": where, "text": text, "words": ", ".join(words)}
    return _("%(where)s: %(text)r is not one of %(words)s.") % said


def _unknown(where: str, name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        said = {"where": where, "name": name, "near": near[0]}
        return _("%(where)s: unknown field %(name)s; is %(near)s meant.") % said
    listed = {"where": where, "name": name, "known": ", ".join(known)}
    return _("%(where)s: unknown field %(name)s; known are %(known)s.") % listed


def each(
    reader: Reader,
    node: yaml.Node | None,
    make: Callable[[Reader, yaml.Node], _T],
    name: Callable[[_T], str],
    kind: str,
) -> tuple[_T, ...] | None:
    """The entries of a list, each name once; None when the list is not there."""
    if node is None:
        return None
    entries = [make(reader, entry) for entry in reader.entries(node)]
    refuse_twins(entries, name, kind)
    return tuple(entries)


def refuse_twins(entries: Iterable[Any], name: Callable[[Any], str], kind: str) -> None:
    """Raise CliError for a name that stands twice in a list of a file."""
    seen: set[str] = set()
    for entry in entries:
        if name(entry) in seen:
            said = {"where": entry.where, "kind": kind_word(kind), "name": name(entry)}
            raise CliError(_("%(where)s: the %(kind)s %(name)s appears twice.") % said)
        seen.add(name(entry))


def optional_number(reader: Reader, node: yaml.Node | None) -> int | None:
    """A whole number, or None for what is not there."""
    return reader.integer(node) if node is not None else None


def optional_text(reader: Reader, node: yaml.Node | None) -> str:
    """A text, empty for what is not there."""
    return reader.text(node) if node is not None else ""
