"""From a matplotlib figure to SVG: one that follows the page's light or dark scheme, and one for a file."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that are drawn only to be exchanged afterwards: (name of the page's variable, colour in a file).
INK, QUIET, GRID, PAPER = "#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04"
_NAMED = {INK: ("ink", "#1c2024"), QUIET: ("quiet", "#5b636b"), GRID: ("line", "#dfe3e6"), PAPER: ("page", "#ffffff")}
_SERIES = (
    *("#2563b0", "#c8501e", "#1b8a5a", "#8e44ad", "#b0831a", "#c2326b", "#0e8ea8", "#6b7a1e"),
    *("#7a5240", "#4f5bd5", "#a3427f", "#3b7d3f"),
)
_DARK_SERIES = (
    *("#78aef5", "#f28f5c", "#4fc794", "#c795e3", "#e0b94e", "#f07aa4", "#4dc4dc", "#b4c455"),
    *("#c39a84", "#9aa3ff", "#dd8bc0", "#86c98a"),
)
_DASHES = ("-", "--", "-.", ":")
_MARKERS = "osD^vPX*<>hp"
_WIDTH = 4.6  # inches; set so that a page 400 pixels wide still shows the letters at about their size
_REFERENCE = re.compile(r'(xlink:href="#|url\(#)([\w.-]+)')
_ID = re.compile(r'\sid="([\w.-]+)"')


@dataclass(frozen=True)
class Chart:
    """A drawn chart.

    Attributes:
        anchor: its id on the page, and the name of its file.
        title: what it shows.
        alt: the same for those who cannot see it.
        inline: SVG whose colours are the page's variables.
        file: SVG by itself, on white.
        note: said below.
    """

    anchor: str
    title: str
    alt: str
    inline: str
    file: str
    note: str = ""


def series_colour(at: int) -> str:
    """Return the colour to draw the series number `at` in."""
    return f"#0a0c{at % len(_SERIES):02x}"


def series_style(at: int) -> dict[str, Any]:
    """Return colour, dash and marker of a series, so that no two of 48 look alike, in grey either."""
    dash = _DASHES[(at // len(_SERIES)) % len(_DASHES)]
    return {"color": series_colour(at), "linestyle": dash, "marker": _MARKERS[at % len(_MARKERS)]}


def colour_variables() -> tuple[str, str]:
    """Return the CSS declarations of the series' colours, for the light and for the dark scheme."""
    light, dark = (
        "".join(f"--s{at}:{colour};" for at, colour in enumerate(colours)) for colours in (_SERIES, _DARK_SERIES)
    )
    return light, dark


@contextmanager
def drawing(rows: int = 1, height: float = 3.4) -> Iterator[tuple[Figure, list[Axes]]]:
    """Yield a figure of `rows` panels above each other, dressed like the page; draw while it is open."""
    import matplotlib
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "aeg",
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.edgecolor": GRID,
        "axes.labelcolor": QUIET,
        "text.color": INK,
        "xtick.color": QUIET,
        "ytick.color": QUIET,
        "grid.color": GRID,
        "axes.facecolor": "none",
        "legend.frameon": False,
        "legend.fontsize": 8,
        "lines.markersize": 4.2,
        "lines.linewidth": 1.5,
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0].tolist()
        for one in axes:
            one.spines[["top", "right"]].set_visible(False)
            one.grid(linewidth=0.7)
            one.set_axisbelow(True)
            one.tick_params(length=0)
        yield figure, axes


def finish(figure: Figure, anchor: str, title: str, alt: str, note: str = "") -> Chart:
    """Return the drawn figure as a chart; call it while `drawing` is open. The same figure gives the same bytes."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    body = text[text.index("<svg") :].strip()
    body = re.sub(r"\s*<metadata>.*?</metadata>", "", body, flags=re.S)
    body = _ids(body, anchor)
    body = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font: \1px 'DejaVu Sans', system-ui, sans-serif", body)
    size = re.match(r'<svg[^>]*viewBox="([^"]+)"', body)
    assert size is not None
    box = size[1]
    opened = body.index(">") + 1
    head = f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{box}"'
    width, tall = box.split()[2:]
    inline = f'{head} aria-hidden="true">{_coloured(body[opened:], False)}'
    background = '<rect width="100%" height="100%" fill="#ffffff"/>'
    alone = f'{head} width="{width}pt" height="{tall}pt">{background}{_coloured(body[opened:], True)}\n'
    return Chart(anchor, title, alt, inline, alone, note)


def _ids(body: str, prefix: str) -> str:
    """Keep the ids that something refers to, made unique on a page of many charts."""
    used = {name for _, name in _REFERENCE.findall(body)}
    body = _ID.sub(lambda found: f' id="{prefix}-{found[1]}"' if found[1] in used else "", body)
    return _REFERENCE.sub(rf"\g<1>{prefix}-\g<2>", body)


def _coloured(body: str, fixed: bool) -> str:
    exchanges = {colour: f"var(--{name})" for colour, (name, _) in _NAMED.items()}
    exchanges |= {series_colour(at): f"var(--s{at})" for at in range(len(_SERIES))}
    if fixed:
        exchanges = {colour: shade for colour, (_, shade) in _NAMED.items()}
        exchanges |= {series_colour(at): shade for at, shade in enumerate(_SERIES)}
    for drawn, shown in exchanges.items():
        body = body.replace(drawn, shown)
    return body
