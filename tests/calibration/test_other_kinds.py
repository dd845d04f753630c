"""The command of responses, synthetic rows and selections runs; its reduced version holds."""

import pytest

from tests.calibration import other_kinds


def test_a_tiny_table(tmp_path):
    some = ["responses, epsilon 1", "40 smoothed rows", "winner"]
    rows = other_kinds.run(3, 20, 1, tmp_path, some)
    assert [row["release"] for row in rows] == [name for name in some for _ in range(4)]
    text = (tmp_path / "other_kinds.md").read_text(encoding="utf-8")
    assert "| winner | count, second cell | 3 |" in text


@pytest.mark.slow
def test_ranks_are_uniform_and_rows_are_no_data(tmp_path):
    # The others take minutes: the committed table has them.
    some = ["responses, epsilon 1", "40 smoothed rows", "5000 rows, perturbed", "winner", "median"]
    rows = other_kinds.run(300, 100, 2, tmp_path, some)
    assert sum(float(row["chi2 p"]) < 0.01 for row in rows) <= 2
    assert min(float(row["chi2 p"]) for row in rows) > 1e-5
    for row in rows:
        if row["quantity"] == "mean of P":
            assert abs(float(row["cover 90 %"]) - 0.9) < 0.055, row  # 3.2 standard errors
    naive = {row["release"]: row["rows as data"] for row in rows if row["rows as data"] != "-"}
    assert float(naive["5000 rows, perturbed"]) < 0.3
    assert float(naive["40 smoothed rows"]) < 0.85
