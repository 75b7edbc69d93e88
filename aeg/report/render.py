"""A report's blocks written as one web page, or as Markdown."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

from aeg.report.blocks import Cell, Document, Table
from aeg.report.canvas import colour_variables

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def html(document: Document) -> str:
    """Return the report as one HTML page that asks for nothing beside itself."""
    from markupsafe import Markup

    light, dark = colour_variables()
    style = _read("page.css").replace("/*light*/", light).replace("/*dark*/", dark)
    names = {"style": Markup(style), "script": Markup(_read("page.js")), "svg": Markup}
    return str(_environment(True).get_template("page.html.j2").render(document=document, **names))


def markdown(document: Document, plots: str) -> str:
    """Return the report as Markdown that shows the plots in the folder `plots`."""
    text = str(_environment(False).get_template("page.md.j2").render(document=document, plots=plots))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def plain(text: Any) -> str:
    r"""Return a text so that Markdown shows it as it is, on one line.

    Example:
        >>> print(plain("a_b | <c>"))
        a\_b \| \<c\>
    """
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def fenced(text: str) -> str:
    """Return a text as a block of code in Markdown, whatever it holds.

    Example:
        >>> print(fenced("a"))
        ```
        a
        ```
    """
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def table(block: Table) -> str:
    """Return a table in Markdown, a head of two lines drawn together."""
    rules = ["---" if at < block.words else "---:" for at in range(len(block.head))]
    rows = [[plain(name) for name in block.flat_head], rules, *([_cell(cell) for cell in row] for row in block.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(cell: Cell) -> str:
    text = plain(cell.text)
    text = f"**{text}**" if cell.mark == "best" else f"*{text}*" if cell.mark == "second" else text
    return f"{text} {plain(cell.detail)}" if cell.detail else text


@cache
def _environment(escape: bool) -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("aeg.report"),
        autoescape=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Any] = {"plain": plain, "fenced": fenced, "table": table}
    made.filters.update(filters)
    return made


def _read(name: str) -> str:
    return (files("aeg.report") / "templates" / name).read_text(encoding="utf-8")
