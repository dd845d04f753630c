"""Commands: what they print, write and refuse."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dpbayes as dpb
from dpbayes.cli.app import app, parse_prior
from dpbayes.cli.output import print_json
from dpbayes.errors import ParameterError

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"
BUYERS = DATA / "buyers_by_month.toml"
SPEND = DATA / "customers_by_spend.toml"
TABLE = """
version = 1
[release]
kind = "histogram"
title = "Visits [bold]by[/bold] shop"
file = "visits.csv"
value = "visits"
dims = ["shop"]
[mechanism]
noise = "discrete-laplace"
scale = 4
steps = [{ suppress = { below = 10 } }]
"""
RECORDS = """
version = 1
[release]
kind = "records"
file = "spend.csv"
column = "spend"
bounds = [0, 5]
[mechanism]
noise = "laplace"
scale = 1
"""
FILES = ["spend.csv", "spend.toml", "visits.csv", "visits.toml"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "visits.toml").write_text(TABLE)
    (tmp_path / "spend.toml").write_text(RECORDS)
    (tmp_path / "spend.csv").write_text("spend\n1\n2\n")
    (tmp_path / "visits.csv").write_text("shop,visits\nNorth [1],30\nSouth,\n")

    def invoke(*arguments):
        words = [str(a) for a in arguments]
        if "--draws" in words and "--prior" not in words and "0" not in words:
            words += ["--prior", "dirichlet"]  # exact, whatever the number of draws
        monkeypatch.setattr("sys.argv", ["dpbayes", *words])
        return CliRunner().invoke(app, words)

    return invoke


# -- describe ------------------------------------------------------------------------------


def test_describe(run):
    result = run("describe", BUYERS)
    assert result.exit_code == 0
    assert "noise of scale 30 was added to each count" in " ".join(result.stdout.split())
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stderr == ""


def test_describe_json(run):
    result = run("describe", SPEND, "--format", "json")
    assert json.loads(result.stdout)["figures"]["noise_scale"] == [20, 20]


def test_version(run):
    assert run("--version").stdout == f"dpbayes {dpb.__version__}\n"


# -- fit -----------------------------------------------------------------------------------


def test_fit_prints_both_estimands(run):
    result = run("fit", SPEND, "--seed", 1, "--draws", 200, "--ci-prob", 0.8)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert "CDNOW: customers by total spend" in lines[0]
    header = next(line for line in lines if line.split()[:1] == ["bin"])
    assert header.split() == [
        "bin",
        "released",
        "true",
        "data",
        "80",
        "%",
        "P",
        "in",
        "%",
        "80",
        "%",
    ]
    assert any(line.startswith(" [0, 10)") and " 816 " in line for line in lines)
    assert any(line.startswith(" mean") for line in lines)
    assert any(line.startswith(" total (public)") and "23,570" in line for line in lines)
    assert "The draws are exact and independent." in lines
    assert max(map(len, lines[:-1])) <= 80


def test_fit_shows_text_of_the_file_as_it_is(run):
    result = run("fit", "visits.toml", "--seed", 1, "--draws", 50)
    assert "Visits [bold]by[/bold] shop" in result.stdout
    assert "North [1]" in result.stdout
    assert "suppressed" in result.stdout
    assert "The released total leaves out 1 suppressed cell." in result.stdout


def test_total_of_suppressed_cells_alone_is_not_zero(run, tmp_path):
    (tmp_path / "visits.csv").write_text("shop,visits\nNorth,\nSouth,\n")
    result = run("fit", "visits.toml", "--seed", 1, "--draws", 50)
    total = next(line for line in result.stdout.splitlines() if line.startswith(" total"))
    assert total.split()[1] == "suppressed"
    assert "leaves out" not in result.stdout


def test_fit_repeats_itself_by_the_command_that_it_names(run):
    first = run("fit", "visits.toml", "--draws", 50)
    again = first.stdout.splitlines()[-1].removeprefix("Again: dpbayes ").split()
    assert again[-2] == "--seed"
    assert run(*again).stdout == first.stdout


def test_csv_is_the_summary(run):
    result = run("fit", "visits.toml", "--draws", 50, "--seed", 3, "--format", "csv")
    frame = pd.read_csv(io.StringIO(result.stdout), index_col="quantity")
    release = dpb.io.read_release("visits.toml")
    posterior = dpb.fit(release, dpb.Dirichlet(), draws=50, random_seed=3, progressbar=False)
    pd.testing.assert_frame_equal(frame, posterior.summary(0.9), check_dtype=False)
    assert "exact and independent" in result.stderr


def test_json_is_strict(run):
    result = run("fit", "visits.toml", "--draws", 50, "--seed", 3, "--format", "json", "-q")

    def refuse(word):
        raise AssertionError(word)

    document = json.loads(result.stdout, parse_constant=refuse)
    assert document["command"] == (
        "dpbayes fit visits.toml --draws 50 --seed 3 --format json -q --prior dirichlet"
    )
    assert document["summary"][0]["quantity"] == "count[North [1]]"
    assert document["verdict"]["converged"] is True


def test_likely_mistakes_are_named_beside_the_result(run, tmp_path):
    (tmp_path / "visits.toml").write_text(TABLE.replace("scale = 4", "scale = 0.2"))
    result = run("fit", "visits.toml", "--draws", 50)
    assert "Check the release file: A Laplace scale of 0.2" in result.stdout
    result = run("fit", "visits.toml", "--draws", 50, "--format", "json")
    assert json.loads(result.stdout)["doubts"][0]["code"] == "rate-for-scale"


def test_numbers_and_labels_are_whole_however_narrow_the_terminal(run, tmp_path, monkeypatch):
    names = [f"A campaign with a rather long name, number {i}" for i in range(3)]
    rows = "".join(f'"{name}",{123456789 * (i + 1)}\n' for i, name in enumerate(names))
    (tmp_path / "visits.csv").write_text(f"shop,visits\n{rows}")
    monkeypatch.setenv("COLUMNS", "40")
    result = run("fit", "visits.toml", "--seed", 1, "--draws", 50)
    assert "…" not in result.stdout
    for number in ("123,456,789", "246,913,578", "370,370,367", "740,740,734"):
        assert number in result.stdout
    first = [line[1:25].rstrip() for line in result.stdout.splitlines()]
    at = first.index("A campaign with a rather")
    assert first[at + 1] == "long name, number 0"


def test_settings_of_the_sampler_reach_the_fit(run, monkeypatch):
    given = {}

    def fit(release, **settings):
        given.update(settings)
        raise ParameterError("enough")

    monkeypatch.setattr("dpbayes.inference.fit", fit)
    run("fit", "visits.toml", "--tune", 700, "--target-accept", 0.99)
    assert (given["tune"], given["target_accept"]) == (700, 0.99)
    run("fit", "visits.toml")
    assert (given["tune"], given["target_accept"]) == (None, 0.95)


def test_too_few_draws_are_named(run):
    few = run("fit", "visits.toml", "--seed", 1, "--draws", 1, "--chains", 1)
    assert "1 draw in all: an interval takes at least 100" in few.stdout
    assert "interval takes" not in run("fit", "visits.toml", "--seed", 1, "--draws", 25).stdout


def test_json_has_no_infinities(capsys):
    print_json({"a": [float("inf"), float("nan"), np.float64(2)], 3: {"b": -np.inf}})
    assert json.loads(capsys.readouterr().out) == {"a": [None, None, 2.0], "3": {"b": None}}


def test_save(run, tmp_path):
    result = run("fit", "visits.toml", "--draws", 50, "--seed", 3, "--save", "out.nc")
    assert result.exit_code == 0, result.stderr
    assert "Wrote out.nc" in result.stdout
    assert dpb.load("out.nc").release == dpb.io.read_release("visits.toml")
    assert sorted(os.listdir(tmp_path)) == sorted([*FILES, "out.nc"])


def test_prior_reaches_the_fit(run):
    result = run(
        "fit", "visits.toml", "--draws", 50, "--prior", "dirichlet:0.5", "--format", "json"
    )
    prior = json.loads(result.stdout)["attributes"]["prior"]
    assert prior == repr(dpb.Dirichlet(concentration=0.5))


def test_an_error_while_writing_leaves_no_file(run, tmp_path, monkeypatch):
    def report(self, path, ci_prob, command):
        Path(path).write_text("<html>")

    def save(self, path):
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dpbayes.posterior.Posterior.report", report)
    monkeypatch.setattr("dpbayes.posterior.Posterior.save", save)
    result = run("fit", "visits.toml", "--draws", 50, "--report", "a.html", "--save", "b.nc")
    assert result.exit_code == 2
    assert result.stderr == "error: [Errno 28] No space left on device\n"
    assert sorted(os.listdir(tmp_path)) == FILES


# -- what is refused -------------------------------------------------------------------------

WRONG = {
    ("fit", "nowhere.toml"): "error: no such release file: 'nowhere.toml'",
    ("describe", "visits.csv"): "not the data file",
    ("fit", "visits.toml", "--save", "no/out.nc"): "--save must lie in an existing folder",
    ("fit", "visits.toml", "--report", "."): "--report must be a file, got the folder",
    (
        "fit",
        "visits.toml",
        "--report",
        "a",
        "--save",
        "a",
    ): "--save must not be the file of --report",
    ("fit", "visits.toml", "--save", "./visits.toml"): "could overwrite a release",
    ("fit", "visits", "--save", "./visits"): "--save must not be the release file",
    ("fit", "visits.toml", "--save", "visits.csv"): "--save must not end in .csv",
    ("fit", "visits.toml", "--ci-prob", "90"): "between 0 and 1, got 90 (did you mean 0.9?)",
    ("fit", "visits.toml", "--ci-prob", "0"): "--ci-prob must be between 0 and 1, got 0\n",
    ("fit", "visits.toml", "--target-accept", "1"): "--target-accept must be between 0 and 1, got",
    ("fit", "visits.toml", "--engine", "nuts"): "takes --prior dirichlet: give it too",
    ("fit", "spend.toml", "--engine", "exact"): "--engine exact is for histograms",
    ("fit", "spend.toml", "--prior", "dirichlet:2"): "dirichlet:2 is for histograms: records take",
    ("fit", "visits.toml", "--prior", "dirichle"): "did you mean 'dirichlet'",
    ("fit", "visits.toml", "--prior", "smooth"): "takes --prior scale-mixture, dirichlet or",
}


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_one_line_and_status_2(run, tmp_path, words):
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert WRONG[words] in result.stderr
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_wrong_field_is_named_with_its_file(run, tmp_path):
    (tmp_path / "visits.toml").write_text(TABLE.replace("scale = 4", "scale = 0"))
    result = run("describe", "visits.toml")
    assert result.stderr.startswith("error: visits.toml: mechanism.scale: must be positive")


def test_debug_shows_the_error_itself(run):
    result = run("fit", "visits.toml", "--ci-prob", 2, "--debug")
    assert isinstance(result.exception, ParameterError)


@pytest.mark.parametrize("words", [("fit",), ("fit", "visits.toml", "--draws", "0"), ("fitt",)])
def test_usage_errors(run, words):
    assert run(*words).exit_code == 2


@pytest.mark.parametrize(
    ("text", "prior"),
    [
        (None, None),
        ("dirichlet", dpb.Dirichlet()),
        ("dirichlet:0.5", dpb.Dirichlet(concentration=0.5)),
        ("smooth", dpb.priors.Smooth()),
        ("scale-mixture", dpb.priors.ScaleMixture()),
    ],
)
def test_prior(text, prior):
    assert parse_prior(text) == prior


@pytest.mark.parametrize(
    "text", ["", "dirichlet:", "dirichlet:x", "dirichlet:-1", "smooth:1", "scale-mixture:1", "D"]
)
def test_wrong_prior(text):
    with pytest.raises(ParameterError):
        parse_prior(text)
