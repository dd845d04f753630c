import numpy as np
import pytest
from matplotlib.figure import Figure

import dpbayes as dpb
from dpbayes.posterior import assemble

FLAT = dpb.Dirichlet(concentration=1.0)


@pytest.fixture
def ax():
    return Figure(figsize=(6.4, 4.0), layout="constrained").add_subplot()


@pytest.fixture(scope="session")
def numeric():
    """Ten bins, public total, clamped at zero."""
    mechanism = dpb.Mechanism(dpb.DiscreteLaplace(scale=4), steps=[dpb.Clamp(lower=0)])
    release = dpb.HistogramRelease(
        [30, 52, 41, 17, 0, 6, 0, 2, 0, 1],
        mechanism=mechanism,
        edges=[0, 10, 20, 30, 40, 50, 75, 100, 150, 200, 250],
        total=150,
        attrs={"title": "Spend ($ a month, $ a year)", "unit": "customers", "axis_unit": "USD"},
    )
    return dpb.fit(release, FLAT, draws=250, random_seed=1, progressbar=False)


@pytest.fixture(scope="session")
def labelled():
    """Four pages with an unknown total, two of them withheld."""
    mechanism = dpb.Mechanism(dpb.Gaussian(sd=10), steps=[dpb.Suppress(below=50)])
    release = dpb.HistogramRelease(
        [480.5, np.nan, 77.25, np.nan],
        mechanism=mechanism,
        coords={"page": ["home", "a" * 50, "cart", "end"]},
        attrs={"unit": "visits"},
    )
    return dpb.fit(release, FLAT, draws=250, random_seed=1, progressbar=False)


@pytest.fixture(scope="session")
def wide():
    """Eighty cells in a table of two dims."""
    rng = np.random.default_rng(3)
    law = dpb.DiscreteLaplace(scale=5)
    values = rng.poisson(20, (8, 10)) + law.rvs((8, 10), rng)
    coords = {"region": [f"region {i}" for i in range(8)], "week": list(range(10))}
    release = dpb.HistogramRelease(values, mechanism=law, coords=coords)
    return dpb.fit(release, FLAT, draws=250, random_seed=1, progressbar=False)


def _records(weights, *, edges, atoms, support="continuous", n=4000):
    rng = np.random.default_rng(5)
    law = dpb.Laplace(scale=20) if support == "continuous" else dpb.DiscreteLaplace(scale=3)
    bins = 0 if edges is None else len(edges) - 1
    lower = np.concatenate([[] if edges is None else edges[:-1], atoms])
    upper = np.concatenate([[] if edges is None else edges[1:], atoms])
    piece = rng.choice(len(weights), size=n, p=weights)
    truth = rng.uniform(lower[piece], upper[piece])
    release = dpb.RecordRelease(
        dpb.Mechanism(law).sample(truth, rng),
        mechanism=law,
        bounds=(lower[0], upper[-1]),
        support=support,
        attrs={"unit": "USD"},
    )
    draws = rng.dirichlet(np.asarray(weights) * n, size=(2, 300))
    before = rng.dirichlet(np.ones(len(weights)), size=(2, 300))
    counts = rng.multinomial(n, draws)
    names = ("probability", "count", "atom_probability", "atom_count")
    posterior = {"total": np.full((2, 300), n)}
    prior = {}
    parts = (slice(bins), slice(bins), slice(bins, None), slice(bins, None))
    for name, part in zip(names, parts, strict=True):
        if edges is None:
            if name.startswith("atom"):
                continue
            part = slice(None)
        posterior[name] = (counts if "count" in name else draws)[..., part]
        prior[name] = (rng.multinomial(n, before) if "count" in name else before)[..., part]
    return assemble(
        release,
        posterior=posterior,
        prior=prior,
        edges=edges,
        atoms=np.asarray(atoms, float),
        attrs={"engine": "nuts", "max_rhat": 1.001, "min_ess": 900.0, "divergences": 0},
    )


@pytest.fixture(scope="session")
def records():
    """Continuous records: five bins and atoms at both bounds."""
    weights = [0.3, 0.2, 0.15, 0.1, 0.05, 0.05, 0.15]
    return _records(weights, edges=np.linspace(0, 100, 6), atoms=[0.0, 100.0])


@pytest.fixture(scope="session")
def integers():
    """Whole-number records 0..5."""
    weights = [0.3, 0.2, 0.2, 0.1, 0.1, 0.1]
    return _records(weights, edges=None, atoms=np.arange(6.0), support="integers")
