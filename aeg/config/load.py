"""Reading an experiment config: a YAML file, command-line overrides, and checks of both."""

from __future__ import annotations

import dataclasses
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

SECTIONS = ("sweep", "paper", "expected")  # of a file, beside the config of a run


def load_config(path: str | Path | None, overrides: Sequence[str] = ()) -> ExperimentConfig:
    """Return the config of a YAML file with `key.sub=value` overrides merged over it.

    Args:
        path: a YAML file, or the name of one that ships with the package (`configs/quickstart.yaml` or
            `quickstart`); None starts from the defaults. `extends: NAME` in a file (or a list of names) merges
            the file over other ones, for instance `extends: preset/paper`. The sections `paper` and
            `expected`, which say what a run is compared with, are left out.
        overrides: `key.sub=value`, values as in YAML; `propagation.0.restart=0.1` reaches into a list. Setting
            the `name` of a method's section to another one drops the other method's parameters.

    Raises:
        ConfigError: on broken YAML (with its line), an unknown key, a value of the wrong type or range, or a
            section `sweep`: then the file is a list of runs, which `aeg.experiment.sweep` expands.
        DataError: if there is no such file.

    Example:
        >>> load_config(None, ["query.seeds.alpha=0.2", "device=cpu"]).query.seeds.alpha
        0.2
        >>> load_config(None, ["devise=cpu"])
        Traceback (most recent call last):
        ...
        aeg.errors.ConfigError: devise: unknown key. Did you mean 'device'? Available: ...
    """
    tree = OmegaConf.create({}) if path is None else file_tree(find_config(path))
    if "sweep" in taken(tree):
        raise ConfigError(
            f"{path}: has a section 'sweep', so it is not one run but a list; run it with "
            f"`python -m experiments.ablate {path}`"
        )
    return _overridden(tree, overrides)


def restored(values: Mapping[str, Any], overrides: Sequence[str] = ()) -> ExperimentConfig:
    """Return the config that `to_plain` gave, with overrides merged over it; raises as `load_config` does."""
    return _overridden(OmegaConf.create(dict(values)), overrides)


def from_tree(tree: DictConfig) -> ExperimentConfig:
    """Return the config of a merged tree; raises as `load_config` does."""
    return into_dataclass(ExperimentConfig, _plain(tree))


def taken(tree: DictConfig) -> dict[str, Any]:
    """Take the sections out of a tree that are no part of one run's config, and return them as plain values."""
    there = [name for name in SECTIONS if name in tree]
    return {name: _plain(OmegaConf.create({"it": tree.pop(name)}))["it"] for name in there}


def find_config(path: str | Path) -> Path:
    """Return the file that `path` means: itself, or the shipped config of that name.

    Raises:
        DataError: if there is none; the message lists the shipped ones.
    """
    given = Path(path)
    if given.is_file():
        return given
    shipped = shipped_configs()
    name = given.as_posix().removeprefix("configs/").removesuffix(".yaml")
    if name in shipped:
        return shipped[name]
    raise DataError(f"{path}: no such config file. {nearest(name, shipped)}")


def shipped_configs() -> dict[str, Path]:
    """Return the configs that ship with the package by name, such as `paper/defaults`."""
    return {
        file.relative_to(folder).with_suffix("").as_posix(): file
        for folder in _shipped_folders()
        for file in sorted(folder.rglob("*.yaml"))
    }


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
    return {name: _as_plain(value) for name, value in dataclasses.asdict(config).items()}


def data_root(config: ExperimentConfig) -> Path | None:
    """Return the folder of the data: `data_root`, else the environment variable `AEG_DATA`, else None."""
    given = config.data_root or os.environ.get("AEG_DATA")
    return Path(given).expanduser() if given else None


def _as_plain(value: Any) -> Any:
    """A value without tuples, as JSON and YAML have none."""
    if isinstance(value, Mapping):
        return {key: _as_plain(of) for key, of in value.items()}
    return [_as_plain(of) for of in value] if isinstance(value, list | tuple) else value


def _overridden(tree: DictConfig, overrides: Sequence[str]) -> ExperimentConfig:
    for override in overrides:
        set_value(tree, *parsed(override))
    return from_tree(tree)


def file_tree(path: Path, under: DictConfig | None = None, above: tuple[Path, ...] = ()) -> DictConfig:
    """Return a file merged over what it extends.

    Args:
        path: the file.
        under: a layer between the bases and the own keys of the file that has a section `sweep` (the lowest of those
            that `path` extends, else `path` itself).
        above: the files that extend this one.

    Raises:
        ConfigError: on broken YAML, or a file that extends itself.
        DataError: if a file is missing.
    """
    if path in above:
        raise ConfigError(f"{path}: extends itself, by way of {' -> '.join(p.name for p in above)}")
    tree = read_yaml(path)
    names = tree.pop("extends", None) or []
    files = [base_file(name, path) for name in ([names] if isinstance(names, str) else names)]
    bases = [file_tree(file, None, (*above, path)) for file in files]
    if under is not None:
        if any("sweep" in base for base in bases):
            bases = [
                file_tree(file, under, (*above, path)) if "sweep" in base else base
                for file, base in zip(files, bases, strict=True)
            ]
        else:
            bases.append(under)
    merged = OmegaConf.create({})
    for layer in (*bases, tree):
        merged = laid_over(merged, layer)
    return merged


def laid_over(below: DictConfig, above: DictConfig) -> DictConfig:
    """Return two trees merged; where `above` names another method in a section, nothing of the other's is left."""
    _drop_renamed(below, above)
    return OmegaConf.merge(below, above)  # type: ignore[return-value]


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


def base_file(name: str, path: Path) -> Path:
    """Return a base named relative to the file that extends it, or a shipped one."""
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


def parsed(override: str) -> tuple[str, Any]:
    """Return key and value of an override.

    Raises:
        ConfigError: if it is no `key.sub=value`, with a YAML value.

    Example:
        >>> parsed("seeds=[0, 1]")
        ('seeds', [0, 1])
    """
    key, sign, text = override.partition("=")
    if not sign or not key:
        raise ConfigError(f"override {override!r}: expected key.sub=value")
    try:
        return key, yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"override {override!r}: {text!r} is not a YAML value; quote it") from None


def set_value(tree: DictConfig, key: str, value: Any) -> None:
    """Set `key.sub`, also inside lists; another `name` drops the other method's parameters.

    Raises:
        ConfigError: if an index is past the end of its list, or the key cannot be reached.
    """
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
        raise ConfigError(f"override {key}={value!r}: {str(error).splitlines()[0]}") from None


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
