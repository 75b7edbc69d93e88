"""The compiled loop of forward push."""
# ruff: noqa: ANN001, ANN201, C901, D417
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from numba import njit


@njit(nogil=True, error_model="numpy", cache=True)
def push(crow, col, weight, degree, nodes, mass, restart, epsilon, tol, found, left, waiting, queue, touched):
    """Push the mass of one query from its seeds until `epsilon` and `tol` are met.

    Args:
        crow, col, weight, degree: the matrix; `degree` float64, 1 for an isolated node.
        nodes, mass: the seeds, distinct nodes.
        restart: ρ.
        epsilon: threshold to begin with; it is lowered fourfold until at most `tol` is left.
        tol: mass that may be left; infinite where `epsilon` alone decides.
        found, left: float64 [nodes], zero; estimates and mass that is still to be pushed.
        waiting, queue, touched: bool, int32, int32 [nodes], the first all false.

    Returns:
        how many nodes were touched (their numbers begin `touched`), the mass left, and pushes along edges.
    """
    size, count, edges, rest = len(queue), 0, 0, 0.0
    for at in range(len(nodes)):
        left[nodes[at]] += mass[at]
        rest += mass[at]
        touched[count] = nodes[at]
        count += 1
    while True:
        head, length = 0, 0
        for at in range(count):
            v = touched[at]
            if left[v] > epsilon * degree[v]:
                queue[length], waiting[v] = v, True
                length += 1
        while length:
            v = queue[head]
            head = head + 1 if head + 1 < size else 0
            length -= 1
            waiting[v] = False
            amount = left[v]
            left[v] = 0.0
            found[v] += restart * amount
            rest -= amount
            share = (1.0 - restart) * amount / degree[v]
            for e in range(crow[v], crow[v + 1]):
                u = col[e]
                if left[u] == 0.0 and found[u] == 0.0:
                    touched[count] = u
                    count += 1
                added = share * weight[e]
                left[u] += added
                rest += added
                if not waiting[u] and left[u] > epsilon * degree[u]:
                    waiting[u] = True
                    tail = head + length
                    queue[tail if tail < size else tail - size] = u
                    length += 1
            edges += crow[v + 1] - crow[v]
        rest = 0.0
        for at in range(count):
            rest += left[touched[at]]
        if rest <= tol:
            return count, rest, edges
        epsilon = epsilon / 4.0
