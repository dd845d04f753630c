import json

import pytest
from typer.testing import CliRunner

from dpbayes.cli.app import app

TABLE = """
version = 1
[release]
kind = "histogram"
file = "visits.csv"
value = "visits"
dims = ["shop"]
[mechanism]
noise = "{noise}"
{parameters}
steps = [{{ clamp = {{ lower = 0 }} }}]
"""
RECORDS = """
version = 1
[release]
kind = "records"
file = "visits.csv"
column = "visits"
bounds = [0, 50]
[mechanism]
noise = "laplace"
scale = 25
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text("shop,visits\nNorth,30\nSouth,0\nWest,4\n")

    def invoke(text, *options):
        (tmp_path / "release.toml").write_text(text)
        return CliRunner().invoke(app, ["audit", "release.toml", *options])

    return invoke


def discrete(parameters):
    return TABLE.format(noise="discrete-laplace", parameters=parameters)


def test_the_claim_depends_on_the_neighbours(run):
    text = discrete("epsilon = 0.5\nsensitivity = 1")
    added = run(text, "--neighbours", "add-remove")
    assert added.exit_code == 0, added.stderr
    assert "the claim of 0.5 holds" in added.stdout
    replaced = run(text, "--neighbours", "replace-one")
    assert replaced.exit_code == 1
    assert "privacy loss 1 (exact" in replaced.stdout
    assert "the claim of 0.5 is wrong" in replaced.stdout


def test_json(run):
    result = run(discrete("scale = 4"), "--neighbours", "replace-one", "--json")
    found = json.loads(result.stdout)
    assert found["epsilon"] == pytest.approx(0.5)
    assert (found["claim"], found["holds"], found["exact"]) == (None, None, True)
    assert found["power"] == pytest.approx(0.05 * 2.718281828**0.5)
    gaussian = run(
        TABLE.format(noise="gaussian", parameters="sd = 4"), "--neighbours", "add-remove", "--json"
    )
    assert json.loads(gaussian.stdout)["epsilon"] is None


def test_records(run):
    result = run(RECORDS, "--epsilon", "2")
    assert result.exit_code == 0, result.stderr
    assert "privacy loss 2 (exact" in result.stdout
    assert run(RECORDS, "--epsilon", "1.9").exit_code == 1


def test_neighbours_must_be_said(run):
    result = run(discrete("scale = 4"))
    assert result.exit_code == 2
    assert "--neighbours replace-one or add-remove" in result.stderr
