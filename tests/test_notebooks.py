"""The notebooks: committed without outputs, and they run from top to bottom in a real kernel, on the sample."""

from __future__ import annotations

import re
import tempfile
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from traitlets.config import Config

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
TROUBLE = re.compile(r"warning|error|traceback", re.IGNORECASE)
STRICT = """
import warnings

warnings.filterwarnings("error")
warnings.filterwarnings("ignore", "`torch.jit.*", DeprecationWarning)  # raised while torch's friends are imported
warnings.filterwarnings("ignore", "IProgress not found")  # tqdm, where Jupyter's widgets are not installed
import matplotlib

matplotlib.use("module://matplotlib_inline.backend_inline")
import torch

torch.set_num_threads(1)
"""


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """One working folder for all: a notebook finds what an earlier one has computed, as on a user's machine."""
    return tmp_path_factory.mktemp("notebooks")


def test_there_are_three_tours():
    assert [path.name for path in NOTEBOOKS] == [
        "01_atom_entity_graph.ipynb",
        "02_propagation_methods.ipynb",
        "03_results.ipynb",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_committed_without_outputs(path):
    book = read(path)
    nbformat.validate(book)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert code
    for cell in code:
        assert cell.outputs == [], f"{path.name}: cell {cell.id} has outputs; clear them before committing"
        assert cell.execution_count is None, f"{path.name}: cell {cell.id} has a count; clear it before committing"
        assert not cell.source.startswith(("%", "!"))
    assert set(book.metadata) == {"kernelspec", "language_info"}  # nothing of the machine that wrote it


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_cell_of_code_is_explained(path):
    cells = read(path).cells
    for before, cell in pairwise(cells):
        if cell.cell_type == "code":
            assert before.cell_type == "markdown", f"{path.name}: cell {cell.id} follows no explanation"
            assert before.source.strip().endswith((".", ":")), before.source


@pytest.mark.parametrize(
    ("path", "figures"), list(zip(NOTEBOOKS, (2, 4, 4), strict=True)), ids=[path.stem for path in NOTEBOOKS]
)
def test_it_runs_from_top_to_bottom(path, figures, place, monkeypatch):
    monkeypatch.delenv("AEG_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    book = read(path)
    book.cells.insert(0, nbformat.v4.new_code_cell(STRICT))
    with tempfile.TemporaryDirectory() as sockets:  # a short path, as sockets want it; no port is opened
        places = Config({"AsyncKernelManager": {"transport": "ipc", "ip": f"{sockets}/k"}})
        where = {"metadata": {"path": str(place)}}
        client = NotebookClient(
            book, kernel_name="python3", config=places, timeout=900, startup_timeout=300, resources=where
        )
        client.execute()  # its own kernel manager's channels are closed by it, another's are not
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    images = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(images) == figures
    assert all(len(image["data"]["image/png"]) > 8000 for image in images)  # an empty plot is smaller
    for output in outputs:
        assert output.output_type != "error"
        if output.output_type == "stream" and output.name == "stderr":
            assert not TROUBLE.search(output.text), output.text
