"""Distinct documents about invented people, places and organisations, as many as wanted, the same for a seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random

PEOPLE, PLACES, ORGANISATIONS = 20_000, 2_000, 5_000


def _words(text: str, between: str = " ") -> list[str]:
    return text.split(between)


_ONSETS = _words("b br c ch d dr f fl g gr h j k kl l m n p pr qu r s sh sk st t th tr v w y z")
_VOWELS = _words("a e i o u ai ea ie oa ou")
_CODAS = _words("l ld m n nd ng r rd rn rt s sk st t th v x")
_PLACE_ENDS = _words("ford ham bury wick stead mouth field haven dale port")
_KINDS = _words("Institute Laboratory Museum Trust Railway Bank Observatory Theatre College Press Foundry Orchestra")
_FIRST = _words(
    "Ada Alva Amos Anna Arlo Basil Beata Boris Carla Cedric Clara Cora Dora Edgar Edith Elias Emil Enid Ezra Fanny "
    "Felix Flora Frieda Georg Greta Gustav Hedda Hugo Ida Igor Inga Iris Ivan Jonas Julia Karl Klara Lars Lena Leo "
    "Lotte Ludwig Magda Marta Max Milan Mira Nora Olga Oscar Otto Paula Petra Rosa Rufus Selma Sigrid Silas Theo "
    "Thora Ursula Vera Viktor Wanda Walter Yara Zelda"
)
_TRADES = _words(
    "geologist chemist painter composer bridge builder botanist printer surveyor physician historian weaver engineer "
    "poet astronomer"
)
_THINGS = _words(
    "a map of the river|a study of lake sediments|the first printed atlas of the coast|a collection of glass lenses|"
    "a survey of the old mines|a treatise on tides|the drawings of the new bridge|a catalogue of mosses|"
    "a set of brass instruments|the plans of the canal|a history of the harbour|a method of dyeing wool",
    "|",
)

_OF_PERSON = (
    "{p} was born in {l} in {y}.",
    "{p} worked as a {t} at the {o}.",
    "In {y} {p} married {q} in {l}.",
    "{p} left {x} to the {o}.",
    "Together with {q}, {p} founded the {o} in {l}.",
    "{p} studied under {q} until {y}.",
    "{q} called {p} the best {t} of {l}.",
    "In {y} {p} sold {x} to {q}.",
    "{p} moved from {l} to {m} in {y}.",
)
_OF_ORGANISATION = (
    "The {o} was founded in {l} in {y}.",
    "The {o} in {l} was led by {p} from {y}.",
    "{p} gave {x} to the {o}.",
    "The {o} and the {w} were united in {y}.",
    "In {y} the {o} bought {x} from {p}.",
    "The {o} employed {p} as a {t}.",
    "A fire in {l} destroyed {x} of the {o} in {y}.",
    "The {o} opened a branch in {m}, which {q} directed.",
)


class Vocabulary:
    """Names of people, places and organisations, drawn so that few recur often and most seldom (Zipf's law)."""

    def __init__(self, seed: int) -> None:
        chance = Random(seed)
        self.places = _distinct(PLACES, lambda: _word(chance, 1) + chance.choice(_PLACE_ENDS))
        self.people = _distinct(PEOPLE, lambda: f"{chance.choice(_FIRST)} {_word(chance, 2)}")
        owners = [lambda: _word(chance, 2), lambda: chance.choice(self.places)]
        self.organisations = _distinct(ORGANISATIONS, lambda: f"{chance.choice(owners)()} {chance.choice(_KINDS)}")
        self._weights = {
            size: list(accumulate(1 / rank for rank in range(1, size + 1))) for size in (PEOPLE, PLACES, ORGANISATIONS)
        }

    def draw(self, chance: Random, names: Sequence[str], count: int) -> list[str]:
        """Return `count` distinct names, the i-th of them with a probability proportional to 1 / i."""
        weights, found = self._weights[len(names)], dict[str, None]()
        while len(found) < count:
            found[chance.choices(names, cum_weights=weights)[0]] = None
        return list(found)


def documents(count: int, seed: int = 0) -> Iterator[dict[str, str]]:
    """Yield distinct documents of two to four sentences with id, title and text.

    The first n of them are the same whatever `count` is.
    """
    vocabulary, seen = Vocabulary(seed), set[str]()
    number = attempt = 0
    while number < count:
        title, text = _document(vocabulary, Random(f"{seed} {attempt}"))
        attempt += 1
        if text not in seen:
            seen.add(text)
            yield {"id": f"d{number:06}", "title": title, "text": text}
            number += 1


def write(path: Path, count: int, seed: int = 0, first: int = 0) -> None:
    """Write documents `first` to `count` as JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        for at, document in enumerate(documents(count, seed)):
            if at >= first:
                file.write(json.dumps(document, ensure_ascii=False) + "\n")


def _document(vocabulary: Vocabulary, chance: Random) -> tuple[str, str]:
    person = chance.random() < 0.7
    title = chance.choice(vocabulary.people if person else vocabulary.organisations)
    sentences = []
    for template in chance.sample(_OF_PERSON if person else _OF_ORGANISATION, chance.choice((2, 2, 2, 3, 4))):
        p, q = vocabulary.draw(chance, vocabulary.people, 2)
        o, w = vocabulary.draw(chance, vocabulary.organisations, 2)
        place, other = vocabulary.draw(chance, vocabulary.places, 2)
        words = {"p": p, "q": q, "o": o, "w": w, "l": place, "m": other, "y": chance.randint(1700, 1959)}
        words |= {"t": chance.choice(_TRADES), "x": chance.choice(_THINGS), ("p" if person else "o"): title}
        sentences.append(template.format(**words))
    return title, " ".join(sentences)


def _word(chance: Random, syllables: int) -> str:
    parts = [chance.choice(_ONSETS) + chance.choice(_VOWELS) for _ in range(syllables)]
    return ("".join(parts) + chance.choice(_CODAS)).capitalize()


def _distinct(count: int, make: Callable[[], str]) -> list[str]:
    found = dict[str, None]()
    while len(found) < count:
        found[make()] = None
    return list(found)
