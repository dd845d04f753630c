"""The public names, as a snapshot: a change here is a change for users."""

import importlib
import inspect
import tomllib
from pathlib import Path

import pytest

import dpbayes as dpb

PUBLIC = [
    "Clamp",
    "CustomNoise",
    "Dirichlet",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "HistogramRelease",
    "Laplace",
    "Mechanism",
    "NoNoise",
    "NoisyBinomial",
    "NoisyMixture",
    "NoisyMultinomial",
    "NoisyNegativeBinomial",
    "NoisyNormal",
    "NoisyPoisson",
    "Posterior",
    "RecordRelease",
    "Rescale",
    "ResponseRelease",
    "Round",
    "ScaleMixture",
    "SelectionRelease",
    "SeriesRelease",
    "Smooth",
    "Suppress",
    "SyntheticRelease",
    "TruncatedDiscreteLaplace",
    "TruncatedLaplace",
    "__version__",
    "compare",
    "distributions",
    "errors",
    "fit",
    "fit_many",
    "io",
    "lift",
    "load",
    "mechanism",
    "noise",
    "posterior",
    "priors",
    "privacy",
    "rate",
    "releases",
    "simulate",
]


def test_public_names():
    assert dpb.__all__ == PUBLIC
    assert dir(dpb) == PUBLIC


def test_every_name_has_a_home():
    assert sorted(PUBLIC) == sorted([*dpb._HOME, *dpb._MODULES, "__version__"])
    for name, home in dpb._HOME.items():
        module = importlib.import_module(home)
        assert getattr(dpb, name) is getattr(module, name)
        assert name in module.__all__
    for name in dpb._MODULES:
        assert getattr(dpb, name) is importlib.import_module(f"dpbayes.{name}")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'dpbayes' has no attribute 'fti'"):
        dpb.fti  # noqa: B018


def test_signatures():
    def parameters(thing):
        return list(inspect.signature(thing).parameters)

    assert parameters(dpb.fit)[:7] == [
        "release", "prior", "draws", "chains", "random_seed", "engine", "progressbar",
    ]  # fmt: skip
    assert parameters(dpb.load) == ["path"]
    assert parameters(dpb.Mechanism) == ["noise", "steps"]
    assert parameters(dpb.HistogramRelease.from_frame) == [
        "frame", "value", "dims", "groups", "edges", "mechanism", "coords", "total", "attrs",
    ]  # fmt: skip
    for estimand in ("P", "table"):
        assert isinstance(inspect.getattr_static(dpb.Posterior, estimand).func, object)
    for method in ("mean", "variance", "quantile", "cdf", "density", "expect"):
        assert callable(getattr(dpb.posterior.Estimand, method))


def test_errors_are_of_the_builtin_kind_too():
    errors = dpb.errors
    for name in errors.__all__:
        cls = getattr(errors, name)
        if issubclass(cls, Warning):
            assert issubclass(cls, UserWarning)
        elif cls is not errors.DPBayesError:
            assert issubclass(cls, errors.DPBayesError)
            assert issubclass(cls, ValueError | NotImplementedError)
    assert issubclass(errors.ImpossibleReleaseError, errors.ReleaseError)
    error = errors.ReleaseFileError("must be positive", field="mechanism.scale")
    assert str(error) == "mechanism.scale: must be positive"
    assert error.field == "mechanism.scale"


def test_names_of_a_posterior_are_public():
    from dpbayes import schema

    assert {k: v for k, v in vars(schema).items() if k.isupper()} == {
        "POSTERIOR": "posterior", "PRIOR": "prior", "OBSERVED": "observed_data",
        "CONSTANT": "constant_data", "SAMPLE_STATS": "sample_stats",
        "CHAIN": "chain", "DRAW": "draw", "CELL": "cell", "BIN": "bin", "ATOM": "atom",
        "VALUE": "value", "EDGE": "edge", "SCALE": "walk_scale",
        "PROBABILITY": "probability", "COUNT": "count", "TOTAL": "total",
        "ATOM_PROBABILITY": "atom_probability", "ATOM_COUNT": "atom_count",
        "SAMPLE": "sample", "SAMPLE_COUNT": "sample_count",
        "RATE": "rate", "CONCENTRATION": "concentration", "SPIKE": "spike",
        "RELEASED": "released", "EDGES": "edges", "LOWER": "lower", "UPPER": "upper",
        "NUMERATOR": "numerator", "DENOMINATOR": "denominator", "LIFT": "lift",
        "DIFFERENCE": "difference", "TREATMENT": "treatment", "CONTROL": "control",
        "FORMAT": "dpbayes-posterior", "FORMAT_VERSION": 1,
    }  # fmt: skip


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert dpb.__version__ == project["version"]
