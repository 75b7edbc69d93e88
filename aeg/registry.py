"""Methods by name: one registry for each replaceable part."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from aeg.config.merge import into_dataclass
from aeg.errors import ConfigError, nearest

T = TypeVar("T")


class Registry(Generic[T]):
    """Named, interchangeable methods of one kind.

    A method is a frozen dataclass: its fields are its parameters, with defaults and ranges, so one class is
    both the method and the schema of its part of a config.

    Example:
        >>> from dataclasses import dataclass
        >>> from aeg.config.ranges import Checked, param
        >>> sieves: Registry = Registry("sieve")
        >>> @sieves.register("keep")
        ... @dataclass(frozen=True)
        ... class Keep(Checked):
        ...     top: int = param(5, ge=1)
        >>> sieves.make("keep", top=3)
        Keep(top=3)
        >>> sieves.make("kep")
        Traceback (most recent call last):
        ...
        aeg.errors.ConfigError: unknown sieve 'kep'. Did you mean 'keep'? Available: keep
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._classes: dict[str, type[T]] = {}

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Return a class decorator that makes a frozen dataclass available as `name`."""

        def add(cls: type[T]) -> type[T]:
            if not dataclasses.is_dataclass(cls):
                raise TypeError(f"{self.kind} '{name}': {cls.__qualname__} must be a (frozen) dataclass")
            known = self._classes.get(name)
            if known is not None and not _same(known, cls):
                raise ConfigError(f"{self.kind} '{name}' is already registered by {known.__module__}")
            self._classes[name] = cls
            return cls

        return add

    def get(self, name: str) -> type[T]:
        """Return the class registered as `name`; an unknown name is a `ConfigError` that lists the choices."""
        if name not in self._classes:
            raise ConfigError(f"unknown {self.kind} {name!r}. {nearest(str(name), self._classes)}")
        return self._classes[name]

    def make(self, name: str, /, **params: Any) -> T:
        """Return an instance of the method `name`, its parameters checked against its own fields."""
        return into_dataclass(self.get(name), params, where=name)

    def from_spec(self, spec: Mapping[str, Any], where: str) -> T:
        """Return an instance from a config section `{name: ..., parameter: value, ...}`.

        Raises:
            ConfigError: if `name` is missing or unknown, or a parameter is unknown or out of range.
        """
        params = dict(spec)
        name = params.pop("name", None)
        if name is None:
            raise ConfigError(f"{where}: no 'name' given; name a {self.kind}. {nearest('', self._classes)}")
        try:
            cls = self.get(name)
        except ConfigError as error:
            raise ConfigError(f"{where}.name: {error}") from None
        return into_dataclass(cls, params, where=where)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._classes))

    def __contains__(self, name: object) -> bool:
        return name in self._classes


def _same(known: type[Any], cls: type[Any]) -> bool:
    """Tell whether two classes stand at the same place: a module loaded again, or a plugin file after an edit."""
    if known.__qualname__ != cls.__qualname__:
        return False
    files = [getattr(sys.modules.get(c.__module__), "__file__", None) for c in (known, cls)]
    return known.__module__ == cls.__module__ or (files[0] is not None and files[0] == files[1])
