"""The calibration commands run, and their tables hold what they say (at a tiny size)."""

import csv

import numpy as np

from tests.calibration import default_prior, main, shapes


def test_the_grid_of_the_default_prior(tmp_path, monkeypatch):
    some = {name: shapes.SHAPES[name] for name in ("all zero", "integers around 50")}
    monkeypatch.setattr(default_prior, "SHAPES", some)
    monkeypatch.setattr(default_prior, "SCALES", (2.0,))
    rows = default_prior.run(1, [12], [False, True], draws=40, folder=tmp_path, name="tiny")
    assert [(r["table"], r["total"], r["reps"]) for r in rows] == [
        ("all zero", "unknown", 1), ("integers around 50", "unknown", 1),
        ("all zero", "public", 1), ("integers around 50", "public", 1),
    ]  # fmt: skip
    assert float(rows[2]["cover 90 %"]) == 1.0  # a public total of 0
    with (tmp_path / "tiny.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [{k: str(v) for k, v in r.items()} for r in rows]
    text = (tmp_path / "tiny.md").read_text(encoding="utf-8")
    assert "1 repetitions asked for" in text
    assert "| integers around 50 | 12 | 2 | public | 1 |" in text


def test_shapes_have_the_size_asked_for_and_whole_counts():
    for name, shape in shapes.SHAPES.items():
        table = shape(100, np.random.default_rng(1))
        assert table.shape == (100,), name
        assert np.all(table >= 0), name
        assert np.issubdtype(table.dtype, np.integer), name


def test_dirichlet_histograms(tmp_path):
    rows = main.run(reps=12, draws=40, seed=3, folder=tmp_path)
    assert {r["release"] for r in rows} == set(main.CASES)
    assert all(r["reps"] == 12 for r in rows)
    assert "chi2 p" in (tmp_path / "main.md").read_text(encoding="utf-8")
    assert 0.7 < sum(float(r["cover 90 %"]) for r in rows) / len(rows) <= 1.0
