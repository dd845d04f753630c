import numpy as np
import pytest

import dpbayes as dpb
from dpbayes.errors import ParameterError
from dpbayes.privacy import (
    Neighbours,
    audit,
    compose,
    count_sensitivity,
    group_privacy,
    histogram_sensitivity,
    ks_sensitivity,
    laplace_mechanism,
    mean_sensitivity,
    post_process,
    power_bound,
    repeated_draws,
    sensitivity,
    split_budget,
    sum_sensitivity,
)

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE


def test_neighbouring_tables():
    pairs = [(a.tolist(), b.tolist()) for a, b in REPLACE.tables(2, 1)]
    assert pairs == [([0, 1], [1, 0]), ([1, 0], [0, 1])]
    assert all(abs(a.sum() - b.sum()) == 1 for a, b in ADD.tables(3, 2))
    assert len(list(REPLACE.differences(4))) == 12
    assert len(list(ADD.differences(4))) == 8
    with pytest.raises(ParameterError, match="cells must be a whole number"):
        list(REPLACE.tables(0, 2))


@pytest.mark.parametrize("kind", [REPLACE, ADD, "replace-one"])
@pytest.mark.parametrize("norm", [1, 2])
def test_histograms_against_enumeration(kind, norm):
    found = sensitivity(lambda table: table, Neighbours(kind).tables(3, 3), norm=norm)
    assert histogram_sensitivity(kind, norm=norm) == pytest.approx(found, rel=1e-15)


@pytest.mark.parametrize("kind", [REPLACE, ADD])
def test_sums_means_and_ks_against_enumeration(kind):
    values = np.array([-2.0, 0.5, 3.0])  # includes both bounds
    bounds, n = (-2.0, 3.0), 4
    pairs = list(kind.tables(3, n))

    assert sum_sensitivity(bounds, kind) == sensitivity(lambda t: t @ values, pairs)
    mean = sensitivity(lambda t: t @ values / t.sum(), pairs)
    # Nobody joins at the other end of n equal values unless the table allows it: it does.
    assert mean_sensitivity(bounds, n, kind) == pytest.approx(mean, rel=1e-12)
    target = np.array([0.2, 0.5, 1.0])
    ks = sensitivity(lambda t: np.max(np.abs(np.cumsum(t) / t.sum() - target)), pairs)
    assert ks <= ks_sensitivity(n, kind) + 1e-12
    # The bound is reached against the law of the table itself.
    far = sensitivity(lambda t: np.cumsum(t) / t.sum(), pairs)
    assert far >= ks_sensitivity(n, kind)
    assert count_sensitivity(kind) == sensitivity(lambda t: t[0], pairs)


def test_closure():
    first = laplace_mechanism(sensitivity=2, alpha=0.5)
    assert first.noise == dpb.Laplace(scale=4)
    pairs = list(REPLACE.tables(2, 3))
    clamped = post_process(first, dpb.Clamp(lower=0))
    assert clamped.steps == (dpb.Clamp(lower=0),)
    assert audit(clamped, pairs).epsilon <= audit(first, pairs).epsilon + 1e-12
    assert repeated_draws(0.5, 10**9) == 0.5
    assert compose([0.1, 0.2, 0.3]) == pytest.approx(0.6)
    assert compose([0.1, 0.3], disjoint=True) == 0.3
    assert split_budget(1.0, [1, 3]) == [0.25, 0.75]
    assert group_privacy(0.5, 4) == 2.0


def test_composition_is_the_loss_of_both_together():
    def law(x, alpha):
        p = 1 / (1 + np.exp(alpha))
        return np.array([1 - p, p]) if x == 0 else np.array([p, 1 - p])

    def both(x):
        return np.outer(law(x, 0.3), law(x, 0.9))

    assert audit(both, [(0, 1)]).epsilon == pytest.approx(compose([0.3, 0.9]), rel=1e-12)


def test_power_bound():
    assert power_bound(0.05, 1.0) == pytest.approx(0.05 * np.e)
    assert power_bound(0.05, np.inf) == 1.0
    for level, alpha in ((0.05, 0.1), (0.3, 1.0), (0.5, 2.0), (0.9, 0.5)):
        # Randomised response reaches the bound with its best test.
        p = 1 / (1 + np.exp(alpha))
        reached = level * (1 - p) / p if level <= p else 1 - (1 - level) * p / (1 - p)
        assert power_bound(level, alpha) == pytest.approx(reached, rel=1e-12)
        assert power_bound(level, alpha) <= min(1.0, level * np.exp(alpha)) + 1e-12
    with pytest.raises(ParameterError, match="level"):
        power_bound(1.0, 1.0)


def test_bad_input():
    with pytest.raises(ParameterError, match="alpha"):
        laplace_mechanism(sensitivity=1, alpha=0)
    with pytest.raises(ParameterError, match="lo < hi"):
        sum_sensitivity((1, 1))
    with pytest.raises(ParameterError, match="norm"):
        histogram_sensitivity(norm=3)
    with pytest.raises(ParameterError, match="at least one"):
        compose([])
    with pytest.raises(ParameterError, match="finite"), np.errstate(invalid="ignore"):
        sensitivity(lambda t: np.inf, REPLACE.tables(2, 1))
