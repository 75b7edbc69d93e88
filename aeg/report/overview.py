"""The first and the last sections: which runs there are, how to repeat them, and what they ran on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from aeg.experiment.state import FINISHED, RUNNING, WAITING
from aeg.report.blocks import NONE, Anchors, Block, Cell, Code, Folded, Section, Table, Text
from aeg.report.command import method_command, run_command, sweep_command, write_config
from aeg.report.folder import Run, Source, Sweep
from aeg.report.graph import in_short

STATE_MARKS = {FINISHED: "good", RUNNING: "unsure", WAITING: "unsure", "not started": "unsure"}


def every_run(sources: Sequence[Source]) -> list[tuple[Sweep | None, Run]]:
    """Return all runs in order, each with the sweep that it belongs to."""
    pairs: list[tuple[Sweep | None, Run]] = []
    for source in sources:
        if isinstance(source, Sweep):
            pairs += [(source, run) for run in source.runs]
        else:
            pairs.append((None, source))
    return pairs


def summary(sources: Sequence[Source]) -> list[Cell]:
    """Return what stands under the title: how many runs, of which kinds, on which data."""
    runs = [run for _, run in every_run(sources)]
    states: dict[str, int] = {}
    for run in runs:
        states[run.state] = states.get(run.state, 0) + 1
    sweeps = sum(isinstance(source, Sweep) for source in sources)
    cells = [Cell(f"{len(runs)}", "run" if len(runs) == 1 else "runs")]
    if sweeps:
        cells.append(Cell(f"{sweeps}", "sweep" if sweeps == 1 else "sweeps"))
    ordered = sorted(states.items(), key=lambda item: item[0] != FINISHED)
    cells += [Cell(f"{count}", state, mark=STATE_MARKS.get(state, "bad")) for state, count in ordered]
    corpora = list(dict.fromkeys(run.corpus for run in runs if run.corpus))
    return [*cells, Cell(f"{len(corpora)}", "corpus" if len(corpora) == 1 else "corpora")]


def overview(sources: Sequence[Source], anchors: Anchors) -> Section:
    """Return the section that lists every run, finished or not; those of sweeps are folded away below their sweeps."""
    pairs = every_run(sources)
    blocks: list[Block] = []
    unfinished = [run for _, run in pairs if not run.finished]
    if unfinished:
        names = in_short([run.name for run in unfinished])
        words = f"{len(unfinished)} of {len(pairs)} runs are not finished and have no numbers here: {names}."
        blocks.append(Text(f"{words} See failures and fall-backs.", warns=True))
    single = _runs([(sweep, run) for sweep, run in pairs if sweep is None])
    if all(sweep is None for sweep, _ in pairs):
        return Section("Runs", anchors.new("runs"), [*blocks, single])
    blocks.append(_sweeps([source for source in sources if isinstance(source, Sweep)]))
    if single.rows:
        blocks.append(single)
    swept = _runs([(sweep, run) for sweep, run in pairs if sweep is not None])
    blocks.append(Folded(f"The {len(swept.rows)} runs of the sweeps", [swept]))
    return Section("Runs", anchors.new("runs"), blocks)


def _sweeps(sweeps: Sequence[Sweep]) -> Table:
    rows = []
    for sweep in sweeps:
        done, total = len(sweep.finished), len(sweep.runs)
        corpora = dict.fromkeys(run.corpus for run in sweep.runs if run.corpus)
        axes = ", ".join(axis.rsplit(".", 1)[-1] for axis in sweep.axes)
        state = Cell(
            f"{done} of {total} finished", number=done / max(total, 1), mark="good" if done == total else "bad"
        )
        rows.append([Cell(sweep.name), state, Cell(axes or NONE), Cell(in_short(list(corpora)) or NONE)])
    return Table(["sweep", "state", "varies", "corpus"], rows, "Sweeps", words=4)


def _runs(pairs: Sequence[tuple[Sweep | None, Run]]) -> Table:
    rows = []
    for sweep, run in pairs:
        commit = (run.manifest.get("git") or {}).get("commit")
        rows.append(
            [
                *(Cell(sweep.name if sweep else NONE), Cell(run.name), _state(run), Cell(run.corpus or NONE)),
                Cell(in_short(run.methods) or NONE),
                _count(run.manifest.get("questions"), 0),
                _count((run.manifest.get("seconds") or {}).get("total"), 1),
                Cell(str(run.manifest.get("device") or NONE)),
                Cell(str(commit)[:8] if commit else NONE),
            ]
        )
    head = ["sweep", "run", "state", "corpus", "methods", "questions", "seconds", "device", "commit"]
    if all(sweep is None for sweep, _ in pairs):
        head, rows = head[1:], [row[1:] for row in rows]
    return Table(head, rows, words=head.index("questions"))


def commands(sources: Sequence[Source], anchors: Anchors, out: Path | None) -> Section:
    """Return the section of commands that repeat each row.

    Args:
        sources: the runs and sweeps.
        anchors: of the report.
        out: the report's folder, where the configs go that no short command makes; None writes none.
    """
    blocks: list[Block] = [
        Text(
            "Finished stages are taken from the artifacts folder, so that repeating a row costs little. The commands "
            "of sweeps are as they were given; those of runs leave to the machine where data lie (data_root, "
            "AEG_DATA), where results go (run_dir, artifacts_dir) and what computes (device, workers)."
        ),
        Code(
            "python -m experiments.reproduce RUN", "A run folder again, as its manifest records it; tells what differs"
        ),
    ]
    for source in sources:
        if isinstance(source, Sweep):
            each = "\n".join(sweep_command(source, run) + f"  # {run.name}" for run in source.runs)
            blocks.append(Code(sweep_command(source), f"{source.name}: what is missing or failed"))
            blocks.append(Folded(f"{source.name}: its {len(source.runs)} runs one by one", [Code(each)]))
            continue
        blocks += _of_run(source, out)
    return Section("Commands", anchors.new("commands"), blocks)


def environment(sources: Sequence[Source], anchors: Anchors) -> Section | None:
    """Return the section of what the finished runs ran on, equal machines together; None without any."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for _, run in every_run(sources):
        if run.finished:
            found.setdefault(tuple(_machine(run)), []).append(run.name)
    if not found:
        return None
    tables = [
        Table(["", ""], [[Cell(k), Cell(v)] for k, v in facts], in_short(names), words=2)
        for facts, names in found.items()
    ]
    return Section("Environment", anchors.new("environment"), [Folded("Versions, device and code", tables)])


def _of_run(run: Run, out: Path | None) -> list[Block]:
    command = run_command(run.config) if run.config else None
    if command is None and run.config and out is not None:
        file = write_config(run, out / "configs")
        command = shlex.join(["aeg", "run", f"configs/{file.name}"])
        return [Code(command, f"{run.name}, in the report's folder: its config is kept there")]
    if command is None:
        return [Text(f"{run.name}: its config is not known, since it did not finish.", warns=True)]
    blocks: list[Block] = [Code(command, run.name)]
    each = [(method, method_command(run, method)) for method in run.methods]
    known = "\n".join(f"{line}  # {method}" for method, line in each if line)
    if known and len(each) > 1:
        blocks.append(Folded(f"{run.name}: method by method", [Code(known)]))
    return blocks


def _machine(run: Run) -> list[tuple[str, str]]:
    told = run.manifest
    git = told.get("git") or {}
    dirty = " with changes" if git.get("dirty") else ""
    engines = {name for facts in run.parts.values() for name in (facts.get("engines") or {}).items()}
    kernels = {str((facts.get("operator") or {}).get("kernel")) for facts in run.parts.values()}
    facts = {
        "aeg": told.get("aeg"),
        "commit": f"{git.get('commit')}{dirty}" if git else None,
        "python": told.get("python"),
        "platform": told.get("platform"),
        "device": told.get("device"),
        "threads": told.get("threads"),
        "kernel": ", ".join(sorted(kernels - {"None"})),
        "engines": ", ".join(f"{method} {engine}" for method, engine in sorted(engines)),
        **(told.get("libraries") or {}),
    }
    return [(key, str(value)) for key, value in facts.items() if value not in (None, "")]


def _state(run: Run) -> Cell:
    return Cell(run.state, mark=STATE_MARKS.get(run.state, "bad"))


def _count(value: float | None, digits: int) -> Cell:
    return Cell(NONE) if value is None else Cell(f"{value:,.{digits}f}", number=float(value))
