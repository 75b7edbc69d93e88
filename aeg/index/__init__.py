"""An index of one's own documents: built once, then asked, and changed document by document."""

from aeg.index.changing import Outcome, add, build_index, rebuild, remove, update
from aeg.index.documents import Changes, own_corpus
from aeg.index.layout import FORMAT, View, current, files, reading
from aeg.index.searching import Evidence, Searcher, open_index

__all__ = [
    "FORMAT",
    "Changes",
    "Evidence",
    "Outcome",
    "Searcher",
    "View",
    "add",
    "build_index",
    "current",
    "files",
    "open_index",
    "own_corpus",
    "reading",
    "rebuild",
    "remove",
    "update",
]
