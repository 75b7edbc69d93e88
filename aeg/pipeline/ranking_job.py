"""One method's ranking of a list of questions, made block by block and kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aeg.claims import Claim
from aeg.config.schema import ExperimentConfig
from aeg.pipeline.accounts import RETRIEVAL
from aeg.pipeline.blocks import Block, BlockFiles, joined
from aeg.pipeline.methods import LabelledMethod
from aeg.pipeline.ranking import Ranking
from aeg.propagation.base import Propagation

if TYPE_CHECKING:
    from aeg.pipeline.retrieving import Retriever
    from aeg.pipeline.seeding import Seeding


class RankingJob:
    """Makes the ranking artifact of one method.

    What an interrupted run, or another process at the same work, has done of it is found in the artifact's folder, a
    file a block. The joined blocks are the same bytes whoever made them.
    """

    def __init__(self, retriever: Retriever, item: LabelledMethod, seeding: Seeding, seed: int | None) -> None:
        self._retriever, self._item, self._seeding, self._seed = retriever, item, seeding, seed
        self._artifact = retriever.artifact(item, seeding, seed)
        self._files = BlockFiles(self._artifact, item.label, "atom", seed)
        self._done: dict[Block, Ranking] = {}
        self._found = 0.0
        self._whole: Ranking | None = None

    def rank(self, block: Block) -> None:
        """Rank the next block, unless it or the whole ranking is there already, or another process is at it."""
        if self._whole is None:
            self._whole = self._load()
        if self._whole is not None:
            return
        found = self._files.load(block)
        if found is not None:
            self._found += found.seconds
            self._done[block] = found
            return
        with self._claimed(block):
            self._whole = self._load()
            if self._whole is None:
                self._done[block] = self._files.load(block) or self._ranked(block)

    def has(self, block: Block) -> bool:
        """Tell whether a block is ranked, by this process or another."""
        return self._whole is not None or block in self._done or self._files.path(block).is_file()

    @contextmanager
    def _claimed(self, block: Block) -> Iterator[None]:
        """Hold the claim on one block, unless another process finishes it: runs that share a ranking share the work."""
        pipeline, file = self._retriever.pipeline, self._files.path(block)
        claim = Claim(file.with_suffix(".claim"), pipeline.report, f"block {block.index} of {self._item.label}")
        try:
            claim.acquire(done=lambda: file.is_file() or self._artifact.complete)
            yield
        finally:
            claim.release()

    def _ranked(self, block: Block) -> Ranking:
        found = self._retriever.rank_block(self._item, self._method, self._seeding, self._seed, block)
        self._files.save(block, found)
        return found

    def finished(self, blocks: Sequence[Block]) -> Ranking:
        """Return the whole ranking, kept from now on; what other processes of the group ranked is in its file."""
        for block in blocks:
            if block not in self._done and self._whole is None:
                theirs = self._files.load(block)  # another process of the group ranked it
                if theirs is None:
                    self.rank(block)
                else:
                    self._done[block] = theirs
        if self._whole is None:
            self._whole = joined([self._done[block] for block in blocks])
            self._whole.save(self._file)
            accounts, name = self._retriever.pipeline.accounts, self._artifact.fingerprint
            accounts.reuse(RETRIEVAL, name, {"rows": []}, self._found)
            self._artifact.finish(seconds=self._whole.seconds, engine=self._whole.engine)
            self._files.drop()
        return self._whole

    @cached_property
    def _method(self) -> Propagation:
        return self._retriever.settled(self._item, self._seeding)

    @property
    def _file(self) -> Path:
        return self._artifact.path / "ranking.safetensors"

    def _load(self) -> Ranking | None:
        if not self._artifact.complete:
            return None
        facts = self._artifact.facts()
        accounts = self._retriever.pipeline.accounts
        accounts.reuse(RETRIEVAL, self._artifact.fingerprint, {"rows": []}, facts["seconds"])
        return Ranking.load(self._file, self._item.label, "atom", self._seed, **facts)


@dataclass(frozen=True)
class RankingShare:
    """Blocks of questions to be ranked by every method of a config, dealt out to the processes in turn.

    What a block's ranking is goes into its file, which the first process reads.

    Attributes:
        config: of the experiment.
        graph: fingerprint of the graph's artifact, in a folder that all processes see.
        seeding: of the questions.
    """

    config: ExperimentConfig
    graph: str
    seeding: Seeding

    @classmethod
    def of(cls, retriever: Retriever, seeding: Seeding) -> RankingShare:
        """Return the task of ranking these questions; seeds are made again where they are used."""
        return cls(retriever.config, retriever.graph_fingerprint, dataclasses.replace(seeding, seeded={}))

    def share(self, rank: int, size: int, kept: dict[Any, Any]) -> None:
        """Rank this process's blocks; see `Task`.

        Raises:
            DataError: if the graph is not there.
        """
        from aeg.graph import load
        from aeg.pipeline.retrieving import Retriever
        from aeg.pipeline.stages import Pipeline

        if kept.get("ranking", (None, None))[0] != (self.config, self.graph):
            pipeline = Pipeline(self.config)
            _ = pipeline.methods  # imports the config's plugins
            graph = load(pipeline.store.folder("graph", self.graph))
            kept["ranking"] = (self.config, self.graph), Retriever(pipeline, graph, self.graph)
        retriever = kept["ranking"][1]
        jobs = retriever.jobs(self.seeding)
        for block in retriever.blocks(self.seeding)[rank::size]:
            for job in jobs:
                job.rank(block)
