"""Releases: what was published, and the mechanism that published it."""

from dpbayes.releases.histogram import HistogramRelease
from dpbayes.releases.margins import Margin
from dpbayes.releases.observations import Observations
from dpbayes.releases.records import RecordRelease

__all__ = ["HistogramRelease", "Margin", "Observations", "RecordRelease"]
