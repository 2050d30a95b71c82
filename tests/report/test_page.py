"""The page: well formed, self-contained, and honest about n, warnings and undefined values.
See also tests/browser.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import calipers as cal
from calipers.evaluation.protocol_schema import NO_LIMIT
from calipers.report.page import page as page_of
from calipers.show.words import LONGEST_DISPLAY, _shortened, short_name
from evaluated import evaluated_demo, shown
from preset_lists import BOX_PRESETS

VOID = {"meta", "br", "hr", "img", "input", "link"}
LIMIT = 400_000
QUICK = replace(cal.Protocol.load("overview"), replicates=200)


def page(evaluation, **choices):
    return page_of(shown(evaluation, **choices))


def without_pictures(text):
    return re.sub(r"data:image/[^\"]*", "", text)


class Outline(HTMLParser):
    """Checks that tags are balanced and keeps what the page asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data: list[tuple[str, str]] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.data.append((self.open[-1] if self.open else "", data.strip()))


def outline(text: str) -> Outline:
    parsed = Outline()
    parsed.feed(text)
    parsed.close()
    assert parsed.open == []
    return parsed


@pytest.fixture(scope="module")
def evaluation():
    return evaluated_demo("overview")


@pytest.fixture(scope="module")
def text(evaluation):
    return page(evaluation)


@pytest.mark.parametrize("preset", BOX_PRESETS)
def test_it_is_well_formed_for_every_preset(preset):
    protocol = replace(cal.Protocol.load(preset), replicates=100)  # as other files take it
    text = page(evaluated_demo(protocol))
    parsed = outline(text)
    assert [tag for tag, _ in parsed.tags].count("h1") == 1
    assert len(text.encode()) < LIMIT
    assert str(NO_LIMIT) not in text  # the methods say it in words


def test_it_has_language_title_and_viewport(text):
    parsed = outline(text)
    assert text.startswith("<!doctype html>")
    assert ("html", {"lang": "en"}) in parsed.tags
    assert (
        "title",
        "Calipers: Evaluation of mislabels, overpredicts and misses-small",
    ) in parsed.data
    assert any(attrs.get("name") == "viewport" for tag, attrs in parsed.tags if tag == "meta")


def test_nothing_is_inline_and_links_stay_in_the_page(text):
    parsed = outline(text)
    assert not {tag for tag, _ in parsed.tags} & {
        "iframe",
        "object",
        "embed",
        "link",
        "form",
        "base",
        "foreignobject",
    }
    for _, attrs in parsed.tags:
        assert not [
            name for name in attrs if name.startswith("on") or name in ("style", "src", "srcset")
        ]
        assert (attrs.get("href") or "#").startswith(("#", "data:image/"))


def test_the_policy_allows_our_style_and_script_and_nothing_else(text):
    policy = next(a["content"] for t, a in outline(text).tags if t == "meta" and "http-equiv" in a)
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    for name, pattern in (
        ("style-src", r"<style>(.*)</style>"),
        ("script-src", r"<script>(.*)</script>"),
    ):
        found = re.search(pattern, text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(found.encode()).digest()).decode()
        assert parts[name] == f"'sha256-{digest}'"
    assert parts["default-src"] == "'none'"
    assert parts["img-src"] == "data: blob:"
    assert "unsafe" not in policy


def rows_in(text):
    """Return the rows that travel with a page."""
    packed = json.loads(
        re.search(r'<script type="application/json" id="rows">(.*?)</script>', text, re.DOTALL)[1]
    )
    return json.loads(zlib.decompress(base64.b64decode(packed["deflate"])))


def test_nothing_is_fetched(text):
    text = re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.DOTALL)
    assert not re.search(r"https?:|@import|//[a-z]|url\((?!#)", text)


def test_ids_are_unique_and_links_lead_somewhere(text):
    tags = outline(text).tags
    ids = [attrs["id"] for _, attrs in tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    wanted = {attrs["href"][1:] for _, attrs in tags if (attrs.get("href") or "").startswith("#")}
    wanted |= {name for _, attrs in tags for name in (attrs.get("aria-labelledby") or "").split()}
    assert wanted <= set(ids)


def test_the_verdict_comes_first_and_sections_follow_in_order(text):
    parsed = outline(text)
    order = [words for tag, words in parsed.data if tag in ("h1", "h2")]
    assert order == [
        "Evaluation of mislabels, overpredicts and misses-small",
        "The answer",
        "Data and cautions",
        "Curves",
        "Why: place, shape, class",
        "Per class",
        "Errors",
        "Sensitivity to choices",
        "Images",
        "Comparison",
        "Methods",
        "All numbers",
        "Reproduce",
    ]
    answer = next(
        words for tag, words in parsed.data if tag == "p" and words.startswith("At one false alarm")
    )
    assert text.index(answer) < text.index("<table")


def test_sections_without_data_do_not_appear():
    nothing = page(cal.evaluate(empty_cohort(), QUICK))
    order = [words for tag, words in outline(nothing).data if tag == "h2"]
    assert order == ["The answer", "Data and cautions", "Methods", "All numbers", "Reproduce"]
    assert "No image has a reference, so there is nothing to find." in nothing


def test_every_figure_says_its_finding_and_has_its_numbers(text):
    figures = re.findall(r'<figure class="plot".*?</figure>', text, re.DOTALL)
    assert len(figures) >= 10
    for figure in figures:
        assert re.search(r"<figcaption>[^<]{10,}</figcaption>", figure)
        assert '<svg class="fig' in figure
        assert "<table" in figure


def test_the_methods_cite_what_was_used(text):
    words = re.search(r'<p id="methods-text">(.*?)</p>', text, re.DOTALL)[1]
    assert "2000 bootstrap replicates, resampled by patient (n = 80)" in words
    listed = re.search(r'<ol class="citations">(.*?)</ol>', text, re.DOTALL)[1].count("<li>")
    assert sorted(
        {int(n) for group in re.findall(r"\[([\d, ]+)\]", words) for n in group.split(",")}
    ) == list(range(1, listed + 1))
    assert "Meissen" in text


def test_it_says_how_to_get_the_same_numbers(evaluation, tmp_path):
    saved = evaluation.save(
        tmp_path / "out", command=["calipers", "evaluate", "a b.json", "-o", "out"]
    )
    text = (saved / "report.html").read_text(encoding="utf-8")
    record = json.loads((saved / "run.json").read_text(encoding="utf-8"))
    assert record["result_hash"] in text
    assert record["protocol_hash"] in text
    assert "calipers evaluate &#x27;a b.json&#x27; -o out" in text


def test_all_rows_travel_with_the_page(text, evaluation):
    data = rows_in(text)
    assert all(len(column) == len(evaluation.rows) for column in data["rows"])
    model, metric, value = (
        data["rows"][data["columns"].index(name)] for name in ("model", "metric", "value")
    )
    for k in (0, 17, len(evaluation.rows) - 1):
        row = evaluation.rows[k]
        assert data["names"]["model"][model[k]] == row.model
        assert data["names"]["metric"][metric[k]] == row.metric
        assert value[k] == pytest.approx(row.estimate.value, rel=1e-3)


def test_it_states_n(text):
    assert (
        "120 images, 189 references, 4 classes, 80 patients, 4 centres. Protocol: overview." in text
    )
    assert "n = 120 images, 189 references." in text


def test_n_gets_a_column_where_it_varies():
    text = page(evaluated_demo("coco"))
    row = re.search(r"<tr><th scope=row>APs</th><td[^>]* data-v.*?</tr>", text)[0]
    assert row.endswith("<td class=n>88</td></tr>")


def test_every_pooled_value_is_there_without_scripts_and_the_first_of_every_kind_per_class(
    text, evaluation
):
    static = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    for row in evaluation.rows:
        if row.label is None or row.metric in ("AP@0.5", "FROC", "RoDeO"):
            assert f"{row.estimate.value:.3f}" in static


def test_warnings_are_shown(text, evaluation):
    assert evaluation.warnings
    for warning in evaluation.warnings:
        assert f"<li>{warning}</li>" in text
    quiet = evaluated_demo("overview", ci=False)
    assert "Before you trust" not in page(quiet)


def stars(text: str, metric: str) -> list[str]:
    """Return the starred values of the first row of a metric."""
    row = re.search(rf"<tr><th scope=row>{re.escape(metric)}</th><td[^>]* data-v.*?</tr>", text)[0]
    return re.findall(r"<td class=best [^>]*>([0-9.]+)<span", row)


def test_stars_mark_the_best(text):
    assert stars(text, "AP@0.5") == ["0.948"]
    assert stars(text, "RoDeO") == ["0.659"]
    assert stars(text, "FP/image@0.5") == ["0.083"]  # the lowest
    assert "Higher is better, except for FP/image@0.5." in text


def test_every_estimate_has_its_interval_beside_it(text, evaluation):
    for row in evaluation.rows:
        estimate = row.estimate
        if row.label is None:
            assert f"<small>[{estimate.low:.3f}, {estimate.high:.3f}]" in text
    sentence = (
        "95 % confidence intervals, resampled by patient (n = 80); "
        "valid for other patients like these 80."
    )
    assert sentence in text
    assert "2000 bootstrap replicates, resampled by patient (n = 80, seed 0)" in text


def test_marks_are_explained_below_their_table(text):
    table = re.search(
        r"<caption>AP@0.5 per class</caption>.*?</table></div>(<p.*?</p>)*", text, re.DOTALL
    )[0]
    assert re.search(r"<small>\[0\.\d{3}, 1\.000\]\*</small>", table)
    said = "interval for small counts, because few patients, or nearly all, have errors"
    assert f'<p class="note">* {said}</p>' in table


def test_percentile_bias_and_monte_carlo_error_stand_beside(text, evaluation):
    estimate = evaluation["mislabels", "AP@0.5"]
    details = next(
        part for part in text.split("<details>") if part.startswith("<summary>Beside the intervals")
    )
    row = next(
        r
        for r in details.split("<tr>")
        if r.startswith("<th scope=row>AP@0.5</th><td class=words>mislabels</td>")
    )
    low, high = estimate.percentile
    assert f">{low:.3f} to {high:.3f}</td>" in row
    for number in (estimate.bias, *estimate.mc_error):
        assert f'<td data-v="{number:.6g}">{number:.4g}</td>' in row


def test_without_intervals_nothing_is_said_of_them():
    text = page(evaluated_demo("overview", ci=False))
    words = re.sub(r"<pre>.*?</pre>|<script.*?</script>", "", text, flags=re.DOTALL)
    assert re.findall(r"[^.>]*[Ii]nterval[^.<]*", words) == [
        " No confidence intervals were computed"
    ]
    assert "<small>" not in text


def test_a_handful_of_images_has_no_interval_and_says_so_once():
    text = page(cal.evaluate(cohort_of({"p": [10], "q": [2]}), "coco"))
    assert "No intervals: there is only one image." in text
    assert "<small>" not in text


@pytest.fixture(scope="module")
def grouped():
    return evaluated_demo(QUICK, by=["centre", "size,class"])


@pytest.fixture(scope="module")
def by_centre(grouped):
    return page(grouped)


def test_groups_are_tables_with_their_summaries(by_centre, grouped):
    outline(by_centre)
    table = re.search(
        r"<caption>AP@0.5 by centre</caption>.*?</table></div>(<p.*?</p>)*", by_centre, re.DOTALL
    )[0]
    assert re.findall(r"<th scope=row>(.*?)</th>", table) == [
        *("Harbour", "North", "Summit", "Valley", "mean of 4 groups", "range")
    ]
    assert "<td class=n>22</td><td class=n>35</td><td class=n>62</td>" in table
    assert re.findall(r"<th scope=col class=n>(.*?)</th>", table) == [
        *("patients", "images", "references")
    ]
    grouping = grouped.groupings[0]
    summary = grouping.summary("AP@0.5", None, "mislabels")
    assert f">{summary.mean:.3f}<small>SD {summary.sd:.3f}</small></td>" in table
    assert f">{summary.lowest:.3f} to {summary.highest:.3f}</td>" in table


def test_classes_of_groups_are_shown_for_the_first_headline_metric(by_centre):
    titles = re.findall(r"<caption>([^<]*) by size</caption>", by_centre)
    sized = ["AP@0.5", "FROC"]  # RoDeO knows no sizes
    assert titles == [
        *sized,
        *(f"AP@0.5 of {name}" for name in ("nodule", "mass", "effusion", "cardiomegaly")),
    ]
    table = re.search(
        r"<caption>AP@0.5 of nodule by size</caption>.*?</table></div>(<p.*?</p>)*",
        by_centre,
        re.DOTALL,
    )[0]
    assert "1 of 3 groups" in table


def empty_cohort(n=6):
    """Images without any object."""
    nothing = {"boxes": [], "labels": [], "scores": []}
    return cal.Cohort.from_arrays(
        [{"boxes": [], "labels": []}] * n, [nothing] * n, classes=("a", "b")
    )


def cohort_of(models: dict[str, list[float]]) -> cal.Cohort:
    """One image, one reference of class a; each model predicts it with some boxes."""
    reference = [{"boxes": [[0, 0, 10, 10]], "labels": [0]}]
    predictions = {
        name: [
            {
                "boxes": [[0, 0, 10, size] for size in sizes],
                "labels": [0] * len(sizes),
                "scores": [0.5] * len(sizes),
            }
        ]
        for name, sizes in models.items()
    }
    return cal.Cohort.from_arrays(reference, predictions, classes=("a", "b"))


def test_one_model_gets_no_star_and_no_verdict():
    text = page(cal.evaluate(cohort_of({"only": [10]}), "overview"))
    assert "class=best" not in text
    assert "A star marks" not in text
    assert "leads" not in text


def test_equal_models_get_no_star():
    text = page(cal.evaluate(cohort_of({"p": [10], "q": [10]}), "overview"))
    assert "class=best" not in text
    assert "The models do not differ in any headline metric." in text


def test_a_model_that_is_always_best_is_named():
    text = page(cal.evaluate(cohort_of({"p": [10], "q": [2]}), "coco"))
    untested = (
        r"p has the best AP, [^.]* and AP75 on these images; the difference was not tested[.]"
    )
    assert re.search(untested, text)


def test_models_that_share_the_first_place_are_named():
    text = page(cal.evaluate(cohort_of({"p": [10], "q": [10], "r": [2]}), "coco"))
    assert "<li>p and q share the best AP, AP50 and AP75 on these images.</li>" in text


def test_undefined_values_say_why():
    text = page(cal.evaluate(cohort_of({"p": [10], "q": [8]}), "coco"))
    assert "<td class=undefined>no references</td>" in text
    assert "Words instead of a number: the value is undefined" in text
    assert ">nan<" not in text


def test_many_models_are_counted_not_listed():
    text = page(cal.evaluate(cohort_of({f"m{k}": [10 - k] for k in range(6)}), "overview"))
    assert "<h1>Evaluation of 6 models</h1>" in text


def test_metrics_are_explained(text):
    assert "The share of references that were found." in text
    assert "<dt>RoDeO, RoDeO/loc, RoDeO/shape, RoDeO/cls</dt>" in text


def test_the_protocol_can_be_run_again(text, evaluation):
    shown = (
        re.search(r"<pre>(.*?)</pre>", text, re.DOTALL)[1]
        .replace("&quot;", '"')
        .replace("&lt;", "<")
    )
    assert cal.Protocol.from_toml(shown) == evaluation.protocol


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><svg onload=alert(1)>",
    "javascript:alert(1)",
    "<!--",
    "]]>",
    "&#60;script&#62;",
    "\u2028\u2029",
    "\x00\x1b[31m",
    "\u202eevil",
    "a" * 300,
]


def structure_of(name):
    """Return the parsed page of an evaluation in which everything is called ``name``."""
    reference = [{"boxes": [[0, 0, 10, 10]], "labels": [0], "image_id": name, name: "x"}]
    found = [{"boxes": [[0, 0, 10, 10]], "labels": [0], "scores": [1.0], "image_id": name}]
    cohort = cal.Cohort.from_arrays(reference, {name: found, "other": found}, classes=(name, "b"))
    return outline(page(cal.evaluate(cohort, QUICK)))


def kinds(parsed):
    """Return which elements the page has, with which attributes;
    a long name may have its title beside it.
    """
    return {
        (tag, name)
        for tag, attrs in parsed.tags
        for name in ("", *attrs)
        if name not in ("title", "class")
    }


@pytest.fixture(scope="module")
def harmless():
    return kinds(structure_of("name"))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name, harmless):
    parsed = structure_of(name)
    assert kinds(parsed) - {("title", "")} <= harmless
    shown = "".join(c if c.isprintable() else "\ufffd" for c in name).replace("\u202e", "\ufffd")
    if len(name) > 60:
        whole = name if len(name) <= LONGEST_DISPLAY else _shortened(name)
        assert {"scope": "col", "class": "long", "title": whole} in [
            attrs for tag, attrs in parsed.tags if tag == "th"
        ]
        shown = short_name(whole)
    assert shown in [text for tag, text in parsed.data if tag == "th"]


def test_a_large_result_stays_small():
    random = np.random.default_rng(0)
    classes = tuple(f"finding {k}" for k in range(80))
    boxes = [[0, 0, 10, 10]] * 80
    reference = [{"boxes": boxes, "labels": list(range(80))}]
    models = {
        f"model number {k}": [
            {"boxes": boxes, "labels": list(range(80)), "scores": random.random(80)}
        ]
        for k in range(10)
    }
    text = page(cal.evaluate(cal.Cohort.from_arrays(reference, models, classes=classes), "rodeo"))
    assert len(text.encode()) < LIMIT
    assert len(rows_in(text)["rows"][0]) == 10 * 9 * 81


def test_report_writes_the_page(evaluation, text, tmp_path):
    path = evaluation.report(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == text


def test_a_notebook_shows_the_table(evaluation):
    assert re.search("<td class=best [^>]*>0.948", evaluation._repr_html_())
    outline(evaluation._repr_html_())
    assert repr(evaluation) == (
        "<Evaluation of mislabels, overpredicts, misses-small: "
        "11 metrics of the protocol overview, 4 classes, 120 images>"
    )


def test_models_left_out_of_the_table_of_classes_are_told():
    text = page(
        cal.evaluate(cohort_of({f"m{k}": [10 - k] for k in range(6)}), QUICK), pictures=False
    )
    assert "References and predictions of every class, of the first 4 of 6 models" in text


def test_numbers_of_one_have_no_plural():
    box = {"boxes": [[0, 0, 10, 10]], "labels": [0]}
    models = {name: [{**box, "scores": [0.5]}] for name in ("a", "b")}
    cohort = cal.Cohort.from_arrays([box], models, classes=("lesion",))
    text = page(cal.evaluate(cohort, QUICK)) + cal.evaluate(cohort, QUICK)["a", "AP"]._repr_html_()
    assert not re.search(r"(?<![\d.])1 (images|references|models|classes|tests|groups)\b", text)


def test_units_of_a_notebook_have_their_plural():
    cohort = cal.demo_cohort()
    cohort = cohort.with_groups({"study": [f"s{k // 2}" for k in range(cohort.n_images)]})
    ev = cal.evaluate(cohort, replace(QUICK, cluster="study"))
    assert "resampled by study (n = 60)" in ev["mislabels", "AP"]._repr_html_()
    found = ev.compare("mislabels", "overpredicts", metrics=["AP"], correction="none")
    assert "resampled by study (n = 60)." in found._repr_html_()
    assert "resampled by study (n = 60)" in page(ev, pictures=False)
