import numpy as np
import pytest

import dpbayes as dpb
from dpbayes.posterior import assemble

FLAT = dpb.Dirichlet(concentration=1.0)

EVIL = '<script>alert("x")</script>'


def fit(release):
    return dpb.fit(release, FLAT, draws=250, random_seed=1, progressbar=False)


@pytest.fixture(scope="session")
def numeric():
    """Ten bins, public total, clamped at zero."""
    release = dpb.HistogramRelease(
        [30, 52, 41, 17, 0, 6, 0, 2, 0, 1],
        mechanism=dpb.Mechanism(dpb.DiscreteLaplace(scale=4), steps=[dpb.Clamp(lower=0)]),
        edges=[0, 10, 20, 30, 40, 50, 75, 100, 150, 200, 250],
        total=150,
        attrs={"title": "Customers by spend", "unit": "customers", "source": "A shop"},
    )
    return fit(release)


@pytest.fixture(scope="session")
def hostile():
    """Markup in every text that a user can give."""
    law = dpb.DiscreteLaplace(scale=3)
    release = dpb.HistogramRelease(
        [[40, 25], [31, 2]],
        mechanism=law,
        coords={"dim<b>": [f"row{EVIL}", "$a$ & b"], "second": ['"quoted"', "plain"]},
        attrs={"title": f"Title {EVIL}", "unit": f"unit{EVIL}", "source": f"source{EVIL}"},
    )
    return fit(release)


@pytest.fixture(scope="session")
def withheld():
    """Labelled cells with an unknown total, one withheld."""
    mechanism = dpb.Mechanism(dpb.Gaussian(sd=10), steps=[dpb.Suppress(below=50)])
    release = dpb.HistogramRelease(
        [480.5, np.nan, 77.25], mechanism=mechanism, coords={"page": ["home", "cart", "end"]}
    )
    return fit(release)


@pytest.fixture(scope="session")
def make_records():
    """Return a function that makes a posterior of records."""
    return records


def records(**attrs):
    """Continuous records with bins and an atom at 100; draws near the truth."""
    rng = np.random.default_rng(5)
    law, n = dpb.Laplace(scale=20), 4000
    weights = np.array([0.4, 0.3, 0.15, 0.15])
    edges = np.array([0.0, 20.0, 50.0, 100.0])
    piece = rng.choice(4, size=n, p=weights)
    truth = rng.uniform(np.append(edges[:-1], 100.0)[piece], np.append(edges[1:], 100.0)[piece])
    release = dpb.RecordRelease(
        dpb.Mechanism(law).sample(truth, rng),
        mechanism=law,
        bounds=(0, 100),
        attrs={"unit": "USD", "title": "Spend per customer"},
    )
    draws = rng.dirichlet(weights * n, size=(2, 300))
    before = rng.dirichlet(np.ones(4), size=(2, 300))

    def named(p, counts):
        return {
            "probability": p[..., :3],
            "atom_probability": p[..., 3:],
            "count": counts[..., :3],
            "atom_count": counts[..., 3:],
        }

    return assemble(
        release,
        posterior=named(draws, rng.multinomial(n, draws)) | {"total": np.full((2, 300), n)},
        prior=named(before, rng.multinomial(n, before)),
        edges=edges,
        atoms=np.array([100.0]),
        attrs={"engine": "nuts", "max_rhat": 1.001, "min_ess": 900.0, "divergences": 0, **attrs},
    )
