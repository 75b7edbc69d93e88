"""Explaining a retrieval: what a question was linked to, seeded with, and by which chains its atoms were found.

`walk_account` is imported at once; the rest, which needs the whole pipeline, from its modules:
`aeg.explain.subject` (a question of an index or a run), `aeg.explain.collecting` (its explanation), and the renderers
`aeg.explain.text` and `aeg.explain.page`.
"""

from aeg.explain.accounts import walk_account

__all__ = ["walk_account"]
