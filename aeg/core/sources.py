"""What a method's result depends on beside its input, its parameters and its code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from aeg.config.ranges import Checked


@dataclass(frozen=True)
class Sourced(Checked):
    """Base of methods that read files or use models: both enter the fingerprint of what they make.

    Attributes:
        role: which of the config's language models the method asks (`extractor`, `reader`); empty where it needs none.
        prompts: names of the prompts it uses; a property where they depend on its parameters.
    """

    role: ClassVar[str] = ""
    prompts: ClassVar[tuple[str, ...]] = ()

    def source_files(self, root: Path | None) -> list[Path]:
        """Return the files whose content the result depends on; relative paths start from `root`."""
        return []

    def models(self) -> list[str]:
        """Return names and versions of the models that the result depends on."""
        return []

    def counts(self, items: Sequence[Any], root: Path | None = None) -> Counter[str]:
        """Return what was cut, repaired, missing or ignored for these passages or questions, for the manifest."""
        return Counter()
