"""A comparison as a LaTeX table for a paper."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from aeg.experiment.compare.rows import MACRO, Comparison, Row
from aeg.experiment.compare.statistics import LEVEL
from aeg.experiment.compare.text import significance

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "−": "$-$",
    **{char: rf"\{char}" for char in "&%$#_"},
}
_MARKS = {"+": r"$^{\uparrow}$", "-": r"$^{\downarrow}$", "": ""}


def as_latex(comparison: Comparison) -> str:
    r"""Return a `table` with booktabs rules: best means in bold, significant differences to the baseline marked.

    It needs `\usepackage{booktabs}`, and nothing else.
    """
    places = [(dataset, metric) for dataset in comparison.datasets for metric in comparison.metrics]
    places = [place for place in places if any((row.dataset, row.metric) == place for row in comparison.rows)]
    best = {place: max(round(100 * r.value, 1) for r in comparison.rows if _place(r) == place) for place in places}
    body = []
    for system in comparison.systems:
        found = {_place(row): row for row in comparison.rows if row.system == system}
        cells = [_cell(found.get(place), best[place]) for place in places]
        body.append(" & ".join([escaped(system), *cells]) + r" \\")
        if system == comparison.baseline:
            body[-1] = " & ".join([rf"{escaped(system)} (baseline)", *cells]) + r" \\"
    lines = [
        "% \\usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering\small" + (r"\setlength{\tabcolsep}{4pt}" if len(places) > 4 else ""),
        rf"  \caption{{{_caption(comparison)}}}",
        rf"  \begin{{tabular}}{{l{'r' * len(places)}}}",
        r"    \toprule",
        *(f"    {line}" for line in _head(comparison, places)),
        r"    \midrule",
        *(f"    {line}" for line in body),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""Return text as LaTeX prints it; Greek letters as mathematics, what LaTeX has no letter for as its name.

    Example:
        >>> escaped("dense_atoms, ρ=50 %")
        'dense\\_atoms, $\\rho$=50 \\%'
    """
    return "".join(_SPECIAL.get(char) or _letter(char) for char in text)


def _letter(char: str) -> str:
    if ord(char) < 0x180:  # pdfLaTeX knows Latin letters with their accents
        return char
    name = unicodedata.name(char, f"U+{ord(char):04X}")
    kind, _, letter = name.rpartition(" LETTER ")
    if kind in ("GREEK SMALL", "GREEK CAPITAL") and letter.isalpha():
        letter = {"LAMDA": "LAMBDA", "OMICRON": "o"}.get(letter, letter)
        return rf"$\{letter.lower() if kind.endswith('SMALL') else letter.capitalize()}$" if len(letter) > 1 else letter
    return f"[{name.lower()}]"


def _place(row: Row) -> tuple[str, str]:
    return row.dataset, row.metric


def _cell(row: Row | None, best: float) -> str:
    if row is None:
        return "--"
    shown = round(100 * row.value, 1)
    number = rf"\textbf{{{shown:.1f}}}" if shown == best else f"{shown:.1f}"
    return number + _MARKS[significance(row.versus)]


def _head(comparison: Comparison, places: Sequence[tuple[str, str]]) -> list[str]:
    datasets = list(dict.fromkeys(dataset for dataset, _ in places))
    metrics = " & ".join(["", *(escaped(metric.replace("_", " ")) for _, metric in places)]) + r" \\"
    spans, rules, column = [""], [], 2
    for dataset in datasets:
        width = sum(place[0] == dataset for place in places)
        spans.append(rf"\multicolumn{{{width}}}{{c}}{{{escaped(dataset)}}}")
        rules.append(rf"\cmidrule(lr){{{column}-{column + width - 1}}}")
        column += width
    return [" & ".join(spans) + r" \\", "".join(rules), metrics]


def _caption(c: Comparison) -> str:
    text = (
        f"Means in percent, best in bold. $\\uparrow$, $\\downarrow$: better, worse than {escaped(c.baseline)}, "
        f"$p<{LEVEL:g}$ in a paired randomisation test, Holm-corrected over {c.pairs} pairs."
    )
    return text + (f" {MACRO.capitalize()}: unweighted mean over data sets." if c.averaged else "")
