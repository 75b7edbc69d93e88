"""The config of language models: which one each role asks, what it costs, and how much may be spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aeg.config.ranges import Checked, param

ROLES = ("extractor", "reader", "judge")


@dataclass(frozen=True)
class LLMConfig(Checked):
    """The language models of an experiment, each `{name: ..., model: ..., parameter: ...}` of a registered backend.

    Attributes:
        extractor: reads passages (extraction); null where none is needed.
        reader: reads questions (decomposition, mentions), candidates (sieve) and evidence (answer).
        judge: scores answers (answer accuracy is measured where there is one).
        reasks: how often a reply that cannot be used is asked for again, with the error told.
        prompts: a user's own prompt files, by the prompt's name.
        prices: `{MODEL: {prompt: USD, completion: USD}}`, US dollars per million tokens.
        max_cost_usd: the run stops, resumably, before it spends more; null sets no limit.
    """

    extractor: dict[str, Any] | None = None
    reader: dict[str, Any] | None = None
    judge: dict[str, Any] | None = None
    reasks: int = param(2, ge=0)
    prompts: dict[str, str] = param({})
    prices: dict[str, Any] = param({})
    max_cost_usd: float | None = param(None, ge=0)
