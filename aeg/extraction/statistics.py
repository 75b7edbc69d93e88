"""What an extraction holds and what went wrong in it, for the manifest and for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from aeg.core.records import Extraction


def statistics(extractions: Iterable[Extraction]) -> dict[str, int]:
    """Return totals over all passages: what there is, passages by status, and what was dropped, mapped or split.

    Example:
        >>> from aeg.core.records import ExtractedAtom
        >>> found = [Extraction("p", ("Ann",), (), (ExtractedAtom("Ann barks.", ("Ann",)),)),
        ...          Extraction("q", status="quarantined")]
        >>> counts = statistics(found)
        >>> counts["atoms"], counts["passages_quarantined"], counts["passages_without_atoms"]
        (1, 1, 1)
    """
    tally = Tally()
    for _ in tally.counting(extractions):
        pass
    return tally.counts


class Tally:
    """Totals over extractions that pass through.

    Example:
        >>> tally = Tally()
        >>> [one.passage_id for one in tally.counting([Extraction("p", ("Ann",))])], tally.counts["entities"]
        (['p'], 1)
    """

    def __init__(self) -> None:
        self._found: Counter[str] = Counter()

    @property
    def counts(self) -> dict[str, int]:
        """The totals so far, by name."""
        return dict(sorted(self._found.items()))

    def counting(self, extractions: Iterable[Extraction]) -> Iterator[Extraction]:
        """Yield the extractions, each counted before."""
        for one in extractions:
            self._add(one)
            yield one

    def _add(self, one: Extraction) -> None:
        found = self._found
        found["passages"] += 1
        found[f"passages_{one.status}"] += 1
        found["atoms"] += len(one.atoms)
        found["triples"] += len(one.triples)
        found["entities"] += len(one.entities)
        found["atoms_without_entities"] += sum(not atom.entities for atom in one.atoms)
        found["passages_without_atoms"] += not one.atoms
        found["passages_without_triples"] += not one.triples
        found["passages_without_entities"] += not one.entities
        found["passages_split"] += "pieces" in one.counts
        found.update(one.counts)


def described(extractions: Sequence[Extraction]) -> str:
    """Return a line for a person: means a passage, and how many passages have nothing, failed or were split.

    Example:
        >>> described([Extraction("p", ("Ann", "Bix")), Extraction("q", status="quarantined")])
        '0.0 atoms, 0.0 triples, 1.0 entities a passage; 2 passages without atoms; 1 quarantined'
    """
    return summary(statistics(extractions))


def summary(found: Mapping[str, int]) -> str:
    """Return the same line from what `statistics` gave."""
    count = max(found.get("passages", 0), 1)
    means = ", ".join(f"{found.get(name, 0) / count:.1f} {name}" for name in ("atoms", "triples", "entities"))
    rest = [
        f"{found[key]:,} {words}"
        for key, words in (
            ("passages_without_atoms", "passages without atoms"),
            ("passages_quarantined", "quarantined"),
            ("passages_split", "split"),
            ("unlisted_entities", "entities that the passage's list lacked"),
        )
        if found.get(key)
    ]
    return "; ".join([f"{means} a passage", *rest])
