"""What each passage is about: the entity that its document's title names."""

from __future__ import annotations

import torch
from torch import Tensor

from aeg.core.keys import canonical_key
from aeg.core.titles import base_title
from aeg.graph.graph import AtomEntityGraph


def topics(graph: AtomEntityGraph) -> Tensor:
    """Return the row of each passage's topic entity, int64 [passages]; −1 where no entity has the title's name.

    The title without its trailing parenthesis is looked for first, then the whole.
    """
    row = graph.entities.index.row
    found = []
    for passage in graph.passages:
        names = (base_title(passage.title), passage.title) if passage.title else ()
        found.append(next((row[key] for name in names if (key := canonical_key(name)) in row), -1))
    return torch.tensor(found, dtype=torch.int64)
