"""English function words and the tokenisation that lexical matching uses, for extraction and query alike."""

from __future__ import annotations

import re

FUNCTION_WORDS: frozenset[str] = frozenset(
    """
    a an the this that these those each every either neither some any no none all both few many much more most
    several such other another same own
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her
    hers herself it its itself they them their theirs themselves one ones oneself
    who whom whose which what where when why how whoever whatever whichever wherever whenever
    someone somebody something anyone anybody anything everyone everybody everything nobody nothing there here
    am is are was were be been being isn't aren't wasn't weren't
    do does did doing done don't doesn't didn't have has had having haven't hasn't hadn't
    can could may might must shall should will would can't couldn't won't wouldn't shouldn't cannot
    about above across after against along among amid around as at before behind below beneath beside besides
    between beyond by despite down during except for from in inside into like near of off on onto out outside
    over past per since through throughout to toward towards under until till unlike up upon via versus with
    within without
    and or but nor so yet if unless whether while although though because than then else also only just even
    not never ever too very again once still already now often always perhaps rather quite however therefore
    thus hence instead first last
    yes no s t 's ’s
    """.split()  # noqa: SIM905
)
"""Words, lower-cased, that never name an entity by themselves: determiners, pronouns, prepositions,
conjunctions, auxiliaries, question words, common adverbs."""

_PUNCTUATION = (
    "\u037e\u0387\u055a-\u055f\u0589\u058a\u05be\u05c0\u05c3\u060c\u061b\u061f\u066a-\u066d\u06d4\u0964\u0965"
)
_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTER = (
    rf"(?:(?![{_IDEOGRAPH}])[^\W_]"  # letters and digits of every script that separates words
    rf"|(?![{_PUNCTUATION}])[\u0300-\u1fff])"  # combining marks and vowel signs, which \w leaves out
)
_WORD = re.compile(
    rf"[{_IDEOGRAPH}][\u0300-\u036f\u3099\u309a]*"  # scripts without spaces: each character is a word
    r"|(?<=\w)['’][sS]\b"  # a possessive is a word of its own
    rf"|(?:(?<!\S)\.(?=[^\W\d_]))?{_LETTER}+(?:(?!['’][sS]\b)['’.&]{_LETTER}+)*[+#]*"
)
_ASCII_WORD = re.compile(  # the same for ASCII, five times faster
    r"(?:(?<!\S)\.(?=[A-Za-z]))?[A-Za-z0-9]+(?:(?!'[sS]\b)['.&][A-Za-z0-9]+)*[+#]*|(?<=\w)'[sS]\b"
)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return the half-open character spans of the words of `text`, in order.

    A word is a run of letters, digits and combining marks, joined by apostrophe, full stop or ampersand where no
    space is between ("O'Neill", "U.S", "AT&T"), with a leading full stop at the start of a name (".NET") and
    trailing "+" and "#" ("C++"). Hyphens and slashes separate; a possessive "'s" is a word of its own; so is each
    character of Chinese and Japanese. Words i to j of a text are matched against entities by the canonical key of
    `text[spans[i][0]:spans[j][1]]`, which includes what stands between them.

    Example:
        >>> text = "Who wrote C++, Ann O'Neill's heirs, the non-U.S. firms or .NET? 青岛"
        >>> [text[a:b] for a, b in word_spans(text)]  # doctest: +NORMALIZE_WHITESPACE
        ['Who', 'wrote', 'C++', 'Ann', "O'Neill", "'s", 'heirs', 'the', 'non', 'U.S', 'firms', 'or', '.NET',
         '青', '岛']
    """
    return [match.span() for match in (_ASCII_WORD if text.isascii() else _WORD).finditer(text)]
