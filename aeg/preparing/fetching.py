"""Gathering what a config needs into one folder, from which it runs without a network."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from aeg.artifacts import file_hash, read_json, write_text
from aeg.backends.nlp import pipeline_version
from aeg.core.progress import progress
from aeg.errors import AegError, DataError, DependencyError
from aeg.preparing.hub import gather
from aeg.preparing.needs import DataNeed, ModelNeed, Needs

MANIFEST, SCRIPT = "fetched.json", "env.sh"
FORMAT = 1
MISSING = "missing"
Report = Callable[[str], None]


@dataclass
class Item:
    """One thing that a config needs.

    Attributes:
        kind: `encoder`, `re-ranker`, `chat model`, `pipeline`, `data`.
        name: as the config names it.
        status: `installed` (a package), `present`, `copied`, `downloaded` or `missing`.
        note: version, place, or why it is missing.
        files: SHA-256 by path in the folder.
        override: `key=value` that the config needs to find it there, empty for none.
    """

    kind: str
    name: str
    status: str
    note: str = ""
    files: dict[str, str] = field(default_factory=dict)
    override: str = ""


def fetch(needs: Needs, config: str, data_root: str | None, to: Path, report: Report) -> list[Item]:
    """Gather everything, write the manifest with the hashes, and the script that sets the environment.

    What cannot be had does not stop the rest: its item has the status `missing`.

    Args:
        needs: of the config.
        config: its name, for the manifest.
        data_root: of the config; it would hide the environment variable `AEG_DATA`.
        to: the folder; what is there already stays.
        report: called with a line an item.

    Raises:
        DataError: if the folder cannot be written.
    """
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{to}: cannot be made ({error.strerror}); choose a writable folder") from None
    items = []
    for item in _items(needs, to):
        items.append(item)
        report(f"{item.kind} {item.name}: {item.status}{f' ({item.note})' if item.note else ''}")
    kept = _merged(to, items)
    overrides = [item.override for item in items if item.override]
    if data_root is not None and any(item.kind == "data" for item in items):
        overrides.append(f"data_root={to.resolve() / 'data'}")
    content = {"format": FORMAT, "config": config, "overrides": overrides, "items": [asdict(item) for item in kept]}
    write_text(to / MANIFEST, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    write_text(to / SCRIPT, script(any(item.kind == "data" for item in kept)))
    return items


def script(data: bool) -> str:
    """Return the shell script that makes programs look into the folder it lies in, and nowhere else."""
    lines = [
        "# shellcheck shell=bash",
        "# Written by `aeg fetch`. Source it on a node without network (a job script does, as AEG_SITE).",
        'aeg_fetched=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)',
        'export HF_HOME="$aeg_fetched/hf" HF_HUB_CACHE="$aeg_fetched/hf/hub" HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1',
    ]
    return "\n".join([*lines, *(['export AEG_DATA="$aeg_fetched/data"'] if data else [])]) + "\n"


def environment(to: Path, data: bool) -> dict[str, str]:
    """Return what the script sets."""
    home = to.resolve()
    found = {
        "HF_HOME": home / "hf",
        "HF_HUB_CACHE": home / "hf" / "hub",
        "HF_HUB_OFFLINE": 1,
        "TRANSFORMERS_OFFLINE": 1,
    }
    return {name: str(value) for name, value in (found | ({"AEG_DATA": home / "data"} if data else {})).items()}


def damaged(to: Path) -> list[str]:
    """Return a line for each file in the folder that is not what was fetched.

    Raises:
        DataError: if nothing was fetched there.
    """
    if not (to / MANIFEST).is_file():
        raise DataError(f"{to}: nothing was fetched here (no {MANIFEST}); run `aeg fetch CONFIG --to {to}`")
    expected = {path: digest for item in read_json(to / MANIFEST)["items"] for path, digest in item["files"].items()}
    found = []
    for path, digest in progress(sorted(expected.items()), len(expected), "hashing", "file"):
        if not (to / path).is_file():
            found.append(f"{path}: is missing")
        elif file_hash(to / path) != digest:
            found.append(f"{path}: has changed")
    return found


def _items(needs: Needs, to: Path) -> Iterator[Item]:
    for model in needs.distinct_models:
        yield _model(model, to)
    for name in needs.pipelines:
        try:
            yield Item("pipeline", name, "installed", pipeline_version(name))
        except DependencyError as error:
            yield Item("pipeline", name, MISSING, str(error))
    for need in needs.data:
        yield _data(need, to)


def _model(need: ModelNeed, to: Path) -> Item:
    try:
        if need.packaged and need.preset is not None:
            need.folder()
            return Item(need.kind, need.model, "installed", f"{need.preset.requirement} {_version(need)}")
        if need.hub_name is None:
            source = need.folder()
            place = to / "models" / source.resolve().name
            status = _copy(source, place)
            return Item(need.kind, need.model, status, "", _hashes(place, to), f"{need.key}.model={place.resolve()}")
        folder, status = gather(need, to / "hf" / "hub")
        return Item(need.kind, need.model, status, folder.name, _hashes(folder, to))
    except AegError as error:
        return Item(need.kind, need.model, MISSING, str(error))


def _version(need: ModelNeed) -> str:
    return version(need.preset.requirement) if need.preset is not None else ""


def _data(need: DataNeed, to: Path) -> Item:
    if not need.path.exists():
        return Item("data", need.given, MISSING, f"{need.key}: {need.path} is not there; set data_root or AEG_DATA")
    outside = Path(need.given).expanduser().is_absolute() or ".." in Path(need.given).parts
    name = need.path.name if outside else need.given
    place = to / "data" / name
    status = _copy(need.path, place)
    override = f"{need.key}={name if not need.key.startswith('llm.') else place.resolve()}" if outside else ""
    return Item("data", need.given, status, need.key, _hashes(place, to), override)


def _copy(source: Path, place: Path) -> str:
    """Copy a file or a folder, links followed, unless the same is there."""
    status = "present"
    for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
        copy = place / path.relative_to(source) if source.is_dir() else place
        if not path.is_file() or (copy.exists() and path.samefile(copy)):
            continue
        if not copy.is_file() or file_hash(copy) != file_hash(path):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            status = "copied"
    return status


def _hashes(place: Path, to: Path) -> dict[str, str]:
    files = [path for path in sorted(place.rglob("*")) if path.is_file()] if place.is_dir() else [place]
    hashed = progress(files, len(files), f"hashing {place.name}", "file")
    return {path.relative_to(to).as_posix(): file_hash(path) for path in hashed}


def _merged(to: Path, items: list[Item]) -> list[Item]:
    """What was fetched here before, and now; the later word stands."""
    before = read_json(to / MANIFEST)["items"] if (to / MANIFEST).is_file() else []
    found = {(item["kind"], item["name"]): Item(**item) for item in before}
    found |= {(item.kind, item.name): item for item in items}
    return list(found.values())


def quoted_overrides(items: list[Item]) -> str:
    """Return the overrides as words of a shell."""
    return shlex.join(item.override for item in items if item.override)
