from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aeg.errors import DataError
from aeg.evaluation import ranking_metrics, read_qrels, read_run, write_qrels, write_run

ids = st.one_of(
    st.text(min_size=1, max_size=8),
    st.text(alphabet=" \t\n\r\x0b\x1c\x85\xa0\u2028%2F0青é", min_size=1, max_size=8),
)
finite = st.floats(allow_nan=False, allow_infinity=False)
rankings = st.dictionaries(ids, st.dictionaries(ids, finite, min_size=1, max_size=5), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(run=rankings, method=ids)
def test_run_round_trip(tmp_path_factory, run, method):
    path = tmp_path_factory.getbasetemp() / "round.run"
    given_order = {query: list(documents.items()) for query, documents in run.items()}
    assert write_run(path, given_order, method) == 0
    back = read_run(path)
    assert back.method == method
    assert back.rankings == {q: sorted(pairs, key=lambda p: -p[1]) for q, pairs in given_order.items()}
    assert list(back.rankings) == list(run)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(ids, st.dictionaries(ids, st.integers(-2, 3), min_size=1, max_size=5), min_size=1))
def test_qrels_round_trip(tmp_path_factory, qrels):
    path = tmp_path_factory.getbasetemp() / "round.qrels"
    assert write_qrels(path, qrels) == 0
    assert read_qrels(path) == qrels


def test_ir_measures_reads_the_files(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ir_measures
    run = {"q 1": [("Mira Voss", 3.0), ("50%", 2.0), ("青岛", 1.0)], "q2": [("x", 0.1), ("50%", 0.05)]}
    qrels = {"q 1": {"50%": 1, "absent": 1}, "q2": {"x": 1}}
    write_run(tmp_path / "a.run", run, "my method")
    write_qrels(tmp_path / "a.qrels", qrels)
    theirs = ir_measures.calc_aggregate(
        [ir_measures.R @ 2, ir_measures.RR, ir_measures.nDCG @ 5],
        list(ir_measures.read_trec_qrels(str(tmp_path / "a.qrels"))),
        list(ir_measures.read_trec_run(str(tmp_path / "a.run"))),
    )
    back, gold = read_run(tmp_path / "a.run"), read_qrels(tmp_path / "a.qrels")
    ours = ranking_metrics(back.ranked(gold), [list(judged) for judged in gold.values()], ks=[2, 5])
    assert theirs[ir_measures.R @ 2] == pytest.approx(ours["recall@2"].mean())
    assert theirs[ir_measures.RR] == pytest.approx(ours["mrr"].mean()) == pytest.approx(0.75)
    assert theirs[ir_measures.nDCG @ 5] == pytest.approx(ours["ndcg@5"].mean())


def test_order_is_by_score_then_rank_not_by_line(tmp_path):
    path = tmp_path / "other.run"
    path.write_text("q Q0 low 1 0.1 bm25s\nq Q0 tie2 3 7 bm25s\n\nq Q0 tie1 2 7.0 bm25s\n")
    run = read_run(path)
    assert run.method == "bm25s"
    assert run.ranked(["q", "other"]) == [["tie1", "tie2", "low"], []]


def test_empty_rankings_are_counted(tmp_path):
    assert write_run(tmp_path / "a.run", {"q1": [], "q2": [("d", 1.0)], "q3": []}, "m") == 2
    assert list(read_run(tmp_path / "a.run").rankings) == ["q2"]
    assert write_qrels(tmp_path / "a.qrels", {"q1": {}, "q2": {"d": 1}}) == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.qrels", "a.run"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("q Q0 d 1 0.5\n", r":1: got 5 fields, expected 6"),
        ("q Q0 d 1 0.5 m\nq Q0 New York 2 0.4 m\n", r":2: got 7 fields"),
        ("q Q0 d first 0.5 m\n", r":1: rank 'first'"),
        ("q Q0 d 1 high m\n", r":1: score 'high'"),
        ("q Q0 d 1 nan m\n", r":1: score 'nan'"),
        ("q Q0 d 1 0.5 m\nq Q0 d 2 0.4 m\n", r":2: document 'd' stands twice"),
        ("q Q0 d 1 0.5 m\nq Q0 e 2 0.4 n\n", r":2: tag 'n' after 'm'"),
        ("q Q0 d%FF 1 0.5 m\n", r":1: 'd%FF' is not percent-encoded UTF-8"),
        ("\n", "no lines"),
    ],
)
def test_bad_runs(tmp_path, lines, words):
    path = tmp_path / "bad.run"
    path.write_text(lines)
    with pytest.raises(DataError, match=words) as caught:
        read_run(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("q 0 d\n", r":1: got 3 fields, expected 4"),
        ("q 0 d 1\nq 0 e 0.5\n", r":2: relevance '0.5'"),
        ("q 0 d 1\nq 0 d 0\n", r":2: document 'd' stands twice"),
        ("", "no lines"),
    ],
)
def test_bad_qrels(tmp_path, lines, words):
    path = tmp_path / "bad.qrels"
    path.write_text(lines)
    with pytest.raises(DataError, match=words):
        read_qrels(path)


def test_other_file_errors(tmp_path):
    with pytest.raises(DataError, match=r"gone\.run.*No such file"):
        read_run(tmp_path / "gone.run")
    (tmp_path / "latin.qrels").write_bytes("q 0 Zürich 1\n".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        read_qrels(tmp_path / "latin.qrels")


@pytest.mark.parametrize(
    ("run", "method", "words"),
    [
        ({"q": [("d", 1.0), ("d", 0.5)]}, "m", "stands twice"),
        ({"q": [("d", float("nan"))]}, "m", "score nan"),
        ({"q": [("", 1.0)]}, "m", "empty id"),
        ({"q": [("d", 1.0)]}, "", "empty id or tag"),
        ({"q": [("\ud800", 1.0)]}, "m", "no valid Unicode"),
    ],
)
def test_what_cannot_be_written(tmp_path, run, method, words):
    with pytest.raises(DataError, match=words):
        write_run(tmp_path / "a.run", run, method)
    assert not list(tmp_path.iterdir())
