"""Sieves: what is kept of the candidates, and what happens where a model's reply is of no use."""

from __future__ import annotations

import json
import re

import pytest
import torch
from scripted_backend import Scripted

from aeg.backends.llm.asker import Asker
from aeg.backends.llm.base import Failure
from aeg.backends.llm.ledger import Ledger
from aeg.core.records import Query
from aeg.core.tables import AtomTable
from aeg.errors import ConfigError, DataError, DependencyError
from aeg.sieve import SIEVES, Candidate, candidates, summary

QUESTION = Query("q1", "Where was the founder\nof Tarn Lab born?")


def found(count: int, first: int = 10) -> list[Candidate]:
    return [Candidate(first + at, f"a{first + at}", f"Fact {first + at}.", 1.0 / (at + 1)) for at in range(count)]


def shown(request) -> list[str]:
    """The candidates that a request shows, by their numbers."""
    block = request.messages[-1].content.split("<candidates>")[-1].split("</candidates>")[0]
    rows = re.findall(r"^\[(\d+)\] (.*)$", block, flags=re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(len(rows)))
    return [text for _, text in rows]


def sieve_llm(script, lists, questions=None, folder=None, reasks=1, **params):
    backend = Scripted(script=script)
    with Asker(backend, folder, Ledger(), reasks=reasks) as llm:
        queries = questions or [Query(f"q{at}", f"Question {at}?") for at in range(len(lists))]
        return SIEVES.make("llm", **params).sieve(queries, lists, llm=llm), backend, llm


def keeping(*ids) -> str:
    return json.dumps({"ids": list(ids)})


# llm


def test_ids_are_kept_in_the_candidates_order_whatever_the_replys():
    (sieved,), backend, _ = sieve_llm(lambda request: keeping(3, 0, 3), [found(4)])
    assert sieved.kept == (10, 13)
    assert (sieved.fallback, dict(sieved.counts)) == (False, {})
    assert backend.calls == [("sieve", "q0")]


def test_the_question_asked_is_the_original_one_and_texts_are_one_a_line():
    strange = [Candidate(0, "a0", "One\n[9] two {{question}}", 1.0), Candidate(1, "a1", "Three", 0.5)]
    _, backend, _ = sieve_llm(lambda request: keeping(), [strange], [QUESTION])
    request = backend.sent[0][0]
    assert shown(request) == ["One [9] two {{question}}", "Three"]
    assert "Question: Where was the founder of Tarn Lab born?" in request.messages[-1].content
    assert json.loads(request.schema)["properties"]["ids"]["items"]["type"] == "integer"


def test_invented_ids_are_refused_and_counted():
    (sieved,), _, llm = sieve_llm(lambda request: keeping(1, 2, -1, 99), [found(2)])
    assert sieved.kept == (11,)
    assert not sieved.fallback
    assert sieved.counts["invented_ids"] == 3
    assert '"invented_ids": 3' in json.dumps(llm.ledger.snapshot())


def test_a_reply_of_invented_ids_only_is_asked_for_again_and_then_the_candidates_stay():
    replies = iter([keeping(7, 8), keeping(1)])
    (sieved,), backend, _ = sieve_llm(lambda request: next(replies), [found(2)])
    assert sieved.kept == (11,)
    assert "go from 0 to 1" in backend.sent[1][0].messages[-1].content
    (sieved,), _, _ = sieve_llm(lambda request: keeping(7), [found(2)])
    assert (sieved.kept, sieved.fallback, sieved.failure) == ((10, 11), True, "invalid")
    assert sieved.counts["unjudged"] == 2


def test_an_empty_list_is_an_answer_and_a_minimum_can_be_asked_for():
    (sieved,), backend, _ = sieve_llm(lambda request: keeping(), [found(3)])
    assert (sieved.kept, sieved.fallback) == ((), False)
    assert len(backend.calls) == 1
    (sieved,), _, _ = sieve_llm(lambda request: keeping(2), [found(4)], min_kept=2)
    assert sieved.kept == (10, 12)
    assert sieved.counts["kept_by_minimum"] == 1


@pytest.mark.parametrize(
    "reply",
    ["I cannot say.", '{"ids": "all"}', '{"ids": [true]}', '{"ids": [0.5]}', Failure("timeout", "no reply")],
)
def test_without_a_usable_reply_the_candidates_stay_flagged(reply):
    (sieved, other), _, _ = sieve_llm(
        lambda request: reply if request.subject == "q0" else keeping(0), [found(3), found(2)]
    )
    assert (sieved.kept, sieved.fallback) == ((10, 11, 12), True)
    assert sieved.failure == ("timeout" if isinstance(reply, Failure) else "invalid")
    assert (other.kept, other.fallback) == ((10,), False)


@pytest.mark.parametrize("reply", ["```json\n[0, 2]\n```", '{"ids": ["[0]", "2"],}', 'Here you go: {"ids": [0, 2]}'])
def test_what_can_be_read_is_read(reply):
    (sieved,), _, _ = sieve_llm(lambda request: reply, [found(3)])
    assert (sieved.kept, sieved.fallback) == ((10, 12), False)


def test_a_reply_that_broke_off_judges_nothing():
    (sieved,), _, _ = sieve_llm(lambda request: '{"ids": [0, 1', [found(3)], reasks=0)
    assert (sieved.kept, sieved.fallback) == ((10, 11, 12), True)


def test_what_exceeds_the_context_is_judged_in_halves():
    def script(request):
        texts = shown(request)
        if len(texts) > 3:
            return Failure("context_length", "too long")
        ids = [at for at, text in enumerate(texts) if text in ("Fact 10.", "Fact 14.", "Fact 16.")]
        return keeping(*ids, *([40] if ids else []))

    (sieved, other), _, _ = sieve_llm(script, [found(7), found(2)])
    assert sieved.kept == (10, 14, 16)
    assert (sieved.fallback, sieved.counts["split"]) == (False, 2)
    assert sieved.counts["invented_ids"] == 2  # one in each part that keeps something
    assert other.kept == (10,)


def test_a_candidate_that_alone_exceeds_the_context_stays_and_is_quarantined(tmp_path):
    def script(request):
        return Failure("context_length", "too long") if "Fact 12." in shown(request) else keeping()

    (sieved,), _, _ = sieve_llm(script, [found(4)], folder=tmp_path)
    assert (sieved.kept, sieved.fallback, sieved.failure) == ((12,), True, "context_length")
    assert sieved.counts == {"split": 2, "unjudged": 1}
    (file,) = (tmp_path / "quarantine").iterdir()
    assert len(file.read_text().splitlines()) == 1


def test_blocks_are_judged_apart_and_united():
    (sieved,), backend, _ = sieve_llm(lambda request: keeping(0), [found(5)], block=2)
    assert sieved.kept == (10, 12, 14)
    assert [len(shown(request)) for request in backend.sent[0]] == [2, 2, 1]


def test_no_candidates_cost_no_call():
    sieved, backend, _ = sieve_llm(lambda request: keeping(0), [[], found(1)])
    assert [item.kept for item in sieved] == [(), (10,)]
    assert backend.calls == [("sieve", "q1")]


def test_a_second_run_makes_no_call(tmp_path):
    first, _, _ = sieve_llm(lambda request: keeping(1), [found(3)], folder=tmp_path)
    second, backend, _ = sieve_llm(lambda request: pytest.fail("asked again"), [found(3)], folder=tmp_path)
    assert first == second
    assert backend.calls == []


def test_llm_needs_a_model():
    with pytest.raises(ConfigError, match=r"sieve 'llm' needs a model: set llm\.reader"):
        SIEVES.make("llm").sieve([QUESTION], [found(1)])


# threshold


class PlaneEncoder:
    """Texts are angles in degrees: cosines are known."""

    def __init__(self):
        self.kinds = []

    def encode(self, texts, kind="passage"):
        self.kinds.append(kind)
        angle = torch.deg2rad(torch.tensor([float(text.strip("°?")) for text in texts]))
        return torch.stack([angle.cos(), angle.sin()], dim=1)


def angles(*degrees: float) -> list[Candidate]:
    return [Candidate(at, f"a{at}", f"{degree}°", 1.0 - at / 10) for at, degree in enumerate(degrees)]


def test_threshold_drops_what_is_far_and_what_repeats_a_better_one():
    sieve = SIEVES.make("threshold", similarity=0.5, redundancy=0.99)
    asked, lists = [Query("q", "0?"), Query("r", "90?")], [angles(10, 70, 12, 40, -40, 14), angles(0, 90)]
    first, second = sieve.sieve(asked, lists, encoder=PlaneEncoder())
    assert first.kept == (0, 3, 4)
    assert first.counts == {"below_similarity": 1, "redundant": 2}
    assert second.kept == (1,)


def test_a_repeat_of_a_dropped_candidate_is_no_repeat():
    sieve = SIEVES.make("threshold", similarity=-1.0, redundancy=0.9)
    (sieved,) = sieve.sieve([Query("q", "0?")], [angles(0, 20, 40)], encoder=PlaneEncoder())
    assert sieved.kept == (0, 2)  # 20° repeats 0°; 40° is near 20° only


def test_equal_texts_are_redundant_at_one_and_the_given_similarity_counts():
    sieve = SIEVES.make("threshold", similarity=0.5, redundancy=1.0)
    pair = [
        Candidate(3, "a3", "77°", 1.0, 0.5),
        Candidate(4, "a4", "77°", 0.5, 0.9),
        Candidate(5, "a5", "1°", 0.1, 0.4),
    ]
    encoder = PlaneEncoder()
    (sieved,) = sieve.sieve([Query("q", "0?")], [pair], encoder=encoder)
    assert sieved.kept == (3,)
    assert encoder.kinds == ["passage"]  # similarities were given: the question is not encoded


def test_threshold_without_redundancy_needs_no_encoder():
    sieve = SIEVES.make("threshold", similarity=0.5, redundancy=None, min_kept=2)
    three = [Candidate(at, "", "x", 1.0, cosine) for at, cosine in enumerate((0.1, 0.2, 0.7))]
    assert sieve.sieve([QUESTION, QUESTION], [three, []])[0].kept == (0, 2)
    with pytest.raises(ConfigError, match="needs an encoder for similarity"):
        sieve.sieve([QUESTION], [found(1)])
    with pytest.raises(ConfigError, match="needs an encoder for redundancy"):
        SIEVES.make("threshold").sieve([QUESTION], [three])


# cross-encoder

WORDS = ["ann", "owns", "bix", "who", "rain", "fell", "cid", "sees", "dot", "born"]


def reranker(folder, labels: int, kind: str = "BertForSequenceClassification"):
    """A folder with a tiny random BERT for pairs, and a word-level tokenizer."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: row for row, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(folder)
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.5,
        num_labels=labels,
    )
    getattr(transformers, kind)(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return {labels: reranker(tmp_path_factory.mktemp(f"rank{labels}"), labels) for labels in (1, 2)}


PAIRS = (
    [Query("q", "who owns bix"), Query("r", "who sees dot born")],
    [
        [
            Candidate(at, f"a{at}", text, 1.0)
            for at, text in enumerate(["ann owns bix", "rain fell", "cid", "bix fell"])
        ],
        [Candidate(at, f"a{at}", text, 1.0) for at, text in enumerate(["cid sees dot", "rain"], start=7)],
    ],
)


def scores_of(model, labels):
    """Scores computed plainly, one pair after the other."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(model).eval()
    scores = {}
    with torch.inference_mode():
        for query, items in zip(*PAIRS, strict=True):
            for item in items:
                logits = network(**tokenizer(query.question, item.text, return_tensors="pt")).logits[0].double()
                score = logits.sigmoid()[0] if labels == 1 else logits.softmax(0)[1]
                scores[query.id, item.row] = float(score)
    return scores


@pytest.mark.parametrize("labels", [1, 2])
def test_cross_encoder_keeps_the_best_by_the_models_own_scores(models, labels):
    expected = scores_of(models[labels], labels)
    sieve = SIEVES.make("cross_encoder", model=str(models[labels]), top_n=2, max_length=32)
    first, second = sieve.sieve(*PAIRS)
    best = sorted(range(4), key=lambda row: -expected["q", row])[:2]
    assert first.kept == tuple(sorted(best))
    assert first.counts == {"below_rank": 2}
    assert second.kept == (7, 8)
    middle = sorted(expected.values())[3]
    sieve = SIEVES.make("cross_encoder", model=str(models[labels]), top_n=None, min_score=middle - 1e-6, max_length=32)
    kept = {(query.id, row) for query, one in zip(PAIRS[0], sieve.sieve(*PAIRS), strict=True) for row in one.kept}
    assert kept == {pair for pair, score in expected.items() if score >= middle}
    assert len(kept) == 3


def test_a_score_does_not_depend_on_the_batch(models):
    one = SIEVES.make("cross_encoder", model=str(models[1]), top_n=1, max_length=32, batch_size=1)
    many = SIEVES.make("cross_encoder", model=str(models[1]), top_n=1, max_length=32, batch_tokens=4096)
    assert one.sieve(*PAIRS) == many.sieve(*PAIRS)


def test_long_pairs_are_cut_and_counted(models):
    sieve = SIEVES.make("cross_encoder", model=str(models[1]), max_length=8)
    (sieved, other) = sieve.sieve(
        [Query("q", "who owns bix"), Query("r", "who")],
        [[Candidate(0, "", "ann owns bix " * 5, 1.0), Candidate(1, "", "cid", 0.5)], []],
    )
    assert sieved.counts["truncated"] == 1
    assert sieved.kept == (0, 1)
    assert other.kept == ()


def test_a_model_that_is_no_reranker_is_refused(models, tmp_path):
    questions, lists = PAIRS
    folder = reranker(tmp_path / "plain", 1, "BertModel")
    with pytest.raises(DataError, match="not a re-ranker"):
        SIEVES.make("cross_encoder", model=str(folder), max_length=32).sieve(questions, lists)
    with pytest.raises(ConfigError, match="has 3 labels, expected 1 or 2"):
        SIEVES.make("cross_encoder", model=str(reranker(tmp_path / "three", 3)), max_length=32).sieve(questions, lists)
    with pytest.raises(ConfigError, match="takes at most 32 tokens"):
        SIEVES.make("cross_encoder", model=str(models[1])).sieve(questions, lists)
    with pytest.raises(DependencyError, match="hf download no/such-model"):
        SIEVES.make("cross_encoder", model="no/such-model").sieve(questions, lists)
    with pytest.raises(ConfigError, match="top_n and min_score are both null"):
        SIEVES.make("cross_encoder", top_n=None)


def test_pickled_weights_are_refused(models, tmp_path):
    import shutil

    folder = tmp_path / "pickled"
    shutil.copytree(models[1], folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"expected \*\.safetensors"):
        SIEVES.make("cross_encoder", model=str(folder), max_length=32).sieve(*PAIRS)


def test_the_models_files_decide_its_fingerprint(models):
    one, two = (SIEVES.make("cross_encoder", model=str(models[labels])).models() for labels in (1, 2))
    assert len(one) == 1
    assert one != two
    assert SIEVES.make("none").models() == []


# all


def test_candidates_carry_their_similarity_to_the_question():
    vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    table = AtomTable(["a", "b"], ["A.", "B."], vectors, *[torch.zeros(0)] * 3)
    rows, scores = torch.tensor([[1, 0], [0, -1]]), torch.tensor([[0.9, 0.1], [0.5, 0.0]])
    first, second = candidates(rows, scores, table, torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    assert [(c.row, c.atom_id, c.text) for c in first] == [(1, "b", "B."), (0, "a", "A.")]
    assert [c.similarity for c in first] == pytest.approx([0.6, 1.0])
    assert [(c.row, c.similarity) for c in second] == [(0, 0.0)]
    assert candidates(rows, scores, table)[0][0].similarity is None


@pytest.mark.parametrize("name", sorted(SIEVES))
def test_questions_and_candidates_must_match(name):
    method = SIEVES.make(name)
    llm = Asker(Scripted(), None, Ledger())
    with pytest.raises(DataError, match="got candidates of 2 questions, expected 1"):
        method.sieve([QUESTION], [found(1), found(1)], llm=llm, encoder=PlaneEncoder())
    assert method.sieve([], [], llm=llm, encoder=PlaneEncoder()) == []
    assert bool(method.role) == bool(method.prompts) == (name == "llm")


def test_the_summary_adds_up():
    sieved, _, _ = sieve_llm(
        lambda request: Failure("server", "500") if request.subject == "q1" else keeping(0, 9), [found(2), found(2)]
    )
    total = summary(sieved)
    assert (total["questions"], total["kept"], total["fallback"], total["fallback_server"]) == (2, 3, 1, 1)
    assert total["invented_ids"] == 1
