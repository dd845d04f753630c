"""Engines that draw from posteriors: exact where possible, NUTS otherwise."""
