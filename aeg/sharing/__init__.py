"""Sharing an index: one archive, checked before anything of it can be seen."""

from aeg.sharing.incoming import import_index
from aeg.sharing.manifest import Manifest
from aeg.sharing.outgoing import export_index

__all__ = ["Manifest", "export_index", "import_index"]
