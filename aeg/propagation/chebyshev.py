"""Chebyshev iteration for (I − c M) x = b, where M has a real spectrum in [−1, 1]."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from aeg.propagation.base import Info

CHECK_EVERY = 4
DOUBLE_BELOW = 1e-5


def chebyshev(
    product: Callable[[Tensor], Tensor], b: Tensor, c: float, tol: float, max_iter: int, bound: float
) -> tuple[Tensor, Info]:
    """Solve (I − c M) x = b for all columns of b at once.

    With ω₂ = 2 / (2 − c²) and ω_{k+1} = 1 / (1 − c² ω_k / 4) the iterates are
    x_{k+1} = ω_{k+1} (b + c M x_k − x_{k−1}) + x_{k−1}; the residual b + c M x_k − x_k comes with each step for
    free. Columns are looked at every four steps; a column that met the tolerance is set aside with the iterate
    of that step, so it does not depend on its neighbours. Below a tolerance of 1e-5 all is done in float64.

    Args:
        product: M x for a dense x [n, columns].
        b: float32 [n, columns].
        c: in (0, 1).
        tol: a column is done when `bound` times the L1 norm of its residual is at most `tol`.
        max_iter: products at most.
        bound: factor from the residual's L1 norm to the error that `tol` speaks of.

    Returns:
        x, float32 [n, columns], and the info (`residual` is the bounded error).

    Source:
        Golub and Varga, Chebyshev semi-iterative methods, Numer. Math. 3 (1961).
    """
    dtype = torch.float64 if tol < DOUBLE_BELOW else torch.float32
    b = b.to(dtype)
    columns = b.shape[1]
    done = torch.zeros(columns, dtype=torch.bool, device=b.device)
    iterations = torch.zeros(columns, dtype=torch.int64, device=b.device)
    residual = torch.full((columns,), torch.inf, dtype=torch.float64, device=b.device)
    result = torch.zeros_like(b, dtype=torch.float32)
    previous, current, omega = torch.zeros_like(b), b, 2.0 / (2.0 - c * c)
    for step in range(1, max_iter + 1):
        moved = b + c * product(current)
        if step % CHECK_EVERY == 0 or step == max_iter:
            error = bound * (moved - current).abs().sum(0, dtype=torch.float64)
            fresh = ~done
            residual = torch.where(fresh, error, residual)
            iterations = torch.where(fresh, step, iterations)
            result = torch.where(fresh, moved.to(torch.float32), result)
            done = done | (error <= tol)
            if bool(done.all()):
                break
        previous, current = current, omega * (moved - previous) + previous
        omega = 1.0 / (1.0 - c * c * omega / 4.0)
    return result, Info(iterations, residual, residual <= tol)
