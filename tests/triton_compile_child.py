"""Run by test_kernels_triton in a process of its own: the Triton programs compiled for a GPU, without one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

INDICES = dict.fromkeys(("rows", "low", "high", "col"), "*i32")


def compiled(function: Any, kinds: dict[str, str], constants: dict[str, Any], capability: int) -> str:
    """Return the PTX of a program whose pointers and number of columns are multiples of 16."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = function.arg_names
    signature = {name: "constexpr" if name in constants else kinds[name] for name in names}
    aligned = [at for at, name in enumerate(names) if signature[name].startswith("*") or name == "columns"]
    attributes = {(at,): [["tt.divisibility", 16]] for at in aligned}
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    options = {"num_warps": 1, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options).asm["ptx"]


def main(target: Path) -> None:
    import triton.language as tl

    from aeg.core.kernels import triton_loops

    found = {}
    for number in ("fp16", "fp32", "fp64"):
        sums_of = tl.float64 if number == "fp64" else tl.float32
        tile = dict.fromkeys(("out", "factor", "b", "omega", "moved"), f"*{sums_of.name}")
        tile |= dict.fromkeys(("x", "previous", "own"), f"*{number}")
        kinds = INDICES | tile | {"weight": "*fp32", "count": "i32", "columns": "i32", "span": "i32"}
        sums = kinds | {"weights": "*fp64", "out": "*fp64", "parts": "*fp64", "width": "i32"}
        block = {"ROWS": 1, "COLUMNS": 128, "UNROLL": 4, "NUMBER": sums_of}
        unread = dict.fromkeys(("previous", "omega"))
        rows = triton_loops.rows_of_product
        for name, constants in {
            "product": {**unread, "factor": None, "b": None, "AFFINE": False, "STEP": False, "KEEP": True},
            "affine": {**unread, "AFFINE": True, "STEP": False, "KEEP": True},
            "step": {"out": None, "AFFINE": True, "STEP": True, "KEEP": False},
            "check": {"AFFINE": True, "STEP": True, "KEEP": True},
        }.items():
            constants |= block
            found[f"{name} {number}"] = compiled(rows, kinds, constants, 90)
        found[f"measures {number}"] = compiled(triton_loops.measures, sums, {"COLUMNS": 128, "UNROLL": 4}, 90)
    found["added"] = compiled(triton_loops.added, sums, {"COUNT": 1024}, 90)
    target.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
