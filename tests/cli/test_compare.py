import io
import json

import pandas as pd
from typer.testing import CliRunner

from dpbayes.cli.app import app

SMALL = ["none", "perturbed", "--records", "1000,1e4", "--simulations", "20", "--workers", "1"]


def run(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def test_table_and_picture(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = run(*SMALL, "--plot", tmp_path / "out.png")
    assert result.exit_code == 0, result.stderr
    assert "10,000" in result.stdout
    assert "(theory n^-0.667)" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_csv_and_json_hold_the_same():
    csv = pd.read_csv(io.StringIO(run(*SMALL, "--format", "csv").stdout))
    rows = json.loads(run(*SMALL, "--format", "json").stdout)
    assert csv["mechanism"].tolist() == [row["mechanism"] for row in rows]
    assert csv["records"].tolist() == [1000, 10_000] * 2
    assert abs(csv["error"][3] - rows[3]["error"]) < 1e-9


def test_errors():
    for arguments, message in (
        (["--records", "1000,x"], "--records must be numbers separated by commas"),
        (["--records", "10.5"], "--records must be whole numbers"),
        (["--alpha", "-1"], "alpha must be positive"),
        (["pertubed"], "did you mean 'perturbed'"),
        (["--plot", "out.gif", *SMALL], "--plot must end in .png"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2, arguments
        assert message in result.stderr
