"""What is explained: a question, asked of an index or found in a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aeg.artifacts import MANIFEST, read_json
from aeg.config.load import restored
from aeg.core.records import Corpus, Query
from aeg.errors import ConfigError, DataError, nearest
from aeg.explain.replay import Listener, ReplayPipeline
from aeg.index import open_index
from aeg.pipeline.methods import LabelledMethod
from aeg.pipeline.retrieving import Retriever
from aeg.pipeline.stages import Pipeline, Report


@dataclass(frozen=True, eq=False)
class Subject:
    """A question, and everything that ranks atoms for it.

    Attributes:
        origin: the name of the index or run folder.
        retriever: ranks; nothing is written through it.
        query: the question.
        item: the propagation method.
        generating: whether sieve and reader are part of the explanation.
        results: the run's record of the question by this method (a row of `results.parquet`); None for an index.
        answers: likewise of `answers.parquet`.
        notes: what was found on the way.
    """

    origin: str
    retriever: Retriever
    query: Query
    item: LabelledMethod
    generating: bool = False
    results: dict[str, Any] | None = None
    answers: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def seed(self) -> int | None:
        """The seed of chance: the run's, or the config's first; None for a deterministic method."""
        if not self.item.method.stochastic:
            return None
        return self.retriever.config.seeds[0] if self.results is None else self.results["seed"]


def of_index(
    folder: Path, question: str, overrides: Sequence[str] = (), label: str | None = None, answer: bool = False
) -> Subject:
    """Return a question to an index.

    Args:
        folder: of the index.
        question: its text.
        overrides: `key.sub=value`, merged over the index's config.
        label: of the propagation entry; None takes the first.
        answer: take the ranking through sieve and reader too, which may ask a language model.

    Raises:
        DataError: if there is no index, or the question is empty.
        ConfigError: if there is no such propagation method, or `answer` is set and neither sieve nor reader is.
    """
    if not question.strip():
        raise DataError("got an empty question, expected some text")
    pipeline, graph, name = open_index(folder, overrides)
    pipeline.asker = Listener
    item = _item(pipeline, label)
    config = pipeline.config
    if answer and config.sieve["name"] == "none" and config.answer["name"] == "none":
        raise ConfigError("the index's config has no sieve and no reader: give sieve.name=... or answer.name=...")
    return Subject(folder.name, Retriever(pipeline, graph, name), Query("question", question), item, answer)


def of_run(
    folder: Path,
    question_id: str,
    report: Report,
    overrides: Sequence[str] = (),
    label: str | None = None,
) -> Subject:
    """Return a question of a run, the pipeline made again from the run's manifest; no language model is asked.

    Args:
        folder: the run folder.
        question_id: the question's id.
        report: called with a line a stage.
        overrides: `key.sub=value`, merged over the run's config: where data and artifacts lie by now.
        label: of the propagation entry; None takes the first.

    Raises:
        DataError: if the run is not finished, its graph is gone and a language model would have to extract again, or
            it has no such question.
        ConfigError: if there is no such propagation method.
    """
    config = restored(_manifest(folder)["config"], overrides)
    building = Pipeline(config, report)
    replaying = ReplayPipeline(config, report, read_only=True)
    item = _item(replaying, label)
    part, corpus, query = _find(building, question_id)
    passages = building.passages(corpus)
    if not building.built(passages):
        if building.methods.extraction.role:
            raise DataError(
                f"{building.store.root}: the graph of this run is not there, or has passages that the language model "
                "gave no reply for; run its config again, or give artifacts_dir=FOLDER"
            )
        report(f"{building.store.root}: no graph of this run and today's code, it is built again")
    graph, name = building.graph(passages)
    building.close()
    replaying.encoder = building.encoder
    results, answers = (
        _recorded(folder / f"{file}.parquet", question_id, part, item.label) for file in ("results", "answers")
    )
    subject = Subject(
        folder.resolve().name,
        Retriever(replaying, graph, name),
        query,
        item,
        item.label in replaying.methods.answered,
        results,
        answers,
    )
    if results is None:
        subject.notes.append("the run's results.parquet has no record of this question and method")
    return subject


def _manifest(folder: Path) -> dict[str, Any]:
    file = folder / MANIFEST
    if not folder.is_dir():
        raise DataError(f"{folder}: no such run folder")
    if not file.is_file():
        raise DataError(f"{folder}: no {MANIFEST}; the run did not finish, run it again")
    found = read_json(file)
    if not isinstance(found, dict) or "config" not in found:
        raise DataError(f"{file}: has no config; expected the manifest of a run")
    return found


def _item(pipeline: Pipeline, label: str | None) -> LabelledMethod:
    items = pipeline.methods.propagation
    if not items:
        raise ConfigError("propagation: the config has baselines only, which no chain explains; give propagation=[...]")
    found = next((item for item in items if label in (None, item.label)), None)
    if found is None:
        raise ConfigError(
            f"no propagation method is called {label!r}. {nearest(label or '', [i.label for i in items])}"
        )
    return found


def _find(pipeline: Pipeline, question_id: str) -> tuple[str, Corpus, Query]:
    """The part, corpus and question of an id."""
    known: list[str] = []
    for part, loader in pipeline.methods.corpus.parts(pipeline.root):
        corpus = pipeline.corpus(loader)
        for query in corpus.queries:
            if query.id == question_id:
                return part, corpus, query
        known += [query.id for query in corpus.queries]
    some = nearest(question_id, known) if len(known) <= 20 else f"It has {len(known):,}, the first is {known[0]!r}"
    raise DataError(f"the run has no question {question_id!r}. {some}")


def _recorded(file: Path, question_id: str, part: str, label: str) -> dict[str, Any] | None:
    """The first record of a question by one method; None where there is none."""
    if not file.is_file():
        return None
    import pyarrow.parquet as pq

    filters = [("question_id", "==", question_id), ("part", "==", part), ("method", "==", label)]
    rows: list[dict[str, Any]] = pq.read_table(file, filters=filters).to_pylist()
    return rows[0] if rows else None
