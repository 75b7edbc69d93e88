"""`python -m experiments.theory [THEOREM ...] [--config NAME ...] [key.sub=value ...]`: theorems as experiments.

Each theorem of the paper's Appendix C is simulated in its own terms and measured on real graphs; every claim comes with
what was measured, its 95 % interval, and whether it holds, fails, or is undecided.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aeg.errors import AegError

if TYPE_CHECKING:
    from experiments.theory.finding import Findings
    from experiments.theory.world import World

THEOREMS = ("lemma_c7", "theorem_c11", "theorem_c12")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m experiments.theory", description="The paper's theorems (Appendix C), simulated and measured."
    )
    made.add_argument("theorem", nargs="*", help=f"which (default: all): {', '.join(THEOREMS)}; or key.sub=value")
    made.add_argument(
        "--config",
        action="append",
        metavar="NAME",
        help="a config with one corpus to measure on, repeatable; `none` for simulations only (default: quickstart)",
    )
    made.add_argument("--seed", type=int, default=0, help="of the simulations (default: 0)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON as well")
    made.add_argument("--plot", type=Path, metavar="FILE", help="draw the tables as a figure (.png, .pdf or .svg)")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiments and return the exit code: 0, or 2 on an error that the input caused."""
    given = parser().parse_intermixed_args(arguments)
    overrides = [word for word in given.theorem if "=" in word]
    names = [word for word in given.theorem if "=" not in word] or list(THEOREMS)
    unknown = [name for name in names if name not in THEOREMS]
    if unknown:
        parser().error(f"got {unknown[0]!r}, expected {', '.join(THEOREMS)}")
    try:
        found = measure(names, given.config or ["quickstart"], overrides, given.seed)
    except AegError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if given.json:
        plain = {name: one.plain() for name, one in found.items()}
        given.json.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if given.plot:
        from experiments.theory.figure import draw

        draw(found, given.plot)
    return 0


def measure(
    names: Sequence[str], configs: Sequence[str], overrides: Sequence[str] = (), seed: int = 0
) -> dict[str, Findings]:
    """Return what each theorem's experiment found, printing it as it comes.

    Args:
        names: of `THEOREMS`.
        configs: what is measured on; `none` leaves that out.
        overrides: `key.sub=value` for the configs.
        seed: of the simulations.
    """
    from experiments.theory.coverage import theorem_c12
    from experiments.theory.leakage import lemma_c7
    from experiments.theory.misranking import theorem_c11
    from experiments.theory.world import open_world

    worlds = [open_world(config, overrides) for config in configs if config != "none"]
    ask: dict[str, Callable[[Sequence[World]], Findings]] = {
        "lemma_c7": lambda on: lemma_c7(on, seed),
        "theorem_c11": lambda on: theorem_c11(on, seed),
        "theorem_c12": theorem_c12,
    }
    found = {}
    for name in names:
        found[name] = ask[name](worlds)
        print(found[name].text())
    return found


if __name__ == "__main__":
    sys.exit(main())
