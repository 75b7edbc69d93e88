"""Where a run's results come from, beside its config: sources, plugins, files, parameters, environment."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aeg
from aeg.artifacts import file_hash, fingerprint
from aeg.pipeline.methods import Methods

_ENVIRONMENT = (
    *("AEG_DATA", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    *("CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "HF_HUB_OFFLINE"),
)
_SECTIONS = {
    **{name: name for name in ("corpus", "extraction", "encoder", "sieve", "answer")},
    **{f"query.{name}": name for name in ("decomposition", "mentions", "linking")},
    "retrieval.index": "index",
    "evaluation.encoder": "judge",
}


def sources() -> str:
    """Return a fingerprint of this package's source files and prompts, whether committed or not."""
    package = Path(aeg.__file__).parent
    files = sorted(path for kind in ("*.py", "*.txt") for path in package.rglob(kind))
    return fingerprint([[path.relative_to(package).as_posix(), file_hash(path)] for path in files])


def plugin_hashes(plugins: Sequence[str]) -> list[dict[str, str | None]]:
    """Return name and content hash of each plugin: of a file its last part; a module's source is not looked for.

    Example:
        >>> plugin_hashes(["my_lab.methods", "/gone/mine.py"])
        [{'name': 'my_lab.methods', 'sha256': None}, {'name': 'mine.py', 'sha256': None}]
    """
    found: list[dict[str, str | None]] = []
    for plugin in plugins:
        path = Path(plugin)
        is_file = plugin.endswith(".py")
        found.append({"name": path.name if is_file else plugin, "sha256": file_hash(path) if path.is_file() else None})
    return found


def environment() -> dict[str, str]:
    """Return the environment variables that can decide a result, those that are set."""
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}


def parameters(methods: Methods) -> dict[str, dict[str, Any]]:
    """Return every parameter of every method, the defaults too, by config section, as plain values."""
    return {section: _plain(method) for section, method in sections(methods)}


def files(methods: Methods, root: Path | None) -> dict[str, dict[str, str]]:
    """Return the hash of each file that a method reads beside the corpus, by config section and the file's name.

    Raises:
        DataError: if one cannot be read.
    """
    found: dict[str, dict[str, str]] = {}
    for section, method in sections(methods):
        read = method.source_files(root) if hasattr(method, "source_files") else []
        if read:
            found[section] = {path.name: file_hash(path) for path in read}
    return found


def sections(methods: Methods) -> Iterator[tuple[str, Any]]:
    """Yield the methods that a config names, with the sections that name them."""
    for section, attribute in _SECTIONS.items():
        yield section, getattr(methods, attribute)
    for at, item in enumerate(methods.propagation):
        yield f"propagation.{at}", item.method
    for role, backend in methods.models.items():
        yield f"llm.{role}", backend


def _plain(method: Any) -> dict[str, Any]:
    params = {spec.name: getattr(method, spec.name) for spec in dataclasses.fields(method) if spec.init}
    return json.loads(json.dumps(params, default=_simple, sort_keys=True))


def _simple(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return sorted(value) if isinstance(value, set | frozenset) else str(value)
