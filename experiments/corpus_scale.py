"""From thousands to tens of thousands of documents: index them without a language model, and change the index.

    python -m experiments.corpus_scale --documents 5000 20000 50000 --updates 10

Each corpus is generated (`experiments.corpus_generator`), indexed by processes of its own, killed once in the middle of
the extraction and started again. Reported: wall time by stage, peak memory of all its processes, disk.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from experiments.bench.output import Table
from experiments.corpus_generator import write

_STAGES = ("passages", "extraction", "vectors", "graph", "saving")
_PAUSE = 0.5  # seconds between two looks at the processes


class Watched:
    """A process and all its descendants: their memory together, and their end."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.peak = 0
        self.started = time.perf_counter()
        with log.open("a", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=file, text=True, start_new_session=True
            )

    def look(self) -> bool:
        """Wait a moment, note the memory, and tell whether the process still runs."""
        self.peak = max(self.peak, tree_memory(self.process.pid))
        try:
            self.process.wait(_PAUSE)
        except subprocess.TimeoutExpired:
            return True
        return False

    def kill(self) -> None:
        """Kill the process and its workers."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def result(self) -> dict[str, Any]:
        """Wait for the end and return what the process printed."""
        while self.look():
            pass
        out = self.process.communicate()[0]
        if self.process.returncode:
            raise SystemExit(f"{self.process.args!r} failed with {self.process.returncode}; see the log")
        return json.loads(out.splitlines()[-1]) | {"wall": time.perf_counter() - self.started, "peak": self.peak}


def tree_memory(pid: int) -> int:
    """Return the resident memory of a process and its descendants in bytes; pages they share count for each."""
    parent, resident = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                resident[int(entry.name)] = int((entry / "statm").read_text().split()[1])
            except (OSError, IndexError):
                continue  # ended meanwhile
    family, grown = {pid}, True
    while grown:
        more = {child for child, above in parent.items() if above in family} - family
        family |= more
        grown = bool(more)
    return sum(resident.get(one, 0) for one in family) * os.sysconf("SC_PAGE_SIZE")


class Journals:
    """The journals of an index under way."""

    def __init__(self, index: Path) -> None:
        self.index = index
        self._read: dict[Path, int] = {}
        self._passages = 0

    def passages(self) -> int:
        """Return how many passages they hold by now."""
        for path in self.index.glob("extraction/*/journal-*.jsonl"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                self._passages += file.read().count(b"\n")
                self._read[path] = file.tell()
        return self._passages


def indexed(documents: Path, count: int, index: Path, workers: int, kill: bool) -> dict[str, Any]:
    """Index a file of documents in processes of its own, killed once when half of the passages are extracted."""
    log = index.with_suffix(".log")
    command = [sys.executable, "-m", __spec__.name, "--child", "build", str(index), str(documents), str(workers)]
    peak, lost, killed, journals = 0, 0.0, 0, Journals(index)
    if kill:
        first = Watched(command, log)
        while first.look():
            killed = journals.passages()
            if killed >= count // 2:
                first.kill()
                break
        else:
            raise SystemExit(f"the run over {count} documents ended before it could be killed; see {log}")
        peak, lost = first.peak, time.perf_counter() - first.started
    found = Watched(command, log).result()
    known = int(next(line for line in found["lines"] if "passages known" in line).split()[1].replace(",", ""))
    assert not kill or known >= killed, (known, killed)
    disk = sum(file.stat().st_size for file in index.rglob("*") if file.is_file())
    return found | {"peak": max(peak, found["peak"]), "before_kill": lost, "known": known, "disk": disk}


def child(what: str, index: Path, source: str, workers: str) -> None:
    """Do one thing to an index in this process, and print what it took as JSON."""
    import torch

    from aeg import index as indexes
    from aeg.config.load import load_config
    from aeg.corpus import CORPORA

    torch.set_num_threads(int(workers))
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
        sys.stderr.flush()

    started, chosen = time.perf_counter(), [f"workers={workers}", "device=cpu"]
    if what == "build":
        spec = f"corpus={{name: jsonl, documents: {source}}}"
        outcome = indexes.build_index(load_config(None, [*chosen, spec]), index, report)
    elif what == "remove":
        outcome = indexes.remove(index, source.split(","), report, chosen)
    elif what == "rebuild":
        outcome = indexes.rebuild(index, report, chosen)
    else:
        loader = CORPORA.make("jsonl", documents=source)
        outcome = {"add": indexes.add, "update": indexes.update}[what](index, loader, report, chosen)
    seconds, made = time.perf_counter() - started, outcome.made
    facts = {"seconds": seconds, "stages": dict(made.seconds) if made else {}, "counts": made.counts if made else {}}
    print(json.dumps(facts | {"lines": lines, "differing": outcome.differing}))


def changed(index: Path, folder: Path, count: int, updates: int, workers: int, anew: bool) -> dict[str, Any]:
    """Add, update and remove a few documents of an index, then make it `anew`, each in a process of its own."""
    log, more, other = index.with_suffix(".log"), folder / "more.jsonl", folder / "other.jsonl"
    write(more, count + updates, first=count)
    records = [json.loads(line) for line in more.read_text(encoding="utf-8").splitlines()]
    lines = [json.dumps(r | {"text": r["text"] + " It is said to be true."}) + "\n" for r in records]
    other.write_text("".join(lines), encoding="utf-8")

    def run(what: str, source: str) -> dict[str, Any]:
        command = [sys.executable, "-m", __spec__.name, "--child", what, str(index), source, str(workers)]
        return Watched(command, log).result()

    jobs = {"add": str(more), "update": str(other), "remove": ",".join(record["id"] for record in records)}
    jobs |= {"rebuild": "-"} if anew else {}
    return {what: run(what, source) for what, source in jobs.items()}


def tables(results: list[dict[str, Any]]) -> list[Table]:
    """Return the results as tables."""
    heads = ["documents", "atoms", "entities", "synonym edges", *(f"{stage} s" for stage in _STAGES), "s/1,000"]
    growth = Table("indexing, killed once at half the extraction", [*heads, "peak MB", "disk MB"])
    updates = Table(
        "changing it, seconds", ["documents", "changed", "add", "update", "remove", "rebuild", "same bytes"]
    )
    for one in results:
        graph, stages = one["counts"]["graph"], one["stages"]
        lost = one["before_kill"]
        spent = [stages.get(stage, 0.0) + (lost if stage == "extraction" else 0.0) for stage in _STAGES]
        size = one["documents"]
        facts = [size, graph["extracted_atoms"], one["entities"], one["synonyms"]]
        growth.rows.append([*facts, *spent, 1e3 * sum(spent) / size, one["peak"] / 2**20, one["disk"] / 2**20])
        if "changes" in one:
            taken = [one["changes"].get(what, {}).get("seconds") for what in ("add", "update", "remove", "rebuild")]
            differing = one["changes"].get("rebuild", {}).get("differing")
            same = None if differing is None else ", ".join(differing) or "all"
            updates.rows.append([size, one["updates"], *taken, same])
    growth.notes.append("extraction includes the run that was killed; peak: resident memory of all processes together")
    return [growth, *([updates] if updates.rows else [])]


def main() -> None:
    """Run the sizes one after the other, and print and keep what they took."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[5000], metavar="N")
    parser.add_argument("--updates", type=int, default=0, metavar="K", help="also add, update and remove K documents")
    parser.add_argument("--rebuild", action="store_true", help="with --updates: make the index anew and compare")
    parser.add_argument("--out", type=Path, default=Path("runs/corpus_scale"))
    parser.add_argument("--workers", type=int, default=2, help="processes of the extraction, threads of the rest")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-kill", action="store_true", help="let each run end undisturbed")
    parser.add_argument("--child", nargs=4, metavar=("WHAT", "INDEX", "SOURCE", "WORKERS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child[0], Path(given.child[1]), *given.child[2:])
        return
    given.out.mkdir(parents=True, exist_ok=True)
    kept = given.out / "results.json"
    results = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else []
    for count in given.documents:
        documents, index = given.out / f"documents-{count}.jsonl", given.out / f"index-{count}"
        if index.exists():
            parser.error(f"{index} is there; delete it or choose another --out")
        write(documents, count, given.seed)
        one = indexed(documents, count, index, given.workers, not given.no_kill)
        one |= {"documents": count, "updates": given.updates, **sizes(index)}
        if given.updates:
            one["changes"] = changed(index, given.out, count, given.updates, given.workers, given.rebuild)
        results.append(one)
        kept.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        for table in tables(results):
            print(table.text(), flush=True)


def sizes(index: Path) -> dict[str, int]:
    """Return the numbers of entities and of synonym edges of an index."""
    from aeg.index import open_index

    graph = open_index(index)[1]
    synonyms = graph.data["entity", "synonym", "entity"].edge_index.shape[1]
    return {"entities": len(graph.entities), "synonyms": int(synonyms)}


if __name__ == "__main__":
    main()
