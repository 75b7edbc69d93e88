"""An explanation made by hand, with texts that try to break out of the page."""

from __future__ import annotations

import random

from aeg.explain.records import (
    AtomRecord,
    CandidateRecord,
    ChainRecord,
    CoverRecord,
    DocumentRecord,
    EffectiveRecord,
    Exchange,
    Explanation,
    GenerationRecord,
    LinkRecord,
    Node,
    SourceRecord,
    StatementRecord,
    StepRecord,
    UnitRecord,
)

EVIL = "<script>window.hit = 1</script><img src=x onerror=\"window.hit = 2\">\"' onfocus='window.hit=3' & </style> 青岛"


def hostile() -> Explanation:
    """Every text of it is EVIL."""
    step = StepRecord(0.5, ((EVIL, 1.0),))
    chain = ChainRecord((2, 0), (step,), 1.0, 0.1, 0.5)
    document = DocumentRecord(EVIL, EVIL, True, 1, 0.3, 1, 0.3, 0.4, 2, (1, 0))
    atom = AtomRecord(1, 0.4, 1, 0.2, 1, 0, (SourceRecord(EVIL, EVIL, EVIL, (0, 3)),), ((2, 1.0),), (chain,), 0.5, 0.2)
    query = EffectiveRecord(EVIL, False, (EVIL,), (LinkRecord(EVIL, 2, 1.0),), 1.0, 0.0, ((2, 1.0),), 1, (EVIL,))
    sub = EffectiveRecord(EVIL, True, (), (), 0.0, 0.0, (), 0, ())
    cover = CoverRecord(0, 0.5, 1, 1, 0.2)
    generation = GenerationRecord(
        *(EVIL, EVIL, (CandidateRecord(0, 0.4, 0.5, True), CandidateRecord(1, 0.1, None, False)), EVIL),
        *((UnitRecord(1, EVIL, 0, 3, EVIL, (0,), True),), EVIL, EVIL, EVIL, True),
    )
    exchange = Exchange(EVIL, EVIL, ((EVIL, EVIL),), EVIL, EVIL, True)
    return Explanation(
        *(EVIL, EVIL, EVIL, EVIL, EVIL, EVIL, {EVIL: EVIL}, 2, 1, (query, sub)),
        (Node(0, "atom", EVIL, EVIL), Node(1, "atom", EVIL, EVIL), Node(2, "entity", EVIL, EVIL)),
        (atom,),
        (document,),
        (document,),
        (StatementRecord(EVIL, cover, None, 7),),
        generation,
        (exchange,),
        {EVIL: 0.5},
        (EVIL,),
    )


def crowded(atoms: int = 12, chains: int = 4, seed: int = 0) -> Explanation:
    """Many chains over many nodes, with long names, walks that return, and steps back."""
    chance = random.Random(seed)
    word = ["hydrosedimentological", "of", "the", "Upper", "Lake", "survey", "and", "its", "many", "reports"]
    nodes = [Node(row, "atom", " ".join(chance.choices(word, k=14)), str(row)) for row in range(40)]
    nodes += [
        Node(row, "entity", " ".join(chance.choices(word, k=chance.randint(1, 4))), str(row)) for row in range(40, 70)
    ]
    records = []
    for rank in range(1, atoms + 1):
        found = []
        for _ in range(chains):
            middle = [
                chance.randrange(0, 40) if at % 2 else chance.randrange(43, 70) for at in range(chance.randint(0, 3))
            ]
            rows = (chance.randrange(40, 43), *middle, rank)
            steps = tuple(StepRecord(chance.random(), (("mentions", 1.0),)) for _ in rows[1:])
            found.append(ChainRecord(rows, steps, 0.3, chance.random() / 100, 0.1))
        records.append(AtomRecord(rank, 1 / rank, rank, 1 / rank, 0, rank, (), (), tuple(found), 0.4, 0.1, 1e-5, 60))
    query = EffectiveRecord("?", False, (), (), 1.0, 0.0, ((40, 0.5), (41, 0.3), (42, 0.2)), 3)
    return Explanation(
        "index", "question", "Who led the survey?", "", "ppr", "ppr", {"restart": 0.1}, 40, 30, (query,), tuple(nodes),
        tuple(records),
    )  # fmt: skip
