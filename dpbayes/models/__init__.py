"""Builders of PyMC models: a release and a prior in, a model out."""
