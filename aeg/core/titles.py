"""A document's title as the name of what the document is about."""

from __future__ import annotations

import re

from aeg.core.keys import atom_text

_PARENTHESIS = re.compile(r"\s*\([^()]*\)\s*$")


def base_title(title: str) -> str:
    """Return a document's title without its trailing parenthesis, as the name of what the document is about.

    Example:
        >>> base_title("Ice Age (2002 film)"), base_title("(Untitled)")
        ('Ice Age', '(Untitled)')
    """
    title = atom_text(title)
    return _PARENTHESIS.sub("", title) or title
