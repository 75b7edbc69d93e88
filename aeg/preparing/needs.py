"""What a config needs: models, pipelines, data, endpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aeg.backends.embedder.hf import HuggingFaceEmbedder
from aeg.backends.embedder.presets import Preset, find_preset
from aeg.backends.embedder.weights import locate_model
from aeg.backends.llm.base import Backend
from aeg.backends.llm.hub_model import locate_chat_model
from aeg.backends.llm.openai import OpenAI
from aeg.backends.llm.transformers import TransformersBackend
from aeg.config.load import data_root
from aeg.config.schema import ExperimentConfig
from aeg.core.files import BUILTIN, resolve
from aeg.pipeline.methods import Methods
from aeg.sieve.cross_encoder import CrossEncoderSieve

ENCODER, RANKER, CHAT = "encoder", "re-ranker", "chat model"
_PATHS = ("path", "documents", "questions")  # parameters of corpora that name files


@dataclass(frozen=True)
class ModelNeed:
    """A model whose files a run reads.

    Attributes:
        key: of the config, without `.model`.
        kind: `encoder`, `re-ranker` or `chat model`.
        model: a preset, a hub name or a folder.
        revision: of a hub model.
        dtype: that it is loaded as.
        device: that it is loaded on; None is the run's.
    """

    key: str
    kind: str
    model: str
    revision: str | None = None
    dtype: str = "auto"
    device: str | None = None

    @property
    def preset(self) -> Preset | None:
        """The preset of that name."""
        return find_preset(self.model) if self.kind == ENCODER else None

    @property
    def packaged(self) -> bool:
        """Whether its files come with an installed package."""
        return self.preset is not None and bool(self.preset.package)

    @property
    def hub_name(self) -> str | None:
        """Its name on the hub; None for a folder or a package."""
        name = self.preset.model if self.preset is not None else self.model
        return None if self.packaged or Path(name).expanduser().is_dir() else name

    def folder(self) -> Path:
        """Return the folder of its files on this machine; nothing is downloaded.

        Raises:
            DependencyError: if it is not here.
            DataError: if its folder is not whole.
        """
        if self.kind == CHAT:
            return locate_chat_model(self.model, self.revision, download=False)
        return locate_model(self.model, self.preset, self.revision, download=False)


@dataclass(frozen=True)
class DataNeed:
    """A file or folder that a run reads.

    Attributes:
        key: of the config.
        given: the path as it stands there.
        path: where it is.
    """

    key: str
    given: str
    path: Path


@dataclass(frozen=True)
class Needs:
    """What one config, or all runs of a sweep, need; each thing once."""

    models: tuple[ModelNeed, ...] = ()
    pipelines: tuple[str, ...] = ()
    data: tuple[DataNeed, ...] = ()
    endpoints: tuple[tuple[str, OpenAI], ...] = ()
    backends: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()

    @staticmethod
    def joined(found: Iterable[Needs]) -> Needs:
        """Return what any of them needs."""
        kept = list(found)
        names = [spec.name for spec in dataclasses.fields(Needs)]
        return Needs(**{name: _once(x for of in kept for x in getattr(of, name)) for name in names})

    @property
    def distinct_models(self) -> list[ModelNeed]:
        """The models, each once, whatever keys of the config name it."""
        return list({replace(need, key=""): need for need in reversed(self.models)}.values())[::-1]


def needs(config: ExperimentConfig, methods: Methods) -> Needs:
    """Return what a config needs.

    Args:
        config: the experiment.
        methods: what it resolves to.

    Raises:
        DataError: if a pattern of a corpus matches nothing.
    """
    models = list(_models(config, methods))
    pipelines = [methods.extraction] + ([methods.mentions] if methods.linking.needs_mentions else [])
    return Needs(
        models=tuple(models),
        pipelines=tuple(dict.fromkeys(m.pipeline for m in pipelines if hasattr(m, "pipeline"))),
        data=tuple(_data(config, methods)),
        endpoints=tuple((f"llm.{role}", b) for role, b in methods.models.items() if isinstance(b, OpenAI)),
        backends=tuple(type(backend).__name__ for backend in methods.models.values()),
        plugins=tuple(config.plugins),
    )


def _models(config: ExperimentConfig, methods: Methods) -> Iterator[ModelNeed]:
    for key, method in (("encoder", methods.encoder), ("evaluation.encoder", methods.judge)):
        if isinstance(method, HuggingFaceEmbedder):
            yield ModelNeed(key, ENCODER, method.model, method.revision, method.dtype)
    if isinstance(methods.sieve, CrossEncoderSieve) and methods.answered:
        yield ModelNeed("sieve", RANKER, methods.sieve.model, methods.sieve.revision, methods.sieve.dtype)
    for role, backend in methods.models.items():
        if isinstance(backend, TransformersBackend):
            yield _chat(f"llm.{role}", backend)


def _chat(key: str, backend: TransformersBackend) -> ModelNeed:
    return ModelNeed(key, CHAT, backend.model, backend.revision, backend.dtype, backend.device)


def _data(config: ExperimentConfig, methods: Methods) -> Iterator[DataNeed]:
    root = data_root(config)
    parts = methods.corpus.parts(root)
    for _, loader in parts:
        for name in _PATHS:
            value = getattr(loader, name, None)
            if isinstance(value, str) and value:
                yield DataNeed(f"corpus.{name}", value, resolve(root, value))
    for key, method in _readers(methods):
        given = getattr(method, "path", "")
        if given != BUILTIN and hasattr(method, "source_files"):
            for path in method.source_files(root):
                yield DataNeed(f"{key}.path", given or str(path), path)
    for name, prompt in config.llm.prompts.items():
        yield DataNeed(f"llm.prompts.{name}", str(prompt), _either(root, str(prompt)))
    for at, run in enumerate(config.evaluation.runs):
        yield DataNeed(f"evaluation.runs.{at}", run, _either(root, run))
    yield from _recordings(methods.models.items())


def _either(root: Path | None, path: str) -> Path:
    """A file relative to the working folder where it is there, else to the data's."""
    given = Path(path).expanduser()
    return given if given.is_file() else resolve(root, path)


def _readers(methods: Methods) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = [
        ("extraction", methods.extraction),
        ("query.decomposition", methods.decomposition),
        ("sieve", methods.sieve),
    ]
    return [*found, ("query.mentions", methods.mentions)] if methods.linking.needs_mentions else found


def _recordings(models: Iterable[tuple[str, Backend]]) -> Iterator[DataNeed]:
    for role, backend in models:
        folder = getattr(backend, "folder", "")
        if folder and not backend.spends:
            yield DataNeed(f"llm.{role}.folder", folder, Path(folder).expanduser())


def _once(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values in order, each once; parameters of backends cannot be hashed."""
    return tuple({repr(value): value for value in values}.values())


def distinct(runs: Sequence[tuple[ExperimentConfig, Methods]]) -> Needs:
    """Return what the runs of a sweep need together."""
    return Needs.joined(needs(config, methods) for config, methods in runs)
