"""Plugins: modules and files of a user's own, imported so that their methods register themselves."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from aeg.errors import ConfigError


def load_plugins(names: Sequence[str]) -> list[ModuleType]:
    """Import each plugin, a module's name or a path to a Python file, and return the modules.

    Raises:
        ConfigError: if a module or file is not there, or fails on import; the message has the cause.
    """
    return [_load_file(Path(name)) if name.endswith(".py") else _load_module(name) for name in names]


def _load_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"plugins: cannot import {name!r} ({error}); give a module on the path or a .py file"
        ) from None


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"plugins: no file {str(path)!r}; paths are relative to the working folder")
    resolved = path.resolve()
    name = f"aeg_plugin_{path.stem}_{hashlib.sha256(resolved.read_bytes()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:
        raise ConfigError(f"plugins: {str(path)!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's file raises is the config's fault, told in one line
        del sys.modules[name]
        raise ConfigError(f"plugins: {path} fails on import: {type(error).__name__}: {error}") from error
    return module
