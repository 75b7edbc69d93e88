"""A chat model's files: where they lie, what they hash to, its tokenizer, and how many tokens it takes."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from aeg.backends.loading import one_line
from aeg.errors import ConfigError, DataError, DependencyError

_INDEX = "model.safetensors.index.json"
_WANTED = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model")
_DECISIVE = re.compile(r"config\.json|generation_config|tokenizer|special_tokens|added_|vocab|merges|.*\.(model|jinja)")


def locate_chat_model(model: str, revision: str | None = None, download: bool = True) -> Path:
    """Return the folder with a model's files: a path, or the hub's local cache.

    A hub model that is not in the local cache is downloaded, unless the hub is offline or `download` is false. Only
    safetensors files count as weights.

    Raises:
        ConfigError: if no model is named.
        DataError: if a path does not hold a whole model.
        DependencyError: if a hub model is neither cached nor to be had.
    """
    if not model:
        raise ConfigError("model: not set; give the folder of a chat model or its hub name (owner/name)")
    path = Path(model).expanduser()
    if path.is_dir():
        lacks = _lacks(path)
        if lacks:
            raise DataError(f"{path}: no {lacks}; expected the folder of a Hugging Face model with safetensors weights")
        return path
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise DataError(f"{path}: no such folder; give the folder of a model or a hub name")
    return _from_hub(model, revision, download)


def _from_hub(name: str, revision: str | None, download: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    reason = ""
    for local in (True, False) if download else (True,):
        try:
            found = snapshot_download(name, revision=revision, local_files_only=local, allow_patterns=list(_WANTED))
        except (HfHubHTTPError, HFValidationError, OfflineModeIsEnabled, OSError) as error:
            reason = f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
            found = getattr(error, "snapshot_path", None) or ""
        if not found:
            continue
        lacks = _lacks(Path(found))
        if not lacks:
            return Path(found)
        reason = reason or f"no {lacks} in it"
    raise DependencyError(
        f"model {name!r} is no folder, is not whole in the local hub cache, and cannot be downloaded ({reason}); "
        f"run `hf download {name}` where there is a network, or give a folder"
    )


def _lacks(folder: Path) -> str:
    """Return the name of the first file that is missing, '' for a whole model."""
    from aeg.backends.embedder.weights import read_json

    if not (folder / "config.json").is_file():
        return "config.json"
    if (folder / "model.safetensors").is_file():
        return ""
    if not (folder / _INDEX).is_file():
        return "model.safetensors"
    shards = set(read_json(folder / _INDEX).get("weight_map", {}).values())
    return next((name for name in sorted(shards) if not (folder / name).is_file()), "")


def content_hash(folder: Path) -> str:
    """Return a SHA-256 over the names and contents of all files that decide a reply."""
    files = [path for path in folder.iterdir() if path.suffix == ".safetensors" or _DECISIVE.match(path.name)]
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(f"{path.name} {_file_hash(path)}\n".encode())
    return total.hexdigest()


def _file_hash(path: Path) -> str:
    blob = path.resolve()
    if blob.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", blob.name):
        return blob.name  # the hub's cache names large files by their SHA-256
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_tokenizer(folder: Path) -> Any:
    """Return the tokenizer in `folder`; code that comes with a model is never run."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise DataError(f"{folder}: transformers cannot load its tokenizer ({one_line(error)})") from None


def context_limit(folder: Path) -> int | None:
    """Return the most tokens, prompt and reply together, that the model takes; None where nothing says so."""
    from transformers import AutoConfig

    from aeg.backends.embedder.weights import position_limit

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{folder}: transformers cannot read its config.json ({one_line(error)})") from None
    return position_limit(folder, config.get_text_config())
