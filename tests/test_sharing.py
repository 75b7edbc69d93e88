"""Export and import of an index: the same bytes, the same answers, nothing of this machine, no text where so asked."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile

import pyarrow.parquet as pq
import pytest
from sharing_archives import manifest, members

from aeg.cli.main import main
from aeg.errors import DataError
from aeg.index import Searcher, current
from aeg.index.layout import making, publish
from aeg.sharing import export_index, import_index

QUESTION = "Who founded the laboratory that Ann Marlow leads?"
DOCUMENTS = {
    "ann.md": "# Ann Marlow\n\nAnn Marlow is a geologist. She leads the Tarn Laboratory in Keswick.",
    "tarn.txt": "The Tarn Laboratory was founded in 1921 by Edith Crane. It studies lake sediments.",
    "edith.txt": "Edith Crane was a chemist from Zürich. She wrote a book about Lake Thun.",
}
TEXTS = ("is a geologist", "lake sediments", "a chemist from", "was founded in 1921", "# Ann Marlow")


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sharing")
    (folder / "documents").mkdir()
    for name, text in DOCUMENTS.items():
        (folder / "documents" / name).write_text(text, encoding="utf-8")
    path = folder / "index"
    assert main(["index", str(folder / "documents"), "--out", str(path), "device=cpu", "workers=1"]) == 0
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_index_gives_the_same_bytes_and_the_same_answers(index, tmp_path):
    before = files(index)
    export_index(index, tmp_path / "a.zip", "CC BY 4.0")
    export_index(index, tmp_path / "b.zip", "CC BY 4.0")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert files(index) == before
    told = import_index(tmp_path / "a.zip", tmp_path / "imported")
    assert (told.licence, told.text) == ("CC BY 4.0", True)
    assert {"torch", "numpy", "pyarrow"} <= set(told.libraries)
    assert told.config["graph"]["synonym_threshold"] == 0.8
    asked = Searcher(index, ["device=cpu"]).search(QUESTION)
    assert Searcher(tmp_path / "imported", ["device=cpu"]).search(QUESTION) == asked
    assert {source[0] for item in asked[:4] for source in item.sources} >= {"ann.md", "tarn.txt"}
    export_index(tmp_path / "imported", tmp_path / "again.zip")  # the licence travels on
    assert (tmp_path / "again.zip").read_bytes() == (tmp_path / "a.zip").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"a.zip", "b.zip", "again.zip", "imported"}


def test_an_archive_opens_everywhere(index, tmp_path):
    export_index(index, tmp_path / "a.zip")
    with ZipFile(tmp_path / "a.zip") as zipped:
        assert zipped.testzip() is None
        assert zipped.namelist()[0] == "archive.json"
        for info in zipped.infolist():
            assert info.compress_type == ZIP_STORED
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
            assert not info.filename.startswith("/")
    assert [member["path"] for member in manifest(tmp_path / "a.zip")["members"]] == list(members(tmp_path / "a.zip"))


def test_without_texts_no_text_is_in_the_archive(index, tmp_path):
    export_index(index, tmp_path / "a.zip", text=False)
    content = members(tmp_path / "a.zip")
    assert not [path for path in content if path.endswith(".jsonl") or "documents" in path]
    unpacked = tmp_path / "imported"
    assert not import_index(tmp_path / "a.zip", unpacked).text
    seen = [(tmp_path / "a.zip").read_bytes()]
    for path in content:
        if path.endswith(".parquet"):
            seen.append(json.dumps(pq.read_table(unpacked / path).to_pydict(), ensure_ascii=False).encode())
    whole = b"\n".join(seen)
    assert b"ann.md" in whole
    assert b"Tarn Laboratory" in whole  # names stay
    for text in TEXTS:
        assert text.encode() not in whole, text
        assert any(text in document for document in DOCUMENTS.values())


def test_an_index_without_texts_is_queried_by_ids(index, tmp_path, capsys):
    export_index(index, tmp_path / "a.zip", text=False)
    import_index(tmp_path / "a.zip", tmp_path / "imported")
    no_words = ["retrieval.mix=null", "query.seeds.balance=share", "query.seeds.lexical_share=0.0", "device=cpu"]
    full, bare = (Searcher(folder, no_words).search(QUESTION) for folder in (index, tmp_path / "imported"))
    assert [(item.atom_id, item.score, item.sources) for item in bare] == [
        (item.atom_id, item.score, item.sources) for item in full
    ]
    assert {item.atom for item in bare} == {""}
    capsys.readouterr()
    assert main(["query", str(tmp_path / "imported"), QUESTION, "--top", "1", *no_words]) == 0
    told = capsys.readouterr()
    assert f"atom {full[0].atom_id}" in told.out
    assert "shared words do not count" in told.err
    reader = 'llm.reader={name: openai, model: none, base_url: "http://127.0.0.1:9/v1"}'
    assert main(["query", str(tmp_path / "imported"), QUESTION, "--answer", "answer={name: llm}", reader]) == 2
    assert "it can be queried, not answered from" in capsys.readouterr().err
    assert main(["remove", str(tmp_path / "imported"), "ann.md"]) == 2
    assert "without its documents' texts" in capsys.readouterr().err
    export_index(tmp_path / "imported", tmp_path / "again.zip")
    assert not manifest(tmp_path / "again.zip")["text"]


@pytest.fixture
def pluggable(index, tmp_path) -> Path:
    """A copy of the index whose config has a plugin, a language model, and places of this machine."""
    export_index(index, tmp_path / "copy.zip")
    folder = tmp_path / "copy"
    import_index(tmp_path / "copy.zip", folder)
    (tmp_path / "copy.zip").unlink()
    (tmp_path / "mine.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).write_text('')\n")
    pointer = json.loads((folder / "index.json").read_text())
    pointer["config"]["plugins"] = [str(tmp_path / "mine.py"), "my_lab.methods"]
    pointer["config"]["llm"]["reader"] = {"name": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    pointer["config"]["llm"]["prompts"] = {"sieve": "/home/ann/sieve.txt"}
    pointer["config"]["query"]["mentions"] = {"name": "recorded", "path": "/home/ann/mentions.jsonl"}
    (folder / "index.json").write_text(json.dumps(pointer))
    return folder


def test_nothing_of_this_machine_and_no_code_travels(pluggable, tmp_path, capsys):
    archive = tmp_path / "a.zip"
    capsys.readouterr()
    assert main(["export", str(pluggable), str(archive)]) == 0
    out = capsys.readouterr().out
    for key in ("plugins", "llm.reader", "llm.prompts", "query.mentions.path"):
        assert f"  {key}: " in out
    raw = archive.read_bytes()
    assert b"/home/ann" not in raw
    assert str(tmp_path).encode() not in raw
    command = ["import", str(archive), str(tmp_path / "in")]
    code = (
        f"import sys; from aeg.cli.main import main; code = main({command!r})\n"
        "assert not [name for name in sys.modules if 'aeg_plugin' in name or name.startswith('my_lab')]\n"
        "sys.exit(code)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "plugin: the index was built with mine.py (SHA-256 " in run.stdout
    assert "built with my_lab.methods; it is not in the archive and was not imported" in run.stdout
    assert "licence: none is named" in run.stdout
    config = json.loads((tmp_path / "in" / "index.json").read_text())["config"]
    assert config["plugins"] == []
    assert config["llm"]["reader"] is None
    assert config["query"]["mentions"]["path"] == "mentions.jsonl"
    recorded = json.loads((tmp_path / "in" / "archive.json").read_text())["config"]
    assert recorded["llm"]["reader"]["base_url"] == "http://127.0.0.1:9/v1"
    assert Searcher(tmp_path / "in", ["device=cpu"]).search(QUESTION)
    assert not (tmp_path / "ran").exists()


def test_the_licence_is_a_file_or_words_and_is_shown_safely(index, tmp_path, capsys):
    (tmp_path / "licence.txt").write_text("Line one\x1b[2J\nLine two\n" + "more\n" * 20)
    assert main(["export", str(index), str(tmp_path / "a.zip"), "--licence", str(tmp_path / "licence.txt")]) == 0
    capsys.readouterr()
    assert main(["import", str(tmp_path / "a.zip"), str(tmp_path / "in")]) == 0
    out = capsys.readouterr().out
    assert "licence: Line one?[2J\n  Line two\n" in out
    assert "10 more lines in archive.json" in out
    for words in ("MIT", "x" * 5000):
        export = ["export", str(index), str(tmp_path / f"{len(words)}.zip"), "--licence", words]
        assert main(export) == 0
        assert manifest(tmp_path / f"{len(words)}.zip")["licence"] == words
    assert main(["export", str(index), str(tmp_path / "b.zip"), "--licence", str(tmp_path / "no.txt")]) == 2
    assert "--licence: no file" in capsys.readouterr().err


def test_what_an_export_refuses(index, tmp_path):
    (tmp_path / "there.zip").write_text("mine")
    for folder, file, cause in (
        (index, tmp_path / "there.zip", "exists already"),
        (index, tmp_path / "no" / "a.zip", "no such folder"),
        (tmp_path, tmp_path / "a.zip", "no index here"),
    ):
        with pytest.raises(DataError, match=cause):
            export_index(folder, file)
    assert [path.name for path in tmp_path.iterdir()] == ["there.zip"]
    assert (tmp_path / "there.zip").read_text() == "mine"


def test_a_damaged_index_is_not_exported_as_whole(index, tmp_path):
    export_index(index, tmp_path / "a.zip")
    import_index(tmp_path / "a.zip", tmp_path / "in")
    next((tmp_path / "in").rglob("atoms.parquet")).write_bytes(b"PAR1")
    with pytest.raises(DataError, match="not a readable table"):
        export_index(tmp_path / "in", tmp_path / "b.zip", text=False)
    assert {path.name for path in tmp_path.iterdir()} == {"a.zip", "in"}


def test_an_index_that_is_updated_meanwhile_is_exported_as_one_of_its_states(index, tmp_path):
    export_index(index, tmp_path / "a.zip")
    folder = tmp_path / "in"
    import_index(tmp_path / "a.zip", folder)
    first = current(folder)
    held = {path.name: path.read_bytes() for path in first.path.iterdir()}
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with making(folder, f"state{number}") as generation:
                for name, data in held.items():
                    (generation / name).write_bytes(data)
                (generation / "counts.json").write_text(f'{{"state": {number}}}')
            facts = {key: value for key, value in first.content.items() if key not in ("format", "generation")}
            publish(folder, f"state{number}", {**facts, "counts": {"state": number}})

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for number in range(10):
            export_index(folder, tmp_path / f"{number}.zip")
    finally:
        stop.set()
        thread.join()
    for number in range(10):
        found = members(tmp_path / f"{number}.zip")
        (state,) = {path.split("/")[1] for path in found if "/" in path}
        pointer = json.loads(found["index.json"])
        assert pointer["generation"] == state
        if state.startswith("state"):
            assert json.loads(found[f"generations/{state}/counts.json"]) == pointer["counts"]
        assert {path.rpartition("/")[2] for path in found} == {*held, "index.json"}
    assert len({json.loads(members(tmp_path / f"{n}.zip")["index.json"])["generation"] for n in range(10)}) > 1
