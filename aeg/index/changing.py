"""Building and changing an index: one writer at a time, readers see the state before or the state after."""

from __future__ import annotations

import dataclasses
import filecmp
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from aeg.claims import Claim, holder_of
from aeg.config.load import restored
from aeg.config.schema import ExperimentConfig
from aeg.core.records import Document
from aeg.corpus.base import CorpusLoader
from aeg.corpus.text_folder import TextFolder
from aeg.errors import DataError
from aeg.index import documents as changes_of
from aeg.index.building import (
    Before,
    Made,
    generation_name,
    made_before,
    make,
    plain_config,
)
from aeg.index.documents import Changes, load_documents
from aeg.index.layout import (
    GENERATIONS,
    POINTER,
    View,
    current,
    current_or_none,
    drop_first_format,
    drop_work,
    publish,
    sweep,
)
from aeg.pipeline.stages import Pipeline, Report

CLAIM = "claim"
_AGAIN = "-2"

Plan = Callable[[Mapping[str, Document]], Changes]


@dataclass(frozen=True)
class Outcome:
    """What became of an index.

    Attributes:
        pipeline: that made it.
        changes: of its documents.
        made: the generation; None where nothing changed.
        differing: files of a rebuilt index that differ from those before.
    """

    pipeline: Pipeline
    changes: Changes
    made: Made | None
    differing: tuple[str, ...] = ()


def build_index(config: ExperimentConfig, folder: Path, report: Report) -> Outcome:
    """Build (or go on building) the index of `config`'s corpus in `folder`, in the place of the one that is there.

    What an index that is there already knows of the same documents is taken over.

    Raises:
        DataError: if somebody else is changing it, or the corpus cannot be read.
    """
    pipeline = Pipeline(dataclasses.replace(config, artifacts_dir=str(folder)), report)
    _ = pipeline.methods  # what is wrong with the config is told before anything is touched
    with _claimed(folder, report) as claim:
        given = pipeline.corpus(pipeline.methods.corpus)
        first = _is_first_format(folder)
        view = None if first else current_or_none(folder)
        before = None
        if view is not None and view.texts:
            try:
                before = Before.load(view)
            except DataError as error:
                report(f"nothing is taken over from the index that is there: {error}")
        writer = _Writer(pipeline, folder, view, before, claim, plain_config(config), given.prechunked)
        outcome = writer.change(lambda held: changes_of.whole(held, given))
        if first:
            drop_first_format(folder)
        return outcome


def add(folder: Path, loader: CorpusLoader, report: Report, overrides: Sequence[str] = ()) -> Outcome:
    """Add documents to an index.

    Raises:
        DataError: if there is no index, somebody else is changing it, or it has other documents of these ids.
    """
    with _writing(folder, report, overrides) as writer:
        given = loader.load(writer.pipeline.root)
        return writer.change(lambda held: changes_of.added(held, given, isinstance(loader, TextFolder)))


def update(
    folder: Path, loader: CorpusLoader, report: Report, overrides: Sequence[str] = (), prune: bool = False
) -> Outcome:
    """Add new documents to an index, and put changed ones in the place of those it has.

    Args:
        folder: of the index.
        loader: of the documents.
        report: told what is done.
        overrides: of the index's config.
        prune: remove the documents of the index that the loader does not give.

    Raises:
        DataError: if there is no index, or somebody else is changing it.
    """
    with _writing(folder, report, overrides) as writer:
        given = loader.load(writer.pipeline.root)
        return writer.change(lambda held: changes_of.merged(held, given, isinstance(loader, TextFolder), prune))


def remove(folder: Path, ids: Sequence[str], report: Report, overrides: Sequence[str] = ()) -> Outcome:
    """Remove documents from an index.

    Raises:
        DataError: if there is no index, it has no such document, or somebody else is changing it.
    """
    with _writing(folder, report, overrides) as writer:
        return writer.change(lambda held: changes_of.removed(held, ids))


def rebuild(folder: Path, report: Report, overrides: Sequence[str] = ()) -> Outcome:
    """Make an index anew from the documents that it holds, and tell which of its files differ from before.

    Raises:
        DataError: if there is no index, or somebody else is changing it.
    """
    with _writing(folder, report, overrides, anew=True) as writer:
        return writer.rebuild()


@dataclass(frozen=True)
class _Writer:
    """Whoever holds the claim to an index.

    Attributes:
        pipeline: whose artifacts are in the index.
        folder: of the index.
        view: its current state; None where there is none.
        before: what is taken over from that; None takes nothing.
        claim: that is held.
        plain: the config as the index keeps it.
        prechunked: each document is one passage.
    """

    pipeline: Pipeline
    folder: Path
    view: View | None
    before: Before | None
    claim: Claim
    plain: dict[str, Any]
    prechunked: bool

    def change(self, plan: Plan) -> Outcome:
        """Make the generation that a plan asks for, and let the pointer name it."""
        try:
            changes = plan({} if self.before is None else self.before.documents)
            for line in changes.lines():
                self.pipeline.report(line)
            made = self._made(changes.documents)
        finally:
            self.pipeline.close()
        if self.view is not None and made.name == self.view.generation and self.view.content["config"] == self.plain:
            drop_work(self.folder)
            return Outcome(self.pipeline, changes, None)
        self._finish(made)
        return Outcome(self.pipeline, changes, made)

    def rebuild(self) -> Outcome:
        """Make the current generation anew, and let the pointer name the new one where it differs."""
        assert self.view is not None
        held = load_documents(self.view.path)
        try:
            made = self._make(generation_name(self.pipeline, held, self.prechunked), held)
        finally:
            self.pipeline.close()
        differing = _differing(self.view.path, self.folder / GENERATIONS / made.name)
        if differing:
            self._finish(made)
        else:
            drop_work(self.folder)
            sweep(self.folder, {self.view.generation})
        return Outcome(self.pipeline, Changes(held, unchanged=len(held)), made, differing)

    def _made(self, documents: Mapping[str, Document]) -> Made:
        """The generation of the documents: the current one, the one before it, or a new one."""
        name = generation_name(self.pipeline, documents, self.prechunked)
        same = self.view is not None and self.view.generation.removesuffix(_AGAIN) == name
        there = self.view.generation if same and self.view is not None else name
        return made_before(self.folder, there) or self._make(name, documents)

    def _make(self, name: str, documents: Mapping[str, Document]) -> Made:
        """A new generation; it is never made in the place of the current one."""
        other = self.view is not None and self.view.generation == name
        return make(self.pipeline, self.folder, name + _AGAIN * other, documents, self.before, self.prechunked)

    def _finish(self, made: Made) -> None:
        overtaken = self.view is not None and current(self.folder).generation != self.view.generation
        if self.claim.lost or overtaken:
            raise DataError(
                f"{self.folder}: somebody else changed the index meanwhile; it is as they left it; run this again"
            )
        facts = {"config": self.plain, "counts": made.counts, "prechunked": self.prechunked}
        publish(self.folder, made.name, facts)
        drop_work(self.folder)


@contextmanager
def _claimed(folder: Path, report: Report) -> Iterator[Claim]:
    """Hold the claim to an index for the block.

    Raises:
        DataError: if somebody else holds it.
    """
    claim = Claim(folder / CLAIM, report, f"index {folder}")
    if not claim.try_acquire():
        holder = holder_of(folder / CLAIM)
        raise DataError(f"{folder}: {holder or 'somebody else'} is changing this index; run this again afterwards")
    try:
        yield claim
    finally:
        claim.release()


@contextmanager
def _writing(folder: Path, report: Report, overrides: Sequence[str], anew: bool = False) -> Iterator[_Writer]:
    """Hold the claim to an index that is there, with its documents' texts; `anew` takes nothing over from it."""
    _with_texts(folder)
    with _claimed(folder, report) as claim:
        view = _with_texts(folder)
        config, plain = restored_config(json.dumps(view.content["config"], sort_keys=True), tuple(overrides))
        pipeline = Pipeline(dataclasses.replace(config, artifacts_dir=str(folder)), report)
        _ = pipeline.methods
        before = None if anew else Before.load(view)
        yield _Writer(pipeline, folder, view, before, claim, plain, bool(view.content["prechunked"]))


@lru_cache(maxsize=8)
def restored_config(content: str, overrides: tuple[str, ...]) -> tuple[ExperimentConfig, dict[str, Any]]:
    """Return the config that an index keeps as JSON, with overrides merged over it, and that as the index keeps it."""
    config = restored(json.loads(content), overrides)
    return config, plain_config(config)


def _with_texts(folder: Path) -> View:
    view = current(folder)
    if not view.texts:
        raise DataError(f"{folder}: this index came without its documents' texts; it can be asked, not changed")
    return view


def _is_first_format(folder: Path) -> bool:
    if not (folder / POINTER).is_file():
        return False
    try:
        current_or_none(folder)
    except DataError:
        return True
    return False


def _differing(one: Path, other: Path) -> tuple[str, ...]:
    """Names of the files that are not the same in two generations."""
    names = sorted({path.name for folder in (one, other) for path in folder.iterdir()})
    _, mismatch, errors = filecmp.cmpfiles(one, other, names, shallow=False)
    return tuple(sorted([*mismatch, *errors]))
