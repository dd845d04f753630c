import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dpbayes as dpb
from dpbayes.cli.app import app
from dpbayes.io import read_release


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spend = np.random.default_rng(1).uniform(0, 50, 300)
    pd.DataFrame({"spend": spend}).to_csv("data.csv", index=False)

    def invoke(*arguments):
        words = ["simulate", "data.csv", "--column", "spend", "--bounds", "0,50", "--alpha", "0.5"]
        return CliRunner().invoke(app, [*words, *map(str, arguments)])

    return invoke


def test_a_histogram_that_the_other_commands_read(run):
    result = run("--bins", 5, "--seed", 1, "--out", "release.toml")
    assert result.exit_code == 0, result.stderr
    release = read_release("release.toml")
    assert release.total == 300
    assert release.mechanism.noise == dpb.Laplace(scale=4.0)
    np.testing.assert_allclose(release.edges, np.linspace(0, 50, 6))
    audited = CliRunner().invoke(app, ["audit", "release.toml"])
    assert audited.exit_code == 0, audited.stderr
    assert "the claim of 0.5 holds" in audited.stdout


def test_records(run):
    result = run("--kind", "records", "--seed", 1, "--out", "release.toml")
    assert result.exit_code == 0, result.stderr
    release = read_release("release.toml")
    assert (release.size, release.bounds) == (300, (0.0, 50.0))
    assert release.mechanism.noise == dpb.Laplace(scale=100.0)
    again = run("--out", "release.toml")
    assert again.exit_code == 2
    assert "must not exist yet" in again.stderr


def test_errors(run):
    for arguments, message in (
        (["--out", "release.csv"], "must end in .toml"),
        (["--out", "r.toml", "--bounds", "0;1"], "--bounds must be lower,upper"),
        (["--out", "r.toml", "--bounds", "0,9"], "clip them first"),
        (["--out", "r.toml", "--column", "x"], "no column 'x'"),
        (["--out", "r.toml", "--alpha", "0"], "epsilon must be positive"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2, arguments
        assert message in result.stderr
