"""Finding JSON in a reply's text: where it starts, where it ends or breaks off, and what of it is whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r'(?P<string>"[^"\\]*(?:\\.[^"\\]*)*")|(?P<open>"[^"\\]*(?:\\.[^"\\]*)*\\?\Z)'
    r"|(?P<mark>[\[\]{},:])|(?P<dots>\.{3,}|…)|(?P<space>\s+)"
    r"|(?P<other>(?:(?!\.{3})[^\[\]{},:\"…\s])+)",
    re.DOTALL,
)
_OPENING = re.compile(r"[\[{]")
_LIKE_JSON = re.compile(r'\s*["\[{]')
_CLOSER = {"[": "]", "{": "}"}
_MOST = 20  # spans that are looked at in one reply
_DEEPEST = 100  # open brackets; more are no reply


@dataclass(frozen=True)
class Span:
    """A bracketed part of a text.

    Attributes:
        text: as it stands.
        tidy: without trailing commas and literal `...`; of one that breaks off, its whole items and the brackets
            that they miss.
        cut: whether the text ends before the last bracket is closed.
    """

    text: str
    tidy: str
    cut: bool

    @property
    def length(self) -> int:
        """Characters of the text."""
        return len(self.text)


def spans(text: str) -> Iterator[Span]:
    """Yield the bracketed parts of a text that do not lie in one another, in order.

    One that breaks off reaches to the text's end, and is left out where nothing of it is whole; unless it starts
    as JSON does, its bracket may belong to the words around the JSON, so the parts inside it are yielded too.

    Example:
        >>> [(span.tidy, span.cut) for span in spans('Here: {"a": ["x, y", ...,], } and [1, {"b": "q')]
        [('{ "a" : [ "x, y" ] }', False), ('[ 1 ]', True)]
    """
    at = 0
    for _ in range(_MOST):
        start = _OPENING.search(text, at)
        if start is None:
            return
        reader = _Reader(text, start.start())
        reader.run()
        span = reader.span()
        if span is not None:
            yield span
        if reader.stack and _LIKE_JSON.match(text, start.end()):
            return
        at = start.end() if reader.stack else reader.end


@dataclass
class _Level:
    """An open bracket, and how many tidied tokens reach up to its end and up to that of its last whole item."""

    bracket: str
    opened: int
    whole: int
    valued: bool  # whether a value is expected or being read: always in a list, after the colon in an object


class _Reader:
    """One pass from an opening bracket to its end, or to the text's."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.start = start
        self.end = start
        self.stack: list[_Level] = []
        self.tokens: list[str] = []

    def run(self) -> None:
        """Read up to the bracket's end, or to the text's, or to a bracket that closes another kind."""
        for match in _TOKEN.finditer(self.text, self.start):
            self.end = match.end()
            kind, token = match.lastgroup, match.group()
            if kind == "mark":
                if not self._mark(token) or not 0 < len(self.stack) <= _DEEPEST:
                    return
            elif kind in ("string", "other"):
                self.tokens.append(token)
                if kind == "string":
                    self._whole()

    def span(self) -> Span | None:
        """Return what was read; None where it breaks off and nothing is whole."""
        text = self.text[self.start : self.end]
        if not self.stack:
            return Span(text, " ".join(self.tokens), cut=False)
        if len(self.stack) > _DEEPEST:
            return None
        depth = next((n for n, level in enumerate(self.stack) if level.bracket == "["), 0)
        kept = self.stack[: depth + 1]
        if not any(level.whole > level.opened for level in kept):
            return None
        closers = [_CLOSER[level.bracket] for level in reversed(kept)]
        return Span(self.text[self.start :], " ".join(self.tokens[: kept[-1].whole] + closers), cut=True)

    def _mark(self, token: str) -> bool:
        """Take a bracket, comma or colon; False where a bracket closes another kind."""
        if token in _CLOSER:
            self.tokens.append(token)
            self.stack.append(_Level(token, len(self.tokens), len(self.tokens), token == "["))
        elif token == ":":
            self.tokens.append(token)
            self.stack[-1].valued = True
        elif token == ",":
            self._comma()
        else:
            return self._close(token)
        return True

    def _comma(self) -> None:
        level = self.stack[-1]
        if self.tokens[-1] in ("[", "{", ","):
            return  # nothing stands before it
        if level.valued:
            level.whole = len(self.tokens)
        level.valued = level.bracket == "["
        self.tokens.append(",")

    def _close(self, token: str) -> bool:
        if _CLOSER[self.stack[-1].bracket] != token:
            return False
        if self.tokens[-1] == ",":
            self.tokens.pop()
        self.tokens.append(token)
        self.stack.pop()
        if self.stack:
            self._whole()
        return True

    def _whole(self) -> None:
        """A string or a bracketed value has ended: with it, an item of a list or a pair of an object."""
        level = self.stack[-1]
        if level.valued:
            level.whole = len(self.tokens)
