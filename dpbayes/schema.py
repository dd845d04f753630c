"""Names of groups, dims, variables and attributes of a posterior.

They are public API: saved files, users' own code and the other modules rely on them.
"""

from __future__ import annotations

# Groups of the DataTree.
POSTERIOR = "posterior"
PRIOR = "prior"
OBSERVED = "observed_data"
CONSTANT = "constant_data"
SAMPLE_STATS = "sample_stats"

# Dims.
CHAIN = "chain"
DRAW = "draw"
CELL = "cell"  # cells of a histogram that has neither edges nor coords
BIN = "bin"  # cells with numeric edges
ATOM = "atom"  # points that carry mass of their own
SAMPLE = "sample"  # further samples of one process, each with a table of its own
VALUE = "value"  # integers of an integer-valued record
EDGE = "edge"

# Variables of the groups posterior and prior.
PROBABILITY = "probability"
COUNT = "count"
TOTAL = "total"
SAMPLE_COUNT = "sample_count"  # true counts of the further samples
ATOM_PROBABILITY = "atom_probability"
ATOM_COUNT = "atom_count"
RATE = "rate"
CONCENTRATION = "concentration"
SPIKE = "spike"
SCALE = "walk_scale"

# Variables of posteriors of rates.
NUMERATOR = "numerator"
DENOMINATOR = "denominator"
LIFT = "lift"
DIFFERENCE = "difference"
TREATMENT = "treatment"
CONTROL = "control"

# Variables of the groups observed_data and constant_data.
RELEASED = "released"
EDGES = "edges"
LOWER = "lower"
UPPER = "upper"

# Attributes of the root of the DataTree.
FORMAT = "dpbayes-posterior"
FORMAT_VERSION = 1
