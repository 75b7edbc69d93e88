"""Top k of columns in which hundreds of scores tie: as torch's sort of whole columns has it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aeg.core.ranking import _sorted, top_k


@pytest.mark.parametrize("step", [0.0, 4e-8, 9e-8, 1.3e-7, 1e-6])
@pytest.mark.parametrize("start", [10, 26, 40, 300])
@pytest.mark.parametrize("length", [3, 60, 2000, 20_000])
def test_chains_of_ties_around_rank_k(start, length, step):
    """Scores fall by a relative step for so many entries from about rank `start` on, in any order of the rows."""
    rng = np.random.default_rng(length)
    rows = 24_000
    values = np.empty((rows, 6))
    for column in range(6):
        chain = 0.5 * (1 - step) ** np.arange(length)
        rest = rng.random(rows - start - length) * chain[-1] * 0.9
        values[:, column] = rng.permutation(np.concatenate([0.5 + 0.4 * rng.random(start), chain, rest]))
    values[:, 4] = 0
    values[:7, 5], values[7:, 5] = 0.25, 0
    scores = torch.from_numpy(values).float()
    for k in (1, 25):
        found, expected = top_k(scores, k), _sorted(scores, k)
        assert torch.equal(found[0], expected[0])
        assert torch.equal(found[1], expected[1])
