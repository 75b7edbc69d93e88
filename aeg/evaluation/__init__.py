"""Evaluation: ranking and evidence measures, their averages with bootstrap intervals, and TREC files."""

from aeg.evaluation.aggregate import MetricRow, aggregate, compare
from aeg.evaluation.bootstrap import Interval, bootstrap_difference, bootstrap_mean
from aeg.evaluation.evidence import EvidenceMeasure, EvidenceScores
from aeg.evaluation.ranking import ranking_metrics
from aeg.evaluation.trec import TrecRun, read_qrels, read_run, write_qrels, write_run

__all__ = [
    "EvidenceMeasure",
    "EvidenceScores",
    "Interval",
    "MetricRow",
    "TrecRun",
    "aggregate",
    "bootstrap_difference",
    "bootstrap_mean",
    "compare",
    "ranking_metrics",
    "read_qrels",
    "read_run",
    "write_qrels",
    "write_run",
]
