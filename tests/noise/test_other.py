import numpy as np
import pytest
from scipy import stats

from dpbayes.errors import ParameterError, UnsupportedError
from dpbayes.noise import CustomNoise, NoNoise


def test_custom_noise_by_callables():
    law = CustomNoise(logpdf=stats.t(4).logpdf, cdf=stats.t(4).cdf, sd=np.sqrt(2))
    x = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(law.logpdf(x), stats.t(4).logpdf(x))
    np.testing.assert_allclose(law.logcdf(x), stats.t(4).logcdf(x))
    np.testing.assert_allclose(
        np.exp(law.log_interval(x, x + 1)), np.diff(stats.t(4).cdf([x, x + 1]), axis=0)[0]
    )
    assert np.isneginf(law.log_interval(2.0, 1.0))


def test_custom_noise_says_what_it_lacks():
    law = CustomNoise(logpdf=stats.norm.logpdf, sd=1.0)
    with pytest.raises(UnsupportedError, match="needs cdf= when values are rounded"):
        law.log_interval(0, 1)
    with pytest.raises(UnsupportedError, match=r"give it rvs=, a function \(size, rng\)"):
        law.rvs(3, 1)


@pytest.mark.parametrize("field", ["logpdf", "cdf", "rvs"])
def test_custom_noise_wants_callables(field):
    good = {"logpdf": stats.norm.logpdf, "sd": 1.0}
    with pytest.raises(ParameterError, match=f"{field} must be callable, got 3"):
        CustomNoise(**{**good, field: 3})


def test_custom_noise_is_equal_when_its_functions_are_the_same():
    f, g = stats.norm.logpdf, stats.t(3).logpdf
    assert CustomNoise(logpdf=f, sd=1.0) == CustomNoise(logpdf=f, sd=1)
    assert CustomNoise(logpdf=f, sd=1.0) != CustomNoise(logpdf=g, sd=1.0)
    assert CustomNoise(logpdf=f, sd=1.0) != CustomNoise(logpdf=f, sd=2.0)


def test_no_noise():
    law = NoNoise()
    np.testing.assert_array_equal(law.logpdf([0.0, 1.0]), [0.0, -np.inf])
    np.testing.assert_array_equal(
        law.log_interval([-1, 0, -np.inf], [0, 1, -1]), [0, -np.inf, -np.inf]
    )
    np.testing.assert_array_equal(law.rvs((2, 2)), np.zeros((2, 2)))
    assert law.sd == 0.0
    with pytest.raises(TypeError, match="by name"):
        NoNoise(0.0)
