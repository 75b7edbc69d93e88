"""The sub-graph of the chains, laid out in layers from the seeds (left) to what they reach (right), as SVG."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from aeg.explain import wording
from aeg.explain.records import Explanation, Node

_MOST = 30
_SWEEPS = 8
_WIDTH, _GAP, _LANE, _MARGIN = 212, 72, 20, 14
_HEIGHT = {"atom": 66, "entity": 34}
_BOW = 30  # room for edges within the last layer
_SMALLEST = 0.85  # how far a narrow window shrinks the drawing; beyond that it scrolls
_LINE = 28  # characters in a line of a box


@dataclass
class _Edge:
    """A step of one or more chains; `mass` is what these chains carry over it."""

    start: int
    end: int
    what: str
    mass: float = 0.0
    chains: set[int] = field(default_factory=set)


@dataclass
class Layout:
    """The nodes and edges that are drawn.

    Attributes:
        layers: rows of nodes by layer, top to bottom; layer 0 holds the seeds.
        edges: by (start, end).
        ranks: of the atoms that are explained.
        chains: of each node, the numbers of the chains that it is on.
        left_out: chains that had no room.
        place: (x, y) of each node's top left corner.
    """

    layers: list[list[int]] = field(default_factory=list)
    edges: dict[tuple[int, int], _Edge] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    chains: dict[int, set[int]] = field(default_factory=dict)
    left_out: int = 0
    place: dict[int, tuple[float, float]] = field(default_factory=dict)
    size: tuple[float, float] = (0.0, 0.0)


def layout(found: Explanation, most: int = _MOST) -> Layout:
    """Return the layout of the chains of the best atoms: as many chains, best atom first, as `most` nodes hold.

    A node's layer is the least number of steps in which a chain reaches it. Within layers nodes are ordered by the
    middle of their neighbours, swept to and fro, which leaves few crossings; the same explanation always gives the
    same picture.
    """
    drawn, layer = Layout(), dict[int, int]()
    number = 0
    for depth in range(max((len(atom.chains) for atom in found.atoms), default=0)):
        for atom in found.atoms:
            if depth >= len(atom.chains):
                continue
            chain = atom.chains[depth]
            if len(set(layer) | set(chain.nodes)) > most:
                drawn.left_out += 1
                continue
            for at, node in enumerate(chain.nodes):
                layer[node] = min(at, layer.get(node, at))
                drawn.chains.setdefault(node, set()).add(number)
            for (start, end), step in zip(pairwise(chain.nodes), chain.steps, strict=True):
                edge = drawn.edges.setdefault((start, end), _Edge(start, end, wording.step(step)))
                edge.mass += chain.mass
                edge.chains.add(number)
            number += 1
    drawn.ranks = {atom.node: atom.rank for atom in found.atoms if atom.node in layer}
    drawn.layers = _ordered(layer, drawn.edges)
    _placed(found, drawn)
    return drawn


def _ordered(layer: dict[int, int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The nodes of each layer in an order with few crossings."""
    layers: list[list[int]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for node, at in layer.items():
        layers[at].append(node)
    near: dict[int, set[int]] = {node: set() for node in layer}
    for start, end in edges:
        near[start].add(end)
        near[end].add(start)
    for sweep in range(_SWEEPS):
        forwards = sweep % 2 == 0
        for at in range(len(layers)) if forwards else range(len(layers) - 1, -1, -1):
            where = {node: (row + 0.5) / len(nodes) for nodes in layers for row, node in enumerate(nodes)}
            sides = [other for other in (at - 1 if forwards else at + 1,) if 0 <= other < len(layers)]
            layers[at].sort(key=lambda node: _middle(node, near[node], layer, sides, where))
    return layers


def _middle(node: int, near: set[int], layer: dict[int, int], sides: list[int], where: dict[int, float]) -> float:
    beside = [where[other] for other in near if layer[other] in sides]
    return sum(beside) / len(beside) if beside else where[node]


def _placed(found: Explanation, drawn: Layout) -> None:
    heights = []
    for nodes in drawn.layers:
        heights.append(sum(_HEIGHT[found.node(node).kind] for node in nodes) + _LANE * (len(nodes) - 1))
    tallest = max(heights, default=0)
    for at, (nodes, height) in enumerate(zip(drawn.layers, heights, strict=True)):
        spare = (tallest - height) / (len(nodes) + 1)
        y = _MARGIN + spare
        for node in nodes:
            drawn.place[node] = (_MARGIN + at * (_WIDTH + _GAP), y)
            y += _HEIGHT[found.node(node).kind] + _LANE + spare
    width = 2 * _MARGIN + len(drawn.layers) * (_WIDTH + _GAP) - _GAP
    last = set(drawn.layers[-1]) if drawn.layers else set()
    width += _BOW if any(start in last and end in last for start, end in drawn.edges) else 0
    drawn.size = (max(width, 0), tallest + 2 * _MARGIN)


def svg(found: Explanation, drawn: Layout) -> str:
    """Return the drawing as an SVG element; colours come from the page's style."""
    width, height = drawn.size
    heaviest = max((edge.mass for edge in drawn.edges.values()), default=1.0)
    parts = [
        f'<svg id="chains" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="width:100%;min-width:{_SMALLEST * width:.0f}px;max-width:{width:.0f}px" '
        'role="group" aria-label="Chains from the seeds on the left to the atoms on the right">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>',
    ]
    order = sorted(drawn.edges.values(), key=lambda edge: edge.mass)
    parts += [_edge(found, drawn, edge, edge.mass / heaviest) for edge in order]
    parts += [_box(found, drawn, found.node(node)) for nodes in drawn.layers for node in nodes]
    return "".join([*parts, "</svg>"])


def _edge(found: Explanation, drawn: Layout, edge: _Edge, share: float) -> str:
    (x0, y0), (x1, y1) = drawn.place[edge.start], drawn.place[edge.end]
    y0 += _HEIGHT[found.node(edge.start).kind] / 2
    y1 += _HEIGHT[found.node(edge.end).kind] / 2
    if x1 > x0:
        x0 += _WIDTH
        bend = (x1 - x0) / 2
        path = f"M{x0:.0f} {y0:.0f}C{x0 + bend:.0f} {y0:.0f} {x1 - bend:.0f} {y1:.0f} {x1:.0f} {y1:.0f}"
    elif x1 == x0:  # within a layer: around the right side
        x0, x1 = x0 + _WIDTH, x1 + _WIDTH
        path = f"M{x0:.0f} {y0:.0f}C{x0 + 45:.0f} {y0:.0f} {x1 + 45:.0f} {y1:.0f} {x1:.0f} {y1:.0f}"
    else:
        x1 += _WIDTH
        path = f"M{x0:.0f} {y0:.0f}C{x0 - 40:.0f} {y0:.0f} {x1 + 40:.0f} {y1:.0f} {x1:.0f} {y1:.0f}"
    told = f"{edge.what}; the chains shown carry {wording.number(edge.mass)} over it"
    return (
        f'<path class="edge" d="{path}" stroke-width="{1.2 + 4.8 * share**0.5:.1f}" marker-end="url(#tip)" '
        f'data-chains="{" ".join(map(str, sorted(edge.chains)))}"><title>{escape(told)}</title></path>'
    )


def _box(found: Explanation, drawn: Layout, node: Node) -> str:
    x, y = drawn.place[node.id]
    height, rank = _HEIGHT[node.kind], drawn.ranks.get(node.id)
    seed = " seed" if node.id in drawn.layers[0] else ""
    lines = _wrapped(node.name, 3 if node.kind == "atom" else 1)
    top = y + height / 2 - (len(lines) - 1) * 8 + 4
    text = "".join(
        f'<text x="{x + 12:.0f}" y="{top + 16 * at:.0f}">{escape(line)}</text>' for at, line in enumerate(lines)
    )
    badge = ""
    if rank is not None:
        badge = (
            f'<g class="badge"><rect x="{x + _WIDTH - 30:.0f}" y="{y - 9:.0f}" width="26" height="18" rx="9"/>'
            f'<text x="{x + _WIDTH - 17:.0f}" y="{y + 4:.0f}">{rank}</text></g>'
        )
    what = "Seed, " if seed else ""
    name = f"{what}{node.kind}{'' if rank is None else f', rank {rank}'}: {node.name}"
    numbers = " ".join(map(str, sorted(drawn.chains[node.id])))
    return (
        f'<g class="node {node.kind}{seed}{" ranked" if rank else ""}" tabindex="0" role="button" '
        f'aria-label="{escape(name)}" data-chains="{numbers}" data-name="{escape(name)}">'
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{height}" '
        f'rx="{17 if node.kind == "entity" else 6}"/>{text}{badge}</g>'
    )


def _wrapped(text: str, most: int) -> list[str]:
    """The text in at most so many lines that fit a box; what is left out is marked."""
    lines, line = [], ""
    for word in text.split():
        word = word if len(word) <= _LINE else word[: _LINE - 1] + "…"
        if line and len(line) + 1 + len(word) > _LINE:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    lines.append(line)
    if len(lines) > most:
        lines = lines[:most]
        lines[-1] = wording.shortened(lines[-1] + " …", _LINE) if len(lines[-1]) + 2 > _LINE else lines[-1] + " …"
    return lines
