"""Totals of groups in release files, descriptions, doubts and storage."""

import numpy as np
import pandas as pd
import pytest

import dpbayes as dpb
from dpbayes.errors import ReleaseFileError
from dpbayes.io import read_release
from dpbayes.io.describe import describe
from dpbayes.io.doubts import doubts
from dpbayes.mechanism import Clamp, Mechanism, Round, Suppress

TOML = """
version = 1
[release]
kind = "histogram"
file = "shops.csv"
value = "buyers"
dims = ["shop"]
groups = ["region", "country"]
[mechanism]
noise = "discrete-laplace"
scale = 3

[[margins]]
file = "regions.csv"
value = "noisy"
by = ["region"]
[margins.mechanism]
noise = "gaussian"
sd = 2
steps = [{ suppress = { below = 10 } }]

[[margins]]
value = 61
by = []
"""
SHOPS = "shop,region,country,buyers\na,n,x,9\nb,n,x,21\nc,s,y,8\nd,n,x,14\ne,s,y,-3\nf,w,y,11\n"
REGIONS = "region,noisy\nw,13.5\nn,47.25\ns,\n"
COORDS = {
    "shop": list("abcdef"),
    "region": ("shop", ["n", "n", "s", "n", "s", "w"]),
    "country": ("shop", ["x", "x", "y", "x", "y", "y"]),
}
LAW = dpb.DiscreteLaplace(scale=3)


def cells(**options):
    return dpb.HistogramRelease(
        [9, 21, 8, 14, -3, 11], mechanism=LAW, coords=COORDS, attrs={}, **options
    )


def write(folder, toml=TOML, regions=REGIONS, shops=SHOPS):
    (folder / "release.toml").write_text(toml, encoding="utf-8")
    (folder / "shops.csv").write_text(shops, encoding="utf-8")
    (folder / "regions.csv").write_text(regions, encoding="utf-8")
    return folder / "release.toml"


def swapped(old, new, text=TOML):
    assert text.count(old) == 1
    return text.replace(old, new)


# -- what is read ------------------------------------------------------------------------


def test_builds_the_release_that_the_methods_build(tmp_path):
    law = Mechanism(dpb.Gaussian(sd=2), [Suppress(below=10)])
    expected = cells().with_margin([47.25, None, 13.5], by="region", mechanism=law)
    expected = expected.with_margin(61, by=(), mechanism=LAW)
    got = read_release(write(tmp_path))
    assert got == expected
    assert got.digest() == expected.digest()


def test_a_group_without_a_row_was_not_released(tmp_path):
    got = read_release(write(tmp_path, regions="region,noisy\nn,47.25\n"))
    law = Mechanism(dpb.Gaussian(sd=2), [Suppress(below=10)])
    assert got.margin("region") == cells().with_margin(
        {"n": 47.25}, by="region", mechanism=law
    ).margin("region")
    assert got.margin("region").published.tolist() == [True, False, False]


def test_the_grand_total_from_a_file_of_one_row(tmp_path):
    toml = swapped("value = 61\nby = []", 'file = "all.csv"\nvalue = "noisy"\nby = []')
    (tmp_path / "all.csv").write_text("noisy\n61\n")
    assert read_release(write(tmp_path, toml)) == read_release(write(tmp_path))
    (tmp_path / "all.csv").write_text("noisy\n61\n62\n")
    with pytest.raises(ReleaseFileError, match=r"one row, the grand total; 'all.csv' has 2"):
        read_release(write(tmp_path, toml))


def test_a_scale_for_every_group_and_parquet(tmp_path):
    toml = swapped("sd = 2", 'sd_column = "sd"')
    got = read_release(write(tmp_path, toml, "region,noisy,sd\nw,13.5,1\nn,47.25,2\ns,,4\n"))
    np.testing.assert_array_equal(got.margin("region").mechanism.noise.sd, [2, 4, 1])
    frame = pd.DataFrame({"region": ["n", "w"], "noisy": [47.25, 13.5], "sd": [2.0, 1.0]})
    frame.to_parquet(tmp_path / "regions.parquet")
    got = read_release(write(tmp_path, swapped("regions.csv", "regions.parquet", toml)))
    assert got.margin("region").observations().noise.sd[[0, 2]].tolist() == [2, 1]
    assert got.margin("region").published.tolist() == [True, False, True]


def test_totals_by_two_dims_of_a_table(tmp_path):
    toml = """
version = 1
[release]
kind = "histogram"
file = "cells.csv"
value = "n"
dims = ["arm", "month", "sex"]
[mechanism]
noise = "discrete-laplace"
scale = 3
[[margins]]
file = "totals.csv"
value = "n"
by = ["arm", "month"]
[[margins]]
file = "arms.csv"
value = "n"
by = ["arm"]
"""
    rows = [(a, m, s) for a in "ab" for m in (1, 2) for s in "fm"]
    values = np.arange(8.0)
    (tmp_path / "cells.csv").write_text(
        "arm,month,sex,n\n"
        + "".join(f"{a},{m},{s},{v:g}\n" for (a, m, s), v in zip(rows, values, strict=True))
    )
    (tmp_path / "totals.csv").write_text("month,arm,n\n2,b,13\n1,a,1\n1,b,9\n2,a,5\n")
    (tmp_path / "arms.csv").write_text("arm,n\nb,22\na,6\n")
    (tmp_path / "release.toml").write_text(toml)
    got = read_release(tmp_path / "release.toml")
    assert got.margin(("arm", "month")).values.values.tolist() == [[1, 5], [9, 13]]
    assert got.margin("arm").values.values.tolist() == [6, 22]
    assert got.margin("arm").mechanism.noise.sd.max() == LAW.sd
    (tmp_path / "totals.csv").write_text("month,arm,n\n2,b,13\n1,a,1\n2,a,5\n")
    with pytest.raises(ReleaseFileError, match=r"margins\[0\].file: has no row for arm=b, month=1"):
        read_release(tmp_path / "release.toml")


# -- errors carry the path of the key ----------------------------------------------------

BAD = {
    "unknown key": ("by = []", "by = []\ntotl = 3", {}, "margins[1].totl", "unknown key"),
    "no by": ("value = 61\nby = []", "value = 61", {}, "margins[1].by", "must be given"),
    "by is text": ("by = []", 'by = "region"', {}, "margins[1].by", "must be a list"),
    "by twice": ("by = []", 'by = ["region", "region"]', {}, "margins[1].by[1]", "named twice"),
    "unknown by": ('by = ["region"]', 'by = ["regoin"]', {}, "margins[0].by[0]", "did you mean"),
    "number for a column": (
        "by = []", 'by = ["country"]', {}, "margins[1].value", "name of a column",
    ),
    "file for a number": (
        "value = 61", 'value = 61\nfile = "regions.csv"', {}, "margins[1].file", "needs no file",
    ),
    "no file": ("value = 61", 'value = "noisy"', {}, "margins[1].file", "must be given"),
    "no such file": (
        "regions.csv", "region.csv", {}, "margins[0].file", "did you mean 'regions.csv'",
    ),
    "no such column": (
        'value = "noisy"', 'value = "nosy"', {}, "margins[0].value", "did you mean 'noisy'",
    ),
    "by is the values": (
        'value = "noisy"', 'value = "region"', {}, "margins[0].by", "column of values",
    ),
    "given twice": (
        "value = 61\nby = []",
        'file = "regions.csv"\nvalue = "noisy"\nby = ["region"]\n[margins.mechanism]\n'
        'noise = "gaussian"\nsd = 2\nsteps = [{ suppress = { below = 10 } }]',
        {}, "margins[1].by", "given before",
    ),
    "bad mechanism": ("sd = 2", "sd = -2", {}, "margins[0].mechanism.sd", "positive"),
    "unknown law": (
        'noise = "gaussian"', 'noise = "gausian"', {}, "margins[0].mechanism.noise", "did you mean",
    ),
    "unknown group": (
        "by = []", "by = []", {"regions": "region,noisy\nx,3\n"}, "margins[0].by[0]",
        "'x' in row 1",
    ),
    "two rows": (
        "by = []", "by = []", {"regions": "region,noisy\nn,47\nw,13\nn,48\n"}, "margins[0].by",
        "both hold the total of region=n",
    ),
    "suppressed without a step": (
        "steps = [{ suppress = { below = 10 } }]", "", {}, "margins[0].value", "suppress = {",
    ),
    "text for a number": (
        "by = []", "by = []", {"regions": "region,noisy\nn,many\n"}, "margins[0].value",
        "must hold numbers",
    ),
    "impossible total": ("value = 61", "value = 61.5", {}, "margins[1].value", "grand total"),
    "grand total with a column": (
        "value = 61\nby = []",
        'value = 61\nby = []\n[margins.mechanism]\nnoise = "laplace"\nscale_column = "b"',
        {}, "margins[1].mechanism.scale_column", "given as a number",
    ),
    "margins is a table": (
        "[[margins]]\nvalue = 61\nby = []", "", {"margins": 1}, "margins", "must be a list",
    ),
    "cells vary": (
        "scale = 3", 'scale_column = "buyers"', {}, "margins[1].mechanism", "varies by cell",
    ),
    "group of two kinds": (
        "by = []", "by = []", {"shops": SHOPS.replace("b,n", "a,s")}, "release.dims",
        "rows 1 and 2 both describe",
    ),
    "no such group column": (
        '"region", "country"', '"region", "land"', {}, "release.groups[1]", "land",
    ),
    "group is a dim": ('"region", "country"', '"region", "shop"', {}, "release.groups[1]", "dims"),
    "group is the value": ('"country"', '"buyers"', {}, "release.groups[1]", "`value`"),
    "group twice": ('"country"', '"region"', {}, "release.groups[1]", "named twice"),
    "a shop without a region": (
        "by = []", "by = []", {"shops": SHOPS.replace("e,s", "e,")}, "release.groups[0]",
        "no label in row 5",
    ),
    "groups of two dims": (
        'dims = ["shop"]', 'dims = ["shop", "country"]', {}, "release.groups", "one column",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "files", "field", "match"), BAD.values(), ids=BAD)
def test_errors_name_the_key(tmp_path, old, new, files, field, match):
    toml = swapped(old, new)
    if "margins" in files:  # a table where a list of tables belongs
        toml = toml.split("[[margins]]")[0] + "[margins]\nvalue = 61\nby = []\n"
        files = {}
    with pytest.raises(ReleaseFileError) as caught:
        read_release(write(tmp_path, toml, **files))
    assert caught.value.field == field
    assert match in str(caught.value)


def test_records_have_no_margins(tmp_path):
    toml = """
version = 1
[release]
kind = "records"
file = "shops.csv"
column = "buyers"
bounds = [0, 30]
[mechanism]
noise = "laplace"
scale = 3
[[margins]]
value = 3
by = []
"""
    with pytest.raises(ReleaseFileError, match="totals of cells") as caught:
        read_release(write(tmp_path, toml))
    assert caught.value.field == "margins"


# -- words -------------------------------------------------------------------------------


def test_describe_says_which_totals_were_released_and_their_noise(tmp_path):
    found = describe(read_release(write(tmp_path)))
    text = found.text(width=1000)
    assert "3 totals by region, released on their own (1 suppressed)." in text
    assert "The grand total was released on its own." in text
    assert "Each total by region has Gaussian noise of standard deviation 2 of its own" in text
    assert "The grand total has integer Laplace (two-sided geometric) noise of scale 3" in text
    assert found.figures["margin_noise_sd"]["total by region"] == (2.0, 2.0)
    one = cells().with_margin({"n": 44}, by="region", mechanism=dpb.NoNoise())
    text = describe(one.with_repeat(cells())).text(width=1000)
    assert "(2 not released)" in text
    assert "Each total by region has no noise." in text
    assert "released 1 more time" in text
    plain = describe(cells()).text()
    assert "on its own" not in plain
    assert "on their own" not in plain


def test_the_report_says_so_too(tmp_path):
    release = read_release(write(tmp_path))
    posterior = dpb.fit(
        release, dpb.Dirichlet(rate=0.1), draws=50, random_seed=1, progressbar=False
    )
    posterior.report(tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "3 totals by region, released on their own" in html
    assert "Each total by region has Gaussian noise" in html


def codes(release):
    return [doubt.code for doubt in doubts(release)]


@pytest.mark.parametrize("noise", [dpb.Laplace(scale=2), dpb.NoNoise()])
def test_a_total_far_from_its_cells_is_doubted(noise):
    far = cells().with_margin([100, 5, 11], by="region", mechanism=noise)
    assert "margin-far-from-sum" in codes(far)
    (doubt,) = [d for d in doubts(far) if d.code == "margin-far-from-sum"]
    assert "region=n is 100, its cells add up to 44" in doubt.text
    near = cells().with_margin([50, 0, 15], by="region", mechanism=noise)
    assert "margin-far-from-sum" not in codes(near)
    assert "margin-far-from-sum" in codes(cells().with_margin(210, by=(), mechanism=noise))


def test_a_total_that_a_clamp_or_a_rounding_explains_is_not_doubted():
    clamped = Mechanism(dpb.Laplace(scale=2), [Clamp(upper=20)])
    assert "margin-far-from-sum" not in codes(
        cells().with_margin([20, 5, 11], by="region", mechanism=clamped)
    )
    rounded = Mechanism(dpb.Laplace(scale=2), [Round(step=100)])
    assert "margin-far-from-sum" not in codes(
        cells().with_margin([0, 0, 0], by="region", mechanism=rounded)
    )
    withheld = Mechanism(dpb.Laplace(scale=2), [Suppress(below=40)])
    assert "margin-far-from-sum" not in codes(
        cells().with_margin([45, None, None], by="region", mechanism=withheld)
    )


# -- storage -----------------------------------------------------------------------------


def test_margins_and_repeats_survive_storage(tmp_path):
    law = Mechanism(dpb.Gaussian(sd=2), [Suppress(below=10)])
    release = cells(total=64).with_margin([47.25, None, 13.5], by="region", mechanism=law)
    release = release.with_margin({"y": 20}, by="country", mechanism=LAW)
    release = release.with_margin(61, by=(), mechanism=dpb.DiscreteLaplace(scale=9))
    other = cells().with_margin({"n": 40}, by="region", mechanism=LAW)
    release = release.with_repeat(other)
    posterior = dpb.fit(release, dpb.Dirichlet(), draws=40, random_seed=1, progressbar=False)
    posterior.save(tmp_path / "p.nc")
    loaded = dpb.load(tmp_path / "p.nc")
    assert loaded.release == release
    assert loaded.release.digest() == release.digest()
    assert loaded.release.margin("country").published.tolist() == [False, True]
    assert loaded == posterior
    for by in ("region", "country", ()):
        assert loaded.margin(by).identical(posterior.margin(by))
    pd.testing.assert_frame_equal(loaded.summary(), posterior.summary())
