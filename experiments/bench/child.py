"""The child process whose peak memory is measured: `python -m experiments.bench.child MODULE:NAME JSON`."""

from __future__ import annotations

import importlib
import json
import sys

from experiments.bench.measure import forget_peak, memory_of_process


def main() -> None:
    """Prepare, note the memory, do the work, and print [peak, memory before] in bytes."""
    module, name = sys.argv[1].split(":")
    work = getattr(importlib.import_module(f"experiments.bench.{module}"), name)(**json.loads(sys.argv[2]))
    before, _ = memory_of_process()
    forget_peak()
    work()
    _, peak = memory_of_process()
    print(json.dumps([max(before, peak), before]))


if __name__ == "__main__":
    main()
