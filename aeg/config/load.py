"""Reading an experiment config: a YAML file, command-line overrides, and checks of both."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from aeg.config.merge import into_dataclass
from aeg.config.schema import ExperimentConfig
from aeg.errors import ConfigError, DataError, nearest


def load_config(path: str | Path | None, overrides: Sequence[str] = ()) -> ExperimentConfig:
    """Return the config of a YAML file with `key.sub=value` overrides merged over it.

    Args:
        path: a YAML file, or the name of one that ships with the package (`configs/quickstart.yaml` or
            `quickstart`); None starts from the defaults. `extends: NAME` in a file (or a list of names) merges
            the file over other ones, for instance `extends: presets/paper_equation`.
        overrides: `key.sub=value`, values as in YAML; `propagation.0.restart=0.1` reaches into a list. Setting
            the `name` of a method's section to another one drops the other method's parameters.

    Raises:
        ConfigError: on broken YAML (with its line), an unknown key, or a value of the wrong type or range.
        DataError: if there is no such file.

    Example:
        >>> load_config(None, ["query.seeds.alpha=0.2", "device=cpu"]).query.seeds.alpha
        0.2
        >>> load_config(None, ["devise=cpu"])
        Traceback (most recent call last):
        ...
        aeg.errors.ConfigError: devise: unknown key. Did you mean 'device'? Available: ...
    """
    return _overridden(OmegaConf.create({}) if path is None else _with_bases(find_config(path), ()), overrides)


def restored(values: Mapping[str, Any], overrides: Sequence[str] = ()) -> ExperimentConfig:
    """Return the config that `to_plain` gave, with overrides merged over it; raises as `load_config` does."""
    return _overridden(OmegaConf.create(dict(values)), overrides)


def find_config(path: str | Path) -> Path:
    """Return the file that `path` means: itself, or the shipped config of that name.

    Raises:
        DataError: if there is none; the message lists the shipped ones.
    """
    given = Path(path)
    if given.is_file():
        return given
    shipped = {
        file.relative_to(folder).with_suffix("").as_posix(): file
        for folder in _shipped_folders()
        for file in sorted(folder.rglob("*.yaml"))
    }
    name = given.as_posix().removeprefix("configs/").removesuffix(".yaml")
    if name in shipped:
        return shipped[name]
    raise DataError(f"{path}: no such config file. {nearest(name, shipped)}")


def read_yaml(path: Path) -> DictConfig:
    """Return the mapping in a YAML file; broken YAML is a `ConfigError` with its line."""
    try:
        tree = OmegaConf.load(path)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: not valid YAML ({getattr(error, 'problem', error)})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None
    if not isinstance(tree, DictConfig):
        raise ConfigError(f"{path}: got a list, expected a mapping of config keys")
    return tree


def to_plain(config: ExperimentConfig) -> dict[str, Any]:
    """Return the config as plain values, every default written out, for manifests."""
    return _plain(OmegaConf.structured(config))


def data_root(config: ExperimentConfig) -> Path | None:
    """Return the folder of the data: `data_root`, else the environment variable `AEG_DATA`, else None."""
    given = config.data_root or os.environ.get("AEG_DATA")
    return Path(given).expanduser() if given else None


def _overridden(tree: DictConfig, overrides: Sequence[str]) -> ExperimentConfig:
    for override in overrides:
        _apply(tree, override)
    return into_dataclass(ExperimentConfig, _plain(tree))


def _with_bases(path: Path, above: tuple[Path, ...]) -> DictConfig:
    if path in above:
        raise ConfigError(f"{path}: extends itself, by way of {' -> '.join(p.name for p in above)}")
    tree = read_yaml(path)
    names = tree.pop("extends", None) or []
    bases = [_with_bases(_base(name, path), (*above, path)) for name in ([names] if isinstance(names, str) else names)]
    merged = OmegaConf.create({})
    for layer in (*bases, tree):
        _drop_renamed(merged, layer)
        merged = OmegaConf.merge(merged, layer)  # type: ignore[assignment]
    return merged


def _drop_renamed(below: DictConfig, above: DictConfig) -> None:
    """Delete the sections of `below` that `above` gives another method's `name`, so that no parameter leaks."""
    for key in map(str, above):
        if OmegaConf.is_missing(above, key) or OmegaConf.is_interpolation(above, key):
            continue
        old, new = (tree._get_node(key) for tree in (below, above))
        if not isinstance(old, DictConfig) or not isinstance(new, DictConfig) or old._is_none() or new._is_none():
            continue
        if "name" in new and old.get("name") not in (None, new["name"]):
            del below[key]
        else:
            _drop_renamed(old, new)


def _base(name: str, path: Path) -> Path:
    """A base named relative to the file that extends it, or a shipped one."""
    beside = path.parent / name
    return next((file for file in (beside, beside.with_suffix(".yaml")) if file.is_file()), None) or find_config(name)


def _shipped_folders() -> list[Path]:
    package = Path(__file__).resolve().parent.parent
    return [folder for folder in (package / "_configs", package.parent / "configs") if folder.is_dir()]


def _plain(tree: DictConfig) -> dict[str, Any]:
    try:
        return OmegaConf.to_container(tree, resolve=True)  # type: ignore[return-value]
    except OmegaConfBaseException as error:
        raise ConfigError(str(error).split("\n")[0]) from None


def _apply(tree: DictConfig, override: str) -> None:
    key, sign, text = override.partition("=")
    if not sign or not key:
        raise ConfigError(f"override {override!r}: expected key.sub=value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"override {override!r}: {text!r} is not a YAML value; quote it") from None
    section, _, last = key.rpartition(".")
    try:
        if section and last == "name":
            before = OmegaConf.select(tree, section)
            if isinstance(before, DictConfig) and before.get("name") not in (None, value):
                OmegaConf.update(tree, section, {"name": value}, merge=False)
                return
        _check_index(tree, key)
        OmegaConf.update(tree, key, value, merge=False)
    except OmegaConfBaseException as error:
        raise ConfigError(f"override {override!r}: {str(error).splitlines()[0]}") from None


def _check_index(tree: DictConfig, key: str) -> None:
    """Raise where a list index in `key` is past the list's end."""
    node: Any = tree
    for part in key.split("."):
        if isinstance(node, ListConfig):
            if not part.isdigit() or int(part) >= len(node):
                raise ConfigError(f"override {key}: {part!r} is no index of a list of {len(node)} entries")
            node = node[int(part)]
        elif isinstance(node, DictConfig) and part in node:
            node = node[part]
        else:
            return
