"""HotpotQA: the published JSON, the data folder's layout, and HippoRAG's subset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aeg.core.files import resolve
from aeg.core.records import Corpus
from aeg.corpus.base import CORPORA, CorpusLoader
from aeg.corpus.paragraphs import find_layout, load_contexts, load_folder, load_subset, read_supporting_facts

STEM = "hotpotqa"


@CORPORA.register("hotpotqa")
@dataclass(frozen=True)
class HotpotQA(CorpusLoader):
    """Loads HotpotQA; each paragraph is one document.

    The layout is found by the files that are there: corpus.json and questions.json (`gold`: rows of corpus);
    hotpotqa_corpus.json and hotpotqa.json as in HippoRAG's papers; or a published file such as
    hotpot_dev_distractor_v1.json, whose corpus is the union of the contexts (gold is resolved within each
    question's own context).

    Attributes:
        path: a folder or a file, relative to `data_root`.

    Example:
        >>> CORPORA.make("hotpotqa", path="hotpot_dev_distractor_v1.json")
        HotpotQA(path='hotpot_dev_distractor_v1.json')
    """

    path: str = STEM

    def load(self, root: Path | None) -> Corpus:
        """Return the corpus; see `CorpusLoader.load`."""
        layout, found = find_layout(resolve(root, self.path), STEM, "hotpot*.json")
        if layout == "folder":
            return load_folder(found, STEM, "gold")
        if layout == "subset":
            samples = read_supporting_facts(found / f"{STEM}.json", joiner="")
            return load_subset(samples, STEM, found / f"{STEM}_corpus.json", {})
        return load_contexts(read_supporting_facts(found, joiner=""), STEM, found, {})
