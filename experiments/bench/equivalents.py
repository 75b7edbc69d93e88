"""The nearest equivalents of the other propagation methods: scikit-network, NetworkX, NumPy and SciPy loops."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.sparse import csc_array, csr_matrix, eye_array

from experiments.bench import loops
from experiments.bench.loops import diagonal
from experiments.bench.peers import STEPS, upper_edges
from experiments.bench.problem import Contender, Problem, Solver, calibrated, each
from experiments.bench.reference import DEFAULTS
from experiments.bench.walks import numpy_walks, python_walks


def scipy_loop(problem: Problem) -> Solver:
    """The method's own recursion as a loop of SciPy CSR products, float32, one query a time, the fewest terms."""
    reference = problem.reference
    advance = {
        "katz": loops.katz,
        "label_propagation": loops.labels,
        "heat_kernel": loops.heat,
        "weighted_bfs": loops.bfs,
    }
    if problem.method == "power_iteration":
        solve, levels = loops.power(reference, problem.restart), [DEFAULTS["power_iteration"].num_iter]
    else:
        solve = advance[problem.method](reference)
        levels = [DEFAULTS["weighted_bfs"].hops] if problem.method == "weighted_bfs" else list(STEPS)
    return calibrated(problem, each(solve, problem.pool.astype(np.float32)), levels, "steps")


def scikit_polynome(problem: Problem) -> Solver:
    """scikit-network's Ruffini-Horner evaluation of a matrix polynomial (its `Katz`), with the seeds as vector."""
    from sknetwork.linalg.polynome import Polynome

    reference = problem.reference
    if problem.method == "katz":
        factor, matrix = DEFAULTS["katz"].attenuation, csr_matrix(reference.w / reference.lambda_max)
        first, scale = 0.0, 1.0
    else:
        factor, matrix = DEFAULTS["label_propagation"].gamma, csr_matrix(reference.s)
        first, scale = 1.0, 1 - factor

    def solve(column: np.ndarray, terms: int) -> np.ndarray:
        weights = scale * factor ** np.arange(terms + 1)
        weights[0] = first * scale
        return Polynome(matrix, weights).dot(column)

    return calibrated(problem, each(solve, problem.pool), STEPS, "steps")


def networkx_katz(problem: Problem) -> Solver:
    """NetworkX's katz_centrality with the seeds as β, its loosest sufficient tolerance, less the seeds."""
    import networkx

    reference = problem.reference
    upper, weights = upper_edges(problem)
    graph = networkx.Graph()
    graph.add_nodes_from(range(problem.graph.op.num_nodes))
    graph.add_weighted_edges_from(zip(*upper.tolist(), weights.tolist(), strict=True))
    alpha = DEFAULTS["katz"].attenuation / reference.lambda_max

    def solve(column: np.ndarray, tolerance: float) -> np.ndarray:
        beta = dict(enumerate(column.tolist()))
        scores = networkx.katz_centrality(
            graph, alpha, beta, tol=tolerance / len(column), normalized=False, weight="weight"
        )
        return np.fromiter(scores.values(), dtype=np.float64, count=len(column)) - column

    return calibrated(problem, each(solve, problem.pool), [10.0**-exponent for exponent in range(1, 9)], "tol")


def sparse_bfs(problem: Problem) -> Solver:
    """Weighted BFS with the front as a SciPy sparse column: it touches only what three seeds reach."""
    pt = csc_array(problem.reference.pt.astype(np.float32))
    method = DEFAULTS["weighted_bfs"]

    def solve(column: np.ndarray, hops: int) -> np.ndarray:
        scores = column.copy()
        rows = np.flatnonzero(column)
        front = csc_array((column[rows], rows, [0, len(rows)]), shape=(len(column), 1))
        for _ in range(hops):
            moved = pt @ front
            new = scores[moved.indices] == 0
            rows, mass = moved.indices[new], method.decay * moved.data[new]
            scores[rows] = mass
            front = csc_array((mass, rows, [0, len(rows)]), shape=front.shape)
        return scores

    return calibrated(problem, each(solve, problem.pool.astype(np.float32)), [method.hops], "steps")


def scipy_expm(problem: Problem) -> Solver:
    """SciPy's expm_multiply of −t (I − Pᵀ), which works to machine precision."""
    from scipy.sparse.linalg import expm_multiply

    reference, t = problem.reference, DEFAULTS["heat_kernel"].t
    generator = -t * (eye_array(len(reference.live), format="csr") - reference.pt)
    generator = generator + t * diagonal(~reference.live)

    def solve(column: np.ndarray, _: int) -> np.ndarray:
        return expm_multiply(generator, column, traceA=float(generator.diagonal().sum()))

    return calibrated(problem, each(solve, problem.pool), [1], "call")


def scikit_diffusion(problem: Problem) -> Solver:
    """scikit-network's `Diffusion`, (I + t/n (P − I))ⁿ with its matrix prepared, the fewest steps."""
    reference, t = problem.reference, DEFAULTS["heat_kernel"].t
    walk = reference.pt + diagonal(~reference.live)

    @cache
    def prepared(steps: int) -> csr_matrix:
        unit = eye_array(len(reference.live), format="csr")
        return csr_matrix((1 - t / steps) * unit + t / steps * walk)

    def solve(column: np.ndarray, steps: int) -> np.ndarray:
        matrix = prepared(steps)
        for _ in range(steps):
            column = matrix @ column
        return column

    return calibrated(problem, each(solve, problem.pool), [3 * 2**exponent for exponent in range(12)], "steps")


EQUIVALENTS: dict[str, list[Contender]] = {
    "rwr": [Contender("NumPy walks", numpy_walks, 4), Contender("Python walks", python_walks, 1)],
    "power_iteration": [Contender("SciPy loop", scipy_loop, 2)],
    "katz": [
        Contender("SciPy loop", scipy_loop, 2),
        Contender("scikit-network Polynome", scikit_polynome, 2),
        Contender("NetworkX katz_centrality", networkx_katz, 1, max_nnz=300_000),
    ],
    "label_propagation": [
        Contender("SciPy loop", scipy_loop, 2),
        Contender("scikit-network Polynome", scikit_polynome, 2),
    ],
    "weighted_bfs": [
        Contender("SciPy loop", scipy_loop, 2),
        Contender("SciPy sparse front", sparse_bfs, 2, kinds=("sparse",)),
    ],
    "heat_kernel": [
        Contender("SciPy loop", scipy_loop, 2),
        Contender("SciPy expm_multiply", scipy_expm, 1),
        Contender("scikit-network Diffusion", scikit_diffusion, 1),
    ],
}
