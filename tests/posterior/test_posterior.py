"""Posteriors as a whole: tables, noise share, storage, combination of two of them."""

import json

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import dpbayes as dpb
from dpbayes.errors import DomainError, ParameterError, ReleaseFileError
from dpbayes.posterior import assemble
from dpbayes.posterior.tables import noise_share

EDGES = [0, 10, 20, 40, 100]


def fit(values=(31, 12, 25, -4), total=70, steps=(), **options):
    mechanism = dpb.Mechanism(dpb.DiscreteLaplace(scale=5), steps)
    options.setdefault("edges", EDGES if np.ndim(values) == 1 and len(values) == 4 else None)
    release = dpb.HistogramRelease(values, mechanism=mechanism, total=total, **options)
    return dpb.fit(release, dpb.Dirichlet(), draws=500, chains=3, random_seed=1, progressbar=False)


@pytest.fixture(scope="module")
def posterior():
    return fit()


def test_groups_dims_and_variables(posterior):
    assert set(posterior.data.children) == {"posterior", "prior", "observed_data", "constant_data"}
    assert posterior.count.dims == posterior.probability.dims == ("chain", "draw", "bin")
    assert posterior.count.shape == (3, 500, 4)
    assert posterior.total.dims == ("chain", "draw")
    assert np.issubdtype(posterior.count.dtype, np.integer)
    assert posterior.count.coords["bin"].values.tolist() == [
        "[0, 10)", "[10, 20)", "[20, 40)", "[40, 100]",
    ]  # fmt: skip
    np.testing.assert_array_equal(posterior.count.sum("bin"), posterior.total)
    assert posterior.attrs["engine"] == "exact"
    assert posterior.attrs["random_seed"] == 1
    with pytest.raises(DomainError, match="no variable 'atom_count'"):
        posterior._variable("atom_count")


def test_tables_of_several_dims():
    table = fit([[1, 22, 3], [14, 5, 6]], coords={"shop": ["a", "b"], "month": [1, 2, 3]})
    assert table.count.dims == ("chain", "draw", "shop", "month")
    assert "count[b, 3]" in table.summary().index
    assert table.to_frame().columns[:2].tolist() == ["probability[a, 1]", "probability[a, 2]"]
    # C order in and out: the largest count stays where it was released.
    means = table.count.mean(("chain", "draw"))
    assert means.values.argmax() == 1
    with pytest.raises(DomainError, match="numeric axis"):
        table.P.mean()


def test_estimands_read_their_own_variable(posterior):
    middle = np.array([5, 15, 30, 70.0])
    np.testing.assert_allclose(posterior.P.mean(), posterior.probability.values @ middle)
    shares = (posterior.count / posterior.total).values
    np.testing.assert_allclose(posterior.table.mean(), shares @ middle)
    np.testing.assert_allclose(posterior.prior_P.mean().mean(), middle.mean(), rtol=0.05)


def test_draws_of_posteriors_of_different_length_do_not_combine(posterior):
    other = dpb.fit(
        posterior.release, dpb.Dirichlet(), draws=400, chains=3, random_seed=2, progressbar=False
    )
    assert (posterior.P.mean() - fit(total=None).P.mean()).shape == (3, 500)
    for a, b in [
        (posterior.P.mean(), other.P.mean()),
        (posterior.total, other.total),
        (posterior.count, other.count),
        (posterior.probability, other.probability),
    ]:
        with pytest.raises(ValueError, match="draw"):
            a - b
        with pytest.raises(ValueError, match="draw"):
            a / b


# -- summary ---------------------------------------------------------------------------


def test_summary_of_every_quantity(posterior):
    table = posterior.summary(ci_prob=0.8)
    assert table.columns.tolist() == [
        "estimand", "naive", "mean", "sd", "lower", "upper", "noise_share", "learned",
    ]  # fmt: skip
    assert table.attrs["ci_prob"] == 0.8
    draws = posterior.count.values[..., 0].ravel()
    row = table.loc["count[[0, 10)]"]
    assert row["mean"] == pytest.approx(draws.mean())
    assert row["sd"] == pytest.approx(draws.std())
    assert (row["lower"], row["upper"]) == pytest.approx(tuple(np.quantile(draws, [0.1, 0.9])))
    assert row["naive"] == 31
    assert row["estimand"] == "table"
    prior = posterior.data["prior"]["count"].values[..., 0]
    assert row["learned"] == pytest.approx(1 - draws.std() / prior.std())
    median = posterior.P.quantile(0.5).values
    assert table.loc["P.quantile[0.5]", "mean"] == pytest.approx(median.mean())
    sd = np.sqrt(posterior.table.variance()).values
    assert table.loc["table.sd", "mean"] == pytest.approx(sd.mean())
    assert table.loc["total", "sd"] == 0.0
    for ci_prob in (0.0, 1.0, 90):
        with pytest.raises(ParameterError, match=f"ci_prob must be between 0 and 1, got {ci_prob}"):
            posterior.summary(ci_prob=ci_prob)


def test_naive_column(posterior):
    table = posterior.summary()
    # The naive reader drops negatives and normalises: 31, 12, 25, 0.
    np.testing.assert_allclose(
        table.loc["probability[[0, 10)]":"probability[[40, 100]]", "naive"],
        np.array([31, 12, 25, 0]) / 68,
    )
    assert table.loc["P.mean", "naive"] == pytest.approx((31 * 5 + 12 * 15 + 25 * 30) / 68)
    hidden = fit([None, 40, 12, 22], steps=[dpb.Suppress(below=8)]).summary()
    assert np.isnan(hidden.loc["count[[0, 10)]", "naive"])
    tens = fit([0, 300, 120, 200], steps=[dpb.Clamp(lower=0), dpb.Rescale(10)]).summary()
    assert tens["naive"].iloc[:4].tolist() == [0, 30, 12, 20]


def test_frame_of_draws(posterior):
    frame = posterior.to_frame()
    assert frame.index.names == ["chain", "draw"]
    assert frame.shape == (1500, 9)
    np.testing.assert_array_equal(frame["total"], posterior.total.values.ravel())
    np.testing.assert_array_equal(frame["count[[20, 40)]"].loc[2], posterior.count.values[2, :, 2])


# -- noise share -----------------------------------------------------------------------


def test_noise_share_of_probabilities_and_means_is_the_variance_of_their_expectation():
    # E[p | N] = (1 + N) / (4 + n): its variance over the draws of N, against that of p.
    release = fit().release
    big = dpb.fit(
        release, dpb.Dirichlet(), draws=20_000, chains=1, random_seed=5, progressbar=False
    )
    expected = (1.0 + big.count.values[0]) / (4 + 70)
    table = big.summary()
    middle = np.array([5, 15, 30, 70.0])
    shares = expected.var(axis=0) / big.probability.values[0].var(axis=0)
    got = table["noise_share"].filter(like="probability[").to_numpy()
    np.testing.assert_allclose(got, shares, atol=0.02)
    mean_share = (expected @ middle).var() / big.P.mean().values.var()
    assert table.loc["P.mean", "noise_share"] == pytest.approx(mean_share, abs=0.02)
    assert np.all(table["noise_share"].filter(like="count[") == 1.0)
    assert table.loc["table.mean", "noise_share"] == 1.0


def test_noise_share_against_a_nested_simulation():
    # Redraw P from its law given each table: the part of the variance that the tables make.
    rng = np.random.default_rng(3)
    tables = fit().count.values.reshape(-1, 4)
    middle = np.array([5, 15, 30, 70.0])
    inner = np.stack([rng.dirichlet(1.0 + n, 400) @ middle for n in tables])
    between = inner.mean(axis=1).var() - inner.var(axis=1).mean() / 400
    share = between / (between + inner.var(axis=1).mean())
    assert fit().summary().loc["P.mean", "noise_share"] == pytest.approx(share, abs=0.06)


def test_noise_share_grows_with_the_noise():
    shares = []
    for scale in (0.5, 5.0, 50.0):
        release = dpb.HistogramRelease(
            [100, 200], mechanism=dpb.Laplace(scale=scale), total=300, edges=[0, 1, 2]
        )
        p = dpb.fit(
            release, dpb.Dirichlet(), draws=4000, chains=1, random_seed=1, progressbar=False
        )
        shares.append(p.summary().loc["P.mean", "noise_share"])
    assert shares[0] < 0.05 < 0.1 < shares[1] < 0.5 < shares[2]
    assert shares[2] > 0.8


def test_noise_share_at_its_limits():
    rng = np.random.default_rng(1)
    x = rng.normal(size=1000)
    assert noise_share(x, None) == 1.0
    assert noise_share(x, x) == pytest.approx(1.0)
    assert noise_share(x, np.ones(1000)) == 0.0
    assert np.isnan(noise_share(np.ones(1000), x))
    assert noise_share(x + rng.normal(size=1000), x) == pytest.approx(0.5, abs=0.07)
    assert noise_share(np.append(x, np.nan), np.append(x, 3.0)) == pytest.approx(1.0)


# -- verdict ---------------------------------------------------------------------------


def test_exact_draws_need_no_convergence(posterior):
    verdict = posterior.verdict()
    assert verdict.converged
    assert "exact and independent" in str(verdict)
    assert verdict.problems == ()


def test_a_release_that_says_nothing_is_called_prior_dominated():
    release = dpb.HistogramRelease(
        [100, 200, 50], mechanism=dpb.Laplace(scale=1e5), total=300, edges=[0, 1, 2, 3]
    )
    loud = dpb.fit(release, dpb.Dirichlet(), draws=2000, chains=1, random_seed=1, progressbar=False)
    verdict = loud.verdict()
    assert not verdict.ok
    assert "P.mean" in verdict.prior_dominated
    assert "count[[0, 1)]" in verdict.prior_dominated
    assert "Prior-dominated" in str(verdict)
    quiet = dpb.HistogramRelease(
        [100, 200, 50], mechanism=dpb.Laplace(scale=2.0), total=350, edges=[0, 1, 2, 3]
    )
    verdict = dpb.fit(
        quiet, dpb.Dirichlet(), draws=2000, chains=1, random_seed=1, progressbar=False
    ).verdict()
    assert verdict.ok
    assert verdict.prior_dominated == ()
    assert "No quantity is dominated by the prior" in str(verdict)


def test_problems_of_a_sampler_are_repeated(posterior):
    tree = posterior.data.copy()
    tree.attrs["problems"] = json.dumps(["R-hat is 1.2"])
    verdict = dpb.Posterior(tree, posterior.release).verdict()
    assert not verdict.converged
    assert not verdict.ok
    assert "R-hat is 1.2" in str(verdict)


@pytest.mark.parametrize("total", [0, None])
def test_an_empty_table_is_summarised_and_noted(total):
    empty = fit([0, 0, 0, 0], total=total, steps=[dpb.Clamp(lower=0, upper=1)])
    table = empty.summary()
    assert table.loc["count[[0, 10)]", "mean"] < 20
    share = np.mean(empty.total.values == 0)
    assert np.isnan(empty.table.mean()).mean() == share
    if total == 0:
        assert share == 1.0
        assert np.isnan(table.loc["table.mean", "mean"])
    if share:
        assert "the table is empty" in str(empty.verdict())


# -- storage ---------------------------------------------------------------------------


def _records():
    release = dpb.RecordRelease(
        [1.5, 3.0, -2.0], mechanism=dpb.Laplace(scale=1.0), bounds=(0, 4), attrs={"unit": "EUR"}
    )
    rng = np.random.default_rng(1)

    def draws(size):
        p = rng.dirichlet(np.ones(6), (2, size))
        n = rng.multinomial(3, p)
        return {
            "probability": p[..., :4],
            "atom_probability": p[..., 4:],
            "count": n[..., :4],
            "atom_count": n[..., 4:],
            "total": np.full((2, size), 3),
        }

    stats_ = xr.Dataset({"diverging": (("chain", "draw"), np.zeros((2, 30), dtype=bool))})
    return assemble(
        release,
        posterior=draws(30),
        prior=draws(20),
        attrs={"engine": "nuts", "max_rhat": 1.001, "min_ess": 900.0, "divergences": 0},
        edges=np.arange(5.0),
        atoms=np.array([0.0, 4.0]),
        sample_stats=stats_,
    )


SAVED = {
    "edges": lambda: fit(),
    "unknown total": lambda: fit(total=None),
    "table": lambda: fit([[1, 22, 3], [14, 5, 6]], coords={"shop": ["a", "b"], "month": [1, 2, 3]}),
    "suppressed": lambda: fit([None, 40, 12, 22], steps=[dpb.Suppress(below=8)]),
    "steps": lambda: fit(
        [0, 40, 10, 20], steps=[dpb.Round(step=5), dpb.Clamp(lower=0), dpb.Rescale(2)],
    ),
    "plain cells, attributes": lambda: fit(
        [4, 5, 9], total=None, attrs={"title": "Umsätze <b>", "epsilon": 0.1}
    ),
    "records": _records,
}  # fmt: skip


@pytest.mark.parametrize("make", SAVED.values(), ids=SAVED)
def test_what_is_saved_comes_back_equal(make, tmp_path):
    posterior = make()
    path = tmp_path / "posterior.nc"
    posterior.save(path)
    assert list(tmp_path.iterdir()) == [path]
    again = dpb.load(path)
    assert again == posterior
    assert again.release == posterior.release
    assert dict(again.attrs) == dict(posterior.attrs)
    assert again.summary().equals(posterior.summary())
    assert str(again.verdict()) == str(posterior.verdict())
    again.save(tmp_path / "twice.nc")
    assert dpb.load(tmp_path / "twice.nc") == posterior


def test_posteriors_of_other_draws_or_releases_are_not_equal(posterior):
    assert posterior == fit()
    assert posterior != fit(total=71)
    changed = posterior.data.copy(deep=True)
    changed["posterior"]["total"].values[0, 0] += 1
    assert dpb.Posterior(changed, posterior.release) != posterior
    assert posterior != 3


def _foreign(path):
    xr.Dataset({"a": 1}).to_netcdf(path, engine="h5netcdf")


def _text(path):
    path.write_text("count,month\n1,2\n")


def _cut(path):
    fit().save(path)
    path.write_bytes(path.read_bytes()[:2000])


def _newer(path):
    fit().save(path)
    tree = xr.open_datatree(path, engine="h5netcdf").load()
    tree.close()
    tree.attrs["format_version"] = 99
    tree.to_netcdf(path, engine="h5netcdf")


def _no_release(path):
    fit().save(path)
    tree = xr.open_datatree(path, engine="h5netcdf").load()
    tree.close()
    del tree.attrs["release"]
    tree.to_netcdf(path, engine="h5netcdf")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_foreign, "was not written by Posterior.save"),
        (_text, "is no saved posterior: load reads the NetCDF files"),
        (lambda path: path.write_bytes(b""), "is no saved posterior"),
        (_cut, "is damaged"),
        (_newer, "format version 99, this dpbayes reads 1"),
        (_no_release, "lacks the release|not written by Posterior.save"),
    ],
)
def test_files_that_are_not_posteriors(spoil, message, tmp_path):
    path = tmp_path / "file.nc"
    spoil(path)
    with pytest.raises(ReleaseFileError, match=message):
        dpb.load(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.nc"):
        dpb.load(tmp_path / "nowhere.nc")


def test_a_failed_save_leaves_the_old_file(posterior, tmp_path, monkeypatch):
    path = tmp_path / "p.nc"
    path.write_text("old")

    def fail(self, *args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(xr.DataTree, "to_netcdf", fail)
    with pytest.raises(KeyboardInterrupt):
        posterior.save(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_repr_says_what_it_is(posterior):
    assert "3 x 500 draws" in repr(posterior)
    assert "engine exact" in repr(posterior)


def test_prior_draws_have_the_prior_law(posterior):
    p = posterior.data["prior"]["probability"].values[0, :, 0]
    assert stats.kstest(p, stats.beta(1, 3).cdf).pvalue > 1e-3


def test_a_release_file_is_no_posterior(tmp_path):
    path = tmp_path / "release.toml"
    path.write_text("version = 1\n")
    with pytest.raises(ReleaseFileError, match=r"dpbayes\.io\.read_release"):
        dpb.load(path)
