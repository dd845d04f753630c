"""Release files: what they build, and the path of the field in every error."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpbayes as dpb
from dpbayes.errors import ReleaseFileError
from dpbayes.io import read_release
from dpbayes.io.mechanism_table import LAWS, STEPS

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"

TOML = """
version = 1
[release]
kind = "histogram"
file = "data.csv"
value = "buyers"
dims = ["month"]
[mechanism]
noise = "discrete-laplace"
scale = 30
"""
CSV = "month,buyers\n1997-01,5\n1997-02,-7\n1997-03,40\n"
RECORDS = """
version = 1
[release]
kind = "records"
file = "data.csv"
column = "spend"
bounds = [0, 250]
[mechanism]
noise = "laplace"
scale = 30
"""
SPENDS = "spend\n12.5\n-40.25\n260\n"


def write(folder, toml=TOML, csv=CSV):
    (folder / "release.toml").write_text(toml, encoding="utf-8")
    if csv is not None:
        (folder / "data.csv").write_text(csv, encoding="utf-8")
    return folder / "release.toml"


def failure(folder, toml=TOML, csv=CSV):
    with pytest.raises(ReleaseFileError) as caught:
        read_release(write(folder, toml, csv))
    assert caught.value.field
    assert str(caught.value).startswith(f"{caught.value.field}: ")
    return caught.value


def swapped(old, new, toml=TOML):
    assert old in toml
    return toml.replace(old, new)


# -- what is read ------------------------------------------------------------------------


def test_builds_the_release_that_the_constructor_builds(tmp_path):
    toml = swapped("scale = 30", 'epsilon = 0.1\nsensitivity = 3\nneighbours = "add-remove"')
    toml = swapped('kind = "histogram"', 'kind = "histogram"\ntitle = "Buyers"\nunit = "u"', toml)
    expected = dpb.HistogramRelease(
        [5, -7, 40],
        mechanism=dpb.DiscreteLaplace(scale=30),
        coords={"month": ["1997-01", "1997-02", "1997-03"]},
        attrs={
            "title": "Buyers", "unit": "u", "neighbours": "add-remove",
            "epsilon": 0.1, "sensitivity": 3,
        },
    )  # fmt: skip
    assert read_release(write(tmp_path, toml)) == expected


def test_records(tmp_path):
    expected = dpb.RecordRelease(
        [12.5, -40.25, 260], mechanism=dpb.Laplace(scale=30), bounds=(0, 250)
    )
    assert read_release(write(tmp_path, RECORDS, SPENDS)) == expected


@pytest.mark.parametrize("path", sorted(DATA.glob("*.toml")), ids=lambda p: p.stem)
def test_committed_release_files(path):
    release = read_release(path)
    assert release.attrs["source"].startswith("CDNOW")
    assert {"epsilon", "sensitivity", "neighbours", "unit", "title"} <= set(release.attrs)


def test_edges_total_and_steps(tmp_path):
    toml = swapped('dims = ["month"]', 'edges = ["lo", "hi"]\ntotal = 40')
    toml += "steps = [{ clamp = { lower = 0 } }, { suppress = { below = 5, inclusive = true } }]\n"
    release = read_release(write(tmp_path, toml, "lo,hi,buyers\n0,10,7\n10,25.5,\n"))
    assert release.total == 40
    assert release.edges.tolist() == [0, 10, 25.5]
    assert release.mechanism.steps == (dpb.Clamp(lower=0), dpb.Suppress(below=5, inclusive=True))
    assert np.isnan(release.values.values[1])


WAYS = [
    ("laplace", "scale = 2", dpb.Laplace(scale=2)),
    ("laplace", "epsilon = 0.5\nsensitivity = 3", dpb.Laplace(scale=6)),
    ("laplace", "sd = 2", dpb.Laplace.from_sd(sd=2)),
    ("laplace", "variance = 8", dpb.Laplace(scale=2)),
    ("laplace", "half_width = 5", dpb.Laplace.from_half_width(half_width=5)),
    (
        "laplace",
        "half_width = 5\nlevel = 0.9",
        dpb.Laplace.from_half_width(half_width=5, level=0.9),
    ),
    ("discrete-laplace", "scale = 2\nstep = 0.5", dpb.DiscreteLaplace(scale=2, step=0.5)),
    ("gaussian", "sd = 2", dpb.Gaussian(sd=2)),
    ("gaussian", "rho = 0.5\nsensitivity = 2", dpb.Gaussian.from_rho(rho=0.5, sensitivity=2)),
    (
        "gaussian",
        "epsilon = 1\ndelta = 1e-6\nsensitivity = 2",
        dpb.Gaussian.from_epsilon_delta(epsilon=1, delta=1e-6, sensitivity=2),
    ),
    ("discrete-gaussian", "sigma = 2", dpb.DiscreteGaussian(sigma=2)),
    ("truncated-laplace", "scale = 2\nbound = 60", dpb.TruncatedLaplace(scale=2, bound=60)),
    ("none", "", dpb.NoNoise()),
]


@pytest.mark.parametrize(("name", "size", "law"), WAYS, ids=lambda v: str(v)[:30])
def test_every_way_of_stating_the_noise(tmp_path, name, size, law):
    toml = swapped("scale = 30", size, swapped("discrete-laplace", name))
    csv = CSV.replace("-7", "7")
    assert read_release(write(tmp_path, toml, csv)).mechanism == dpb.Mechanism(law)


def test_every_law_and_step_is_tested():
    assert {name for name, _, _ in WAYS} | {"truncated-discrete-laplace"} == set(LAWS)
    assert set(STEPS) == {"rescale", "round", "clamp", "suppress"}


@pytest.mark.parametrize("dims", [["a"], ["a", "b"]])
def test_scale_per_cell_follows_its_cell(tmp_path, dims):
    toml = swapped('["month"]', str(dims), swapped("scale = 30", 'scale_column = "b_noise"'))
    csv = "a,b,buyers,b_noise\ny,q,1,10\nx,q,2,20\n"
    csv += "y,p,3,30\nx,p,4,40\n" if len(dims) > 1 else ""
    release = read_release(write(tmp_path, toml, csv))
    # The scales were written as ten times the values.
    np.testing.assert_array_equal(release.mechanism.noise.scale, 10 * release.values.values)


def test_scale_per_bin(tmp_path):
    toml = swapped('dims = ["month"]', 'edges = ["lo", "hi"]')
    toml = swapped('"discrete-laplace"', '"gaussian"', toml)
    toml = swapped("scale = 30", 'sd_column = "sd"', toml)
    release = read_release(write(tmp_path, toml, "lo,hi,buyers,sd\n0,10,7,1\n10,25.5,9,2\n"))
    np.testing.assert_array_equal(release.mechanism.noise.sd, [1, 2])


def test_labels_keep_leading_zeros_and_names_of_missing_values(tmp_path):
    labels = read_release(write(tmp_path, csv="month,buyers\n01,1\n02,2\nNA,3\n")).values["month"]
    assert labels.values.tolist() == ["01", "02", "NA"]
    numbers = read_release(write(tmp_path, csv="month,buyers\n10,1\n-2,2\n0,3\n")).values["month"]
    assert numbers.values.tolist() == [10, -2, 0]


def test_declared_domain_marks_absent_rows_as_suppressed(tmp_path):
    toml = swapped("[mechanism]", '[release.coords]\nmonth = ["1", "2", "3"]\n[mechanism]')
    toml += "steps = [{ suppress = { below = 5 } }]\n"
    release = read_release(write(tmp_path, toml, "month,buyers\n3,50\n1,7\n"))
    np.testing.assert_array_equal(release.values.values, [7, np.nan, 50])


def test_suppressed_record_in_a_file_with_one_column_is_a_blank_line(tmp_path):
    toml = RECORDS + "steps = [{ suppress = { below = 5 } }]\n"
    values = read_release(write(tmp_path, toml, "spend\n10\n\n30\n")).values
    np.testing.assert_array_equal(values, [10, np.nan, 30])


@pytest.mark.parametrize("blank", ["\n", " \n", ",\n", '"",\n', "\r\n"])
def test_blank_lines_are_not_cells(tmp_path, blank):
    names, first, *rest = CSV.splitlines(keepends=True)
    csv = blank + names + blank + first + blank * 2 + "".join(rest) + blank * 2
    assert read_release(write(tmp_path, csv=csv)).values.values.tolist() == [5, -7, 40]


def test_lines_are_counted_with_the_blank_ones(tmp_path):
    error = failure(tmp_path, csv="\nmonth,buyers\n\na,1\n\nb,two\n")
    assert "got 'two' in row 2 (line 6)" in str(error)


def test_blank_lines_are_not_records(tmp_path):
    assert read_release(write(tmp_path, RECORDS, "spend\n1\n\n2\n\n\n")).values.tolist() == [1, 2]
    toml = RECORDS + "steps = [{ suppress = { below = 5 } }]\n"
    values = read_release(write(tmp_path, toml, 'spend\n10\n\n""\n30\n\n\n')).values
    np.testing.assert_array_equal(values, [10, np.nan, np.nan, 30])


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("latin-1", "the byte 0xe9"),
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16"),
    ],
)
def test_other_encodings(tmp_path, encoding, words):
    path = write(tmp_path, csv=None)
    # Without a letter beyond ASCII, UTF-16 without a mark is UTF-8 with zero bytes.
    text = "month,buyers\nfévrier,3\n" if encoding != "utf-16-le" else CSV
    (tmp_path / "data.csv").write_bytes(text.encode(encoding))
    with pytest.raises(ReleaseFileError, match="save it as CSV UTF-8") as caught:
        read_release(path)
    assert words in str(caught.value)


def test_missing_record_without_a_step(tmp_path):
    error = failure(tmp_path, RECORDS, "spend\n1\nNA\nNA\n")
    assert error.field == "release.column"
    assert "row 2 (line 3) of 'data.csv' and 1 more row" in str(error)
    assert "suppress = { below = 50 }" in str(error)


def test_absent_cell_without_a_step(tmp_path):
    toml = swapped('["month"]', '["month", "arm"]')
    error = failure(tmp_path, toml, "month,arm,buyers\n1,a,3\n2,b,4\n")
    assert "add its row" in str(error)
    assert "suppress = { below = 50 }" in str(error)
    assert "Suppress(" not in str(error)


def test_blank_end_of_a_bin(tmp_path):
    toml = swapped('dims = ["month"]', 'edges = ["lo", "hi"]')
    error = failure(tmp_path, toml, "lo,hi,buyers\n0,10,7\n10,,9\n")
    assert "got an empty cell in row 2 (line 3)" in str(error)
    assert "close an open end at a value that no record passes" in str(error)


@pytest.mark.parametrize("word", ["", "NA", "NaN", "null", " "])
def test_ways_to_write_a_suppressed_value(tmp_path, word):
    toml = TOML + "steps = [{ suppress = { below = 5 } }]\n"
    release = read_release(write(tmp_path, toml, f"month,buyers\na,{word}\nb,7\n"))
    np.testing.assert_array_equal(release.values.values, [np.nan, 7])


def test_byte_order_mark_and_windows_line_ends(tmp_path):
    csv = "\ufeff" + CSV.replace("\n", "\r\n")
    assert read_release(write(tmp_path, csv=csv)).values.values.tolist() == [5, -7, 40]


# -- what is refused, and where ------------------------------------------------------------

STEP = TOML + "steps = [{ round = {} }, %s]\n"
BAD_TOML = {
    # text of the file -> (field, words of the message)
    swapped("version = 1", ""): ("version", "must be given"),
    swapped("version = 1", "version = 2"): ("version", "must be 1"),
    swapped("version = 1", 'version = "1"'): ("version", "must be 1"),
    swapped("version = 1", "version = true"): ("version", "got true"),
    swapped("version = 1", "version = 1\nmechanisms = 3"): ("mechanisms", "mean 'mechanism'"),
    swapped("[mechanism]", "[mechanisms]"): ("mechanisms", "did you mean 'mechanism'"),
    "version = 1\n[release]\n": ("mechanism", "must be given"),
    "version = 1\nrelease = 3\n[mechanism]\n": ("release", "must be a table, got 3"),
    swapped('kind = "histogram"', ""): ("release.kind", "must be given"),
    swapped('"histogram"', '"histgram"'): ("release.kind", "did you mean 'histogram'"),
    swapped('"histogram"', "1"): ("release.kind", "must be one of"),
    swapped('value = "buyers"', ""): ("release.value", "must be given"),
    swapped('value = "buyers"', "value = 3"): ("release.value", "must be text, got 3"),
    swapped('value = "buyers"', 'value = ""'): ("release.value", "must not be empty"),
    swapped("value =", "values ="): ("release.values", "did you mean 'value'"),
    swapped("value =", "platform ="): ("release.platform", "unknown key"),
    swapped('"buyers"', '"buyer"'): ("release.value", "did you mean 'buyers'"),
    swapped('["month"]', "[]"): ("release.dims", "at least one"),
    swapped('["month"]', '"month"'): ("release.dims", "must be a list"),
    swapped('["month"]', '["month", 3]'): ("release.dims[1]", "must be text, got 3"),
    swapped('["month"]', '["moth"]'): ("release.dims[0]", "did you mean 'month'"),
    swapped('["month"]', '["month", "month"]'): ("release.dims[1]", "named twice"),
    swapped('["month"]', '["buyers"]'): ("release.dims[0]", "column of values"),
    swapped('dims = ["month"]', ""): ("release", "got neither"),
    swapped("dims", 'edges = ["lo", "hi"]\ndims'): ("release", "got both"),
    swapped("dims", 'edges = ["lo"]\ndims'): ("release.edges", "pair of columns"),
    swapped("dims", "total = -1\ndims"): ("release.total", "0 or more, got -1"),
    swapped("dims", "total = 1.5\ndims"): ("release.total", "whole number"),
    swapped("dims", "total = nan\ndims"): ("release.total", "finite"),
    swapped("dims", "epsilon = 0\ndims"): ("release.epsilon", "must be positive"),
    swapped("dims", "coords = 3\ndims"): ("release.coords", "must be a table"),
    swapped("dims", 'coords = { moth = ["a"] }\ndims'): ("release.coords.moth", "mean 'month'"),
    swapped("dims", "coords = { month = [1.5] }\ndims"): ("release.coords.month[0]", "1.5"),
    swapped("dims", 'coords = { month = ["a", "a"] }\ndims'): ("release.coords.month[1]", "twice"),
    swapped("dims", 'coords = { month = ["a"] }\ndims'): ("release.coords", "'1997-01' is not in"),
    swapped("dims", "bounds = [0, 1]\ndims"): ("release.bounds", 'for kind = "histogram"'),
    swapped('noise = "discrete-laplace"', ""): ("mechanism.noise", "must be given"),
    swapped("discrete-laplace", "laplac"): ("mechanism.noise", "did you mean 'laplace'"),
    swapped("scale = 30", ""): ("mechanism", "by one of: scale; epsilon and sensitivity; sd"),
    swapped("scale = 30", "scale = 0"): ("mechanism.scale", "must be positive"),
    swapped("scale = 30", "scale = inf"): ("mechanism.scale", "must be a finite number"),
    swapped("scale = 30", "scale = nan"): ("mechanism.scale", "must be a finite number"),
    swapped("scale = 30", "scale = true"): ("mechanism.scale", "must be a number, got true"),
    swapped("scale = 30", f"scale = 1{'0' * 400}"): ("mechanism.scale", "finite number"),
    swapped("scale = 30", 'scale = "30"'): ("mechanism.scale", 'must be a number, got "30"'),
    swapped("scale = 30", "scale = 1979-05-27"): ("mechanism.scale", "the date or time 1979"),
    swapped("scale = 30", "scale = 3\nsd = 4"): ("mechanism", "in one way only, got scale, sd"),
    swapped("scale = 30", "epsilon = 3"): ("mechanism.sensitivity", "beside `epsilon`"),
    swapped("scale = 30", "sensitivity = 3"): ("mechanism.epsilon", "beside `sensitivity`"),
    swapped("scale = 30", "level = 0.9"): ("mechanism.half_width", "beside `level`"),
    swapped("scale = 30", "half_width = 9\nlevel = 2"): ("mechanism.level", "between 0 and 1"),
    swapped("scale = 30", "scales = 30"): ("mechanism.scales", "did you mean 'scale'"),
    swapped("scale = 30", "sigma = 30"): ("mechanism.sigma", 'for noise = "discrete-laplace"'),
    swapped("scale = 30", "scale = 3\nstep = 0"): ("mechanism.step", "must be positive"),
    swapped("scale = 30", "scale = 3\nstep = 0.3"): ("mechanism.noise", "0.3"),
    swapped("scale = 30", "scale = 3\nscale_column = 'b'"): ("mechanism.scale_column", "not both"),
    swapped("scale = 30", "scale_column = 'b'"): ("mechanism.scale_column", "no column 'b'"),
    swapped("scale = 30", "scale_column = 'month'"): (
        "mechanism.scale_column",
        "must hold numbers",
    ),
    swapped("scale = 30", "scale_column = 'buyers'"): ("mechanism.scale_column", "got -7 in row 2"),
    swapped("scale = 30", 'scale = 3\nneighbours = "both"'): ("mechanism.neighbours", "one of"),
    TOML + "steps = 3\n": ("mechanism.steps", "must be a list of steps"),
    TOML + 'steps = ["round"]\n': ("mechanism.steps[0]", 'got "round"'),
    STEP % "{}": ("mechanism.steps[1]", "got an empty table"),
    STEP % "{ round = {}, clamp = {} }": ("mechanism.steps[1]", "the keys round, clamp"),
    STEP % "{ clam = {} }": ("mechanism.steps[1].clam", "did you mean 'clamp'"),
    STEP % "{ clamp = 0 }": ("mechanism.steps[1].clamp", "must be a table, got 0"),
    STEP % "{ clamp = {} }": ("mechanism.steps[1].clamp", "got neither"),
    STEP % '{ clamp = { lower = "zero" } }': (
        "mechanism.steps[1].clamp.lower",
        'must be a number, got "zero"',
    ),
    STEP % "{ clamp = { lowr = 0 } }": ("mechanism.steps[1].clamp.lowr", "did you mean 'lower'"),
    STEP % "{ clamp = { lower = 5, upper = 5 } }": (
        "mechanism.steps[1].clamp.lower",
        "below upper",
    ),
    STEP % "{ rescale = { factor = 0 } }": ("mechanism.steps[1].rescale.factor", "must not be 0"),
    STEP % "{ round = { step = -1 } }": ("mechanism.steps[1].round.step", "must be positive"),
    STEP % '{ round = { mode = "up" } }': ("mechanism.steps[1].round.mode", "must be one of"),
    STEP % "{ suppress = {} }": ("mechanism.steps[1].suppress.below", "must be given"),
    STEP % "{ suppress = { below = 1, inclusive = 1 } }": (
        "mechanism.steps[1].suppress.inclusive",
        "must be true or false, got 1",
    ),
    STEP % "{ suppress = { below = 1 } }, { suppress = { below = 2 } }": (
        "mechanism.steps",
        "at most one Suppress",
    ),
    STEP % "{ clamp = { lower = 0 } }": ("release.value", "cell 1997-02: -7 cannot have been"),
    STEP % "{ suppress = { below = 10 } }": ("release.value", "cell 1997-01: 5 cannot have been"),
    swapped('"data.csv"', '"dat.csv"'): ("release.file", "did you mean 'data.csv'"),
    swapped('"data.csv"', '"release.toml"'): ("release.file", "must be a CSV or Parquet file"),
    swapped('"data.csv"', '"."'): ("release.file", "got the folder"),
    swapped('"data.csv"', '"a\\u0000b.csv"'): ("release.file", "no such file"),
}


@pytest.mark.parametrize("toml", BAD_TOML, ids=lambda t: "/".join(BAD_TOML[t])[:60])
def test_wrong_field_is_named(tmp_path, toml):
    field, words = BAD_TOML[toml]
    error = failure(tmp_path, toml)
    assert error.field == field
    assert words in str(error)
    assert "\n" not in str(error)


BAD_RECORDS = {
    swapped("[0, 250]", "[250, 0]", RECORDS): ("release.bounds", "must be [lower, upper]"),
    swapped("[0, 250]", "[0]", RECORDS): ("release.bounds", "must be a pair of numbers"),
    swapped("[0, 250]", "[0, inf]", RECORDS): ("release.bounds[1]", "finite"),
    swapped("bounds = [0, 250]", "", RECORDS): ("release.bounds", "must be given"),
    swapped("bounds", 'support = "real"\nbounds', RECORDS): ("release.support", "one of"),
    swapped('"laplace"', '"discrete-laplace"', RECORDS): ("mechanism.noise", "lattice"),
    swapped("scale = 30", "scale_column = 's'", RECORDS): ("mechanism.scale_column", "per record"),
    swapped('"spend"', '"spent"', RECORDS): ("release.column", "did you mean 'spend'"),
}


@pytest.mark.parametrize("toml", BAD_RECORDS, ids=lambda t: "/".join(BAD_RECORDS[t])[:60])
def test_wrong_field_of_records_is_named(tmp_path, toml):
    field, words = BAD_RECORDS[toml]
    error = failure(tmp_path, toml, SPENDS)
    assert error.field == field
    assert words in str(error)


def test_what_to_write(tmp_path):
    def words(toml):
        return str(failure(tmp_path, toml))

    assert "write version = 1" in words(swapped("version = 1", ""))
    table = TOML[TOML.index("[mechanism]") :]
    assert 'with noise = "discrete-laplace"' in words(swapped(table, ""))
    assert "a table [release] with kind" in words(f"version = 1\n{table}")
    assert 'write kind = "histogram" or' in words(swapped('kind = "histogram"', ""))
    assert "a records file names its column of values by `column`" in words(
        swapped("column =", "value =", RECORDS)
    )
    assert "names its column of counts by `value`" in words(swapped("value =", "column ="))
    only = words(swapped("scale = 30", "sensitivity = 3"))
    assert "mechanism.epsilon: must be given beside `sensitivity`" in only
    assert "in another way: scale; sd;" in only
    assert "for Python only" in words(swapped("discrete-laplace", "custom"))


BAD_CSV = {
    "": ("release.file", "is empty"),
    "month,buyers\n": ("release.file", "has no rows"),
    "month,buyers\n\n": ("release.file", "has no rows"),
    "month;buyers\n1;2\n": ("release.value", "separated by semicolons"),
    "month,buyers,buyers\na,1,2\n": ("release.value", "more than one column 'buyers'"),
    "month,buyers\na,1\nb,two\n": ("release.value", "got 'two' in row 2 (line 3) of 'data.csv'"),
    "month,buyers\na,1\nb,1_000\n": ("release.value", "got '1_000' in row 2"),
    'month,buyers\na,1\nb,"1,000"\n': ("release.value", "got '1,000' in row 2"),
    "month,buyers\na,1\nb,<10\n": ("release.value", "leave the cell of a suppressed value empty"),
    "month,buyers\na,1\nb,inf\n": ("release.value", "is infinite"),
    "month,buyers\na,1\nb,1e999\n": ("release.value", "is infinite"),
    "month,buyers\na,1\nb,\n": ("release.value", "no value in row 2 (line 3) of 'data.csv'"),
    "month,buyers\na,1\n\nb,\n": ("release.value", "steps = [{ suppress = { below = 50 } }]"),
    "month,buyers\na,1\nb,2.5\n": ("release.value", "cell b: 2.5 cannot come from"),
    "month,buyers\na,1\n,2\n": ("release.dims[0]", "no label in row 2 (line 3)"),
    "month,buyers\na,1\na,2\n": ("release.dims", "rows 1 and 2 both describe the cell month=a"),
    "month,buyers\na,1,9\nb,2\n": ("release.file", "line 2 of 'data.csv' has 3 fields, but the"),
    "month,buyers\na,1\nb,1,200\n": ("release.file", "without thousands separators"),
    "month,buyers\na\n": ("release.file", "has 1 field, but the first line names 2 columns"),
    'month,buyers\n"a,1\nb,2\n': ("release.file", "a quotation mark is opened and never closed"),
}


@pytest.mark.parametrize("csv", BAD_CSV, ids=lambda c: BAD_CSV[c][1][:40])
def test_wrong_data_are_named(tmp_path, csv):
    field, words = BAD_CSV[csv]
    error = failure(tmp_path, csv=csv)
    assert error.field == field
    assert words in str(error)


def test_text_in_row_17_of_records(tmp_path):
    rows = [f"{v}.5" for v in range(30)]
    rows[16] = "n/k"
    error = failure(tmp_path, RECORDS, "spend\n" + "\n".join(rows) + "\n")
    assert error.field == "release.column"
    assert "got 'n/k' in row 17 (line 18) of 'data.csv'" in str(error)


def test_edges_with_gaps(tmp_path):
    toml = swapped('dims = ["month"]', 'edges = ["lo", "hi"]')
    error = failure(tmp_path, toml, "lo,hi,buyers\n0,10,7\n11,20,9\n")
    assert error.field == "release.edges"
    assert "bins must adjoin" in str(error)
    error = failure(tmp_path, toml, "lo,hi,buyers\n0,10,7\n10,,9\n")
    assert error.field == "release.edges[1]"
    assert "row 2" in str(error)
    error = failure(tmp_path, toml, "lo,hi,buyers\n0,10,7\n10,10,9\n")
    assert error.field == "release.edges"
    assert "increase" in str(error)


def test_epsilon_stated_twice(tmp_path):
    toml = swapped(
        "dims", "epsilon = 1\ndims", swapped("scale = 30", "epsilon = 1\nsensitivity = 2")
    )
    assert failure(tmp_path, toml).field == "release.epsilon"


def test_scale_missing_for_a_cell_without_row(tmp_path):
    toml = swapped('["month"]', '["a", "b"]', swapped("scale = 30", 'scale_column = "s"'))
    toml += "steps = [{ suppress = { below = 5 } }]\n"
    error = failure(tmp_path, toml, "a,b,buyers,s\nx,p,9,1\ny,q,9,2\n")
    assert error.field == "mechanism.scale_column"
    assert "for every cell" in str(error)


# -- files that are no release files ---------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version = 1\nkind = \n", "(at line 2"),
        (b"version = 1\nversion = 1\n", "is not TOML"),
        (b"\xff\xfe\x00", "must be UTF-8 text"),
        (b"a = " + b"[" * 5000, "is not TOML"),
        (b"a = 1" + b"0" * 5000, "is not TOML"),
    ],
)
def test_malformed_toml(tmp_path, content, words):
    path = tmp_path / "release.toml"
    path.write_bytes(content)
    with pytest.raises(ReleaseFileError, match=re.escape(words)) as caught:
        read_release(path)
    assert "release.toml" in str(caught.value)


def test_missing_release_file_names_its_neighbour(tmp_path):
    write(tmp_path)
    with pytest.raises(ReleaseFileError, match=r"did you mean 'release\.toml'"):
        read_release(tmp_path / "releas.toml")


def test_data_file_given_for_the_release_file(tmp_path):
    write(tmp_path)
    with pytest.raises(ReleaseFileError, match="not the data file"):
        read_release(tmp_path / "data.csv")


def test_folder_given_for_the_release_file(tmp_path):
    with pytest.raises(ReleaseFileError, match="cannot read"):
        read_release(tmp_path)


# -- whatever else may be in the file ----------------------------------------------------------

FILES = st.sampled_from(
    [
        (TOML + "steps = [{ clamp = { upper = 90 } }, { round = { step = 1 } }]\n", CSV),
        (swapped("scale = 30", "epsilon = 0.1\nsensitivity = 3"), CSV),
        (RECORDS, SPENDS),
    ]
)
CHARACTERS = st.sampled_from("\"'[]{}=,.#-_0123456789aeinx \n\t\\\x00é∞")


def read_or_refuse(folder, toml, csv):
    path, error = write(folder, toml, csv), None
    try:
        read_release(path)
    except ReleaseFileError as refusal:
        error = refusal
    assert error is None or error.field or "is not TOML" in str(error)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    files=FILES, position=st.floats(0, 1), character=CHARACTERS | st.just(""), data=st.booleans()
)
def test_one_character_changed(tmp_path, files, position, character, data):
    texts = list(files)
    text = texts[data]
    at = int(position * (len(text) - 1))
    texts[data] = text[:at] + character + text[at + 1 :]
    read_or_refuse(tmp_path, *texts)


LINES = sorted({line for toml in (TOML, RECORDS) for line in toml.split("\n") if "=" in line})
SCALARS = st.sampled_from(
    ["1", "-1", "0", "1.5", "nan", "inf", "true", '"x"', '""', "[]", "{}", "[[1]]", '["a"]',
     "1979-05-27", "07:32:00", "1e400", '{ a = 1 }', '"data.csv"', '"month"', "9223372036854775808"]
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    files=FILES,
    line=st.sampled_from(LINES),
    value=SCALARS,
    change=st.sampled_from(["value", "drop", "twice"]),
)
def test_one_field_changed(tmp_path, files, line, value, change):
    toml, csv = files
    key = line.split(" = ")[0]
    new = {"value": f"{key} = {value}", "drop": "", "twice": f"{line}\n{line}"}[change]
    read_or_refuse(tmp_path, toml.replace(line, new), csv)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text("ab1,;\n\r\"'.-e \x00\ufeff", max_size=40))
def test_any_csv(tmp_path, csv):
    read_or_refuse(tmp_path, TOML, csv)
    read_or_refuse(tmp_path, TOML, "month,buyers\n" + csv)
    read_or_refuse(tmp_path, RECORDS, "spend\n" + csv)
