"""Merging plain values into frozen dataclasses through OmegaConf, with errors that name the key."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_type_hints

from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from aeg.errors import ConfigError, nearest

T = TypeVar("T")


def into_dataclass(cls: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """Return an instance of the dataclass `cls` with `values` merged over its defaults.

    A field that holds a method's section (`{name: ..., parameter: ...}`) is replaced where the name changes, so
    that one method's parameters never leak into another's.

    Args:
        cls: a (possibly nested) dataclass.
        values: plain values by field name; nested mappings for nested dataclasses.
        where: the config path of this section, put in front of every error.

    Raises:
        ConfigError: on an unknown key, a value of the wrong type, or a value out of range; the message names
            the key, the value and what is allowed.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Point:
        ...     x: int = 0
        >>> into_dataclass(Point, {"x": 3})
        Point(x=3)
        >>> into_dataclass(Point, {"xx": 3}, where="graph")
        Traceback (most recent call last):
        ...
        aeg.errors.ConfigError: graph.xx: unknown key. Did you mean 'x'? Available: x
    """
    known = {spec.name: spec for spec in dataclasses.fields(cls)}  # type: ignore[arg-type]
    plain: dict[str, Any] = {}
    ready: dict[str, Any] = {}
    for key, value in values.items():
        path = join_key(where, str(key))
        if key not in known:
            raise ConfigError(f"{path}: unknown key. {nearest(str(key), known)}")
        default = _default(known[key])
        if dataclasses.is_dataclass(default) or isinstance(default, dict):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{path}: got {value!r}, expected a section (keys and values)")
            ready[key] = _section(default, value, path)
        else:
            plain[key] = value
    return _merged(cls, plain, ready, where)


def join_key(where: str, key: str) -> str:
    """Return the dotted path of `key` in the section `where`.

    Example:
        >>> join_key("query.seeds", "alpha"), join_key("", "device")
        ('query.seeds.alpha', 'device')
    """
    return f"{where}.{key}" if where and key else where or key


def _default(spec: dataclasses.Field[Any]) -> Any:
    return spec.default_factory() if spec.default_factory is not dataclasses.MISSING else spec.default


def _section(default: Any, value: Mapping[str, Any], path: str) -> Any:
    if dataclasses.is_dataclass(default):
        return into_dataclass(type(default), value, path)
    renamed = value.get("name", default.get("name")) != default.get("name")
    return dict(value) if renamed else {**default, **value}


@cache
def _part(cls: type[Any], given: tuple[str, ...]) -> Any:
    """A dataclass of the fields that are given, or must be: OmegaConf takes long over those with a default."""
    hints = get_type_hints(cls)
    needed = [spec.name for spec in dataclasses.fields(cls) if _needed(spec) and spec.name not in given]
    fields = [(name, hints[name], dataclasses.field(default=MISSING)) for name in (*given, *needed)]
    return dataclasses.make_dataclass(cls.__name__, fields)


def _needed(spec: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return spec.init and spec.default is missing and spec.default_factory is missing


def _merged(cls: type[T], plain: dict[str, Any], ready: dict[str, Any], where: str) -> T:
    try:
        part = _part(cls, tuple(plain))  # type: ignore[arg-type]
        typed: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(part), plain))
        return cls(**{spec.name: getattr(typed, spec.name) for spec in dataclasses.fields(part)}, **ready)
    except ConfigError as error:
        raise ConfigError(join_key(where, str(error))) from None
    except OmegaConfBaseException as error:
        key = join_key(where, str(getattr(error, "full_key", "") or getattr(error, "key", "") or ""))
        reason = re.split(r"\n\s*full_key:", str(error))[0].strip().replace("\n", " ")
        raise ConfigError(f"{key}: {reason}") from None
