"""What a report consists of: sections of tables, charts, texts and notes, apart from how they are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from aeg.report.canvas import Chart

NONE = "–"


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: what it says.
        detail: said more quietly beside it, such as half an interval's width.
        number: what it is sorted by; None sorts by the text.
        mark: `best`, `second`, `good`, `bad` or `unsure`; the empty string marks nothing.
        link: anchor on the same page.
    """

    text: str
    detail: str = ""
    number: float | None = None
    mark: str = ""
    link: str = ""


@dataclass(frozen=True)
class Table:
    """A table with a head of one line, above which columns may be grouped.

    Attributes:
        head: names of the columns.
        rows: as many cells each.
        caption: what it shows; it stands above.
        groups: (title, number of columns) above the head, together all columns; empty for none.
        words: how many of the first columns hold words; the others hold numbers and are set to the right.
        note: said below.
    """

    kind: ClassVar[str] = "table"
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    groups: Sequence[tuple[str, int]] = ()
    words: int = 1
    note: str = ""

    @property
    def flat_head(self) -> list[str]:
        """The names of the columns, each with the title of its group, for formats with one line of head."""
        if not self.groups:
            return list(self.head)
        above = [title for title, width in self.groups for _ in range(width)]
        return [f"{title} {name}".strip() for title, name in zip(above, self.head, strict=True)]


@dataclass(frozen=True)
class Figures:
    """Charts side by side where there is room."""

    kind: ClassVar[str] = "figures"
    charts: Sequence[Chart]


@dataclass(frozen=True)
class Text:
    """A paragraph; `warns` where it must not be overlooked."""

    kind: ClassVar[str] = "text"
    text: str
    warns: bool = False


@dataclass(frozen=True)
class Notes:
    """A list of remarks."""

    kind: ClassVar[str] = "notes"
    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    """Commands or lines of a log, as they are; `title` stands above."""

    kind: ClassVar[str] = "code"
    text: str
    title: str = ""


@dataclass(frozen=True)
class Heading:
    """A heading inside a section; `tag` says a word about what follows (`running`, `failed`)."""

    kind: ClassVar[str] = "heading"
    title: str
    anchor: str
    tag: str = ""


@dataclass(frozen=True)
class Folded:
    """Blocks that are shown when asked for."""

    kind: ClassVar[str] = "folded"
    title: str
    blocks: Sequence[Block]


Block = Table | Figures | Text | Notes | Code | Heading | Folded


@dataclass(frozen=True)
class Section:
    """A section with its anchor."""

    title: str
    anchor: str
    blocks: Sequence[Block]

    @property
    def headings(self) -> list[Heading]:
        """The headings inside, for the table of contents."""
        return [block for block in self.blocks if isinstance(block, Heading)]


@dataclass(frozen=True)
class Document:
    """A report: its title, a summary, and the sections that have something to show."""

    title: str
    summary: Sequence[Cell]
    sections: Sequence[Section]

    @property
    def charts(self) -> list[Chart]:
        """All charts, in order."""
        return [chart for section in self.sections for chart in _charts(section.blocks)]


@dataclass
class Anchors:
    """Gives out anchors, each once.

    Example:
        >>> anchors = Anchors()
        >>> anchors.new("recall@5 of Ann's run"), anchors.new("Recall 5 of Ann s run")
        ('recall-5-of-ann-s-run', 'recall-5-of-ann-s-run-2')
    """

    taken: dict[str, int] = field(default_factory=dict)

    def new(self, text: str) -> str:
        """Return an anchor made from a text."""
        plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "part"
        count = self.taken[plain] = self.taken.get(plain, 0) + 1
        return plain if count == 1 else f"{plain}-{count}"


def _charts(blocks: Sequence[Block]) -> list[Chart]:
    found: list[Chart] = []
    for block in blocks:
        if isinstance(block, Figures):
            found += block.charts
        elif isinstance(block, Folded):
            found += _charts(block.blocks)
    return found
