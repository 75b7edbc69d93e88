"""The pipeline: artifacts, resuming, plugins, what is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from aeg.artifacts import Store, code_hash, file_hash, fingerprint, write_text
from aeg.config.load import load_config
from aeg.core.records import Passage
from aeg.core.seeds import Seeds
from aeg.errors import DataError
from aeg.pipeline.stages import Pipeline

COUNTING = '''
"""An extractor that writes down each passage it is asked for, and can break down on the way."""
from dataclasses import dataclass
from pathlib import Path
from aeg.core.records import ExtractedAtom, Extraction
from aeg.extraction.base import EXTRACTORS, Extractor


@EXTRACTORS.register("counting")
@dataclass(frozen=True)
class Counting(Extractor):
    log: str = ""

    def extract(self, passages, root=None, workers=0):
        for passage in passages:
            if Path(self.log + ".stop").exists() and passage.id == "d7":
                raise RuntimeError("broken down")
            with open(self.log, "a") as file:
                file.write(passage.id + chr(10))
            yield Extraction(passage.id, ("Ann",), (), (ExtractedAtom(passage.text, ("Ann",)),))
'''


@pytest.fixture(scope="module")
def plugin_file(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("plugin") / "counting.py"


@pytest.fixture
def counting(tmp_path, plugin_file) -> tuple[Path, Path]:
    plugin, log = plugin_file, tmp_path / "log"
    plugin.write_text(COUNTING)
    documents = tmp_path / "documents.jsonl"
    documents.write_text("".join(json.dumps({"id": f"d{i}", "text": f"Ann did {i}."}) + "\n" for i in range(10)))
    return plugin, log


def pipeline(tmp_path: Path, plugin: Path, log: Path, artifacts: str = "artifacts") -> Pipeline:
    return Pipeline(
        load_config(
            None,
            [
                f"plugins=['{plugin}']",
                f"corpus={{name: jsonl, documents: '{tmp_path / 'documents.jsonl'}'}}",
                f"extraction={{name: counting, log: '{log}'}}",
                f"artifacts_dir={tmp_path / artifacts}",
                "device=cpu",
            ],
        )
    )


def graph_files(p: Pipeline) -> dict[str, bytes]:
    corpus = p.corpus(p.methods.corpus)
    _, name = p.graph(p.passages(corpus))
    folder = p.store.root / "graph" / name[:32]
    return {f.name: f.read_bytes() for f in folder.iterdir() if f.name != "manifest.json"}


def test_an_interrupted_extraction_repeats_nothing(tmp_path, counting):
    plugin, log = counting
    Path(f"{log}.stop").touch()
    with pytest.raises(RuntimeError, match="broken down"):
        graph_files(pipeline(tmp_path, plugin, log))
    assert log.read_text().split() == [f"d{i}" for i in range(7)]
    Path(f"{log}.stop").unlink()
    resumed = graph_files(pipeline(tmp_path, plugin, log))
    assert log.read_text().split() == [f"d{i}" for i in range(10)]
    whole = graph_files(pipeline(tmp_path, plugin, log, "afresh"))
    assert resumed == whole
    assert not list((tmp_path / "artifacts").rglob("journal-*"))


def test_a_journal_line_cut_off_by_a_crash_is_extracted_again(tmp_path, counting):
    plugin, log = counting
    Path(f"{log}.stop").touch()
    with pytest.raises(RuntimeError):
        graph_files(pipeline(tmp_path, plugin, log))
    Path(f"{log}.stop").unlink()
    (journal,) = (tmp_path / "artifacts").rglob("journal-*.jsonl")
    content = journal.read_bytes()
    journal.write_bytes(content[: len(content) - 20])
    graph_files(pipeline(tmp_path, plugin, log))
    assert log.read_text().split() == [f"d{i}" for i in [*range(7), 6, 7, 8, 9]]


def test_editing_a_plugin_makes_its_results_anew(tmp_path, counting):
    plugin, log = counting
    graph_files(pipeline(tmp_path, plugin, log))
    graph_files(pipeline(tmp_path, plugin, log))
    assert len(log.read_text().split()) == 10
    before = code_hash(pipeline(tmp_path, plugin, log).methods.extraction)
    plugin.write_text(COUNTING + "\n# edited\n")
    assert code_hash(pipeline(tmp_path, plugin, log).methods.extraction) != before


def test_duplicate_documents_are_extracted_once(tmp_path, counting):
    plugin, log = counting
    with (tmp_path / "documents.jsonl").open("a") as file:
        file.write(json.dumps({"id": "again", "text": "Ann did 3."}) + "\n")
    p = pipeline(tmp_path, plugin, log)
    graph_files(p)
    assert len(log.read_text().split()) == 10
    assert p.counts["corpus"]["duplicate_documents"] == 1


def test_artifacts_are_named_by_content_and_complete_when_finished(tmp_path):
    store = Store(tmp_path)
    artifact = store.artifact("graph", a=1, b=[2])
    assert not artifact.complete
    artifact.finish(counts={"x": 1})
    assert store.artifact("graph", b=[2], a=1).complete
    assert store.artifact("graph", b=[2], a=1).facts() == {"counts": {"x": 1}}
    assert not store.artifact("graph", b=[3], a=1).complete
    assert fingerprint({"a": 1}) != fingerprint({"a": "1"})


def test_files_are_written_by_rename_and_hashed_by_content(tmp_path):
    write_text(tmp_path / "a", "one")
    write_text(tmp_path / "b", "one")
    assert file_hash(tmp_path / "a") == file_hash(tmp_path / "b")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a", "b"]
    with pytest.raises(DataError, match="none"):
        file_hash(tmp_path / "none")


def test_an_artifacts_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="set artifacts_dir"):
        Store(tmp_path / "file").artifact("graph", a=1)


def test_passages_are_cut_by_the_encoder_s_tokens(tmp_path, counting):
    plugin, log = counting
    text = " ".join(f"word{i}" for i in range(500))
    (tmp_path / "documents.jsonl").write_text(json.dumps({"id": "long", "text": text}) + "\n")
    p = pipeline(tmp_path, plugin, log)
    passages: list[Passage] = p.passages(p.corpus(p.methods.corpus))
    assert len(passages) > 3
    assert [passage.id for passage in passages] == [f"long#{i}" for i in range(len(passages))]
    for passage in passages:
        assert text[passage.start : passage.end] == passage.text
        assert len(p.encoder.token_spans([passage.text])[0]) <= p.config.chunk.max_tokens


def test_retrieval_splits_documents_and_sums_or_takes_the_best():
    from aeg.core.tables import AtomTable
    from aeg.retrieval.search import DocumentMap

    passages = [Passage("b", "b", ""), Passage("a#0", "a", ""), Passage("a#1", "a", "")]
    atoms = AtomTable(
        ["0", "1", "2"],
        ["x", "y", "z"],
        None,
        torch.tensor([0, 1, 1, 2, 2]),
        torch.tensor([0, 1, 2, 2, 2]),  # atom 2 stands twice in passage a#1 and counts once
        torch.full((5, 2), -1),
    )
    scores = torch.tensor([[0.5], [0.3], [0.4]])
    assert DocumentMap(atoms, passages, "max").ids == ["a", "b"]
    assert DocumentMap(atoms, passages, "max").scores(scores).squeeze().tolist() == pytest.approx([0.4, 0.5])
    assert DocumentMap(atoms, passages, "sum").scores(scores).squeeze().tolist() == pytest.approx([0.7, 0.5])
    rows, values = DocumentMap(atoms, passages, "max").from_passages(
        torch.tensor([[2, 0, 1, -1]]), torch.tensor([[0.9, 0.6, 0.3, 0.0]]), 3
    )
    assert rows.tolist() == [[0, 1, -1]]
    assert values[0, :2].tolist() == pytest.approx([0.9, 0.6])


def test_seeds_add_equal_nodes_and_move():
    seeds = Seeds.from_lists(3, [[(0, 0.25), (0, 0.5)], [], [(2, 1.0)]])
    assert seeds.tile(0, 3).T.tolist() == [[0.75, 0, 0], [0, 0, 0], [0, 0, 1.0]]
    assert seeds.tile(1, 3).T.tolist() == [[0, 0, 0], [0, 0, 1.0]]
    with pytest.raises(DataError, match="expected 0 to 2"):
        Seeds.from_lists(3, [[(3, 1.0)]])


@pytest.mark.data
def test_two_wiki_without_a_language_model_meets_its_figure(data_root, tmp_path):
    """The extraction and lexical linking that reach 91.9 passage recall@5, on the graph without embeddings."""
    from aeg.corpus import CORPORA
    from aeg.evaluation.ranking import ranking_metrics
    from aeg.extraction import EXTRACTORS
    from aeg.graph import build, operator
    from aeg.pipeline.stages import sample
    from aeg.propagation import make
    from aeg.query import DECOMPOSITIONS, LINKERS
    from aeg.query.seeds import build_seeds
    from aeg.retrieval.search import DocumentMap, retrieve

    config = load_config("methods/two_wiki")
    corpus = CORPORA.from_spec(config.corpus, "corpus").load(data_root)
    queries = sample(corpus.queries, 60, 0)
    # Gold passages and every 12th other, so that the test stays short.
    gold = {doc_id for query in queries for doc_id in query.gold_doc_ids}
    documents = [doc for row, doc in enumerate(corpus.documents) if doc.id in gold or row % 12 == 0]
    passages = sorted((Passage(d.id, d.id, d.text, d.title, 0, len(d.text)) for d in documents), key=lambda p: p.id)
    graph = build(passages, list(EXTRACTORS.from_spec(config.extraction, "extraction").extract(passages)))
    effective = DECOMPOSITIONS.make("none").decompose(queries)
    links = LINKERS.from_spec(config.query.linking, "linking").link(effective, graph.entities)
    seeds, _ = build_seeds(links, graph.atoms, graph.entities, None, config.query.seeds)
    documents_of = DocumentMap(graph.atoms, graph.passages, config.retrieval.passage_score)
    found = retrieve(
        make("ppr", restart=0.1),
        operator(graph, config.operator),
        seeds,
        torch.arange(len(queries)),
        len(queries),
        documents_of,
        len(graph.atoms),
        config.retrieval,
    )
    ranked = [[documents_of.ids[row] for row in rows if row >= 0] for rows in found.documents.tolist()]
    recall = ranking_metrics(ranked, [query.gold_doc_ids for query in queries], [5])["recall@5"]
    assert recall.mean() > 0.92


def test_the_code_of_a_method_is_its_file_and_what_it_imports(monkeypatch):
    from aeg import artifacts
    from aeg.propagation import make

    edited: set[str] = set()
    real = artifacts.file_hash
    monkeypatch.setattr(artifacts, "file_hash", lambda path: "edited" if path.name in edited else real(path))
    names = ("ppr", "katz", "heat_kernel", "none")
    before = {name: code_hash(make(name)) for name in names}

    def changed(file: str) -> set[str]:
        edited.clear()
        edited.add(file)
        return {name for name in names if code_hash(make(name)) != before[name]}

    assert changed("katz.py") == {"katz"}
    assert changed("chebyshev.py") >= {"ppr", "katz"}
    assert "none" not in changed("chebyshev.py")
    assert changed("operator.py") == set(names)
    assert changed("ranges.py") == set()
    assert changed("inventory.py") == set()
