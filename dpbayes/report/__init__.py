"""HTML reports for readers without Python."""

from dpbayes.report.render import render, write

__all__ = ["render", "write"]
