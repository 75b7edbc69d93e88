"""Chebyshev iteration for (I − c · diag(scale) · W) z = b, whose spectrum is real and lies in 1 ± c."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from aeg.core.kernels import Equation, Kernel
from aeg.core.kernels.memory import Space
from aeg.core.kernels.tiles import rounded
from aeg.propagation.base import Info

CHECK_EVERY = 2
DOUBLE_BELOW = 1e-5
_ROUNDING = 6e-4  # three times the mean relative error of a number that is rounded to float16
_PATIENCE = 3  # times the fewest steps that can be enough, after which float16 is given up

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

    Where equation and kernel allow it (`Equation.narrow`, `Kernel.halves`) iterates are kept in float16, which halves
    what a product gathers from memory. The plain step and the residual of what is kept are computed in float32, so
    that the error is bounded as before; but rounding keeps it above some 6e-4 c (1 + c) / (1 − c), and tighter
    tolerances take float32 throughout. What float16 has not brought to the tolerance in three times the steps
    that can be enough goes on in float32.

    Args:
        kernel: multiplies by W.
        equation: scale, weights, b [n, columns] and c.
        tol: a column is done when c · `bound` · Σ_v w_v |residual_v| is at most `tol`.
        max_iter: products at most.
        bound: factor from the residual's weighted L1 norm to the error that `tol` speaks of.
        rule: a further reason to stop: takes the equation and the iterate that would be returned, and says for each
            column whether it is done, bool [columns]; iterates are then not kept in float16.
        space: memory to work in, which holds z until it is used again.

    Returns:
        z, [n, columns], and the info.

    Source:
        Golub and Varga, Chebyshev semi-iterative methods, Numer. Math. 3 (1961); for the two precisions, Carson and
        Higham, Accelerating the solution of linear systems by iterative refinement in three precisions, SIAM J. Sci.
        Comput. 40 (2018).
    """
    c, first = equation.c, _first_check(equation.c, tol)
    walk = _Walk(kernel, equation, c * bound, max_iter, rule, space or Space())
    coarse = tol >= _ROUNDING * c * (1 + c) / (1 - c)
    if coarse and equation.narrow and rule is None and kernel.halves(equation.b):
        reached = walk.run(walk.start(torch.float16), tol, first, _PATIENCE * first)
        if not walk.over:
            walk.run(walk.widened(reached), tol, walk.step + CHECK_EVERY, max_iter)
    else:
        walk.run(walk.start(equation.b.dtype), tol, first if rule is None else max(2, first // 2), max_iter)
    return walk.progress.z, walk.progress.info


class _Walk:
    """The iteration: how far it is, and what each column came to."""

    def __init__(
        self, kernel: Kernel, equation: Equation, factor: float, max_iter: int, rule: Rule | None, space: Space
    ) -> None:
        self.kernel, self.equation, self.factor = kernel, equation, factor
        self.max_iter, self.rule, self.space = max_iter, rule, space
        self.progress = _Progress(equation.b.shape[1], equation.b.device)
        self.step, self.over = 0, False

    def start(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return z₁ = b and z₀ = 0, kept in a precision."""
        current, previous = self._room(dtype)
        previous.zero_()
        if dtype == torch.float16 and current.device.type == "cpu":
            rounded(self.equation.b, current)
        else:
            current.copy_(self.equation.b)
        return current, previous

    def widened(self, reached: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return what `run` reached in float16 as a start in float32; a column that left its range starts anew."""
        last, moved, error = reached
        current, previous = self._room(self.equation.b.dtype)
        previous.copy_(last)
        current.copy_(moved)
        lost = ~torch.isfinite(error)
        if bool(lost.any()):
            current[:, lost], previous[:, lost] = self.equation.b[:, lost], 0.0
        return current, previous

    def run(self, start: tuple[Tensor, Tensor], tol: float, first: int, stop: int) -> tuple[Tensor, Tensor, Tensor]:
        """Iterate until all columns are done or at step `stop`; look at step `first` and every second one after it.

        Args:
            start: an iterate and the one before it, which are overwritten.
            tol: see `chebyshev`.
            first: a step.
            stop: a step.

        Returns:
            the last iterate z that was looked at, the plain step from it, and the error of each column of z.
        """
        current, previous = start
        equation, c = self.equation, self.equation.c
        stop, omega = min(stop, self.max_iter), 2.0 / (2.0 - c * c)
        while True:
            self.step += 1
            if self.step < stop and (self.step < first or (self.step - first) % CHECK_EVERY):
                self.kernel.step(equation, current, previous, omega)
            else:
                moved = self.space.take(f"moved {self.step % 4 // 2}", *equation.b.shape, like=equation.b)
                error = self.factor * self.kernel.check(equation, current, previous, omega, moved)
                met = error <= tol if self.rule is None else (error <= tol) | self.rule(equation, moved)
                self.progress.note(self.step, moved, error, met)
                self.over = self.step >= self.max_iter or self.progress.all_done
                if self.over or self.step >= stop:
                    return current, moved, error
            previous, current = current, previous
            omega = 1.0 / (1.0 - c * c * omega / 4.0)

    def _room(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        b, names = self.equation.b, (f"current {dtype}", f"previous {dtype}")
        current, previous = (self.space.take(name, *b.shape, like=b, dtype=dtype) for name in names)
        return current, previous


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


def chebyshev_steps(c: float, tol: float) -> float:
    """Return the products that a column should need, roughly."""
    return 1.3 * math.log(min(tol, 0.5)) / math.log(rate(c))


def _first_check(c: float, tol: float) -> int:
    """One step before 2 rateᵏ, by which k steps shrink an error at least, falls below `tol`."""
    return max(2, int(math.log(min(tol, 0.5) / 2) / math.log(rate(c))) - 1)


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
