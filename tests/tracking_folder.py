"""Run folders as `aeg run` leaves them, made by hand: for tests of what is shown of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROWS = [
    {"method": m, "metric": "recall@5", "value": v, "ci_low": v, "ci_high": v, "n": 4, "group": g, "failed": 0}
    for m, v in (("ppr", 0.5), ("bm25", 0.25))
    for g in ("all", "easy")
]  # fmt: skip


def finish(
    folder: Path, config: dict[str, Any] | None = None, rows: list[dict[str, Any]] = ROWS, log: str = ""
) -> None:
    """Write what a finished run has: metrics, usage, results, log, and the manifest last."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text(json.dumps(rows))
    (folder / "usage.json").write_text(
        json.dumps({"questions": 4, "modules": [{"module": "Retrieval", "calls": 0, "tasks": []}]})
    )
    (folder / "log.txt").write_text(f"begun\n{log}\n")
    schema = pa.schema(
        [
            ("part", pa.string()), ("question_id", pa.string()), ("type", pa.string()), ("method", pa.string()),
            ("seed", pa.int64()), ("metrics", pa.map_(pa.string(), pa.float64())),
        ]
    )  # fmt: skip
    questions = [
        {
            "part": "",
            "question_id": f"q{i}",
            "type": "easy",
            "method": "ppr",
            "seed": None,
            "metrics": [("recall@5", i / 4)],
        }
        for i in range(4)
    ]
    pq.write_table(pa.Table.from_pylist(questions, schema=schema), folder / "results.parquet")
    manifest = {"aeg": "0", "config": config or {"name": "small"}, "questions": 4, "device": "cpu"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
