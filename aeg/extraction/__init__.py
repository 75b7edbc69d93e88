"""Extraction: from passages to entities, triples and atoms (paper, section 3.1)."""

from __future__ import annotations

from aeg.extraction.base import EXTRACTORS, Extractor
from aeg.extraction.llm import LlmExtractor
from aeg.extraction.recorded import Recorded
from aeg.extraction.statistics import described, statistics
from aeg.extraction.syntactic import Syntactic

__all__ = ["EXTRACTORS", "Extractor", "LlmExtractor", "Recorded", "Syntactic", "described", "statistics"]
