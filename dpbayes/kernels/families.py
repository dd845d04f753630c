"""Integer codes by which the compiled kernels know a noise law."""

LAPLACE = 0
DISCRETE_LAPLACE = 1
GAUSSIAN = 2
DISCRETE_GAUSSIAN = 3

LATTICE_TOLERANCE = 1e-6
"""Values within this fraction of a step from a lattice point count as that point."""
