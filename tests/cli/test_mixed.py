"""`calipers mixed`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import calipers as cal


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Eight centres, three patients each, two images each, two polyps each; small ones lose 0.3."""
    random = np.random.default_rng(5)
    lines = ["iou,hit,size,age,centre,patient,image"]
    for centre in range(8):
        for patient in range(3):
            for image in range(2):
                for size in ("large", "small"):
                    iou = (
                        0.8
                        - 0.3 * (size == "small")
                        + 0.03 * centre / 8
                        + 0.05 * random.standard_normal()
                    )
                    hit, age = int(iou + 0.1 * random.standard_normal() > 0.55), 50 + patient
                    lines.append(f"{iou:.4f},{hit},{size},{age},C{centre},{patient},{image}")
    path = tmp_path / "polyps.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


OPTIONS = ("--formula", "iou ~ size", "--groups", "centre,patient,image")
# Where the model itself is not asked: bounds of one variance take a tenth of the time of three.
PLAIN = ("--formula", "iou ~ size", "--groups", "centre")


def test_a_table_is_explained(calipers, table):
    said = calipers("mixed", table, *OPTIONS)
    assert said.code == 0, said.err
    for words in (
        "iou ~ size; 96 rows in 8 centres, 24 patients, 48 images; REML",
        "size small (not large)",
        "differences between",
        "IoU is 0.2",
        "lower with size small than with size large (95 % CI -0.",
        "note: 3 values of patient occur in more than one centre",
    ):
        assert words in said.out, words


def test_json_has_the_fit(calipers, table):
    said = calipers("mixed", table, *OPTIONS, "--json")
    assert (said.code, said.err) == (0, "")
    assert list(said.json) == [
        "schema",
        "calipers",
        "formula",
        "groups",
        "cohort",
        "table",
        "fits",
        "warnings",
    ]
    assert (said.json["schema"], said.json["groups"]) == (
        "calipers.mixed/1",
        ["centre", "patient", "image"],
    )
    assert said.json["table"]["rows"] == 96
    (fit,) = said.json["fits"]
    expected = cal.mixed_model(read(table), "iou ~ size", ["centre", "patient", "image"]).as_dict()
    assert fit == {"model": None, "part": None, **json.loads(json.dumps(expected))}


def read(path):
    from calipers.io.tables.table import open_table

    return open_table(path)


def test_center_is_centre(calipers, table):
    options = ("--formula", "iou ~ size", "--json")
    told = calipers("mixed", table, *options, "--groups", "centre")
    other = calipers("mixed", table, *options, "--groups", "center")
    assert other.code == 0
    assert other.json["fits"] == told.json["fits"]


def test_options_reach_the_model(calipers, table):
    by_ml = calipers("mixed", table, *PLAIN, "--ml", "--level", "0.9", "--json").json["fits"][0]
    assert (by_ml["criterion"], by_ml["level"]) == ("ML", 0.9)
    turned = calipers("mixed", table, *PLAIN, "--levels", "size=small,large", "--json").json[
        "fits"
    ][0]
    assert turned["coefficients"][1]["name"] == "size[large]"
    graded = calipers(
        "mixed",
        table,
        "--formula",
        "iou ~ age",
        "--nested",
        "centre",
        "--levels",
        "age=50,51,52",
        "--json",
    ).json["fits"][0]
    assert [c["name"] for c in graded["coefficients"]] == ["intercept", "age[51]", "age[52]"]
    checked = calipers("mixed", table, *PLAIN, "--bootstrap", "20", "--seed", "7", "--json").json[
        "fits"
    ][0]
    assert [(c["kind"], c["replicates"], c["seed"]) for c in checked["checks"]] == [
        ("parametric", 20, 7),
        ("cluster", 20, 7),
    ]
    shown = calipers("mixed", table, *PLAIN, "--bootstrap", "20")
    assert "cluster bootstrap" in shown.out
    plain = calipers("mixed", table, *PLAIN, "--json").json["fits"][0]
    assert "diagnostics" not in plain
    full = calipers("mixed", table, *PLAIN, "--diagnostics", "--json").json["fits"][0]
    assert len(full["diagnostics"]["residuals"]) == 96
    insisted = calipers("mixed", table, *PLAIN, "--few-groups", "9", "--json").json["fits"][0]
    assert "centre" not in insisted["n_groups"]


def test_logistic_and_crossed(calipers, table):
    said = calipers(
        "mixed", table, "--formula", "hit ~ size", "--groups", "centre,patient", "--logistic"
    )
    assert said.code == 0, said.err
    for words in ("odds ratio", "hit ~ size; 96 rows", "8 centres", "hit: ", "% with size small"):
        assert words in said.out
    fit = calipers(
        "mixed", table, "--formula", "hit ~ size", "--groups", "centre", "--logistic", "--json"
    ).json["fits"][0]
    assert (fit["kind"], fit["unit"]) == ("logistic", "centre")
    pytest.importorskip("statsmodels")
    crossed = calipers(
        "mixed", table, "--formula", "iou ~ size", "--groups", "centre,image", "--crossed", "--json"
    )
    assert crossed.json["fits"][0]["crossed"] is True


def test_empty_cells_are_refused_or_counted(calipers, table):
    text = Path(table).read_text().splitlines()
    text[5] = "," + text[5].split(",", 1)[1]
    Path(table).write_text("\n".join(text) + "\n")
    said = calipers("mixed", table, *PLAIN)
    assert (said.code, "[missing-value]" in said.err, "6:1" in said.err) == (2, True, True)
    fit = calipers("mixed", table, *PLAIN, "--missing", "drop", "--json").json["fits"][0]
    assert (fit["n_rows"], fit["n_dropped"]) == (95, {"iou": 1})


def test_output_is_a_new_file(calipers, table, tmp_path):
    target = tmp_path / "fit.json"
    assert calipers("mixed", table, *PLAIN, "-o", target, "--quiet").code == 0
    assert json.loads(target.read_text())["schema"] == "calipers.mixed/1"
    again = calipers("mixed", table, *PLAIN, "-o", target)
    assert (again.code, "[output-exists]" in again.err) == (2, True)
    assert calipers("mixed", table, *PLAIN, "-o", target, "--force").code == 0
    assert calipers("mixed", table, *PLAIN, "-o", table, "--force").code == 2
    assert calipers("mixed", table, *PLAIN, "-o", tmp_path).code == 2
    assert Path(table).read_text().startswith("iou,hit")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--groups", "centre"], "needs --formula"),
        (["--formula", "iou ~ size"], "needs --groups"),
        (
            ["--formula", "iou ~ size", "--groups", "centre", "--nested", "patient"],
            "give one of them",
        ),
        (["--formula", "iou ~ sice", "--groups", "centre"], "did you mean 'size'"),
        (["--formula", "iou ~ size", "--groups", "cnetre"], "did you mean 'centre'"),
        (["--formula", "iou ~", "--groups", "centre"], "is incomplete"),
        ([*OPTIONS, "--preset", "coco"], "--preset needs REFS and PREDS"),
        ([*OPTIONS, "--size-cuts", "1,2"], "--size-cuts needs REFS and PREDS"),
        ([*OPTIONS, "--levels", "size"], "COLUMN=A,B"),
        ([*OPTIONS, "--logistic", "--ml"], "--logistic cannot be used with"),
        ([*OPTIONS, "--logistic"], "[binary-response]"),
        ([*OPTIONS, "--level", "1"], "--level"),
        (["--formula", "iou ~ size", "--groups", "age,age"], "twice"),
    ],
)
def test_misuse_is_one_clear_error(calipers, table, argv, said):
    found = calipers("mixed", table, *argv)
    assert found.code == 2
    assert said in found.err
    assert found.out == ""


def test_errors_are_json_too(calipers, table):
    said = calipers("mixed", table, "--formula", "iou ~ sice", "--groups", "centre", "--json")
    assert (said.code, said.json["schema"], said.json["error"]["kind"]) == (
        2,
        "calipers.error/1",
        "missing-column",
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    cohort = cal.demo_cohort()
    cal.write(cohort, folder / "references.json")
    for model in ("misses-small", "overpredicts"):
        cal.write(cohort, folder / f"{model}.json", what=model)
    names = ("patient", "centre")
    rows = zip(cohort.images.ids, *[cohort.group(name).tolist() for name in names])
    (folder / "images.csv").write_text(
        "image,patient,centre\n" + "".join(",".join(row) + "\n" for row in rows)
    )
    return folder


def refs(demo, *models):
    paths = [demo / f"{model}.json" for model in models]
    return (
        "mixed",
        demo / "references.json",
        *paths,
        "--groups",
        demo / "images.csv",
        "--size-cuts",
        "400,2500",
    )


def test_references_are_asked_three_questions(calipers, demo):
    said = calipers(*refs(demo, "misses-small"))
    assert said.code == 0, said.err
    for words in (
        "IoU, 0 if missed",
        "IoU of hits",
        "hit, odds ratio",
        "size small (not large)",
        "hit: 5.0 % with size small",
    ):
        assert words in said.out
    assert not said.out.endswith("\n\n")
    fits = calipers(*refs(demo, "misses-small", "overpredicts"), "--json").json["fits"]
    assert [(fit["model"], fit["part"], fit["kind"]) for fit in fits] == [
        (model, part, kind)
        for model in ("misses-small", "overpredicts")
        for part, kind in (("best", "linear"), ("matched", "linear"), ("hit", "logistic"))
    ]
    assert fits[0]["n_rows"] == 189


def test_references_in_other_ways(calipers, demo):
    plain = calipers(
        *refs(demo, "misses-small"), "--nested", "patient,image", "--formula", "~ class", "--json"
    ).json
    assert (plain["groups"], plain["formula"]) == (["patient", "image"], "iou ~ class")
    strict = calipers(*refs(demo, "misses-small"), "--preset", "overview", "--json")
    assert strict.code == 0
    for argv, words in (
        (("--logistic",), "is for a TABLE"),
        (("--nested", "hospital"), "missing-column"),
        (("--formula", "hit ~ size"), "the response of references is iou"),
    ):
        said = calipers(*refs(demo, "misses-small"), *argv)
        assert (said.code, words in said.err) == (2, True), said.err
    said = calipers(
        "mixed", demo / "references.json", demo / "misses-small.json", "--size-cuts", "400"
    )
    assert (said.code, "two areas" in said.err) == (2, True)
    said = calipers("mixed", demo / "references.json", "--formula", "iou ~ size", "--groups", "a")
    assert (said.code, "need predictions too" in said.err) == (2, True)


def test_hostile_names_do_not_drive_the_terminal(calipers, tmp_path):
    lines = ["iou,kind,centre"]
    random = np.random.default_rng(0)
    lines += [
        f"{random.random():.3f},{kind},C{k % 6}"
        for k in range(30)
        for kind in ("[red]a", "\x1b[31mb")
    ]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    said = calipers("mixed", path, "--formula", "iou ~ kind", "--groups", "centre")
    assert said.code == 0, said.err
    assert "\x1b" not in said.out
    assert "[red]a" in said.out
