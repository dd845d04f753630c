"""Integer codes by which the compiled kernels know a noise law and the law of a true value."""

LAPLACE = 0
DISCRETE_LAPLACE = 1
GAUSSIAN = 2
DISCRETE_GAUSSIAN = 3
TRUNCATED_LAPLACE = 4
TRUNCATED_DISCRETE_LAPLACE = 5
NO_NOISE = 6
TABULATED = 7

POISSON = 0
BINOMIAL = 1
NEGATIVE_BINOMIAL = 2
NORMAL = 3

LATTICE_TOLERANCE = 1e-6
"""Values within this fraction of a step from a lattice point count as that point."""
