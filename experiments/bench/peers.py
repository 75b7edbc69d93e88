"""Other libraries' personalised PageRank, each set up once and given its best-suited settings."""

from __future__ import annotations

import logging

import numpy as np
import torch
from scipy.sparse import csr_matrix

from aeg.core.tensors import csr_matrix as torch_csr
from experiments.bench.problem import Contender, Problem, Solver, calibrated, each, tensor

STEPS = tuple(range(1, 400))
WIDTH = 16


def igraph_prpack(problem: Problem) -> Solver:
    """Igraph's PRPACK, one query a call, as the paper's code does; it solves to about 1e-10."""
    import igraph

    upper, weights = upper_edges(problem)
    graph = igraph.Graph(n=problem.graph.op.num_nodes, edges=upper.T.tolist(), directed=False)
    graph.es["weight"] = weights.tolist()
    resets = problem.pool.T.tolist()

    def solve(reset: list[float]) -> list[float]:
        return graph.personalized_pagerank(
            directed=False, damping=1 - problem.restart, reset=reset, weights="weight", implementation="prpack"
        )

    def run(queries: int) -> None:
        for at in range(queries):
            solve(resets[at % len(resets)])

    return Solver(run, lambda queries: np.array([solve(reset) for reset in resets[:queries]]).T)


def torch_ppr(problem: Problem) -> Solver:
    """torch-ppr's power iteration on a CSR matrix in batches of 16, its validation left out, the fewest steps."""
    from torch_ppr.utils import power_iteration

    logging.getLogger("torch_ppr.utils").setLevel(logging.ERROR)
    op = problem.graph.op
    weight = op.weight.double() / op.degree[op.col.long()]
    matrix = torch_csr(op.crow.long(), op.col.long(), weight.float(), (op.num_nodes, op.num_nodes))
    seeds, complete = problem.connected()
    tiles = [tensor(seeds[:, at : at + WIDTH]) for at in range(0, seeds.shape[1], WIDTH)]

    def solve(queries: int, steps: int) -> torch.Tensor:
        return torch.cat(
            [
                power_iteration(matrix, tile, alpha=problem.restart, max_iter=steps, epsilon=0.0, device="cpu")
                for tile in tiles[: -(-queries // WIDTH)]
            ],
            dim=1,
        )

    return calibrated(problem, solve, STEPS, "steps", complete)


def scikit_power(problem: Problem) -> Solver:
    """scikit-network's power iteration on its prepared operator, the fewest steps."""
    from sknetwork.linalg.ppr_solver import RandomSurferOperator

    seeds, complete = problem.connected()
    surfer = RandomSurferOperator(csr_matrix(problem.graph.op.scipy()), seeds[:, 0], 1 - problem.restart)

    def solve(column: np.ndarray, steps: int) -> np.ndarray:
        surfer.b = problem.restart * column
        scores = surfer.b
        for _ in range(steps):
            scores = surfer.dot(scores)
            scores /= scores.sum()
        return scores

    return calibrated(problem, each(solve, seeds), STEPS, "steps", complete)


def scikit_diffusion(problem: Problem) -> Solver:
    """scikit-network's D-iteration (compiled, float32) on its prepared matrix, the fewest sweeps.

    Its threads add to shared numbers without a lock: with two it loses mass and stalls at an L1 error of 0.01 to
    0.05, so it is given one thread.
    """
    from sknetwork.linalg import normalize
    from sknetwork.linalg.diteration import diffusion

    matrix = normalize(csr_matrix(problem.graph.op.scipy()), p=1)
    arrays = (matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data.astype(np.float32))
    seeds, complete = problem.connected()
    damping = np.float32(1 - problem.restart)

    def solve(column: np.ndarray, steps: int) -> np.ndarray:
        scores = np.zeros(len(column), dtype=np.float32)
        fluid = (problem.restart * column).astype(np.float32)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # it finds torch's OpenMP, not the one in its own wheel
        diffusion(*arrays, scores, fluid, damping, np.int32(steps), np.float32(0.0))
        torch.set_num_threads(threads)
        return scores / scores.sum()

    return calibrated(problem, each(solve, seeds), STEPS, "sweeps", complete)


def scikit_bicgstab(problem: Problem) -> Solver:
    """scikit-network's bicgstab solver on its prepared matrix, the loosest tolerance."""
    from scipy import sparse
    from scipy.sparse.linalg import bicgstab
    from sknetwork.linalg.ppr_solver import RandomSurferOperator

    seeds, complete = problem.connected()
    surfer = RandomSurferOperator(csr_matrix(problem.graph.op.scipy()), seeds[:, 0], 1 - problem.restart)
    matrix = sparse.eye(len(seeds), format="csr") - surfer.a

    def solve(column: np.ndarray, tolerance: float) -> np.ndarray:
        right = problem.restart * column
        scores, _ = bicgstab(matrix, right, rtol=tolerance, atol=0.0, x0=right)
        return scores / scores.sum()

    levels = [10.0 ** (-exponent / 4) for exponent in range(2, 40)]
    return calibrated(problem, each(solve, seeds), levels, "rtol", complete)


def scipy_power(problem: Problem) -> Solver:
    """A plain loop of SciPy CSR products in float32, batches of 16, the fewest steps."""
    op = problem.graph.op
    matrix = problem.reference.pt.astype(np.float32)
    seeds = problem.pool.astype(np.float32)
    isolated = op.isolated.numpy()

    def solve(queries: int, steps: int) -> np.ndarray:
        found = []
        for start in range(0, queries, WIDTH):
            right = np.ascontiguousarray(seeds[:, start : start + WIDTH])
            scores = right
            for _ in range(steps):
                moved = matrix @ scores + scores[isolated].sum(0) * right
                scores = problem.restart * right + (1 - problem.restart) * moved
            found.append(scores)
        return np.concatenate(found, axis=1)

    return calibrated(problem, solve, STEPS, "steps")


def networkx_pagerank(problem: Problem) -> Solver:
    """NetworkX's pagerank (a SciPy loop that converts the graph at every call), its loosest sufficient tolerance."""
    import networkx

    upper, weights = upper_edges(problem)
    graph = networkx.Graph()
    graph.add_nodes_from(range(problem.graph.op.num_nodes))
    graph.add_weighted_edges_from(zip(*upper.tolist(), weights.tolist(), strict=True))
    seeds = problem.pool

    def solve(column: np.ndarray, tolerance: float) -> np.ndarray:
        personal = {int(node): float(column[node]) for node in np.flatnonzero(column)}
        scores = networkx.pagerank(
            graph, alpha=1 - problem.restart, personalization=personal, tol=tolerance / len(column), max_iter=1000
        )
        return np.fromiter(scores.values(), dtype=np.float64, count=len(column))

    levels = [10.0 ** (-exponent / 2) for exponent in range(2, 18)]
    return calibrated(problem, each(solve, seeds), levels, "tol")


def pyg_push(problem: Problem) -> Solver | None:
    """PyG's approximate PPR (`get_ppr`: push in numba, from one node, unweighted), seeds mixed by their weights.

    It knows no edge weights, so its L1 error is that of another question where the graph has them.
    """
    from torch_geometric.utils import get_ppr

    op = problem.graph.op
    if problem.seeds.dense is not None:
        return None
    row = torch.repeat_interleave(torch.arange(op.num_nodes), (op.crow[1:] - op.crow[:-1]).long())
    edges = torch.stack([row, op.col.long()])

    def solve(queries: int, eps: float) -> np.ndarray:
        part = problem.head(queries)
        owner = _owners(part.ptr)
        mass = torch.zeros(queries).index_add_(0, owner, part.weights)
        target, at = torch.unique(part.nodes, return_inverse=True)
        index, value = get_ppr(edges, alpha=problem.restart, eps=eps, target=target, num_nodes=op.num_nodes)
        position = torch.searchsorted(target, index[0])
        shape = (op.num_nodes, len(target))
        ppr = csr_matrix((value.numpy(), (index[1].numpy(), position.numpy())), shape=shape)
        share = np.zeros((len(target), queries))
        np.add.at(share, (at.numpy(), owner.numpy()), (part.weights / mass[owner]).numpy())
        return ppr @ share

    levels = [10.0 ** (-exponent / 2) for exponent in range(6, 11)]
    return calibrated(problem, solve, levels, "eps")


def peers(quick: bool = False) -> list[Contender]:
    """Return the peers. The queries of a timed run are few where one takes long; every time is a query's."""
    found = [
        Contender("igraph PRPACK", igraph_prpack, 4),
        Contender("torch-ppr (CSR)", torch_ppr, 16),
        Contender("scikit-network D-iteration", scikit_diffusion, 4),
        Contender("scikit-network power", scikit_power, 4, memory=False),
        Contender("scikit-network bicgstab", scikit_bicgstab, 4, memory=False),
        Contender("SciPy power loop", scipy_power, 16, memory=False),
        Contender("NetworkX pagerank", networkx_pagerank, 2, max_nnz=400_000),
    ]
    if not quick:  # its compilation takes ten seconds
        found.append(Contender("PyG approximate PPR", pyg_push, 32, max_nnz=400_000, kinds=("sparse",)))
    return found


def _owners(ptr: torch.Tensor) -> torch.Tensor:
    return torch.repeat_interleave(torch.arange(len(ptr) - 1), ptr[1:] - ptr[:-1])


def upper_edges(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return each undirected edge once [2, edges], and the weights."""
    coo = problem.reference.w.tocoo()
    keep = coo.row < coo.col
    return np.stack([coo.row[keep], coo.col[keep]]), coo.data[keep]
