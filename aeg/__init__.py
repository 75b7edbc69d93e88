"""Graph-based evidence retrieval: knowledge atoms, entities, and batched propagation on sparse tensors.

The public names are loaded on first use, so that importing `aeg` (and `aeg --help`) is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aeg.core.operator import Operator
    from aeg.core.seeds import Seeds

__version__ = "0.1.0"
__all__ = ["Operator", "Seeds", "__version__"]

_LAZY = {"Operator": "aeg.core.operator", "Seeds": "aeg.core.seeds"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'aeg' has no attribute {name!r}")
