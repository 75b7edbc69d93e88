"""What in an index's config belongs to one machine, and how it is cut before the index goes to another."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from aeg.config.llm import ROLES
from aeg.core.files import quoted
from aeg.errors import DataError

_ABSOLUTE = re.compile(r"[/~\\]|[A-Za-z]:[\\/]")
_PLACES = {"data_root": None, "run_dir": "runs", "artifacts_dir": "artifacts", "device": "auto", "workers": 0}


def portable(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a config without places of this machine, and what was cut: by key, one line each.

    Absolute paths are cut to their last part; folders, device and workers take their defaults.

    Example:
        >>> portable({"data_root": "/home/ann", "corpus": {"path": "/home/ann/notes"}, "seeds": [0]})
        ({'data_root': None, 'corpus': {'path': 'notes'}, 'seeds': [0]},
         {'corpus.path': "a path of the exporter's machine, cut to 'notes'"})
    """
    kept: dict[str, Any] = copy.deepcopy(dict(config))
    kept.update({key: value for key, value in _PLACES.items() if key in kept})
    cut: dict[str, str] = {}
    for holder, key, where, value in list(_texts(kept, "")):
        if _ABSOLUTE.match(value):
            holder[key] = _last_part(value)
            cut[where] = f"a path of the exporter's machine, cut to {quoted(holder[key])}"
    return kept, cut


def harmless(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a portable config without plugins, endpoints and files of prompts, and what was left out.

    An index that somebody else made then imports no code, and sends no text and no key anywhere, when it is queried.
    """
    kept, cut = portable(config)
    if kept.get("plugins"):
        cut["plugins"] = "left out; give plugins=[...] if you have them and trust them"
        kept["plugins"] = []
    llm = kept.get("llm") or {}
    for role in ROLES:
        if llm.get(role) is not None:
            cut[f"llm.{role}"] = f"left out; give llm.{role}={{...}} to have a language model asked"
            llm[role] = None
    if llm.get("prompts"):
        cut["llm.prompts"] = "left out; give llm.prompts={...}"
        llm["prompts"] = {}
    return kept, cut


def check_harmless(config: Any, where: str) -> None:
    """Check that an index's config, which is not trusted, is as `harmless` makes it.

    Raises:
        DataError: if it names plugins, language models or places.
    """
    if not isinstance(config, dict) or not isinstance(config.get("llm", {}), dict):
        raise DataError(f"{where}: holds no config; refused, get the archive again")
    try:
        _, cut = harmless(config)
    except (RecursionError, AttributeError, TypeError) as error:
        raise DataError(f"{where}: holds no config ({type(error).__name__}); refused, get the archive again") from None
    if cut:
        key = min(cut)
        raise DataError(
            f"{where}: its config sets {quoted(key)}, which `aeg export` leaves out, as it could make a query import "
            "code or call somebody else's server; refused, the archive was changed by hand"
        )


def endpoints(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the addresses that a config names, by key."""
    return {where: value for _, key, where, value in _texts(dict(config), "") if key == "base_url"}


def _texts(tree: Any, where: str) -> Iterator[tuple[Any, Any, str, str]]:
    """Every string in a tree of dicts and lists: its holder, its key there, its whole key, and itself."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in pairs:
        name = f"{where}.{key}" if where else str(key)
        if isinstance(value, dict | list):
            yield from _texts(value, name)
        elif isinstance(value, str):
            yield tree, key, name, value


def _last_part(path: str) -> str:
    kind = PureWindowsPath if "\\" in path or re.match(r"[A-Za-z]:", path) else PurePosixPath
    return kind(path).name or "."
