import numpy as np
import pandas as pd
import pytest

from dpbayes import plots
from dpbayes.compare import privacy_cost
from dpbayes.errors import ParameterError


@pytest.fixture
def table():
    rows = [
        {
            "mechanism": mechanism, "distance": "l2", "dimension": 1, "records": n, "alpha": alpha,
            "error": n**-0.6 / alpha, "standard_error": 0.01 * n**-0.6,
        }
        for mechanism in ("perturbed", "smoothed")
        for alpha in (0.5, 1.0)
        for n in (100, 1000)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_convergence(ax, table):
    assert plots.convergence(table, ax, title="Errors") is ax
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [
        "perturbed, α = 0.5", "perturbed, α = 1", "smoothed, α = 0.5", "smoothed, α = 1", "theory",
    ]  # fmt: skip
    assert ax.get_xscale() == ax.get_yscale() == "log"
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    x, y = dashed[0].get_data()
    assert np.diff(np.log(y)) / np.diff(np.log(x)) == pytest.approx(-2 / 3)
    with pytest.raises(ParameterError, match="one distance"):
        plots.convergence(pd.concat([table, table.assign(distance="ks")]), ax)


def test_cost(ax, numeric):
    plots.cost(numeric, ax)
    found = privacy_cost(numeric)
    ratios = found["ratio"][np.isfinite(found["ratio"])]
    widths = sorted(1.0 + bar.get_width() for bar in ax.patches)
    np.testing.assert_allclose(widths, sorted(ratios.iloc[:30]), rtol=1e-12)
    assert widths[0] >= 1.0
