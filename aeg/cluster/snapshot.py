"""What queued jobs run: a copy of the code, the plugins and the resolved configs, as they were at submission."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aeg
from aeg.artifacts import file_hash, fingerprint, read_json, write_text
from aeg.cluster.script import templates
from aeg.config.load import restored, to_plain
from aeg.config.schema import ExperimentConfig
from aeg.errors import ConfigError, DataError
from aeg.experiment.sweep import Sweep

FILE = "snapshot.json"
FORMAT = 1
PLUGINS = "plugins"
_LARGEST = 10_000_000  # bytes of a file that git does not know


@dataclass(frozen=True)
class Code:
    """The source tree, or the installed package where there is no git.

    Attributes:
        root: folder that the files are relative to.
        files: what is copied.
        commit: the git hash; None without git.
        patch: the uncommitted difference to it, files that git does not know included.
        left_out: files that git does not know and that are too large.
    """

    root: Path
    files: tuple[Path, ...]
    commit: str | None = None
    patch: bytes = b""
    left_out: tuple[Path, ...] = ()

    def described(self) -> str:
        """Return in words what it is."""
        if self.commit is None:
            return f"installed package, version {aeg.__version__} (no git checkout)"
        return f"commit {self.commit[:12]}" + (" with uncommitted changes" if self.patch else "")


@dataclass(frozen=True)
class Snapshot:
    """A snapshot to be written to `folder`, or that was.

    Attributes:
        folder: named by the content; its subfolder `code` is what jobs have on their path.
        code: the code.
        plugins: where each plugin comes from, by its place in `code/plugins`.
        runs: id and resolved config of each run, plugins at their places.
    """

    folder: Path
    code: Code
    plugins: dict[str, Path] = field(default_factory=dict)
    runs: tuple[tuple[str, dict[str, Any]], ...] = ()

    @property
    def home(self) -> Path:
        """The folder of the code."""
        return self.folder / "code"

    def write(self) -> None:
        """Write it; a snapshot that is there already is the same.

        Raises:
            DataError: if the folder cannot be written.
        """
        if (self.folder / FILE).is_file():
            return
        try:
            for path in self.code.files:
                _copy(self.code.root / path, self.home / path)
            for path in sorted(templates().iterdir()):
                if path.is_file():
                    _copy(path, self.home / "slurm" / path.name)
            for name, source in self.plugins.items():
                _copy(source, self.home / PLUGINS / name)
            (self.folder / "difference.patch").write_bytes(self.code.patch)
            for task, (_, config) in enumerate(self.runs):
                write_text(self.folder / f"task-{task}.yaml", json.dumps(config, indent=1, ensure_ascii=False) + "\n")
            facts = self._facts()
            write_text(self.home / FILE, json.dumps(facts, indent=1) + "\n")
            write_text(self.folder / FILE, json.dumps(facts, indent=1) + "\n")
        except OSError as error:
            raise DataError(f"{self.folder}: cannot be written ({error}); set run_dir to a writable folder") from None

    def _facts(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "taken": datetime.now(UTC).isoformat(timespec="seconds"),
            "version": aeg.__version__,
            "code": self.code.described(),
            "commit": self.code.commit,
            "dirty": bool(self.code.patch),
            "left_out": [str(path) for path in self.code.left_out],
            "plugins": {name: str(source) for name, source in self.plugins.items()},
            "runs": [run for run, _ in self.runs],
        }


def snapshot(sweep: Sweep, folder: Path) -> Snapshot:
    """Return what the jobs of a sweep are to run; nothing is written yet.

    Args:
        sweep: its runs' places absolute.
        folder: the snapshot goes into a subfolder of it, named by the content.

    Raises:
        ConfigError: if a plugin cannot be found.
    """
    code, runs = source_code(), []
    found: dict[str, Path] = {}
    for run in sweep.runs:
        config, plugins = _plugged(run.config)
        found |= plugins
        runs.append((run.id, config))
    content = {
        "code": [[str(path), file_hash(code.root / path)] for path in code.files],
        "templates": [[path.name, file_hash(path)] for path in sorted(templates().iterdir()) if path.is_file()],
        "plugins": [[name, file_hash(source)] for name, source in sorted(found.items())],
        "runs": runs,
    }
    place = folder / fingerprint(content)[:12]
    placed = []
    for run_id, config in runs:
        at = {name: str(place / "code" / PLUGINS / name) for name in found}
        names = [at.get(name, name) for name in config["plugins"]]
        placed.append((run_id, {**config, "plugins": names}))
    return Snapshot(place, code, found, tuple(placed))


def configs(folder: Path) -> list[tuple[str, ExperimentConfig]]:
    """Return id and config of each run of a snapshot, in the sweep's order.

    Raises:
        DataError: if the folder is no snapshot.
    """
    facts = read_json(folder / FILE)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise DataError(f"{folder / FILE}: not a snapshot of format {FORMAT}; submit the sweep again")
    return [(run, restored(read_json(folder / f"task-{task}.yaml"))) for task, run in enumerate(facts["runs"])]


def source_code() -> Code:
    """Return the code that is running now: its git checkout, else the installed package."""
    package = Path(aeg.__file__).resolve().parent
    try:
        root = Path(_git(package, "rev-parse", "--show-toplevel").decode().strip())
        _git(root, "ls-files", "--error-unmatch", str(package / "__init__.py"))
        commit = _git(root, "rev-parse", "HEAD").decode().strip()
    except (OSError, subprocess.CalledProcessError):
        files = sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return Code(package.parent, tuple(path.relative_to(package.parent) for path in files))
    known = _listed(root, "--cached")
    new = [path for path in _listed(root, "--others", "--exclude-standard") if (root / path).is_file()]
    large = tuple(path for path in new if (root / path).stat().st_size > _LARGEST)
    fresh = [path for path in new if path not in large]
    files = sorted({path for path in [*known, *fresh] if (root / path).is_file()})
    patch = _git(root, "diff", "--binary", "HEAD")
    patch += b"".join(_added(root, path) for path in fresh)
    return Code(root, tuple(files), commit, patch, large)


def absolute(config: ExperimentConfig, data: Path | None) -> ExperimentConfig:
    """Return a config whose places do not depend on the working folder or the environment."""
    return dataclasses.replace(
        config,
        run_dir=str(Path(config.run_dir).expanduser().resolve()),
        artifacts_dir=str(Path(config.artifacts_dir).expanduser().resolve()),
        data_root=None if data is None else str(data.resolve()),
    )


def _plugged(config: ExperimentConfig) -> tuple[dict[str, Any], dict[str, Path]]:
    """The config with its plugins named by their places in a snapshot, and where they come from."""
    names, sources = [], {}
    for plugin in config.plugins:
        if plugin.endswith(".py"):
            path = Path(plugin).expanduser().resolve()
            if not path.is_file():
                raise ConfigError(f"plugins: no file {plugin!r}; paths are relative to the working folder")
            place = f"{file_hash(path)[:8]}/{path.name}"
            sources[place] = path
            names.append(place)
        else:
            sources |= _module(plugin)
            names.append(plugin)
    return {**to_plain(config), "plugins": names}, sources


def _module(name: str) -> dict[str, Path]:
    """The files of a module of one's own; none where it is installed, or part of the copied code."""
    try:
        spec = importlib.util.find_spec(name.split(".")[0])
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise ConfigError(f"plugins: cannot import {name!r}; give a module on the path or a .py file")
    parts = {"site-packages", "dist-packages"}
    if spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations))).resolve()
        files = sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
        places = {str(Path(folder.name) / path.relative_to(folder)): path for path in files}
    else:
        places = {Path(str(spec.origin)).name: Path(str(spec.origin)).resolve()}
    inside = Path(aeg.__file__).resolve().parent
    kept = {place: path for place, path in places.items() if not parts & set(path.parts)}
    return {} if any(path.is_relative_to(inside) for path in kept.values()) else kept


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _git(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=True).stdout


def _listed(root: Path, *which: str) -> list[Path]:
    names: Sequence[bytes] = _git(root, "ls-files", "-z", *which).split(b"\0")
    return [Path(name.decode()) for name in names if name]


def _added(root: Path, path: Path) -> bytes:
    """A file that git does not know, as part of a patch."""
    command = ["git", "diff", "--binary", "--no-index", "--", "/dev/null", str(path)]
    return subprocess.run(command, cwd=root, capture_output=True, check=False).stdout
