"""Version of the package, below everything so that every module may read it."""

__version__ = "0.1.0"
