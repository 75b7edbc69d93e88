"""Looking for everything that a config needs, before a job is submitted and again where it begins."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from aeg.backends.memory import size, weights_bytes
from aeg.backends.nlp import pipeline_version
from aeg.config.load import data_root
from aeg.config.schema import ExperimentConfig
from aeg.errors import AegError, DependencyError
from aeg.pipeline.methods import Methods, resolve
from aeg.preparing import machine
from aeg.preparing.endpoint import look
from aeg.preparing.finding import MISSING, OK, Finding, told
from aeg.preparing.needs import CHAT, ENCODER, DataNeed, ModelNeed, Needs, needs
from aeg.preparing.size import Estimate, corpus_size, estimate

Run = tuple[ExperimentConfig, Methods]


class Doctor:
    """One look at a machine, for one experiment or all runs of a sweep.

    Args:
        configs: name and config of each run.
        fast: do not read the corpus, load the encoder, or try faiss on the GPU.
        login: this machine only submits: what a compute node alone has is not asked for.
    """

    def __init__(
        self, configs: Sequence[tuple[str, ExperimentConfig]], fast: bool = False, login: bool = False
    ) -> None:
        self._configs, self._fast, self._login = configs, fast, login
        self._weights: dict[ModelNeed, int] = {}

    def findings(self) -> Iterator[Finding]:
        """Yield what is found, check by check; nothing is downloaded, and nothing is left behind."""
        runs: list[Run] = []
        for name, config in self._configs:
            try:
                runs.append((config, resolve(config)))
            except AegError as error:
                yield told(f"config {name}", error)
        if not runs:
            return
        yield Finding("config", OK, f"{len(runs)} of {len(self._configs)} runs; methods, plugins and prompts are known")
        found: list[Needs] = []
        for config, methods in runs:
            try:
                found.append(needs(config, methods))
            except AegError as error:
                yield told("data", error)
        wanted = Needs.joined(found)
        device, finding = machine.device(runs[0][0].device, self._login)
        yield finding
        yield from machine.packages(runs[0][0], device, bool(wanted.endpoints))
        yield machine.faiss(runs[0][0], device, self._fast or self._login)
        for model in wanted.distinct_models:
            yield self._model(model, device)
        yield from _pipelines(wanted)
        for key, backend in wanted.endpoints:
            yield look(key, backend, elsewhere=self._login)
        lost = [need for need in wanted.data if not need.path.exists()]
        yield from _data(wanted, lost)
        estimated = yield from self._sizes(runs, read=not self._fast and not lost)
        if not self._login:
            yield from machine.memory(estimated, device)
        places = [(key, getattr(config, key)) for config, _ in runs for key in ("run_dir", "artifacts_dir")]
        yield from machine.folders(places, estimated.disk)

    def _model(self, need: ModelNeed, device: torch.device | None) -> Finding:
        check = f"{need.kind} {need.model}"
        try:
            folder = need.folder()
            self._weights[need] = weights_bytes(folder, need.dtype)
            if need.kind == CHAT:
                from aeg.backends.llm.hub_model import load_tokenizer

                load_tokenizer(folder)
            elif need.kind == ENCODER and not self._fast:
                self._encode(need, device)
        except DependencyError as error:
            remedy = "`aeg fetch CONFIG --to DIR` where there is a network gathers it" if need.hub_name else ""
            return replace(told(check, error), remedy=remedy)
        except AegError as error:
            return told(check, error)
        done = "loads" if need.kind == ENCODER and not self._fast else "is here"
        return Finding(check, OK, f"{done}; {size(self._weights[need])}, {folder}")

    def _encode(self, need: ModelNeed, device: torch.device | None) -> None:
        """Encode a text, by the encoder that the config describes."""
        for _, config in self._configs:
            section = config.encoder if need.key == "encoder" else config.evaluation.encoder
            if section.get("model", need.model) == need.model:
                from aeg.backends.embedder import EMBEDDERS

                encoder = EMBEDDERS.from_spec(section, need.key).load(device or "cpu")
                encoder.encode(["a text"])
                return

    def _sizes(self, runs: Sequence[Run], read: bool) -> Generator[Finding, None, Estimate]:
        """Yield what is found in the corpora, and return the estimate of the largest run."""
        weights = sum(self._weights.values())
        total, seen = Estimate(0, 0, 0), set()
        for config, methods in runs:
            key = (repr(methods.corpus), config.num_questions, config.questions)
            if key in seen:
                continue
            seen.add(key)
            if not read:
                text = sum(_bytes(need.path) for need in needs(config, methods).data if need.path.exists())
                measured = text, 1 + text // 500, text // 500
            else:
                finding, measured = _read(config, methods)
                yield finding
            total |= estimate(config, *measured, weights)
        return total


def _read(config: ExperimentConfig, methods: Methods) -> tuple[Finding, tuple[int, int, int]]:
    """Read the corpora of a run; the sizes are those of the largest, questions of all."""
    root, text, passages, questions, documents = data_root(config), 0, 0, 0, 0
    try:
        for _, loader in methods.corpus.parts(root):
            corpus = loader.load(root)
            part = corpus_size(corpus, config)
            text, passages, questions = max(text, part[0]), max(passages, part[1]), questions + part[2]
            documents += len(corpus.documents)
    except AegError as error:
        return told("corpus", error), (0, 0, 0)
    told_of = f"{documents:,} documents, {questions:,} questions"
    if questions < (config.num_questions or 0):
        remedy = "lower num_questions, or set it to null"
        return Finding("corpus", MISSING, f"{told_of}, and num_questions is {config.num_questions}", remedy), (0, 0, 0)
    return Finding("corpus", OK, told_of), (text, passages, questions)


def _bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _pipelines(wanted: Needs) -> Iterator[Finding]:
    for name in wanted.pipelines:
        try:
            yield Finding("spaCy pipeline", OK, pipeline_version(name))
        except DependencyError as error:
            yield told("spaCy pipeline", error)


def _data(wanted: Needs, lost: Sequence[DataNeed]) -> Iterator[Finding]:
    for need in lost:
        yield Finding(
            "data", MISSING, f"{need.key}: {need.path} is not there", "set data_root or AEG_DATA, or fetch it"
        )
    if wanted.data and not lost:
        yield Finding("data", OK, f"{len(wanted.data)} files or folders are there")
