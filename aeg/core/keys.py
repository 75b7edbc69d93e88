"""The canonical key of an entity: the one definition used for triples, atoms and queries alike."""

from __future__ import annotations

import unicodedata

_STRIP = "\"'`´‘’‚‛“”„‟«»‹›()[]{}⟨⟩「」『』【】,;:.!?…–— "


def canonical_key(name: str) -> str:
    """Return the canonical key of an entity name, or an empty string where nothing is left.

    NFKC and case folding are repeated until stable, white space is collapsed, and quotes, brackets and
    `, ; : . ! ? … – —` are stripped at the ends, except a leading "." before a letter. Everything inside stays,
    in every script. The function is idempotent.

    Example:
        >>> [canonical_key(n) for n in ("MIRA  VOSS", "“Tarn Lab”,", "C++", ".NET", "青岛", "(BCC)")]
        ['mira voss', 'tarn lab', 'c++', '.net', '青岛', 'bcc']
    """
    previous, key = None, name
    while key != previous:
        previous = key
        key = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", key).casefold())
        key = _strip_ends(" ".join(key.split()))
        if key.isascii():
            return key  # stable already
    return key


def _strip_ends(key: str) -> str:
    key = key.rstrip(_STRIP)
    stripped = key.lstrip(_STRIP)
    if stripped and stripped[0].isalpha() and key[: len(key) - len(stripped)].endswith("."):
        stripped = "." + stripped
    return stripped


def atom_text(text: str) -> str:
    r"""Return an atom's canonical text: NFC, white space collapsed. One atom per distinct canonical text.

    Example:
        >>> atom_text(" Ann   owns\nBix. ")
        'Ann owns Bix.'
    """
    return " ".join(unicodedata.normalize("NFC", text).split())
