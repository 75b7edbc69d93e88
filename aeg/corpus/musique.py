"""MuSiQue: the published JSON lines, the data folder's layout, and HippoRAG's subset."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from aeg.core.files import Item, read_items, read_lines, resolve
from aeg.core.records import Corpus, Query
from aeg.corpus.base import CORPORA, CorpusLoader
from aeg.corpus.paragraphs import Sample, find_layout, load_contexts, load_folder, load_subset

STEM = "musique"
_WHAT = "MuSiQue questions with their paragraphs"
_HOPS = re.compile(r"(\d+hop)\d*__")


@CORPORA.register("musique")
@dataclass(frozen=True)
class MuSiQue(CorpusLoader):
    """Loads MuSiQue; each paragraph is one document.

    The layout is found by the files that are there: corpus.json and questions.json (`gold`: rows of corpus);
    musique_corpus.json and musique.json as in HippoRAG's papers; or a published file such as
    musique_ans_v1.0_dev.jsonl, whose corpus is the union of the contexts. Unanswerable questions (in
    `musique_full`) are left out with their contexts and counted as `unanswerable_questions`. The type is the
    number of hops that the id starts with ("3hop1__..." is "3hop").

    Attributes:
        path: a folder or a file, relative to `data_root`.

    Example:
        >>> CORPORA.make("musique")
        MuSiQue(path='musique')
    """

    path: str = STEM

    def load(self, root: Path | None) -> Corpus:
        """Return the corpus; see `CorpusLoader.load`."""
        layout, found = find_layout(resolve(root, self.path), STEM, "musique*.jsonl")
        if layout == "folder":
            return load_folder(found, STEM, "gold")
        samples, counts = _read(found / f"{STEM}.json" if layout == "subset" else found)
        if layout == "subset":
            return load_subset(samples, STEM, found / f"{STEM}_corpus.json", counts)
        return load_contexts(samples, STEM, found, counts)


def _read(path: Path) -> tuple[list[Sample], Counter[str]]:
    items = read_items(path, _WHAT) if path.suffix == ".json" else read_lines(path, _WHAT)
    samples = []
    counts: Counter[str] = Counter()
    for position, item in enumerate(items):
        if item.flag("answerable", default=True):
            samples.append(_sample(item, position))
        else:
            counts["unanswerable_questions"] += 1
    return samples, counts


def _sample(item: Item, position: int) -> Sample:
    identifier = item.identifier("id")
    hops = _HOPS.match(identifier)
    query = Query(
        id=identifier,
        question=item.string("question", blank=False),
        answer=item.string("answer", default=""),
        aliases=item.strings("answer_aliases", optional=True),
        type=hops.group(1) if hops else "",
        position=position,
    )
    rows = item.items("paragraphs")
    paragraphs = tuple((row.string("title"), row.string("paragraph_text")) for row in rows)
    gold = tuple(index for index, row in enumerate(rows) if row.flag("is_supporting", default=False))
    return Sample(query, item.where, paragraphs, gold)
