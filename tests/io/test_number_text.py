"""What to do about text that is no number."""

import numpy as np
import pytest

from dpbayes.io.number_text import is_number, parse_numbers, remedy


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("1,234", "remove the thousands separators: 1234"),
        ("-1,234,567.5", "remove the thousands separators: -1234567.5"),
        ("1\u202f234", "remove the thousands separators: 1234"),
        ("1'234", "remove the thousands separators: 1234"),
        ("1.234,5", "write a decimal point: 1234.5"),
        ("1.234.567", "write a decimal point: 1234567"),
        ("3,5", "write a decimal point: 3.5"),
        ("12%", "remove the % sign"),
        ("12 %", "remove the % sign"),
        ("$12.50", "remove the currency sign"),
        ("12 €", "remove the currency sign"),
        ("-", "write 0 if it means zero"),
        ("—", "leave the cell of a suppressed value empty"),
        ("<10", "leave the cell of a suppressed value empty"),
        ("two", "leave the cell of a suppressed value empty"),
    ],
)
def test_remedy(entry, words):
    assert not is_number(entry)
    assert words in remedy(entry)


def test_numbers_and_missing_values():
    entries = np.array([" 12 ", "-3.5", "1e3", "", "NA", None], dtype=object)
    np.testing.assert_array_equal(parse_numbers(entries), [12, -3.5, 1000, *[np.nan] * 3])
