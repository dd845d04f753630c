from dpbayes.posterior.verdict import Verdict
from dpbayes.report.status import calculation, check_finds


def test_remedy_depends_on_the_problem():
    assert calculation(Verdict(True)) == "The calculation can be trusted."
    assert "more draws (--draws)" in calculation(Verdict(False, ("ESS",)))
    diverged = Verdict(False, ("3 divergent",), diagnostics={"divergences": 3})
    assert "--target-accept 0.99" in calculation(diverged)


def test_a_check_with_unknown_total_finds_no_wrong_level():
    assert "wrong totals" in check_finds(True)
    assert "wrong totals" not in check_finds(False)
    assert "too large or too small altogether" in check_finds(False)
