"""Compiled numerical kernels: plain arrays in, plain arrays out."""
