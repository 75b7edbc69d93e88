"""Sentences by rules and stemmed content words: how evidence measures and aligners read a text."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import Stemmer

from aeg.core.lexicon import FUNCTION_WORDS, word_spans

ABBREVIATIONS: frozenset[str] = frozenset(
    """
    mr mrs ms mx dr prof rev hon st sr jr gen col maj capt lt cmdr sgt gov sen rep pres
    e.g i.e eg ie cf viz vs al etc approx ca no nos vol vols fig figs eq eqs sec ch pp ed eds ref refs
    dept univ inc ltd co corp bros ave blvd rd mt ft
    jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun
    """.split()  # noqa: SIM905
)
"""Lower-cased words after which a full stop does not end a sentence, without that full stop."""

_ENDS_OFTEN = frozenset({"etc", "inc", "ltd", "co", "corp", "jr", "sr", "no", "al"})
_CLOSERS = "\"'”’»)\\]}」』】"
_BREAK = re.compile(
    rf"(?P<wide>[。！？]+[{_CLOSERS}]*\s*)"  # scripts without spaces
    rf"|(?P<end>[.!?…]+)(?P<close>[{_CLOSERS}]*)\s+"
    r"|(?P<blank>\n\s*\n\s*)"  # an empty line ends whatever stands before it
)
_LAST_WORD = re.compile(r"[^\s(\[{\"“‘«]+$")
_NEXT_WORD = re.compile(r"[^\W\d_]{2,}(?!\.)\b")
_INITIALS = re.compile(r"[^\W\d_](\.[^\W\d_])*")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the half-open character spans of the sentences of `text`, in order, trimmed of white space.

    A sentence ends at `. ! ? …` (with closing quotes or brackets) before white space, at `。！？`, and at an
    empty line. A single full stop ends none after a known abbreviation, after initials ("J. Smith", "the U.S.
    Navy") unless a function word follows, or between two numbers ("2. 5 mg"). In a text that has upper-case
    letters none ends before a lower-case one either. Every character that is not white space belongs to
    exactly one span.

    Example:
        >>> text = "Dr. J. Voss leads it. Does she? In case of doubt, yes."
        >>> [text[a:b] for a, b in sentence_spans(text)]
        ['Dr. J. Voss leads it.', 'Does she?', 'In case of doubt, yes.']
        >>> sentences("surgery removes it. see chapter 2 : tests.")
        ['surgery removes it.', 'see chapter 2 : tests.']
    """
    cased = any(char.isupper() for char in text)
    spans: list[tuple[int, int]] = []
    start = len(text) - len(text.lstrip())
    for match in _BREAK.finditer(text):
        if match.end() <= start:
            continue
        if match["end"] and not _ends_sentence(text, start, match, cased):
            continue
        end = start + len(text[start : match.end()].rstrip())
        if end > start:
            spans.append((start, end))
        start = match.end()
    end = len(text.rstrip())
    if end > start:
        spans.append((start, end))
    return spans


def sentences(text: str) -> list[str]:
    """Return the sentences of `text`; see `sentence_spans`.

    Example:
        >>> sentences("Ann owns Bix. Bix is a dog.")
        ['Ann owns Bix.', 'Bix is a dog.']
    """
    return [text[start:end] for start, end in sentence_spans(text)]


def _ends_sentence(text: str, start: int, match: re.Match[str], cased: bool) -> bool:
    following = text[match.end() : match.end() + 1]
    if cased and following.islower():
        return False
    if match["end"] != "." or match["close"]:
        return True
    found = _LAST_WORD.search(text, max(start, match.start() - 40), match.start())
    word = found.group().casefold() if found else ""
    if word.isdigit() and following.isdigit():
        return False
    if word in ABBREVIATIONS:
        return word in _ENDS_OFTEN and following.isupper()
    if _INITIALS.fullmatch(word):
        after = _NEXT_WORD.match(text, match.end())
        return after is not None and after.group().casefold() in FUNCTION_WORDS
    return True


class Word(NamedTuple):
    """A stemmed content word and its half-open character span."""

    stem: str
    start: int
    end: int


def content_words(text: str) -> list[Word]:
    """Return the content words of `text`, stemmed, in order.

    Words are those of `aeg.core.lexicon.word_spans`, case-folded, without function words, stemmed by
    Snowball's English stemmer; words of other scripts pass through it unchanged.

    Example:
        >>> [word.stem for word in content_words("The tumours are treated with surgery.")]
        ['tumour', 'treat', 'surgeri']
    """
    folded = ((text[start:end].casefold(), start, end) for start, end in word_spans(text))
    return [Word(_stem(word), start, end) for word, start, end in folded if word not in FUNCTION_WORDS]


def content_stems(text: str) -> frozenset[str]:
    """Return the distinct stems of the content words of `text`.

    Example:
        >>> sorted(content_stems("Treated or treats?"))
        ['treat']
    """
    return frozenset(word.stem for word in content_words(text))


@functools.lru_cache(maxsize=1 << 18)
def _stem(word: str) -> str:
    # One stemmer per call: Stemmer objects are not safe to share between threads; the cache makes calls rare.
    return Stemmer.Stemmer("english", 0).stemWord(word)
