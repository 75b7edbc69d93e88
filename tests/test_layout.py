"""The layout rules: what a stage may import, and that `aeg --help` imports nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

STAGES = ("corpus", "extraction", "graph", "query", "propagation", "retrieval", "sieve", "answer", "evaluation")
SHARED = ("core", "config", "registry", "errors", "backends")


def imports(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{file}: relative import"
            names.update(f"{node.module}.{alias.name}" if node.module == "aeg" else node.module for alias in node.names)
    return {name for name in names if name == "aeg" or name.startswith("aeg.")}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_imports_only_what_is_shared_and_itself(repo_root, stage):
    files = sorted((repo_root / "aeg" / stage).rglob("*.py"))
    assert files
    for file in files:
        for name in imports(file):
            part = name.split(".")[1]
            assert part in (*SHARED, stage), f"{file.relative_to(repo_root)} imports {name}"


def test_what_is_shared_imports_no_stage(repo_root):
    for part in ("core", "config", "backends"):
        for file in sorted((repo_root / "aeg" / part).rglob("*.py")):
            for name in imports(file):
                assert name.split(".")[1] in SHARED, f"{file.relative_to(repo_root)} imports {name}"


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from aeg.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'transformers', 'omegaconf', 'faiss', 'spacy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "check-method" in run.stdout


def test_files_are_small(repo_root):
    for file in sorted((repo_root / "aeg").rglob("*.py")):
        lines = len(file.read_text(encoding="utf-8").splitlines())
        assert lines <= 330, f"{file.relative_to(repo_root)}: {lines} lines; split it"


def test_the_library_neither_evaluates_nor_unpickles(repo_root):
    for file in sorted((repo_root / "aeg").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "print"), f"{file.name}:{node.lineno}"
            if isinstance(node, ast.Import):
                assert "pickle" not in {alias.name for alias in node.names}, f"{file.name}:{node.lineno}"
