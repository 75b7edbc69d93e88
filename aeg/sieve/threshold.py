"""A sieve without a language model: similarity to the question, and redundancy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from aeg.config.ranges import param
from aeg.core.records import Query
from aeg.errors import ConfigError
from aeg.sieve.base import SIEVES, Candidate, Sieve, Sieved, check_pairs, minimum

if TYPE_CHECKING:
    from aeg.backends.llm.asker import Asker

_ROUNDING = 1e-6  # equal vectors have a cosine this close to 1


@SIEVES.register("threshold")
@dataclass(frozen=True)
class ThresholdSieve(Sieve):
    """Keeps candidates near the question that say something new.

    Candidates are gone through best first. One is kept if its cosine to the original question is at least
    `similarity`, and its cosine to every better candidate kept so far is below `redundancy`.

    Attributes:
        similarity: least cosine to the question; depends on the encoder.
        redundancy: cosine from which a candidate repeats a better one; null keeps repeats.
        min_kept: so many candidates are kept at least, the best first, however dissimilar.
    """

    similarity: float = param(0.3, ge=-1, le=1)
    redundancy: float | None = param(0.95, gt=0, le=1)
    min_kept: int = param(0, ge=0)

    def sieve(
        self,
        questions: Sequence[Query],
        candidates: Sequence[Sequence[Candidate]],
        llm: Asker | None = None,
        encoder: Any | None = None,
        device: torch.device | str = "cpu",
    ) -> list[Sieved]:
        """Return what is kept of each question's candidates; see `Sieve.sieve`."""
        check_pairs(questions, candidates)
        unknown = any(candidate.similarity is None for found in candidates for candidate in found)
        if encoder is None and (self.redundancy is not None or unknown):
            what = "redundancy" if not unknown else "similarity to the question"
            raise ConfigError(f"sieve 'threshold' needs an encoder for {what}: set encoder, or choose another sieve")
        texts = list(dict.fromkeys(candidate.text for found in candidates for candidate in found))
        row = {text: at for at, text in enumerate(texts)}
        vectors = asked = torch.zeros(0, 0)
        if texts and (self.redundancy is not None or unknown):
            vectors = encoder.encode(texts)  # type: ignore[union-attr]
        if texts and unknown:
            asked = encoder.encode([query.question for query in questions], kind="query")  # type: ignore[union-attr]
        sieved = []
        for at, found in enumerate(candidates):
            own = vectors[[row[candidate.text] for candidate in found]] if len(vectors) and found else None
            sieved.append(self._one(found, _similarities(found, own, asked[at] if len(asked) else None), own))
        return sieved

    def _one(self, found: Sequence[Candidate], similarity: list[float], vectors: Tensor | None) -> Sieved:
        counts: Counter[str] = Counter()
        near: list[list[float]] = []
        if self.redundancy is not None and vectors is not None:
            near = (vectors @ vectors.T).tolist()
        kept: list[int] = []
        for at, cosine in enumerate(similarity):
            if cosine < self.similarity - _ROUNDING:
                counts["below_similarity"] += 1
            elif near and any(near[at][other] >= self.redundancy - _ROUNDING for other in kept):  # type: ignore[operator]
                counts["redundant"] += 1
            else:
                kept.append(at)
        return minimum(found, kept, self.min_kept, counts)


def _similarities(found: Sequence[Candidate], vectors: Tensor | None, question: Tensor | None) -> list[float]:
    cosines = (vectors @ question).tolist() if vectors is not None and question is not None else [0.0] * len(found)
    return [
        cosine if candidate.similarity is None else candidate.similarity
        for candidate, cosine in zip(found, cosines, strict=True)
    ]
