"""Extraction by a language model: two calls, malformed replies, splitting, quarantine, resuming."""

from __future__ import annotations

import json
import re

import pytest
from llm_server import ScriptedServer, too_long
from scripted_backend import Scripted

from aeg.artifacts import Store, write_text
from aeg.backends.llm import BACKENDS, Asker, Failure, Ledger, Message, Reply, Request, load_prompt, schema_of
from aeg.core.records import Passage
from aeg.core.text import sentences
from aeg.errors import ConfigError
from aeg.extraction import EXTRACTORS, described, statistics
from aeg.extraction.pieces import Piece
from aeg.extraction.replies import EntitiesReply, KnowledgeReply
from aeg.graph.inventory import collect
from aeg.query.llm import DecompositionReply, MentionsReply

VOSS = "Mira Voss leads Tarn Lab. She founded it in 2011."


def passages(*texts: str) -> list[Passage]:
    return [Passage(f"p{n}", f"d{n}", text, "Tarn Lab", 0, len(text)) for n, text in enumerate(texts)]


def scripted(entities="[]", knowledge="{}", **fields) -> Scripted:
    """A backend that answers each task with one reply, or with what a function of the request gives."""

    def script(request):
        given = entities if request.task == "ner" else knowledge
        return given(request) if callable(given) else given

    return Scripted(script=script, **fields)


def asker(backend, folder=None, **options) -> Asker:
    return Asker(backend, folder, Ledger(), what="extractor", **options)


def extract(backend, texts, folder=None, **params):
    llm = asker(backend, folder)
    try:
        return list(EXTRACTORS.make("llm", **params).extract(passages(*texts), llm=llm)), llm
    finally:
        llm.close()


def one(entities, knowledge, text=VOSS):
    found, _ = extract(scripted(json.dumps(entities), json.dumps(knowledge)), [text])
    return found[0]


def test_two_calls_and_the_entities_of_the_first_in_the_second():
    backend = scripted(
        json.dumps({"entities": ["Mira Voss", "Tarn Lab", "青岛"]}),
        json.dumps(
            {
                "triples": [["Mira Voss", "leads", "Tarn Lab"]],
                "atoms": [
                    {"text": "Mira  Voss leads Tarn Lab.", "entities": ["Mira Voss", "Tarn Lab"]},
                    {"text": "Mira Voss founded Tarn Lab in 2011.", "entities": ["Mira Voss"]},
                ],
            }
        ),
    )
    (found,), _ = extract(backend, [VOSS])
    assert [(r.task, r.subject) for batch in backend.sent for r in batch] == [("ner", "p0"), ("triples_atoms", "p0")]
    asked = backend.sent[1][0].messages[-1].content
    assert VOSS in asked
    assert '["Mira Voss", "Tarn Lab", "青岛"]' in asked
    assert found.entities == ("Mira Voss", "Tarn Lab", "青岛")
    assert found.triples == (("Mira Voss", "leads", "Tarn Lab"),)
    assert [(a.text, a.entities, a.start, a.end) for a in found.atoms] == [
        ("Mira Voss leads Tarn Lab.", ("Mira Voss", "Tarn Lab"), 0, 25),
        ("Mira Voss founded Tarn Lab in 2011.", ("Mira Voss",), None, None),
    ]
    assert (found.status, found.counts) == ("ok", {})


def test_names_are_mapped_to_the_list_by_canonical_key():
    """Scenario 2: two entities and two containment edges, however the names are written."""
    found = one(
        ["Mira Voss", "Tarn Lab", "MIRA  VOSS", "Zürich"],
        {
            "triples": [["mira voss", "leads", "“Tarn Lab”"], ["Mira Voss", "lives in", "Zu\u0308rich"]],
            "atoms": [{"text": "Mira Voss leads Tarn Lab.", "entities": ["MIRA VOSS", "Tarn  Lab"]}],
        },
    )
    assert found.entities == ("Mira Voss", "Tarn Lab", "Zürich")
    assert found.triples == (("Mira Voss", "leads", "Tarn Lab"), ("Mira Voss", "lives in", "Zürich"))
    assert found.atoms[0].entities == ("Mira Voss", "Tarn Lab")
    assert found.counts == {}


def test_what_the_list_lacks_joins_it_and_no_edge_leads_nowhere():
    text = passages(VOSS)
    found = one(
        ["Mira Voss"],
        {
            "triples": [["Mira Voss", "founded", "Tarn Lab"], ["Mira Voss", "owns", "?!"]],
            "atoms": [{"text": "Mira Voss leads Tarn Lab.", "entities": ["Mira Voss", "Tarn  Lab", "?", "2011"]}],
        },
    )
    assert found.entities == ("Mira Voss", "Tarn Lab", "2011")
    assert found.counts == {"empty_keys": 2, "triples_with_empty_end": 1, "unlisted_entities": 2}
    inventory = collect(text, [found])
    assert list(inventory.entities.keys) == ["2011", "mira voss", "tarn lab"]
    assert inventory.mentions.shape[1] == 3
    assert inventory.counts.get("empty_entity_keys", 0) == 0


def test_atoms_are_distinct_and_have_words():
    found = one(
        ["Ann", "Bix"],
        {
            "atoms": [
                {"text": "Ann owns Bix.", "entities": ["Ann"]},
                {"text": "Ann  owns Bix.", "entities": ["Bix", "ann"]},
                {"text": " ... "},
                "Ann sees Bix.",
                {"text": "Bix barks.", "entities": []},
            ]
        },
        "Ann owns Bix.",
    )
    assert [(a.text, a.entities) for a in found.atoms] == [
        ("Ann owns Bix.", ("Ann", "Bix")),
        ("Ann sees Bix.", ("Ann", "Bix")),  # bare text: the listed entities that stand in it
        ("Bix barks.", ()),
    ]
    assert found.counts == {"empty_atoms": 1, "repeated_atoms": 1}


def test_malformed_items_are_left_out_and_counted():
    found = one(
        {"entities": ["Ann", {"name": "Bix", "type": "dog"}, None, ["Cid"]]},
        {
            "triples": [
                ["Ann", "owns"],
                ["Ann", "owns", "Bix"],
                {"subject": "Bix", "predicate": "is", "object": 7},
                "x",
            ],
            "atoms": [{"text": "Ann owns Bix.", "entities": ["Ann", None, "Bix"]}, {"claim": "?"}, 5],
            "comment": "extra fields are ignored",
        },
        "Ann owns Bix.",
    )
    assert found.entities == ("Ann", "Bix", "7")
    assert found.triples == (("Ann", "owns", "Bix"), ("Bix", "is", "7"))
    assert [a.entities for a in found.atoms] == [("Ann", "Bix")]
    assert found.counts == {"malformed_items": 6, "unlisted_entities": 1}


WHOLE = {
    "trailing commas": '{"atoms":["Ann owns Bix",],}',
    "code fence": '```json\n{"atoms":["Ann owns Bix"]}\n```',
    "fence and commas": '```json\n{"atoms":["Ann owns Bix",],}\n```',
    "preamble": 'Here you go: {"atoms":["Ann owns Bix"]}',
    "preamble and commas": 'Here you go:\n{"atoms":["Ann owns Bix",],}',
    "bare list": '["Ann owns Bix"]',
    "literal dots": '{"atoms":["Ann owns Bix", ...]}',
}


@pytest.mark.parametrize("kind", WHOLE)
def test_malformed_replies_give_what_is_whole(tmp_path, kind):
    """Scenario 1: recovered where it can be, and a second run makes no call."""
    backend = scripted('{"entities": ["Ann", "Bix"]}', WHOLE[kind])
    (found,), llm = extract(backend, ["Ann owns Bix"], tmp_path)
    assert found.status == "ok"
    assert [(atom.text, atom.entities) for atom in found.atoms] == [("Ann owns Bix", ("Ann", "Bix"))]
    assert counted(llm, "repaired") + found.counts.get("bare_lists", 0) == 1
    calls = len(backend.calls)
    (again,), _ = extract(backend, ["Ann owns Bix"], tmp_path)
    assert (again, len(backend.calls)) == (found, calls)


@pytest.mark.parametrize("task", ["ner", "triples_atoms"])
def test_of_a_reply_that_breaks_off_the_whole_items_are_used_and_it_is_asked_for_again(tmp_path, task):
    """Scenario 1, cut in mid-string."""
    whole = {"ner": '{"entities": ["Ann", "Bix"]}', "triples_atoms": '{"atoms": ["Ann owns Bix", "Bix is a dog"]}'}
    cut = {**whole, task: whole[task][:-8]}
    (found,), llm = extract(Scripted(script=lambda r: cut[r.task]), ["Ann owns Bix"], tmp_path)
    assert found.status == "quarantined"
    assert found.counts["partial_pieces"] == 1
    assert [atom.text for atom in found.atoms][:1] == ["Ann owns Bix"]
    assert len(found.entities if task == "ner" else found.atoms) == 1
    assert counted(llm, "partial") == 1
    backend = Scripted(script=lambda r: whole[r.task])
    (again,), _ = extract(backend, ["Ann owns Bix"], tmp_path)
    assert backend.calls[0] == (task, "p0")
    assert (again.status, again.entities, len(again.atoms)) == ("ok", ("Ann", "Bix"), 2)


def counted(llm: Asker, name: str) -> int:
    return sum(row.counts.get(name, 0) for row in llm.ledger.table())


UNUSABLE = {
    "prose": "I am sorry, I cannot do that.",
    "empty": "",
    "nothing whole": '{"atoms":["Ann owns Bi',
    "wrong shape": '{"facts": 3}',
    "no usable item": '{"atoms": [3, null]}',
    "code": '__import__("pathlib").Path("evil").touch()',
    "cut at its limit": Reply('{"atoms":["Ann owns Bix", "Bix', 10, 5, 0.1, finish="length"),
    "refused": Failure("refused", "no"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_unusable_replies_are_quarantined_and_asked_again_by_the_next_run(tmp_path, monkeypatch, kind):
    """Scenario 1: the rest goes on; only the quarantined passage is asked again, and its first call is kept."""
    monkeypatch.chdir(tmp_path)
    good = json.dumps({"atoms": [{"text": "Cid barks.", "entities": ["Cid"]}]})
    bad = scripted('{"entities": ["Ann", "Cid"]}', lambda r: UNUSABLE[kind] if r.subject == "p1" else good)
    texts = ["Cid barks.", "Ann owns Bix.", "Cid barks. Cid sleeps."]
    first, llm = extract(bad, texts, tmp_path)
    assert [found.status for found in first] == ["ok", "quarantined", "ok"]
    assert first[1].atoms == first[1].entities == ()
    assert first[1].counts == {"failed_pieces": 1}
    assert counted(llm, "quarantined") == 1
    (line,) = [line for file in (tmp_path / "quarantine").iterdir() for line in file.read_text().splitlines()]
    assert json.loads(line)["subject"] == "p1"
    assert not (tmp_path / "evil").exists()

    repaired = scripted('{"entities": ["Ann"]}', good)
    second, llm = extract(repaired, texts, tmp_path)
    assert repaired.calls == [("triples_atoms", "p1")]
    assert [found.status for found in second] == ["ok", "ok", "ok"]
    assert (second[0], second[2]) == (first[0], first[2])


def test_a_reply_that_is_bad_once_is_asked_again_with_the_error_told():
    replies = iter(["nonsense", '{"atoms": []}'])
    backend = scripted('{"entities": []}', lambda request: next(replies))
    (found,), _ = extract(backend, ["It rained again."])
    assert found.status == "no_entities"
    assert backend.calls.count(("triples_atoms", "p0")) == 2
    assert "nonsense" in json.dumps([m.content for m in backend.sent[-1][0].messages])


def test_a_failed_first_call_needs_no_second():
    backend = scripted(Failure("server", "500"), "{}")
    (found,), _ = extract(backend, [VOSS])
    assert (found.status, found.counts) == ("quarantined", {"failed_pieces": 1})
    assert {task for task, _ in backend.calls} == {"ner"}


def test_blank_passages_cost_no_call_and_wordless_ones_have_a_status():
    """Scenario 3."""
    backend = scripted('{"entities": []}', '{"triples": [], "atoms": [{"text": "It rained again.", "entities": []}]}')
    found, _ = extract(backend, ["", " \n\t", "It rained again."])
    assert [one.status for one in found] == ["empty", "empty", "no_entities"]
    assert found[2].atoms[0].start == 0
    assert {subject for _, subject in backend.calls} == {"p2"}


def test_only_blank_passages_and_none_at_all():
    backend = scripted()
    assert [one.status for one in extract(backend, ["", ""])[0]] == ["empty", "empty"]
    assert extract(backend, [])[0] == []
    assert backend.calls == []


def test_all_first_calls_go_out_together_then_all_second_calls():
    """A batch backend needs two batches."""
    backend = scripted('{"entities": []}', '{"atoms": []}')
    extract(backend, ["A b.", "", "C d.", "E f."])
    assert [{r.task for r in batch} for batch in backend.sent] == [{"ner"}, {"triples_atoms"}]
    assert [len(batch) for batch in backend.sent] == [3, 3]


def test_extractions_come_in_the_passages_order():
    backend = scripted('{"entities": []}', lambda r: json.dumps({"atoms": [r.subject]}), backwards=True)
    found, _ = extract(backend, ["A b.", "", "C d.", "E f."])
    assert [one.passage_id for one in found] == ["p0", "p1", "p2", "p3"]
    assert [[a.text for a in one.atoms] for one in found] == [["p0"], [], ["p2"], ["p3"]]


def test_each_comes_as_soon_as_all_before_it_are_there():
    backend = scripted('{"entities": []}', lambda r: json.dumps({"atoms": [r.subject]}))
    answered = []
    inner = backend.script

    def script(request):
        answered.append((request.task, request.subject))
        return inner(request)

    noting = Scripted(script=script)
    llm = asker(noting)
    found = EXTRACTORS.make("llm").extract(passages("A b.", "C d.", "E f."), llm=llm)
    next(found)
    assert ("triples_atoms", "p2") not in answered
    assert len(list(found)) == 2
    llm.close()


def sentence_atoms(limit: int, task: str = ""):
    """A script whose context holds `limit` characters of a passage (for one task only), else gives sentences."""

    def script(request):
        text = re.findall(r"<passage>\n(.*?)\n</passage>", request.messages[-1].content, re.S)[0]
        if len(text) > limit and task in ("", request.task):
            return Failure("context_length", "too long")
        if request.task == "ner":
            return json.dumps({"entities": [word.strip(".") for word in text.split() if word[0].isupper()]})
        return json.dumps({"atoms": sentences(text)})

    return script


LONG = " ".join(f"Ann{n} owns Bix{n}." for n in range(7))


@pytest.mark.parametrize("task", ["", "ner", "triples_atoms"])
def test_a_passage_that_is_too_long_is_split_between_sentences(task):
    texts = ["First Things.", LONG, "Last Things."]
    whole, _ = extract(Scripted(script=sentence_atoms(1000)), texts)
    backend = Scripted(script=sentence_atoms(40, task))
    split, _ = extract(backend, texts)
    assert [one.passage_id for one in split] == ["p0", "p1", "p2"]
    assert split[0] == whole[0]
    assert split[2] == whole[2]
    assert split[1].atoms == whole[1].atoms  # spans included
    assert all(LONG[a.start : a.end] == a.text for a in split[1].atoms)
    assert split[1].entities == whole[1].entities
    assert split[1].counts == {"pieces": 4}
    assert statistics(split)["passages_split"] == 1
    assert split[1].status == "ok"


def test_a_single_sentence_that_is_too_long_is_quarantined_and_the_other_parts_stay(tmp_path):
    text = "Ann barks. " + "Bix " * 30 + "sleeps. Cid eats."
    (found,), llm = extract(Scripted(script=sentence_atoms(40)), [text], tmp_path)
    assert found.status == "quarantined"
    assert counted(llm, "quarantined") == 1
    assert "Bix Bix" in next((tmp_path / "quarantine").iterdir()).read_text()
    assert [text[a.start : a.end] for a in found.atoms] == ["Ann barks.", "Cid eats."]
    assert found.counts == {"failed_pieces": 1, "pieces": 3}
    assert found.entities == ("Ann", "Cid")


def test_halves_cover_all_sentences_and_meet_near_the_middle():
    text = "One one. Two two two. Three. Four four four four. Five."
    left, right = Piece(3, 0, len(text)).halves(text)
    assert (text[left.start : left.end], text[right.start : right.end]) == (
        "One one. Two two two. Three.",
        "Four four four four. Five.",
    )
    deeper = right.halves(text)
    assert [text[p.start : p.end] for p in deeper] == ["Four four four four.", "Five."]
    assert deeper[0].halves(text) is None


def test_without_a_model_it_says_what_to_set():
    with pytest.raises(ConfigError, match=r"extraction 'llm' needs a model: set llm\.extractor"):
        EXTRACTORS.make("llm").extract(passages("A."))


def test_role_and_prompts_are_declared_and_ship():
    for name in EXTRACTORS:
        method = EXTRACTORS.get(name)
        assert (method.role, method.prompts) == (("extractor", ("ner", "triples_atoms")) if name == "llm" else ("", ()))
    for name, placeholders in (("ner", {"title", "passage"}), ("triples_atoms", {"title", "passage", "entities"})):
        prompt = load_prompt(name)
        assert prompt.placeholders == placeholders
        examples = [turn.parts[0] for turn in prompt.turns if turn.role == "assistant"]
        assert all(json.loads(example) for example in examples)  # the worked example is valid JSON


def test_statistics_and_their_description():
    backend = scripted(
        '{"entities": ["Ann"]}', lambda r: "?" if r.subject == "p1" else '{"atoms": ["Ann barks.", "Ann eats."]}'
    )
    found, _ = extract(backend, ["Ann barks.", "Ann is lost.", "Ann eats.", ""])
    counts = statistics(found)
    assert counts["passages"] == 4
    assert counts["passages_ok"] == 2
    assert counts["passages_quarantined"] == 1
    assert counts["passages_empty"] == 1
    assert counts["passages_without_atoms"] == 2
    assert (counts["atoms"], counts["entities"]) == (4, 2)
    assert described(found).startswith("1.0 atoms, 0.0 triples, 0.5 entities a passage")
    assert "1 quarantined" in described(found)


def test_killed_after_seven_of_ten_passages_three_are_left(tmp_path):
    """Scenario 7: the journal of an interrupted run leaves three passages to ask about; the result is the same."""
    texts = [f"Ann{n} owns Bix{n}." for n in range(10)]
    script = sentence_atoms(1000)

    def run(folder, backend, stop=None):
        artifact = Store(folder).artifact("extraction", method="llm")
        known = {record["key"]: record["line"] for record in artifact.journalled()}
        rest = [p for p in passages(*texts) if p.id not in known]
        llm = asker(backend)  # no cache: the journal alone
        with artifact.journal().open("a") as journal:
            for passage, one in zip(rest[:stop], EXTRACTORS.make("llm").extract(rest[:stop], llm=llm), strict=True):
                known[passage.id] = repr(one)
                journal.write(json.dumps({"key": passage.id, "line": repr(one)}) + "\n")
            if stop is not None:
                journal.write('{"key": "p7", "li')  # torn by the kill
                return None
        write_text(artifact.path / "done", "\n".join(known[p.id] for p in passages(*texts)))
        return (artifact.path / "done").read_bytes()

    assert run(tmp_path / "a", Scripted(script=script), stop=7) is None
    resumed = Scripted(script=script)
    content = run(tmp_path / "a", resumed)
    assert sorted(set(resumed.calls)) == sorted((task, f"p{n}") for n in (7, 8, 9) for task in ("ner", "triples_atoms"))
    assert content == run(tmp_path / "b", Scripted(script=script))


@pytest.mark.parametrize("reply", [EntitiesReply, KnowledgeReply, DecompositionReply, MentionsReply])
def test_no_docstring_is_sent_to_the_model_or_part_of_the_cache_key(reply):
    assert "description" not in schema_of(reply)


@pytest.mark.parametrize("flavour", ["openai", "vllm", "llama_cpp"])
def test_a_servers_context_error_splits_the_passage(flavour):
    fitting = sentence_atoms(40)

    def script(received):
        task = "triples_atoms" if "\nEntities: [" in received.prompt else "ner"
        reply = fitting(Request(task, "", (Message("user", received.prompt),)))
        return too_long(flavour) if isinstance(reply, Failure) else reply

    with ScriptedServer(script) as server:
        backend = BACKENDS.make("openai", model="m", base_url=server.url)
        (found,), _ = extract(backend, [LONG])
        assert server.calls == 3 + 2 * 4  # the whole and two halves are refused, four quarters get two calls each
    whole, _ = extract(Scripted(script=sentence_atoms(1000)), [LONG])
    assert (found.status, found.counts) == ("ok", {"pieces": 4})
    assert found.atoms == whole[0].atoms
