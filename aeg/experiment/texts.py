"""The texts that a run's results name by id, so that evidence can be read: questions, and the best units."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aeg.core.records import Query
from aeg.graph import AtomEntityGraph
from aeg.pipeline.ranking import Ranking

FILE = "texts.parquet"
BEST = 10  # units of each question and method whose text is kept
QUESTION, ATOM, PASSAGE = "question", "atom", "passage"


def text_rows(
    part: str, graph: AtomEntityGraph, queries: Sequence[Query], rankings: Sequence[Ranking]
) -> list[dict[str, Any]]:
    """Return one record a question and a unit that stands among the best of any ranking, each once, ordered by id."""
    rows = [_row(part, QUESTION, query.id, query.question) for query in queries]
    for kind in (ATOM, PASSAGE):
        tops = [ranking.units[:, :BEST] for ranking in rankings if ranking.unit == kind]
        best = sorted({row for top in tops for row in top.flatten().unique().tolist() if row >= 0})
        if kind == ATOM:
            rows += [_row(part, kind, graph.atoms.ids[row], graph.atoms.texts[row]) for row in best]
        else:
            rows += [_row(part, kind, graph.passages[row].id, graph.passages[row].text) for row in best]
    return rows


def text_schema() -> Any:
    """Return the Arrow schema of the records."""
    import pyarrow as pa

    return pa.schema([(name, pa.string()) for name in ("part", "kind", "id", "text")])


def read_texts(folder: Path) -> dict[tuple[str, str, str], str]:
    """Return the texts of a run by (part, kind, id); none where the run kept none."""
    import pyarrow.parquet as pq

    if not (folder / FILE).is_file():
        return {}
    columns = pq.read_table(folder / FILE).to_pydict()
    keys = zip(columns["part"], columns["kind"], columns["id"], strict=True)
    return dict(zip(keys, columns["text"], strict=True))


def _row(part: str, kind: str, name: str, text: str) -> dict[str, Any]:
    return {"part": part, "kind": kind, "id": name, "text": text}
