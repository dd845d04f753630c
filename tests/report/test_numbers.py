import numpy as np
import pytest

from dpbayes.report.numbers import decimals, number, percent, span


@pytest.mark.parametrize(
    ("spread", "expected"), [(180.0, 0), (12.0, 0), (2.4, 1), (0.31, 2), (0.0042, 4), (0.0, 0)]
)
def test_decimals_show_two_digits_of_the_spread(spread, expected):
    assert decimals(spread) == expected


def test_decimals_of_a_column_follow_its_median():
    assert decimals([0.2, 0.3, 500.0]) == 2
    assert decimals([np.nan, 0.0]) == 0


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [(41148.4, 0, "41,148"), (-3.25, 1, "−3.2"), (-0.04, 1, "0.0"), (np.nan, 2, "–")],
)
def test_number(value, digits, expected):
    assert number(value, digits) == expected


def test_shares_and_intervals():
    assert percent(0.2316, 1) == "23.2%"
    assert percent(np.nan, 1) == "–"
    assert span(-1, 2, 0) == "−1 to 2"
    assert span(0.1, 0.25, 0, share=True) == "10% to 25%"
    assert span(np.nan, 1, 0) == "–"
