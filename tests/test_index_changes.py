"""Adding, removing and updating documents of an index, through its files and its commands."""

from __future__ import annotations

import json
import random
from pathlib import Path

import index_child
import index_methods
import pytest
from index_child import change, silent

from aeg import index as indexes
from aeg.cli.main import main
from aeg.corpus import CORPORA
from aeg.errors import DataError
from aeg.graph import load

DOCUMENTS = {
    "a": "Ann Marlow leads Tarn Laboratory. Tarn Laboratory is in Keswick.",
    "b": "Anna Marlow met Edith Crane. Edith Crane founded Tarn Laboratory in Keswick with Bix Cey.",
    "c": "it rained again",
    "d": "Edith Craner was seen near Zürich and Bixby. Bixby met Ann Marlow again near Lake Thun and left.",
}


def write(folder: Path, documents: dict[str, str], name: str = "documents.jsonl") -> Path:
    path = folder / name
    lines = [json.dumps({"id": key, "text": text, "title": f"On {key}"}) for key, text in documents.items()]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def content(index: Path) -> dict[str, bytes]:
    """Every file of the index's current state by name, the pointer too."""
    return {Path(name).name: (index / name).read_bytes() for name in indexes.files(index)}


def built(folder: Path, documents: dict[str, str], name: str) -> Path:
    change("build", str(folder / name), write(folder, documents))
    return folder / name


def graph(index: Path):
    return load(indexes.current(index).path)


def held(index: Path) -> dict[str, str]:
    return {name: document.text for name, document in load_documents(index).items()}


def load_documents(index: Path):
    from aeg.index.documents import load_documents as load

    return load(indexes.current(index).path)


def test_random_changes_equal_a_rebuild_byte_for_byte(tmp_path):
    chance, documents = random.Random(3), dict(list(DOCUMENTS.items())[:2])
    index = built(tmp_path, documents, "changed")
    for number in range(18):
        kind = chance.choice(("add", "add", "remove", "update", "prune"))
        new = {
            f"n{number}.{k}": chance.choice(list(DOCUMENTS.values())) + f" Bix Cey met Ann Marl{number}." for k in "xy"
        }
        if kind == "add":
            change("add", str(index), write(tmp_path, new))
            documents |= new
        elif kind == "remove" and len(documents) > 2:
            gone = chance.sample(sorted(documents), 2)
            change("remove", str(index), gone)
            documents = {key: text for key, text in documents.items() if key not in gone}
        else:
            altered = {key: text + " Zurich." for key, text in documents.items() if chance.random() < 0.5}
            change("prune" if kind == "prune" else "update", str(index), write(tmp_path, altered | new))
            documents = (altered | new) if kind == "prune" else documents | altered | new
        assert held(index) == documents
        if number % 3 == 0:
            order = chance.sample(sorted(documents), len(documents))
            whole = built(tmp_path, {key: documents[key] for key in order}, f"whole{number}")
            assert content(index) == content(whole)


def test_the_order_of_additions_leaves_no_trace(tmp_path):
    one = built(tmp_path, {"a": DOCUMENTS["a"]}, "one")
    other = built(tmp_path, {"d": DOCUMENTS["d"]}, "other")
    for index, order in ((one, "dbc"), (other, "cba")):
        for name in order:
            change("add", str(index), write(tmp_path, {name: DOCUMENTS[name]}))
    assert content(one) == content(other) == content(built(tmp_path, DOCUMENTS, "whole"))


def test_only_new_passages_are_extracted_and_embedded(tmp_path, monkeypatch):
    index = built(tmp_path, DOCUMENTS, "index")
    extracted, encoded = [], []
    extract, encode = index_methods.Capitals.extract, index_methods.HashedEncoder.encode

    def extracting(self, passages, *rest, **more):
        extracted.extend(passage.text for passage in passages)
        return extract(self, passages, *rest, **more)

    def encoding(self, texts, *rest):
        encoded.extend(texts)
        return encode(self, texts, *rest)

    monkeypatch.setattr(index_methods.Capitals, "extract", extracting)
    monkeypatch.setattr(index_methods.HashedEncoder, "encode", encoding)
    outcome = change("add", str(index), write(tmp_path, {"e": "Bix Cey met Nobody Else."}))
    assert outcome.changes.added == ("e",)
    assert extracted == ["Bix Cey met Nobody Else."]
    assert sorted(encoded) == ["Bix Cey met Nobody Else", "Nobody Else"]
    extracted.clear()
    encoded.clear()
    change("remove", str(index), ["e"])
    assert (extracted, encoded) == ([], [])


def test_duplicates_add_nothing_and_are_told(tmp_path):
    index = built(tmp_path, DOCUMENTS, "index")
    before = content(index)
    same = CORPORA.make("jsonl", documents=str(write(tmp_path, {"z": DOCUMENTS["a"]})))
    text = (tmp_path / "documents.jsonl").read_text().replace("On z", "On a").replace("Ann Marlow", "Ann  Marlow")
    (tmp_path / "documents.jsonl").write_text(text)
    told: list[str] = []
    outcome = indexes.add(index, same, told.append)
    assert outcome.made is None
    assert outcome.changes.duplicates == {"z": "a"}
    assert any("1 duplicates" in line and "z of a" in line for line in told)
    again = change("add", str(index), write(tmp_path, DOCUMENTS))
    assert (again.made, again.changes.unchanged) == (None, 4)
    assert content(index) == before


def test_a_shared_entity_stays_and_orphans_go(tmp_path):
    index = built(tmp_path, DOCUMENTS, "index")
    assert {"tarn laboratory", "ann marlow", "lake thun", "edith crane"} <= set(graph(index).entities.keys)
    change("remove", str(index), ["a", "d"])
    left = graph(index)
    assert "tarn laboratory" in left.entities.keys  # b names it too
    assert not {"ann marlow", "lake thun", "zürich"} & set(left.entities.keys)
    assert all(passage.doc_id in "bc" for passage in left.passages)
    assert content(index) == content(built(tmp_path, {key: DOCUMENTS[key] for key in "bc"}, "whole"))


def test_an_update_replaces_by_content_and_keeps_what_is_not_given_unless_pruned(tmp_path):
    index = built(tmp_path, DOCUMENTS, "index")
    path = write(tmp_path, {"a": DOCUMENTS["a"], "b": "Bix Cey left Keswick.", "e": "Edith Crane met Bix Cey."})
    outcome = change("update", str(index), path)
    changes = outcome.changes
    assert (changes.added, changes.changed, changes.removed, changes.unchanged) == (("e",), ("b",), (), 1)
    assert changes.gone == ("c", "d")
    assert "c, d" in "\n".join(changes.lines())
    assert held(index)["b"] == "Bix Cey left Keswick."
    outcome = change("prune", str(index), path)
    assert outcome.changes.removed == ("c", "d")
    assert sorted(held(index)) == ["a", "b", "e"]
    assert change("prune", str(index), path).made is None


def test_a_moved_document_is_the_new_one_when_pruned_and_a_duplicate_else(tmp_path):
    index = built(tmp_path, {"a": DOCUMENTS["a"], "b": DOCUMENTS["b"]}, "index")
    (tmp_path / "moved.jsonl").write_text(json.dumps({"id": "z", "text": DOCUMENTS["a"], "title": "On a"}) + "\n")
    moved = str(tmp_path / "moved.jsonl")
    assert change("update", str(index), moved).changes.duplicates == {"z": "a"}
    assert sorted(held(index)) == ["a", "b"]
    assert change("prune", str(index), moved).changes.removed == ("a", "b")
    assert sorted(held(index)) == ["z"]


def test_what_cannot_be_done_is_told_and_changes_nothing(tmp_path):
    index = built(tmp_path, DOCUMENTS, "index")
    before = content(index)
    with pytest.raises(DataError, match=r"no document 'aa'\. Nearest ids: a"):
        change("remove", str(index), ["a", "aa"])
    with pytest.raises(DataError, match="other content: b; use `aeg update`"):
        change("add", str(index), write(tmp_path, {"b": "Other."}))
    with pytest.raises(DataError, match="no document would be left"):
        change("remove", str(index), list("abcd"))
    with pytest.raises(DataError, match="got no atom"):
        change("prune", str(index), write(tmp_path, {"blank": " "}))
    with pytest.raises(DataError, match="no index here"):
        change("add", str(tmp_path / "none"), write(tmp_path, DOCUMENTS))
    assert not (tmp_path / "none").exists()
    assert content(index) == before
    assert not (index / "claim").exists()


def test_an_index_of_the_first_format_is_built_again_on_request(tmp_path, capsys):
    index = built(tmp_path, DOCUMENTS, "index")
    whole = content(index)
    (index / "graph").mkdir()
    (index / "index.json").write_text('{"format": 1, "graph": "0123"}')
    assert main(["query", str(index), "Who?"]) == 2
    assert "got format 1, expected 2; build the index again: `aeg index PATH --out" in capsys.readouterr().err
    with pytest.raises(DataError, match="build the index again"):
        change("remove", str(index), ["a"])
    change("build", str(index), write(tmp_path, DOCUMENTS))
    assert content(index) == whole
    assert sorted(path.name for path in index.iterdir()) == ["generations", "index.json"]


def test_an_index_can_be_made_anew_from_itself(tmp_path):
    index = built(tmp_path, DOCUMENTS, "index")
    change("remove", str(index), ["b"])
    before = content(index)
    assert indexes.rebuild(index, silent).differing == ()
    assert content(index) == before
    file = indexes.current(index).path / "graph.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-4] + b"\0\0\0\0")
    assert indexes.rebuild(index, silent).differing == ("graph.safetensors",)
    assert (indexes.current(index).path / "graph.safetensors").read_bytes() == whole
    assert change("add", str(index), write(tmp_path, {"a": DOCUMENTS["a"]})).made is None
    change("add", str(index), write(tmp_path, {"b": DOCUMENTS["b"]}))
    assert content(index) == content(built(tmp_path, DOCUMENTS, "whole"))


def test_other_settings_make_again_only_what_depends_on_them(tmp_path, monkeypatch):
    index = built(tmp_path, DOCUMENTS, "index")
    extracted: list[str] = []
    extract = index_methods.Capitals.extract
    monkeypatch.setattr(
        index_methods.Capitals,
        "extract",
        lambda self, passages, *rest, **more: extracted.extend(passages) or extract(self, passages, *rest, **more),
    )
    loader = CORPORA.make("jsonl", documents=str(write(tmp_path, {"e": "Bix Cey met Edith Crane."})))
    told: list[str] = []
    indexes.add(index, loader, told.append, ["graph.synonym_threshold=0.9"])
    assert len(extracted) == 1
    assert any(line.startswith("synonyms: config") for line in told)
    changed = [*index_child.SETTINGS[:2], "graph={synonym_threshold: 0.9, synonym_top_k: 2}", *index_child.SETTINGS[3:]]
    monkeypatch.setattr(index_child, "SETTINGS", changed)
    assert content(index) == content(built(tmp_path, DOCUMENTS | {"e": "Bix Cey met Edith Crane."}, "whole"))


def test_the_index_names_no_place(tmp_path):
    index = built(tmp_path, DOCUMENTS, "index")
    assert all(str(tmp_path).encode() not in data for data in content(index).values())
    assert [name for name in indexes.files(index) if not (index / name).is_file()] == []


def test_commands(tmp_path, capsys):
    folder, index = tmp_path / "notes", tmp_path / "index"
    folder.mkdir()
    (folder / "a.txt").write_text(DOCUMENTS["a"])
    assert main(["index", str(folder), "--out", str(index), *index_child.SETTINGS]) == 0
    (folder / "b.md").write_text("# Edith\n\n" + DOCUMENTS["b"])
    (folder / "copy.txt").write_text(DOCUMENTS["a"])
    capsys.readouterr()
    assert main(["add", str(index), str(folder)]) == 0
    out = capsys.readouterr().out
    assert "documents: 2 (1 added, 0 changed, 0 removed, 1 unchanged)" in out
    assert "1 duplicates, which add nothing: copy.txt of a.txt" in out
    (folder / "a.txt").unlink()
    (folder / "copy.txt").unlink()
    assert main(["update", str(index), str(folder)]) == 0
    assert "1 documents are not in PATH any more and stay: a.txt" in capsys.readouterr().out
    assert main(["update", str(index), str(folder), "--prune"]) == 0
    assert "documents: 1 (0 added, 0 changed, 1 removed, 1 unchanged)" in capsys.readouterr().out
    assert main(["add", str(index), str(folder)]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert main(["remove", str(index), "b.mdd"]) == 2
    assert "Nearest ids: b.md" in capsys.readouterr().err
    assert main(["stats", str(index), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entities"] == len(graph(index).entities)
    assert main(["query", str(index), "Who met Edith Crane?"]) == 0
    assert "from document b.md" in capsys.readouterr().out
    assert main(["index", "--rebuild", "--out", str(index)]) == 0
    assert "the same as before, byte for byte" in capsys.readouterr().out
