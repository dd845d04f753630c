"""Releases: what was published, and the mechanism that published it."""

from dpbayes.releases.histogram import HistogramRelease, Observations
from dpbayes.releases.records import RecordRelease

__all__ = ["HistogramRelease", "Observations", "RecordRelease"]
