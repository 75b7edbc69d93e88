"""The sieve: which candidates a question needs (paper, section 3.4)."""

from __future__ import annotations

from aeg.sieve.base import SIEVES, Candidate, Sieve, Sieved, candidates, summary
from aeg.sieve.cross_encoder import CrossEncoderSieve
from aeg.sieve.llm import LanguageModelSieve
from aeg.sieve.none import NoSieve
from aeg.sieve.threshold import ThresholdSieve

__all__ = [
    "SIEVES",
    "Candidate",
    "CrossEncoderSieve",
    "LanguageModelSieve",
    "NoSieve",
    "Sieve",
    "Sieved",
    "ThresholdSieve",
    "candidates",
    "summary",
]
