"""Loaders of documents and questions, and the chunker; importing this registers every loader."""

from aeg.corpus import beir, graphrag_bench, hotpotqa, jsonl, musique, sample, text_folder, two_wiki
from aeg.corpus.base import CORPORA, CorpusLoader
from aeg.corpus.chunker import chunk

__all__ = [
    "CORPORA",
    "CorpusLoader",
    "beir",
    "chunk",
    "graphrag_bench",
    "hotpotqa",
    "jsonl",
    "musique",
    "sample",
    "text_folder",
    "two_wiki",
]
