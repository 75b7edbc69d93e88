"""From folders of runs and sweeps to the report's files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aeg.artifacts import write_text
from aeg.errors import DataError
from aeg.report.blocks import Anchors, Document
from aeg.report.cost import cost
from aeg.report.entry import groups
from aeg.report.folder import Source, read
from aeg.report.graph import graphs
from aeg.report.overview import commands, environment, every_run, overview, summary
from aeg.report.paper import paper
from aeg.report.render import html, markdown
from aeg.report.results import results
from aeg.report.sensitivity import sensitivity
from aeg.report.trouble import failures

PAGE, TEXT, PLOTS = "index.html", "report.md", "plots"


def document(folders: Sequence[Path], title: str = "", out: Path | None = None) -> Document:
    """Return the report on run folders and sweep folders.

    Sections appear where there is something to show; a run that has not finished is listed as such, and none of
    its numbers are shown.

    Args:
        folders: run folders, sweep folders, or folders that hold some.
        title: of the report; by default the names of what it is about.
        out: where the configs are written that no short command makes; None writes none.

    Raises:
        DataError: if a folder is missing or holds neither a run nor a sweep.
    """
    sources = read(folders)
    anchors = Anchors()
    found, runs = groups(sources), [run for _, run in every_run(sources)]
    sections = (
        overview(sources, anchors),
        paper(sources, anchors),
        results(found, anchors),
        sensitivity(found, anchors),
        cost(found, anchors),
        graphs(runs, anchors),
        failures(runs, anchors),
        commands(sources, anchors, out),
        environment(sources, anchors),
    )
    return Document(title or _title(sources), summary(sources), [s for s in sections if s is not None])


def write(folders: Sequence[Path], out: Path, title: str = "") -> list[Path]:
    """Write the report into a folder: `index.html` in one file, `report.md` with its `plots/`; return the files.

    The same folders give the same bytes.

    Raises:
        DataError: as `document`, or if the folder cannot be written.
    """
    try:
        (out / PLOTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{out}: cannot be made ({error.strerror}); set --out to a writable folder") from None
    made = document(folders, title, out)
    files = {out / PLOTS / f"{chart.anchor}.svg": chart.file for chart in made.charts}
    for stale in sorted(set((out / PLOTS).glob("*.svg")) - set(files)):
        stale.unlink()
    files |= {out / TEXT: markdown(made, PLOTS), out / PAGE: html(made)}
    for path, content in files.items():
        write_text(path, content)
    return [out / PAGE, out / TEXT, *(path for path in files if path.suffix == ".svg")]


def _title(sources: Sequence[Source]) -> str:
    names = list(dict.fromkeys(source.name for source in sources))
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
