import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import dpbayes as dpb
from dpbayes.errors import ParameterError
from dpbayes.report import pictures, render, write

FLAT = dpb.Dirichlet(concentration=1.0)

VOID = ("meta", "link", "img", "br")


class Page(HTMLParser):
    """Tags, text and attributes of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts, self.open, self.ids = [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.texts))


@pytest.fixture(scope="module")
def html(numeric):
    return render(numeric, 0.8, "dpbayes fit spend.toml --seed 1")


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_all_sections_are_there_in_order(page):
    sections = [a["id"] for tag, a in page.tags if tag == "section"]
    assert sections == [
        "answer", "verdict", "released", "noise", "quantities", "pictures", "cells", "reading",
        "provenance",
    ]  # fmt: skip
    headings = sum(tag == "h1" for tag, _ in page.tags)
    assert headings == 1


def test_page_says_what_the_posterior_says(page, numeric):
    row = numeric.summary(0.8).loc["P.mean"]
    digits = 1 if row["sd"] >= 1 else 2
    answer = f"{row['lower']:.{digits}f} to {row['upper']:.{digits}f}"
    assert f"the mean is {row['mean']:.{digits}f} (80% interval {answer})" in page.text
    assert "The number of records is public: 150." in page.text
    assert "at most 12 customers in either direction" in page.text
    assert "Standard deviation of the noise: 5.64 customers" in page.text
    assert "dpbayes fit spend.toml --seed 1" in page.text
    for name, value in (("Engine", "exact"), ("Seed", "1"), ("Draws", "4 × 250")):
        assert f"{name} {value}" in page.text
    assert f"dpbayes {dpb.__version__}" in page.text
    assert "Log evidence" in page.text


def test_cells_table_holds_every_cell_and_number(numeric):
    from dpbayes.report.content import Content

    content = Content(numeric, 0.8, None)
    table, summary = content.cells, numeric.summary(0.8)
    assert [row[0] for row in table.rows] == [numeric.release.short_label(i) for i in range(10)]
    assert [row[1] for row in table.rows] == [
        "30", "52", "41", "17", "≤ 0", "6", "≤ 0", "2", "≤ 0", "1"
    ]  # fmt: skip
    first, shares = summary.loc["count[[0, 10)]"], summary.loc["probability[[0, 10)]"]
    digits = len(table.rows[0][2].partition(".")[2])
    assert table.rows[0][2] == f"{first['mean']:.{digits}f}"
    assert table.rows[0][3] == f"{first['lower']:.0f} to {first['upper']:.0f}"
    assert float(table.rows[0][5].rstrip("%")) == pytest.approx(100 * shares["mean"], abs=0.06)
    assert table.rows[0][7] == f"{100 * shares['noise_share']:.0f}%"


def test_five_pictures_with_alternative_text(page):
    alternatives = [a.get("aria-label") or a.get("alt") for t, a in page.tags if t == "div"
                    and a.get("class") == "canvas"]  # fmt: skip
    assert len(alternatives) >= 5
    assert all(alternatives)
    assert sum(tag == "svg" for tag, _ in page.tags) == len(alternatives)


def test_page_needs_nothing_from_outside(page, html):
    for _, attrs in page.tags:
        for name in ("src", "href", "xlink:href", "action", "data", "poster"):
            value = attrs.get(name) or "#"
            assert value.startswith(("#", "data:")), value
    assert not re.search(r"@import|url\((?!#)", html)
    assert "<script" not in html
    policy = next(a for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"].startswith("default-src 'none'")


def test_page_is_accessible(page):
    assert ("html", {"lang": "en"}) in page.tags
    assert any(a.get("name") == "viewport" for t, a in page.tags if t == "meta")
    assert all("scope" in a for t, a in page.tags if t == "th")


def test_ids_are_unique_and_references_lead_somewhere(page, html):
    assert len(page.ids) == len(set(page.ids))
    references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', html))
    assert references
    assert references <= set(page.ids)


def test_user_text_is_escaped_everywhere(hostile):
    html = render(hostile, command="dpbayes fit <script>alert(1)</script>")
    assert "<script" not in html
    page = Page(html)
    for text in ("Title", "unit", "source", "row"):
        assert f'{text}{" " if text == "Title" else ""}<script>alert("x")</script>' in page.text
    assert "dpbayes fit <script>alert(1)</script>" in page.text
    assert "$a$ & b" in page.text


def test_labelled_cells_have_no_curves_and_show_what_was_withheld(withheld):
    page = Page(render(withheld))
    assert "quantities" not in page.ids
    assert "The largest share of the process behind them (P) is that of home" in page.text
    assert "The data hold about" in page.text
    assert " withheld " in page.text
    titles = [d for d in page.texts if d.startswith(("Distribution function", "Density"))]
    assert titles == []


@pytest.mark.parametrize(
    ("attrs", "code", "label"),
    [
        ({}, "ok", "OK"),
        ({"problems": json.dumps(["R-hat is 1.7: run longer."])}, "stop", "Do not use"),
    ],
)
def test_verdict_is_visible(make_records, attrs, code, label):
    html = render(make_records(**attrs))
    assert f'class="status {code}"' in html
    assert f'<span class="badge">{label}</span>' in html
    if attrs:
        assert '<p class="details">R-hat is 1.7: run longer.</p>' in html
        assert "<li>The calculation cannot be trusted yet: run it again with more draws" in html
    else:
        assert "<li>The calculation can be trusted.</li>" in html
        assert '<p class="details">The sampler converged (R-hat at most' in html
        assert "<li>No quantity rests mainly on the prior" in html


def test_prior_dominated_rows_are_flagged():
    mechanism = dpb.Mechanism(dpb.DiscreteLaplace(scale=50), steps=[dpb.Clamp(lower=0)])
    release = dpb.HistogramRelease([0, 0, 3], mechanism=mechanism, total=20)
    posterior = dpb.fit(release, FLAT, draws=250, random_seed=1, progressbar=False)
    assert posterior.verdict().prior_dominated
    html = render(posterior)
    assert 'class="status caution"' in html
    assert html.count('<td><span class="chip">prior</span></td>') == 3
    assert "The release says little about" in html
    assert "share of cell 0" in html


def test_release_that_does_not_fit_is_met_with_caution(numeric):
    tree = numeric.data.copy()
    tree["posterior"]["total"] = numeric.total.copy(data=np.full(numeric.total.shape, 900))
    html = render(type(numeric)(tree, numeric.release))
    assert 'class="status caution"' in html
    assert "The sum of the released values is smaller than the fitted model would release" in html


def test_records_report(make_records):
    page = Page(render(make_records()))
    assert "4,000 records, each perturbed on its own" in page.text
    assert re.search(r"the mean is [\d.]+ USD \(90% interval", page.text)
    assert "exactly 100" in page.text
    for fact in ("Largest R-hat", "pymc", "nutpie"):
        assert fact in page.text


def test_a_rescaled_release_shows_naive_counts_too():
    mechanism = dpb.Mechanism(dpb.DiscreteLaplace(scale=2), steps=[dpb.Rescale(10.0)])
    release = dpb.HistogramRelease([200, 50], mechanism=mechanism, coords={"arm": ["a", "b"]})
    posterior = dpb.fit(release, FLAT, draws=250, random_seed=1, progressbar=False)
    page = Page(render(posterior))
    assert "Naive count" in page.text
    assert "20.0" in page.text


def test_large_pictures_become_png(numeric, monkeypatch):
    monkeypatch.setattr(pictures, "MOST_SVG", 100)
    page = Page(render(numeric))
    images = [a for t, a in page.tags if t == "img"]
    assert len(images) >= 5
    assert all(a["src"].startswith("data:image/png;base64,") and a["alt"] for a in images)


def test_long_tables_scroll_and_stay_small():
    rng = np.random.default_rng(1)
    law = dpb.DiscreteLaplace(scale=5)
    release = dpb.HistogramRelease(rng.poisson(30, 200) + law.rvs(200, rng), mechanism=law)
    html = render(dpb.fit(release, FLAT, draws=100, random_seed=1, progressbar=False))
    assert 'class="scroll tall"' in html
    assert len(html.encode()) < 1_000_000


def test_file_is_written_whole(numeric, tmp_path):
    path = tmp_path / "report.html"
    numeric.report(path, ci_prob=0.5, command="x")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "50% interval" in text
    assert path.stat().st_size < 500_000
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failed_report_leaves_the_old_file_alone(numeric, tmp_path, monkeypatch, error):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_, **__):
        raise error

    monkeypatch.setattr("pathlib.Path.write_text", fail)
    with pytest.raises(error):
        write(numeric, path)
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_wrong_probability_is_refused_before_any_work(numeric, tmp_path):
    with pytest.raises(ParameterError, match="ci_prob must be between 0 and 1, got 90"):
        write(numeric, tmp_path / "report.html", ci_prob=90)
    assert list(tmp_path.iterdir()) == []


def test_report_and_plots_load_neither_pymc_nor_arviz():
    code = (
        "import sys, dpbayes.report, dpbayes.plots\n"
        "found = {'pymc', 'pytensor', 'nutpie', 'arviz', 'matplotlib.pyplot'} & set(sys.modules)\n"
        "sys.exit(repr(found) if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_divergences_ask_for_smaller_steps(make_records):
    problems = json.dumps(["3 divergent transitions"])
    html = render(make_records(problems=problems, divergences=3))
    assert "run it again with smaller steps (--target-accept 0.99)" in html


def test_what_the_check_finds_depends_on_the_total(numeric, withheld):
    known, unknown = Page(render(numeric)).text, Page(render(withheld)).text
    assert "It finds wrong totals, bounds and shapes." in known
    assert "It finds wrong totals" not in unknown
    assert "It cannot find that counts are too large or too small altogether" in unknown
    assert "The total is unknown and fitted as well" in unknown
    assert "The total is unknown and fitted as well" not in known


def test_withheld_values_and_the_naive_total(withheld):
    assert "Withheld values count as nothing in naive sums" in Page(render(withheld)).text
    mechanism = dpb.Mechanism(dpb.Gaussian(sd=10), steps=[dpb.Suppress(below=50)])
    release = dpb.HistogramRelease([np.nan, np.nan], mechanism=mechanism)
    posterior = dpb.fit(release, FLAT, draws=250, random_seed=1, progressbar=False)
    assert np.isnan(posterior.summary().loc["total", "naive"])
    assert "Naive: –" in Page(render(posterior)).text
