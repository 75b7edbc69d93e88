"""Prompts: files of turns with placeholders, shipped with the package or a user's own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from string import Formatter

from aeg.backends.llm.base import Message
from aeg.errors import ConfigError, DataError, nearest

_ROLES = ("system", "user", "assistant")
_TURN = re.compile(rf"^###[ \t]+({'|'.join(_ROLES)})[ \t]*$", re.MULTILINE | re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\{\{[ \t]*([A-Za-z_]\w*)[ \t]*\}\}")


@dataclass(frozen=True)
class Turn:
    """One turn of a prompt.

    Attributes:
        role: `system`, `user` or `assistant`.
        parts: literal text and names of placeholders by turns: text, name, text, ..., text.
    """

    role: str
    parts: tuple[str, ...]

    def content(self, values: Mapping[str, str]) -> str:
        """Return the text with each placeholder replaced; a value's own braces are never looked at."""
        return "".join(values[part] if index % 2 else part for index, part in enumerate(self.parts))


@dataclass(frozen=True)
class Prompt:
    r"""A task's turns, with placeholders for what is asked about.

    Attributes:
        name: of the task.
        turns: in order; the last is the user's.
        hash: SHA-256 of the file's text (its line ends as `\n`).
        source: the file it was read from; empty for one that ships with the package.

    Example:
        >>> prompt = parse_prompt("greet", "### system\nBe brief.\n### user\nGreet {{whom}}.")
        >>> [message.content for message in prompt.messages(whom="{{you}}")]
        ['Be brief.', 'Greet {{you}}.']
        >>> prompt.messages(who="Ann")
        Traceback (most recent call last):
        ...
        aeg.errors.ConfigError: prompt 'greet': placeholder 'whom' has no value; the values are: who
    """

    name: str
    turns: tuple[Turn, ...]
    hash: str
    source: str = ""

    @cached_property
    def placeholders(self) -> frozenset[str]:
        """The names that `messages` needs values for."""
        return frozenset(name for turn in self.turns for name in turn.parts[1::2])

    def messages(self, /, **values: str) -> tuple[Message, ...]:
        """Return the chat with `values` filled in, each literally and in one pass.

        Raises:
            ConfigError: if a placeholder has no value, or a value no placeholder.
        """
        what = f"prompt {self.name!r}{f' ({self.source})' if self.source else ''}"
        for name in sorted(self.placeholders - values.keys()):
            raise ConfigError(f"{what}: placeholder {name!r} has no value; the values are: {_listed(values)}")
        for name in sorted(values.keys() - self.placeholders):
            raise ConfigError(
                f"{what}: has no placeholder for {name!r}; it has: {_listed(self.placeholders)}. Put {{{{{name}}}}} "
                f"(in a file without role lines: {{{name}}}) where it belongs"
            )
        return tuple(Message(turn.role, turn.content(values)) for turn in self.turns)


def load_prompt(name: str, overrides: Mapping[str, str | Path] | None = None, root: Path | None = None) -> Prompt:
    """Return the prompt of a task: the user's file where `overrides` names one, else the shipped one.

    Args:
        name: of the task, e.g. `ner`.
        overrides: files by task name; relative paths start from the current folder, else from `root`.
        root: the folder of the data.

    Raises:
        DataError: if there is no such file, or it is not UTF-8.
        ConfigError: if no prompt has this name, or the file breaks the format; see `parse_prompt`.
    """
    given = (overrides or {}).get(name)
    if given is not None:
        path = _find(name, Path(given).expanduser(), root)
        return parse_prompt(name, _read(path), str(path))
    if name not in prompt_names():
        raise ConfigError(f"unknown prompt {name!r}. {nearest(name, prompt_names())}")
    return parse_prompt(name, (files("aeg") / "prompts" / f"{name}.txt").read_text(encoding="utf-8"))


def prompt_names() -> list[str]:
    """Return the names of the shipped prompts, sorted."""
    folder = files("aeg") / "prompts"
    return sorted(file.name.removesuffix(".txt") for file in folder.iterdir() if file.name.endswith(".txt"))


def parse_prompt(name: str, text: str, source: str = "") -> Prompt:
    """Return the prompt that `text` holds.

    Turns are separated by the lines `### system`, `### user` and `### assistant`; a placeholder is `{{name}}`.
    A text without such lines is one user turn in the form of Python's `str.format`, as GraphRAG-Bench's judge
    prompts are: a placeholder is `{name}`, and `{{` and `}}` stand for literal braces.

    Raises:
        ConfigError: if there is text before the first turn, an empty turn, a system turn that is not the first,
            a last turn that is not the user's, or a brace that belongs to no placeholder.
    """
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    what = f"prompt {name!r}{f' ({source})' if source else ''}"
    before, *pieces = _TURN.split(text)
    if pieces:
        if before.strip():
            raise ConfigError(f"{what}: text before the first turn; start the file with a line like '### system'")
        roles, bodies = [role.lower() for role in pieces[::2]], pieces[1::2]
        turns = [Turn(role, _marked(body.strip(), what)) for role, body in zip(roles, bodies, strict=True)]
    else:
        turns = [Turn("user", _plain(before.strip(), what))]
    _check_order(turns, what)
    return Prompt(name, tuple(turns), hashlib.sha256(text.encode("utf-8")).hexdigest(), source)


def _marked(body: str, what: str) -> tuple[str, ...]:
    parts = tuple(_PLACEHOLDER.split(body))
    for text in parts[::2]:
        if "{{" in text:
            excerpt = text[text.index("{{") :][:30]
            raise ConfigError(f"{what}: {excerpt!r} is no placeholder; write {{{{name}}}}, a name of letters and _")
    return parts


def _plain(body: str, what: str) -> tuple[str, ...]:
    hint = "in a file without role lines, literal braces are written {{ and }}, placeholders {name}"
    parts = [""]
    try:
        pieces = list(Formatter().parse(body))
    except ValueError as error:
        raise ConfigError(f"{what}: {error}; {hint}") from None
    for text, field, spec, conversion in pieces:
        parts[-1] += text
        if field is None:
            continue
        if not field.isidentifier() or spec or conversion:
            raise ConfigError(f"{what}: {{{field[:30]}}} is no placeholder; {hint}")
        parts += [field, ""]
    return tuple(parts)


def _check_order(turns: list[Turn], what: str) -> None:
    for number, turn in enumerate(turns, 1):
        if turn.parts == ("",):
            raise ConfigError(f"{what}: turn {number} ({turn.role}) is empty; write its text or remove its line")
        if turn.role == "system" and number > 1:
            raise ConfigError(f"{what}: turn {number} is a system turn; only the first may be one")
    if turns[-1].role != "user":
        raise ConfigError(f"{what}: the last turn is the {turns[-1].role}'s; it must be the user's")


def _find(name: str, path: Path, root: Path | None) -> Path:
    places = [path] if root is None or path.is_absolute() else [path, root / path]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        tried = " nor ".join(str(place.absolute()) for place in places)
        raise DataError(f"{tried}: no such file; prompts.{name} must name a prompt's text file")
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None


def _listed(names: Mapping[str, str] | frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "(none)"
