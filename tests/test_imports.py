"""What an import loads, and in which direction modules import each other."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {"pymc", "pytensor", "arviz", "matplotlib", "nutpie", "jinja2", "typer", "rich", "opendp"}


def loaded_after(code):
    """Top-level modules that a fresh interpreter has loaded after running the code."""
    report = "print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    script = f"{code}\nimport sys, json\n{report}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_bare_import_loads_next_to_nothing():
    loaded = loaded_after("import dpbayes; assert dpbayes.__version__")
    assert not loaded & (HEAVY | {"xarray", "pandas", "scipy", "numba"})


def test_a_histogram_is_fitted_without_pymc():
    loaded = loaded_after(
        "import dpbayes as dpb\n"
        "law = dpb.Mechanism(dpb.DiscreteLaplace(scale=3), [dpb.Clamp(lower=0)])\n"
        "release = dpb.HistogramRelease([4, 0, 9], mechanism=law, edges=[0, 1, 2, 3], total=12)\n"
        "p = dpb.fit(release, dpb.Dirichlet(), draws=50, random_seed=1, progressbar=False)\n"
        "p.summary(); p.verdict(); p.P.mean()"
    )
    assert not loaded & (HEAVY - {"rich"})


@pytest.mark.parametrize("module", ["noise", "mechanism", "kernels.leaves", "kernels.poisson"])
def test_lower_layers_know_arrays_only(module):
    assert not loaded_after(f"import dpbayes.{module}") & (HEAVY | {"xarray", "pandas"})


def test_import_contracts_hold():
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert "0 broken" in done.stdout, done.stdout
    assert done.returncode == 0
