"""How far a question's links can be trusted to say what it asks for."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from aeg.core.idf import Idf
from aeg.core.records import EffectiveQuery
from aeg.core.text import content_words
from aeg.query.links import Links


def trust(effective: Sequence[EffectiveQuery], links: Links, idf: Idf) -> Tensor:
    """Return the share of each query's content that its links name, float64 [effective] in [0, 1].

        τ(q) = Σ_{w ∈ C(q), w in a linked mention} idf(w) / Σ_{w ∈ C(q)} idf(w)

    C(q) are the stemmed content words of the query, each as often as it stands there. A question that names what it
    is about ("Who directed Ice Age?") has a high τ, one that describes it a low one, one without links 0.

    Args:
        effective: the effective queries.
        links: their links, with the words that led to each.
        idf: inverse passage frequencies of stemmed words.

    Example:
        >>> idf = Idf.of(["Ann Lee directs films.", "Films are long.", "A dog directs nobody."])
        >>> asked = [EffectiveQuery(0, "Which films did Ann Lee direct?"), EffectiveQuery(1, "Which films?")]
        >>> from aeg.query.links import Link
        >>> links = Links.from_lists([[Link(0, 1.0, "Ann Lee")], []])
        >>> [round(share, 2) for share in trust(asked, links, idf).tolist()]
        [0.68, 0.0]
    """
    shares = []
    for query, found in zip(effective, links, strict=True):
        named = {word.stem for link in found for word in content_words(link.mention)}
        weights = [(idf(word.stem), word.stem in named) for word in content_words(query.text)]
        total = sum(weight for weight, _ in weights)
        shares.append(sum(weight for weight, linked in weights if linked) / total if total else 0.0)
    return torch.tensor(shares, dtype=torch.float64)
