"""Every method that a config names, found in its registry and checked before anything is computed."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aeg.answer import ANSWERS
from aeg.answer.base import AnswerMethod
from aeg.backends.embedder import EMBEDDERS
from aeg.backends.llm import BACKENDS, Backend, Prices, load_prompt
from aeg.backends.llm.prompt import prompt_names
from aeg.backends.nearest import INDEXES, IndexMethod
from aeg.config.llm import ROLES, LLMConfig
from aeg.config.load import data_root
from aeg.config.merge import into_dataclass
from aeg.config.schema import ExperimentConfig, SeedsConfig
from aeg.corpus import CORPORA
from aeg.corpus.base import CorpusLoader
from aeg.errors import ConfigError, nearest
from aeg.evaluation import AccuracyMeasure
from aeg.extraction import EXTRACTORS
from aeg.extraction.base import Extractor
from aeg.plugins import load_plugins
from aeg.propagation import METHODS
from aeg.propagation.base import Propagation
from aeg.query import DECOMPOSITIONS, LINKERS, MENTIONS
from aeg.query.base import Decomposition, Linker, MentionExtractor
from aeg.sieve import SIEVES
from aeg.sieve.base import Sieve

_OPTIONAL = {"decomposition": frozenset({"threshold", "max_sub_questions"})}  # placeholders that may be left out
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
    """The methods of an experiment.

    Attributes:
        judge: the fixed encoder of evidence and answer similarity.
        models: the language models that are asked, by role.
        answered: labels of the rankings that go through sieve and answer; none where both are `none`.
    """

    corpus: CorpusLoader
    extraction: Extractor
    encoder: Any
    judge: Any
    decomposition: Decomposition
    mentions: MentionExtractor
    linking: Linker
    index: IndexMethod
    propagation: tuple[LabelledMethod, ...]
    sieve: Sieve
    answer: AnswerMethod
    models: Mapping[str, Backend]
    answered: tuple[str, ...]


def resolve(config: ExperimentConfig) -> Methods:
    """Return the methods of `config`, its plugins imported first.

    Raises:
        ConfigError: if a method or a parameter is unknown or out of range, a label is used twice, there is no
            propagation method and no baseline, a method needs a language model that the config does not name, a
            prompt does not fit, or a budget is set and a model has no price.
    """
    load_plugins(config.plugins)
    for name in config.evaluation.baselines:
        if name not in BASELINES:
            raise ConfigError(f"evaluation.baselines: unknown baseline {name!r}. {nearest(name, BASELINES)}")
    if not config.propagation and not config.evaluation.baselines:
        raise ConfigError("propagation: got no method and no baseline, expected at least one to run")
    query = config.query
    found = Methods(
        corpus=CORPORA.from_spec(config.corpus, "corpus"),
        extraction=EXTRACTORS.from_spec(config.extraction, "extraction"),
        encoder=EMBEDDERS.from_spec(config.encoder, "encoder"),
        judge=EMBEDDERS.from_spec(config.evaluation.encoder, "evaluation.encoder"),
        decomposition=DECOMPOSITIONS.from_spec(query.decomposition, "query.decomposition"),
        mentions=MENTIONS.from_spec(query.mentions, "query.mentions"),
        linking=LINKERS.from_spec(query.linking, "query.linking"),
        index=INDEXES.from_spec(config.retrieval.index, "retrieval.index"),
        propagation=_labelled(config.propagation, query.seeds),
        sieve=SIEVES.from_spec(config.sieve, "sieve"),
        answer=ANSWERS.from_spec(config.answer, "answer"),
        models={},
        answered=(),
    )
    found = dataclasses.replace(found, answered=_answered(config, found.propagation))
    return dataclasses.replace(found, models=_models(config, found))


def _answered(config: ExperimentConfig, propagation: tuple[LabelledMethod, ...]) -> tuple[str, ...]:
    known = [*(item.label for item in propagation), *config.evaluation.baselines]
    for label in config.answered or ():
        if label not in known:
            raise ConfigError(f"answered: no ranking is called {label!r}. {nearest(label, known)}")
    if config.sieve["name"] == "none" and config.answer["name"] == "none":
        return ()
    return tuple(item.label for item in propagation) if config.answered is None else tuple(config.answered)


def _models(config: ExperimentConfig, methods: Methods) -> dict[str, Backend]:
    """The backends of the roles that are asked, their prompts and prices checked."""
    llm = config.llm
    named = {role: spec for role in ROLES if (spec := getattr(llm, role)) is not None}
    backends = {role: BACKENDS.from_spec(spec, f"llm.{role}") for role, spec in named.items()}
    prices = Prices(llm.prices)
    asking = _asking(config, methods)
    for role, where, _ in asking:
        if role not in backends:
            raise ConfigError(f"{where} needs a model: set llm.{role}")
        if llm.max_cost_usd is not None and backends[role].spends:
            prices.require(backends[role].model)
    prompts = {name for _, _, names in asking for name in names}
    _check_prompts(llm, sorted(prompts), data_root(config))
    asked = {role for role, _, _ in asking}
    return {role: backend for role, backend in backends.items() if role in asked}


def _asking(config: ExperimentConfig, methods: Methods) -> list[tuple[str, str, tuple[str, ...]]]:
    """Role, config section and prompts of everything that asks a model."""
    stages: list[tuple[str, str, Any]] = [
        ("extraction", config.extraction["name"], methods.extraction),
        ("query.decomposition", config.query.decomposition["name"], methods.decomposition),
        ("sieve", config.sieve["name"], methods.sieve),
        ("answer", config.answer["name"], methods.answer),
    ]
    if methods.linking.needs_mentions:
        stages.insert(2, ("query.mentions", config.query.mentions["name"], methods.mentions))
    found = [(m.role, f"{where} {name!r}", tuple(m.prompts)) for where, name, m in stages if m.role]
    if config.llm.judge is not None and methods.answered and config.answer["name"] != "none":
        found.append((AccuracyMeasure.role, "evaluation.accuracy", AccuracyMeasure.prompts))
        missing = [name for name in AccuracyMeasure.prompts if name not in config.llm.prompts]
        if config.evaluation.accuracy.judge_prompts == "graphrag_bench" and missing:
            raise ConfigError(
                f"evaluation.accuracy.judge_prompts: 'graphrag_bench' needs a file, llm.prompts.{missing[0]}"
            )
    return found


def _check_prompts(llm: LLMConfig, used: Sequence[str], root: Path | None) -> None:
    """Read the prompts that will be used, and compare a user's placeholders with those of the shipped prompt."""
    for name in llm.prompts:
        if name not in (*prompt_names(), *used):
            raise ConfigError(f"llm.prompts.{name}: no such prompt. {nearest(name, prompt_names())}")
    for name in used:
        own = load_prompt(name, llm.prompts, root)
        if name not in llm.prompts or name not in prompt_names():
            continue
        shipped = load_prompt(name).placeholders
        unknown, missing = own.placeholders - shipped, shipped - own.placeholders - _OPTIONAL.get(name, frozenset())
        if unknown or missing:
            what = f"unknown placeholder {min(unknown)!r}" if unknown else f"no placeholder {min(missing)!r}"
            raise ConfigError(f"llm.prompts.{name}: {own.source} has {what}; expected {', '.join(sorted(shipped))}")


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
