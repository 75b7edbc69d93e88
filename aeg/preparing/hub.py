"""Models from the hub, gathered into a folder that is laid out as the hub's own cache."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from aeg.backends.embedder.weights import locate_model
from aeg.backends.llm.hub_model import locate_chat_model
from aeg.backends.memory import weights_bytes
from aeg.errors import AegError, DataError, DependencyError
from aeg.preparing.needs import CHAT, ModelNeed

_SMALL = ["*.json", "*.txt", "*.model", "*.jinja", "1_Pooling/*.json"]
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def gather(need: ModelNeed, cache: Path) -> tuple[Path, str]:
    """Bring a hub model into `cache`: from where it lies already, else by download.

    Args:
        need: a model that has a name on the hub.
        cache: a folder as the hub's cache is: `models--OWNER--NAME/snapshots/COMMIT/...`.

    Returns:
        The folder of its files, and how it came there: `present`, `copied` or `downloaded`.

    Raises:
        DependencyError: if it is neither here nor to be had; the message has the cause.
        DataError: if its files are not whole.
    """
    name = need.hub_name or need.model
    found = _there(need, name, cache)
    if found is not None:
        return found, "present"
    try:
        here = need.folder()
    except (DependencyError, DataError):
        return _downloaded(need, name, cache), "downloaded"
    return _whole(need, _copied(here, name, need.revision, cache)), "copied"


def repository(name: str, cache: Path) -> Path:
    """Return the folder of a hub model in a cache.

    Example:
        >>> repository("BAAI/bge-small-en-v1.5", Path("hub")).as_posix()
        'hub/models--BAAI--bge-small-en-v1.5'
    """
    return cache / f"models--{name.replace('/', '--')}"


def _there(need: ModelNeed, name: str, cache: Path) -> Path | None:
    folder = repository(name, cache)
    wanted = need.revision or "main"
    ref = folder / "refs" / wanted
    commit = ref.read_text(encoding="ascii").strip() if ref.is_file() else wanted
    try:
        return _whole(need, folder / "snapshots" / commit)
    except AegError:
        return None


def _whole(need: ModelNeed, folder: Path) -> Path:
    """The folder, checked: config, tokenizer and every weight."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    located = locate_chat_model(str(folder)) if need.kind == CHAT else locate_model(str(folder), None, None)
    weights_bytes(located)
    if not any((folder / file).is_file() for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt")):
        raise DataError(f"{folder}: no tokenizer (tokenizer.json); the model's files are not whole")
    return located


def _copied(here: Path, name: str, revision: str | None, cache: Path) -> Path:
    """Copy a snapshot, its links followed, so that a reader of `cache` finds it under the same commit."""
    target = repository(name, cache)
    place = target / "snapshots" / here.name
    for path in sorted(here.rglob("*")):
        if path.is_file():
            copy = place / path.relative_to(here)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    if revision is None or not _COMMIT.fullmatch(revision):
        ref = target / "refs" / (revision or "main")
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text(here.name, encoding="ascii")
    return place


def _downloaded(need: ModelNeed, name: str, cache: Path) -> Path:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled

    reason = "no weights in it"
    for weights in _WEIGHTS:
        try:
            found = snapshot_download(
                name, revision=need.revision, cache_dir=cache, allow_patterns=[*_SMALL, weights], max_workers=4
            )
            return _whole(need, Path(found))
        except (OfflineModeIsEnabled, LocalEntryNotFoundError) as error:  # that is, the hub cannot be reached
            cause = error.__cause__ or error
            reason = f"the hub cannot be reached: {type(cause).__name__}: {_line(cause)}"
            if constants.HF_HUB_OFFLINE:
                reason = "HF_HUB_OFFLINE is set; unset it where there is a network"
            break
        except (HfHubHTTPError, HFValidationError, OSError) as error:
            reason = f"{type(error).__name__}: {_line(error)}"
        except DataError as error:
            reason = str(error)
    raise DependencyError(
        f"{need.kind} {need.model!r} ({need.key}): not on this machine, and not to be had from the hub ({reason}); run "
        f"`aeg fetch` where the hub (or a mirror, HF_ENDPOINT) can be reached, with HF_TOKEN for a gated model, or put "
        f"the model's folder into {need.key}.model"
    )


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
