"""Releases: what was published, and the mechanism that published it."""

from dpbayes.releases.cells import CellTable
from dpbayes.releases.histogram import HistogramRelease
from dpbayes.releases.margins import Margin
from dpbayes.releases.observations import Observations
from dpbayes.releases.rate import RateRelease
from dpbayes.releases.records import RecordRelease
from dpbayes.releases.responses import (
    ResponseRelease,
    flip_matrix,
    response_matrix,
    response_probability,
)
from dpbayes.releases.selection import QuantileLoss, SelectionRelease, WinnerLoss
from dpbayes.releases.series import SeriesRelease
from dpbayes.releases.statistic import StatisticRelease
from dpbayes.releases.synthetic import (
    DirichletSampling,
    PerturbedSampling,
    Smoothing,
    SyntheticRelease,
)

__all__ = [
    "CellTable",
    "DirichletSampling",
    "HistogramRelease",
    "Margin",
    "Observations",
    "PerturbedSampling",
    "QuantileLoss",
    "RateRelease",
    "RecordRelease",
    "ResponseRelease",
    "SelectionRelease",
    "SeriesRelease",
    "Smoothing",
    "StatisticRelease",
    "SyntheticRelease",
    "WinnerLoss",
    "flip_matrix",
    "response_matrix",
    "response_probability",
]
