"""HTML reports for readers without Python."""

from dpbayes.report.page import render, write

__all__ = ["render", "write"]
