"""Every method that a config names, found in its registry and checked before anything is computed."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aeg.backends.embedder import EMBEDDERS
from aeg.backends.nearest import INDEXES, IndexMethod
from aeg.config.merge import into_dataclass
from aeg.config.schema import ExperimentConfig, SeedsConfig
from aeg.corpus import CORPORA
from aeg.corpus.base import CorpusLoader
from aeg.errors import ConfigError, nearest
from aeg.extraction import EXTRACTORS
from aeg.extraction.base import Extractor
from aeg.plugins import load_plugins
from aeg.propagation import METHODS
from aeg.propagation.base import Propagation
from aeg.query import DECOMPOSITIONS, LINKERS, MENTIONS
from aeg.query.base import Decomposition, Linker, MentionExtractor

_LABEL = re.compile(r"[\w.+=-]+")
BASELINES = ("dense_atoms", "dense_passages", "bm25")


@dataclass(frozen=True)
class LabelledMethod:
    """A propagation method with the label that it has in tables, and seeds of its own where it has any."""

    label: str
    name: str
    method: Propagation
    seeds: SeedsConfig


@dataclass(frozen=True)
class Methods:
    """The methods of an experiment."""

    corpus: CorpusLoader
    extraction: Extractor
    encoder: Any
    judge: Any
    decomposition: Decomposition
    mentions: MentionExtractor
    linking: Linker
    index: IndexMethod
    propagation: tuple[LabelledMethod, ...]


def resolve(config: ExperimentConfig) -> Methods:
    """Return the methods of `config`, its plugins imported first.

    Raises:
        ConfigError: if a method or a parameter is unknown or out of range, a label is used twice, or there is
            no propagation method and no baseline.
    """
    load_plugins(config.plugins)
    for name in config.evaluation.baselines:
        if name not in BASELINES:
            raise ConfigError(f"evaluation.baselines: unknown baseline {name!r}. {nearest(name, BASELINES)}")
    if not config.propagation and not config.evaluation.baselines:
        raise ConfigError("propagation: got no method and no baseline, expected at least one to run")
    query = config.query
    return Methods(
        corpus=CORPORA.from_spec(config.corpus, "corpus"),
        extraction=EXTRACTORS.from_spec(config.extraction, "extraction"),
        encoder=EMBEDDERS.from_spec(config.encoder, "encoder"),
        judge=EMBEDDERS.from_spec(config.evaluation.encoder, "evaluation.encoder"),
        decomposition=DECOMPOSITIONS.from_spec(query.decomposition, "query.decomposition"),
        mentions=MENTIONS.from_spec(query.mentions, "query.mentions"),
        linking=LINKERS.from_spec(query.linking, "query.linking"),
        index=INDEXES.from_spec(config.retrieval.index, "retrieval.index"),
        propagation=_labelled(config.propagation, query.seeds),
    )


def _labelled(specs: list[dict[str, Any]], seeds: SeedsConfig) -> tuple[LabelledMethod, ...]:
    found = []
    for at, spec in enumerate(specs):
        if not isinstance(spec, Mapping):
            raise ConfigError(f"propagation.{at}: got {spec!r}, expected a section with a 'name'")
        params = dict(spec)
        label = params.pop("label", None)
        if label is not None and not _LABEL.fullmatch(str(label)):
            raise ConfigError(
                f"propagation.{at}.label: got {label!r}, expected letters, digits and . _ + = - only (it names files)"
            )
        own = {**dataclasses.asdict(seeds), **(params.pop("seeds", None) or {})}
        method = METHODS.from_spec(params, f"propagation.{at}")
        chosen = into_dataclass(SeedsConfig, own, f"propagation.{at}.seeds")
        found.append(LabelledMethod(str(label or params["name"]), str(params["name"]), method, chosen))
    twice = [label for label, count in Counter(item.label for item in found).items() if count > 1]
    if twice:
        raise ConfigError(f"propagation: label {twice[0]!r} is used twice; give each setting its own 'label'")
    taken = sorted({item.label for item in found} & set(BASELINES))
    if taken:
        raise ConfigError(f"propagation: label {taken[0]!r} is a baseline's name; choose another 'label'")
    return tuple(found)
