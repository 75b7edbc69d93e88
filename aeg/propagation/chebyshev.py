"""Chebyshev iteration for (I − c · diag(scale) · W) z = b, whose spectrum is real and lies in 1 ± c."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from aeg.core.kernels import Equation, Kernel
from aeg.core.kernels.memory import Space
from aeg.propagation.base import Info

CHECK_EVERY = 2
DOUBLE_BELOW = 1e-5

Rule = Callable[[Equation, Tensor], Tensor]


def chebyshev(
    kernel: Kernel,
    equation: Equation,
    tol: float,
    max_iter: int,
    bound: float,
    rule: Rule | None = None,
    space: Space | None = None,
) -> tuple[Tensor, Info]:
    """Solve (I − c · diag(scale) · W) z = b for all columns of b at once.

    With ω₁ = 1, ω₂ = 2 / (2 − c²) and ω_{k+1} = 1 / (1 − c² ω_k / 4) the iterates are
    z_{k+1} = ω_{k+1} (b + c · scale · (W z_k) − z_{k−1}) + z_{k−1}, from z₀ = 0. What is returned is one plain
    step from z_k, which the product of step k gives for free: its error is at most c times that of z_k, and the
    error of z_k at most `bound` times the weighted L1 norm of its residual. Columns are looked at every second
    step, first where the tolerance can be met at all; one that met it is set aside with the iterate of that step,
    so it does not depend on its neighbours.

    Args:
        kernel: multiplies by W.
        equation: scale, weights, b [n, columns] and c.
        tol: a column is done when c · `bound` · Σ_v w_v |residual_v| is at most `tol`.
        max_iter: products at most.
        bound: factor from the residual's weighted L1 norm to the error that `tol` speaks of.
        rule: a further reason to stop: takes the equation and the iterate that would be returned, and says for each
            column whether it is done, bool [columns].
        space: memory to work in, which holds z until it is used again.

    Returns:
        z, [n, columns], and the info.

    Source:
        Golub and Varga, Chebyshev semi-iterative methods, Numer. Math. 3 (1961).
    """
    b, c, space = equation.b, equation.c, space or Space()
    progress = _Progress(b.shape[1], b.device)
    previous = space.take("previous", *b.shape, like=b).zero_()
    current = space.take("current", *b.shape, like=b).copy_(b)
    omega = 2.0 / (2.0 - c * c)
    first = _first_check(c, tol) if rule is None else max(2, _first_check(c, tol) // 2)
    step = 0
    while True:
        step += 1
        if step < max_iter and (step < first or (step - first) % CHECK_EVERY):
            kernel.step(equation, current, previous, omega)
        else:
            moved = space.take(f"moved {step % 4 // 2}", *b.shape, like=b)
            error = c * bound * kernel.check(equation, current, previous, omega, moved)
            met = error <= tol if rule is None else (error <= tol) | rule(equation, moved)
            progress.note(step, moved, error, met)
            if step >= max_iter or progress.all_done:
                return progress.z, progress.info
        previous, current = current, previous
        omega = 1.0 / (1.0 - c * c * omega / 4.0)


def precision(tol: float) -> torch.dtype:
    """Return the precision of the iteration for a tolerance: float64 below 1e-5."""
    return torch.float64 if tol < DOUBLE_BELOW else torch.float32


def rate(c: float) -> float:
    """Return the factor by which a step shrinks the error in the long run: (1 − √(1 − c²)) / c.

    Example:
        >>> round(rate(0.7), 3), round(rate(0.9), 3)
        (0.408, 0.627)
    """
    return (1 - math.sqrt(1 - c * c)) / c


def _first_check(c: float, tol: float) -> int:
    """The first step at which a residual can be expected to meet `tol`: three quarters of log tol / log rate."""
    return max(2, int(0.75 * math.log(min(tol, 0.5)) / math.log(rate(c))))


class _Progress:
    """The iterate of each column at the step at which it was done."""

    def __init__(self, columns: int, device: torch.device) -> None:
        self.done = torch.zeros(columns, dtype=torch.bool, device=device)
        self.iterations = torch.zeros(columns, dtype=torch.int64, device=device)
        self.error = torch.full((columns,), torch.inf, dtype=torch.float64, device=device)
        self.z = torch.empty(0, device=device)
        self.any_done = self.all_done = False

    def note(self, step: int, moved: Tensor, error: Tensor, done: Tensor) -> None:
        fresh = ~self.done
        self.error = torch.where(fresh, error, self.error)
        self.iterations = torch.where(fresh, step, self.iterations)
        self.z = torch.where(fresh, moved, self.z) if self.any_done else moved
        self.done = self.done | done
        self.any_done, self.all_done = torch.stack([self.done.any(), self.done.all()]).tolist()

    @property
    def info(self) -> Info:
        return Info(self.iterations, self.error, self.done)
