"""Structured replies: the schema that is sent, and the parsing of what comes back, tolerant but inventing nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pydantic

from aeg.backends.llm.reasoning import strip_reasoning
from aeg.backends.llm.span import Span, spans
from aeg.errors import LLMError

_SHOWN_ERRORS = 3


class InvalidReply(LLMError):
    """A reply does not fit its schema or breaks a rule; the message is told to the model."""


@dataclass(frozen=True)
class Parsed:
    """A parsed reply.

    Attributes:
        value: an instance of the model.
        repaired: whether the text was no strict JSON of the model's form.
        cut: whether the text broke off: `value` holds the items that were whole.
    """

    value: Any
    repaired: bool = False
    cut: bool = False


@cache
def schema_of(model: type[pydantic.BaseModel]) -> str:
    """Return the canonical JSON of a model's schema in the strict form that endpoints ask for.

    Every property is required and no other is admitted; titles, defaults and the models' docstrings are left out (a
    field's description stays), so that editing a docstring asks nothing anew. Properties stay in the
    order of the model's fields, in which constrained decoding writes them: reasoning before the answer.

    Example:
        >>> class Names(pydantic.BaseModel):
        ...     names: list[str] = []
        >>> print(schema_of(Names))
        {"properties":{"names":{"items":{"type":"string"},"type":"array"}},"type":"object",...}
    """
    return json.dumps(_strict(model.model_json_schema()), separators=(",", ":"))


def parse_reply(text: str, model: type[pydantic.BaseModel], check: Callable[[Any], str | None] | None = None) -> Parsed:
    r"""Return a model's reply as an instance of `model`.

    Strict JSON is taken as it is. Otherwise the reasoning part, words around the JSON, code fences, trailing
    commas and literal `...` items are left out, a bare list is put under the model's only list, and of a text that
    breaks off the whole items are kept; what is whole and still no JSON goes through `json_repair`, whose result
    may hold no string that is not in the text.

    Args:
        text: the reply.
        model: the form it should have.
        check: returns what else is wrong with an instance, or None.

    Raises:
        InvalidReply: if nothing in the text fits; the message says why.

    Example:
        >>> class Atoms(pydantic.BaseModel):
        ...     atoms: list[str]
        >>> parse_reply('Here you go: ```json\n{"atoms": ["Ann owns Bix", ...,]}```', Atoms).value
        Atoms(atoms=['Ann owns Bix'])
        >>> parse_reply('{"atoms": ["Ann owns Bix", "Bix is a ca', Atoms)
        Parsed(value=Atoms(atoms=['Ann owns Bix']), repaired=True, cut=True)
    """
    parsed = _strictly(text, model) or _tolerantly(strip_reasoning(text), model)
    complaint = check(parsed.value) if check is not None else None
    if complaint:
        raise InvalidReply(complaint)
    return parsed


def _strictly(text: str, model: type[pydantic.BaseModel]) -> Parsed | None:
    try:
        value, changed = _clean(_load(text))
        return Parsed(model.model_validate(value), repaired=changed)
    except (ValueError, RecursionError):
        return None


def _tolerantly(text: str, model: type[pydantic.BaseModel]) -> Parsed:
    """Try each bracketed span of the text as it is, then mended by the library; the longest that fits wins."""
    found = list(spans(text))
    errors: list[tuple[bool, str]] = []
    for read in (_tidied, _mended):
        for span in sorted(found, key=lambda span: -span.length):
            try:
                value = _fit(read(span), model)
            except (pydantic.ValidationError, _Unreadable) as error:
                errors.append((isinstance(error, _Unreadable), _message(error)))
            else:
                return Parsed(value, repaired=True, cut=span.cut)
    raise InvalidReply(
        min(errors, key=lambda pair: pair[0])[1] if errors else "there is no JSON object with whole items in it"
    )


def valid_text(text: str) -> str:
    r"""Return a text without lone surrogates, which a cut `\ud83d` escape leaves and no file takes.

    Example:
        >>> valid_text("a\ud83db")
        'a\ufffdb'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _Unreadable(ValueError):
    """A span is no JSON."""


def _tidied(span: Span) -> Any:
    try:
        return _clean(_load(span.tidy))[0]
    except json.JSONDecodeError as error:
        raise _Unreadable(f"no valid JSON ({error.msg} at character {error.pos})") from None
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"no valid JSON ({error})") from None


def _mended(span: Span) -> Any:
    """What `json_repair` makes of a whole span; each of its strings must stand in the text."""
    import json_repair

    if span.cut:
        raise _Unreadable("the JSON breaks off")
    try:
        value, _ = _clean(_load(json.dumps(json_repair.loads(span.text, skip_json_loads=True))))
        strange = next((string for string in _strings(value) if not _stands_in(string, span.text)), None)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"no valid JSON ({error})") from None
    if strange is not None or not isinstance(value, dict | list):
        raise _Unreadable("no valid JSON")
    return value


def _fit(value: Any, model: type[pydantic.BaseModel]) -> Any:
    """Validate a value, or a bare list as the model's only list, or the only item of a list."""
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        for other in _wrapped(value, model):
            try:
                return model.model_validate(other)
            except pydantic.ValidationError:
                continue
        raise error from None


def _wrapped(value: Any, model: type[pydantic.BaseModel]) -> Iterator[Any]:
    if not isinstance(value, list):
        return
    if len(value) == 1 and isinstance(value[0], dict):
        yield value[0]
    properties = model.model_json_schema().get("properties", {})
    lists = [name for name, kind in properties.items() if kind.get("type") == "array"]
    if len(lists) == 1:
        yield {lists[0]: value}


def _load(text: str) -> Any:
    return json.loads(text, strict=False, parse_constant=_refuse, parse_float=_finite)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _refuse(digits)


def _clean(value: Any) -> tuple[Any, bool]:
    """Return the value without items that are a literal `...` and without lone surrogates, and whether it had any."""
    if isinstance(value, str):
        valid = valid_text(value)
        return valid, valid != value
    if isinstance(value, list):
        kept = [_clean(item) for item in value if item not in ("...", "…")]
        return [item for item, _ in kept], len(kept) < len(value) or any(changed for _, changed in kept)
    if isinstance(value, dict):
        pairs = {_clean(key)[0]: _clean(item) for key, item in value.items()}
        return {key: item for key, (item, _) in pairs.items()}, any(changed for _, changed in pairs.values())
    return value, False


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)


def _stands_in(string: str, text: str) -> bool:
    if string.lstrip("-") in ("NaN", "Infinity"):
        return False  # a number that JSON has not, made a string
    if not string:
        return '""' in text or "''" in text
    escaped = json.dumps(string, ensure_ascii=False)[1:-1]
    forms = (string, json.dumps(string)[1:-1], escaped, string.replace("'", "\\'"))
    return any(form in text for form in forms)


def _message(error: ValueError) -> str:
    if not isinstance(error, pydantic.ValidationError):
        return str(error)
    shown = error.errors(include_url=False, include_context=False, include_input=False)
    rows = [f"{'.'.join(map(str, row['loc'])) or 'top level'}: {row['msg']}" for row in shown[:_SHOWN_ERRORS]]
    more = f"; and {len(shown) - _SHOWN_ERRORS} more" if len(shown) > _SHOWN_ERRORS else ""
    return "; ".join(rows) + more


def _strict(node: Any) -> Any:
    """The schema without titles, defaults and docstrings; objects closed, all their properties required."""
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    dropped = {"title", "default"} | ({"description"} if "properties" in node else set())
    kept = {key: value for key, value in node.items() if key not in dropped}
    for key in ("properties", "$defs"):
        if isinstance(kept.get(key), dict):
            kept[key] = {name: _strict(item) for name, item in kept[key].items()}
    kept |= {key: _strict(value) for key, value in kept.items() if key not in ("properties", "$defs")}
    if "properties" in kept:
        kept |= {"additionalProperties": False, "required": list(kept["properties"])}
    return kept
