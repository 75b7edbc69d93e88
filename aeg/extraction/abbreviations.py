"""Parenthesised abbreviations: "basal cell carcinoma (BCC)"."""

from __future__ import annotations

import re

_SHORT = re.compile(r"\(\s*([^\s()][^()]{0,11}?)\s*\)")
_WORD = re.compile(r"[^\s()]+")


def abbreviations(text: str) -> list[tuple[str, str]]:
    """Return (long form, short form) of each abbreviation that `text` introduces in parentheses.

    A short form has 2 to 10 characters in at most two words, one of them a letter. The long form is the shortest
    run of words before the parenthesis in which the short form's letters and digits occur from right to left,
    the first of them at the start of a word; it has at most min(n + 5, 2n) words for n letters.

    Source: Schwartz and Hearst, A simple algorithm for identifying abbreviation definitions in biomedical text,
    PSB 2003.

    Example:
        >>> abbreviations("known as basal cell carcinoma ( bcc ), which metastasizes ( spreads )")
        [('basal cell carcinoma', 'bcc')]
    """
    found = []
    for match in _SHORT.finditer(text):
        short = match.group(1)
        if not _is_short_form(short):
            continue
        long = _long_form(text[: match.start()], short)
        if long:
            found.append((long, short))
    return found


def _is_short_form(short: str) -> bool:
    return 2 <= len(short) <= 10 and len(short.split()) <= 2 and short[0].isalnum() and any(map(str.isalpha, short))


def _long_form(before: str, short: str) -> str:
    letters = [char for char in short.lower() if char.isalnum()]
    words = list(_WORD.finditer(before))[-min(len(letters) + 5, 2 * len(letters)) :]
    if not words or before[words[-1].end() :].strip():
        return ""
    first, end = words[0].start(), words[-1].end()
    at = end
    for rank in range(len(letters) - 1, -1, -1):
        at -= 1
        while at >= first and not (
            before[at].lower() == letters[rank] and (rank or at == first or not before[at - 1].isalnum())
        ):
            at -= 1
        if at < first:
            return ""
    long = before[at:end].strip(" ,;:")
    return long if len(long) > len(short) and long.lower() != short.lower() else ""
