"""A small corpus and a plugin that writes down what is extracted and which artifacts are made, in any process."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

PLUGIN = '''
"""An extractor that writes down what it is asked for, and can be held up or broken; artifacts are counted."""
import os
import time
from dataclasses import dataclass
from pathlib import Path

from aeg.artifacts import Artifact
from aeg.core.records import ExtractedAtom, Extraction
from aeg.extraction.base import EXTRACTORS, Extractor

PARENT = os.getppid()  # a test that is killed leaves nobody behind who waits


def here(name):
    return Path(os.environ["SWEEP_PLACE"]) / name


def told(name, line):
    with open(here(name), "a") as file:
        file.write(line + chr(10))


if not hasattr(Artifact, "counted"):
    finish = Artifact.finish

    def counted(self, **facts):
        told("made", f"{self.stage} {self.fingerprint}")
        finish(self, **facts)

    Artifact.finish, Artifact.counted = counted, True


@EXTRACTORS.register("told")
@dataclass(frozen=True)
class Told(Extractor):
    flavour: int = 0

    def extract(self, passages, root=None, workers=0):
        for at, passage in enumerate(passages):
            if here(f"broken-{self.flavour}").exists():
                raise RuntimeError("the extractor fell over")
            while here(f"hold-{self.flavour}-{passage.id}").exists() and os.getppid() == PARENT:
                time.sleep(0.02)
            told("asked", f"{self.flavour} {passage.id}")
            yield Extraction(passage.id, ("Ann",), (), (ExtractedAtom(passage.text, ("Ann", passage.id)),))
'''

DOCUMENTS = 8
DEEDS = ("painted a barn", "sold seven goats", "sailed to Crete", "baked rye bread", "lost a lawsuit", "found a coin")


class Place:
    """A folder with a corpus, the plugin, and a sweep file."""

    def __init__(self, folder: Path, sweep: str, more: str = "") -> None:
        self.folder = folder
        os.environ["SWEEP_PLACE"] = str(folder)  # one module in a process, whatever folder its file is in
        (folder / "told.py").write_text(PLUGIN)
        documents = [{"id": f"d{i}", "text": f"Ann {DEEDS[i % 6]} in year {i}."} for i in range(DOCUMENTS)]
        questions = [
            {
                "id": f"q{i}",
                "question": f"When did Ann {DEEDS[i % 6]}?",
                "answer": f"In year {i}.",
                "type": "odd" if i % 2 else "even",
                "gold_doc_ids": [f"d{i}"],
                "evidence": [f"Ann {DEEDS[i % 6]} in year {i}."],
            }
            for i in range(6)
        ]
        (folder / "documents.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in documents))
        (folder / "questions.jsonl").write_text("".join(json.dumps(query) + "\n" for query in questions))
        self.file = self.write("small", sweep, more)

    def write(self, name: str, sweep: str, more: str = "") -> Path:
        """Write a config file with a section `sweep`."""
        file = self.folder / f"{name}.yaml"
        file.write_text(
            f"""# A sweep over a small corpus.
name: {name}
plugins: ['{self.folder / "told.py"}']
run_dir: {self.folder / "runs"}
artifacts_dir: {self.folder / "artifacts"}
device: cpu
corpus: {{name: jsonl, documents: '{self.folder / "documents.jsonl"}', questions: '{self.folder / "questions.jsonl"}'}}
extraction: {{name: told}}
propagation: [{{name: ppr}}]
evaluation: {{resamples: 100, baselines: [bm25]}}
{more}
{sweep}
"""
        )
        return file

    def asked(self) -> list[str]:
        """Flavour and passage of each extraction, in order."""
        return self._lines("asked")

    def made(self) -> Counter[str]:
        """How often each artifact was made."""
        return Counter(self._lines("made"))

    def _lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []
