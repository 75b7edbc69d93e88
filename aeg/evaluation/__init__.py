"""Evaluation: ranking, evidence and answer measures, their averages with bootstrap intervals, and TREC files."""

from aeg.evaluation.accuracy import AccuracyMeasure, AccuracyScores
from aeg.evaluation.aggregate import MetricRow, aggregate, compare
from aeg.evaluation.agreement import Agreement
from aeg.evaluation.answers import AnswerScores, answer_metrics, references_of
from aeg.evaluation.bootstrap import Interval, bootstrap_difference, bootstrap_mean
from aeg.evaluation.evidence import EvidenceMeasure, EvidenceScores
from aeg.evaluation.neighbourhood import NeighbourhoodMeasure
from aeg.evaluation.ranking import ranking_metrics
from aeg.evaluation.trec import TrecRun, read_qrels, read_run, write_qrels, write_run

__all__ = [
    "AccuracyMeasure",
    "AccuracyScores",
    "Agreement",
    "AnswerScores",
    "EvidenceMeasure",
    "EvidenceScores",
    "Interval",
    "MetricRow",
    "NeighbourhoodMeasure",
    "TrecRun",
    "aggregate",
    "answer_metrics",
    "bootstrap_difference",
    "bootstrap_mean",
    "compare",
    "ranking_metrics",
    "read_qrels",
    "read_run",
    "references_of",
    "write_qrels",
    "write_run",
]
