"""2WikiMultiHopQA: the data folder's layout, HippoRAG's subset, and the published JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aeg.core.files import resolve
from aeg.core.records import Corpus
from aeg.corpus.base import CORPORA, CorpusLoader
from aeg.corpus.paragraphs import find_layout, load_contexts, load_folder, load_subset, read_supporting_facts

STEM = "2wikimultihopqa"


@CORPORA.register("two_wiki")
@dataclass(frozen=True)
class TwoWiki(CorpusLoader):
    """Loads 2WikiMultiHopQA; each passage is one document, its gold titles are resolved to ids on loading.

    The layout is found by the files that are there: corpus.json and questions.json (`gold_titles`);
    2wikimultihopqa_corpus.json and 2wikimultihopqa.json as in HippoRAG's papers; or the published JSON (name
    the file in `path`; its corpus is the union of the contexts).

    Attributes:
        path: a folder or a file, relative to `data_root`.

    Example:
        >>> CORPORA.make("two_wiki")
        TwoWiki(path='2wikimultihopqa')
    """

    path: str = STEM

    def load(self, root: Path | None) -> Corpus:
        """Return the corpus; see `CorpusLoader.load`."""
        layout, found = find_layout(resolve(root, self.path), STEM, "2wiki*.json")
        if layout == "folder":
            return load_folder(found, "two_wiki", "gold_titles")
        if layout == "subset":
            samples = read_supporting_facts(found / f"{STEM}.json", joiner=" ")
            return load_subset(samples, "two_wiki", found / f"{STEM}_corpus.json", {})
        return load_contexts(read_supporting_facts(found, joiner=" "), "two_wiki", found, {})
