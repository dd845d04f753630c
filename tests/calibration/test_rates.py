"""The commands of rates and errors run; their reduced versions hold what the tables say."""

import pytest

from tests.calibration import mise, rates


def test_a_tiny_table_of_rates_and_its_place_in_the_readme(tmp_path):
    rows = rates.run(8, 1, tmp_path, cases=[("perturbed", "l2", 1, 5), ("smoothed", "ks", 1, 5)])
    assert [r["mechanism"] for r in rows] == ["perturbed", "smoothed"]
    assert "| perturbed | squared L2 | 1 |" in (tmp_path / "rates.md").read_text(encoding="utf-8")
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- rates: begin, made -->\nold\n<!-- rates: end -->\nb\n")
    rates.update_readme(rows, readme)
    text = readme.read_text()
    assert "old" not in text
    assert "| smoothed | KS | 1 | -0.286 |" in text
    assert text.endswith("<!-- rates: end -->\nb\n")
    with pytest.raises(ValueError, match="found 0"):
        rates.update_readme(rows, tmp_path / "rates.md")


def test_the_readme_holds_the_marks():
    assert len(rates.README_MARK.findall(rates.README.read_text(encoding="utf-8"))) == 1


@pytest.mark.slow
def test_rates_of_convergence(tmp_path):
    cases = [c for c in rates.CASES if c[0] != "exponential"]
    rows = rates.run(60, 2, tmp_path, cases)
    found = {(r["mechanism"], r["distance"], r["r"]): r for r in rows}
    for case in (
        ("perturbed", "squared L2", 1), ("perturbed", "squared L2", 2),
        ("perturbed", "KS", 1), ("perturbed", "KS", 2),
    ):  # fmt: skip
        row = found[case]
        assert abs(float(row["fitted"]) - float(row["theory"])) < 0.05, row
    for case in (("smoothed", "squared L2", 1), ("smoothed", "KS", 1)):
        row = found[case]
        theory = float(row["theory"])
        gap = [abs(float(row[name]) - theory) for name in ("lower half", "upper half")]
        # Numbers of bins are whole, which moves exponents by up to a hundredth.
        assert gap[1] < max(gap[0], 0.01), row


@pytest.mark.slow
def test_the_table_of_errors(tmp_path):
    rows = mise.run(10_000, 4, tmp_path)
    known = [r for r in rows if r["reference"] != "-"]
    assert len(known) == 36
    # 3 combined standard errors, once in 370 by chance each: one of 36 may be a little beyond.
    beyond = sorted(float(r["z"]) for r in known)
    assert beyond[-2] < 3
    assert beyond[-1] < 4
    assert sum(float(r["z of the closed form"]) < 3 for r in rows) >= len(rows) - 2
