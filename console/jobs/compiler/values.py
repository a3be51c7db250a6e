"""What stands in a text for something else: `${variable}` and `${secret_values.name}`. Pure.

Both stand within quotes. A variable is replaced by its value before the value is judged; a secret stays as it is
written, and its value is put in by whoever starts the job. A secret that there is not and one that the writer may not
use are told in one sentence, so that names are not told.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from analytics.pipelines.plan import CREDENTIALS, SECRET
from console.jobs.compiler.words import Text, near
from console.statements.lexer import Token

_PLACE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_LISTED_CREDENTIALS = ", ".join(sorted(CREDENTIALS))


@dataclass(slots=True)
class FoundSecret:
    """A secret that was written into the text itself: its place, the name it is to be saved under, and its value."""

    token: Token = field(repr=False)
    name: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Listed:
    """The names that whoever wrote a text may list, and that a refusal therefore may suggest."""

    secrets: Collection[str] = ()
    variables: Collection[str] = ()
    #: Behind the names of new secrets where `secrets` does not tell which names are free.
    mark: str = ""


@dataclass(slots=True)
class Values:
    """The variables and the names of the secrets that a text may name, and what it has named."""

    variables: Mapping[str, str] = field(default_factory=dict)
    #: Those that may be used; None when it is not known which there are.
    secrets: Collection[str] | None = None
    listed: Listed = Listed()
    used_secrets: set[str] = field(default_factory=set)
    #: Named, and not there or not to be used.
    refused_secrets: list[str] = field(default_factory=list)
    found_secrets: list[FoundSecret] = field(default_factory=list)

    def filled(self, text: Text, token: Token, *, secrets_allowed: bool = True) -> str:
        """A text in quotes with its variables' values. Raises TextRefused for one that there is not.

        A secret comes from the text itself, never from the value of a variable: that one was asked for by nobody.
        """
        found = _PLACE.sub(lambda found: self._value(text, token, found, secrets_allowed), token.value)
        if {*SECRET.findall(found)} - {*SECRET.findall(token.value)}:
            raise text.refusal(token, "a variable's value names no secret; write ${secret_values.name} itself.")
        return found

    def _value(self, text: Text, token: Token, found: re.Match[str], secrets_allowed: bool) -> str:
        written, name = found[0], found[1]
        if name.startswith("secret_values"):
            if not secrets_allowed:
                raise text.refusal(
                    token,
                    f"{written} cannot stand here; a secret is allowed as {_LISTED_CREDENTIALS} in WITH (…).",
                )
            self._require_secret(text, token, written)
            return written
        if not _VARIABLE.fullmatch(name):
            raise text.refusal(
                token, f"{written} names no variable; write ${{name}} or ${{secret_values.name}}, in quotes."
            )
        if name not in self.variables:
            raise text.refusal(token, f"the variable {name} has no value.{near(name, self.listed.variables)}")
        return self.variables[name]

    def _require_secret(self, text: Text, token: Token, written: str) -> None:
        secret = SECRET.fullmatch(written)
        if secret is None:
            raise text.refusal(token, f"{written} names no secret; write ${{secret_values.name}}.")
        if self.secrets is not None and secret[1] not in self.secrets:
            self.refused_secrets.append(secret[1])
            other = near(secret[1], {*self.listed.secrets} - {secret[1]})
            raise text.refusal(token, f"there is no secret {secret[1]}, or you may not use it.{other}")
        self.used_secrets.add(secret[1])

    def find_secrets(self, tokens: Sequence[Token], options: Collection[str]) -> None:
        """Note every secret that stands in a text, right or wrong: what is written for one of these options.

        `options` are in small letters.
        """
        table = ""
        for at, token in enumerate(tokens):
            name, sign, value = (*tokens[at : at + 3], token, token)[:3]
            if token.key == "table" and name is not value:
                table = tokens[at + 1].value
            is_one = name.kind == value.kind == "text" and sign.key == "=" and name.value.lower() in options
            if is_one and value.value.strip() and not _PLACE.search(value.value):
                self.found_secrets.append(FoundSecret(value, self._free_name(f"{table}_{name.value}"), value.value))

    def _free_name(self, wanted: str) -> str:
        taken = {*(self.secrets or ()), *self.listed.secrets, *(one.name for one in self.found_secrets)}
        name = base = re.sub(r"[^A-Za-z0-9_-]", "_", wanted) + self.listed.mark
        number = 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        return name

    def hidden(self, text: Text, token: Token, value: str) -> str:
        """What stands in a plan for the value of a secret option. Raises TextRefused for a variable, which is shown."""
        if SECRET.search(value):
            return value
        found = next((one for one in self.found_secrets if one.token.start == token.start), None)
        if found is None:
            raise text.refusal(token, "a secret is no variable, which everybody sees; write ${secret_values.name}.")
        self.used_secrets.add(found.name)
        return f"${{secret_values.{found.name}}}"


def without_secrets(text: Text, found: Collection[FoundSecret]) -> str:
    """The text with the names of its secrets in place of what was written, as it may be stored."""
    pieces, position = [], 0
    for one in sorted(found, key=lambda secret: secret.token.start):
        pieces += [text.written[position : one.token.start], f"'${{secret_values.{one.name}}}'"]
        position = one.token.start + len(one.token.written)
    return "".join([*pieces, text.written[position:]])
