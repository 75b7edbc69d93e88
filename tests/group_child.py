"""Run by torchrun: replies of a model in the process, to prompts whose batches do not divide evenly."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from aeg.backends.group import led
from aeg.backends.llm.base import Message, Request
from aeg.backends.llm.transformers import TransformersBackend


def main(model: str, out: Path) -> int:
    prompts = [f"{'the cat sat ' * (at % 7)}on mat number {at}" for at in range(21)] + ["far too long " * 200]
    requests = [Request("t", str(at), (Message("user", text),), max_tokens=9) for at, text in enumerate(prompts)]
    backend = TransformersBackend(model=model, device="cpu", batch_size=4, temperature=1.0)
    with backend.open() as session:
        found = [(position, type(outcome).__name__, told(outcome)) for position, outcome in session.send(requests)]
    out.write_text(json.dumps(found, indent=1))
    return 0


def told(outcome: object) -> dict[str, object]:
    """The fields of a reply or a failure; how long it took left out."""
    fields = dataclasses.asdict(outcome)  # type: ignore[call-overload]
    return {name: value for name, value in fields.items() if name != "seconds"}


if __name__ == "__main__":
    sys.exit(led(lambda: main(sys.argv[1], Path(sys.argv[2]))))
