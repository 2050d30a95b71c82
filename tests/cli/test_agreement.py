"""`calipers agreement`: tables, sentences, JSON, files,
and every way a table of ratings can be wrong.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

ROW_KEYS = [
    "model",
    "metric",
    "metric_id",
    "class",
    "group",
    "value",
    "low",
    "high",
    "level",
    "method",
    "unit",
]
COMPARISON_KEYS = [
    *(
        "metric",
        "criterion_a",
        "criterion_b",
        "difference",
        "low",
        "high",
        "method",
        "reason",
        "only_a",
        "only_b",
    ),
    *("p_exact", "p", "test", "p_adjusted", "correction", "unit", "n_units", "n_ratings"),
]
HEADER = "patient,rater,rating,box-iou,point_in_mask,centre distance"


def lines(n=60, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    for k in range(n):
        iou = rng.random() if rng.random() < 0.7 else 0.0
        useful = rng.random() < (0.9 if iou > 0.1 else 0.2)
        word = "useful" if useful else "not useful"
        found.append(
            f"P{k // 3},{'AB'[k % 2]},{word},{iou:.3f},"
            f"{'yes' if iou > 0.1 else 'no'},{50 * (1 - iou):.1f}"
        )
    return found


@pytest.fixture
def table(tmp_path):
    def write(text, name="ratings.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def good(table):
    return table("\n".join([HEADER, *lines()]) + "\n")


def test_what_was_understood_is_told_and_the_result_is_in_tables_and_words(calipers, good):
    said = calipers(
        "agreement", good, "--thresholds", "0,0.5", "--thresholds", "centre distance=20"
    )
    assert said.code == 0
    assert "rating: rating; rater: rater" in said.err
    assert "criteria: box-iou, point_in_mask, centre distance (small is good)" in said.err
    assert "unit: patient" in said.err
    assert "each item is rated once, by one of 2 raters" in said.err
    first = [line.split() for line in said.out.splitlines() if line.strip().startswith("box-iou")]
    assert [cells[1] for cells in first[:2]] == ["0", "0.5"]
    assert "box-iou at 0.5 accepts " in said.out
    assert "centre distance up to 20 accepts " in said.out
    assert (
        "n = 60 ratings; 95 % confidence intervals, resampled by patient (n = 20)."
        in said.out.splitlines()
    )
    assert (
        "* interval for small counts, because few patients, or nearly all, have errors" in said.out
    )


def test_json_is_one_object(calipers, good):
    said = calipers(
        "agreement", good, "--json", "--level", "0.9", "--replicates", "200", "--seed", "7"
    )
    assert (said.code, said.err) == (0, "")
    document = said.json
    assert next(iter(document)) == "schema"
    assert document["schema"] == "calipers.agreement/1"
    assert document["settings"] == {
        "level": 0.9,
        "replicates": 200,
        "seed": 7,
        "unit": "patient",
        "n_units": 20,
    }
    for row in document["rows"]:
        assert list(row)[: len(ROW_KEYS)] == ROW_KEYS
        assert row["model"] == "ratings"
        assert row["level"] == 0.9
        assert row["group"]["criterion"] in document["ratings"]["criteria"]
    thresholds = {
        row["group"]["threshold"] for row in document["rows"] if "threshold" in row["group"]
    }
    assert thresholds == {"0", "0.1", "0.3", "0.5", "0.75", "yes"}
    assert any("no threshold for centre distance" in text for text in document["warnings"])


def test_comparisons_have_the_keys_of_calipers_compare_where_they_mean_the_same(calipers, good):
    document = calipers("agreement", good, "--json", "--replicates", "100").json
    assert {entry["metric"] for entry in document["comparisons"]} == {"accuracy", "AUROC"}
    for entry in document["comparisons"]:
        assert list(entry) == COMPARISON_KEYS
        assert entry["criterion_a"]["criterion"] != entry["criterion_b"]["criterion"]
        assert entry["correction"] == "holm"


def test_quiet_says_only_the_result(calipers, good):
    said = calipers("agreement", good, "-q", "--replicates", "100")
    assert (said.code, said.err) == (0, "")


@pytest.mark.parametrize(
    ("useful", "other"),
    [
        ("1", "0"),
        ("yes", "no"),
        ("TRUE", "False"),
        ("Useful", "NOT USEFUL"),
        ("useful", "not-useful"),
    ],
)
def test_words_for_useful(calipers, table, useful, other):
    text = "rating,iou\n" + "".join(f"{useful},0.9\n{other},0.1\n" for _ in range(6))
    document = calipers("agreement", table(text), "--json").json
    assert (document["ratings"]["useful"], document["ratings"]["not_useful"]) == (6, 6)
    found = {
        row["metric"]: row["value"]
        for row in document["rows"]
        if row["group"].get("threshold") == "0.5"
    }
    assert (found["sensitivity"], found["specificity"], found["kappa"]) == (1, 1, 1)


def test_formats_are_equal(calipers, good, table, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = Path(good).read_text(encoding="utf-8")
    tabs = table(text.replace(",", "\t"), "ratings.tsv")
    columns = {
        name: [row[name] for row in csv.DictReader(text.splitlines())] for name in HEADER.split(",")
    }
    columns["box-iou"] = [float(cell) for cell in columns["box-iou"]]
    pq.write_table(pa.table(columns), tmp_path / "ratings.parquet")
    rows = [
        calipers("agreement", path, "--json", "--replicates", "100").json["rows"]
        for path in (good, tabs, str(tmp_path / "ratings.parquet"))
    ]
    assert rows[0] == rows[1] == rows[2]


def test_columns_can_be_named(calipers, table):
    text = "who,what,said,place,group\n" + "".join(
        f"{who},{k},{'good' if k % 2 else 'bad'},{k / 20},{k % 7}\n"
        for k in range(20)
        for who in "xyz"
    )
    options = [
        "--rating",
        "said",
        "--rater",
        "who",
        "--item",
        "what",
        "--criteria",
        "place",
        "--cluster",
        "group",
    ]
    said = calipers("agreement", table(text), *options, "--useful", "good", "--json")
    document = said.json
    assert document["settings"]["unit"] == "group"
    assert document["settings"]["n_units"] == 7
    among = {row["metric"]: row["value"] for row in document["rows"] if "raters" in row["group"]}
    assert among["po"] == 1
    assert document["ratings"]["categories"] == ["bad", "good"]


def test_distances_can_be_named(calipers, table):
    text = "rating,error\n" + "".join(f"{int(k < 10)},{k}\n" for k in range(20))
    document = calipers(
        "agreement", table(text), "--distances", "error", "--thresholds", "9", "--json"
    ).json
    found = {row["metric"]: row["value"] for row in document["rows"]}
    assert found["AUROC"] == found["sensitivity"] == found["specificity"] == 1
    assert found["Youden-threshold"] == 9


def test_an_order_of_words(calipers, table):
    text = "item,rater,rating\n" + "".join(
        f"{k},{who},{('poor', 'fair', 'good')[(k + (who == 'b') * (k % 4 == 0)) % 3]}\n"
        for k in range(12)
        for who in "ab"
    )
    path = table(text)
    ordered = calipers("agreement", path, "--categories", "poor,fair,good", "--json").json
    assert ordered["ratings"]["scale"] == "ordinal"
    assert "AC2" in {row["metric"] for row in ordered["rows"]}
    assert calipers("agreement", path, "--json").json["ratings"]["scale"] == "nominal"
    assert "the order of the ratings" in calipers("agreement", path, "--scale", "ordinal").err


def test_output_files(calipers, good, tmp_path):
    said = calipers("agreement", good, "--json", "-o", tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == said.json
    assert calipers("agreement", good, "-o", tmp_path / "a.csv").code == 0
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert len(rows) == len(said.json["rows"])
    assert {"criterion", "threshold", "rater", "metric", "value", "low", "high"} <= set(rows[0])
    assert [float(row["value"]) if row["value"] else None for row in rows] == [
        r["value"] for r in said.json["rows"]
    ]
    for name, rule in (
        ("a.json", "output-exists"),
        ("ratings.csv", "output-in-input"),
        ("no/where.json", "not-a-file"),
    ):
        refused = calipers("agreement", good, "--json", "-o", tmp_path / name)
        assert (refused.code, refused.json["error"]["kind"]) == (2, rule)
    assert calipers("agreement", good, "-o", tmp_path / "a.json", "--force").code == 0
    assert calipers("agreement", good, "-o", tmp_path / "a.txt").code == 2
    assert calipers("agreement", good, "-o", "").code == 2


def test_unrated_rows_are_refused_or_counted(calipers, table):
    rows = lines()
    rows[4] = rows[4].replace("not useful", "").replace("useful", "")
    rows[9] = rows[9].rsplit(",", 1)[0] + ","
    path = table("\n".join([HEADER, *rows]))
    strict = calipers("agreement", path, "--json")
    assert strict.code == 2
    problems = strict.json["error"]["problems"]
    assert [(p["rule"], p["location"]) for p in problems] == [
        ("rating-missing", "6:3"),
        ("criterion-missing", "11:6"),
    ]
    lenient = calipers("agreement", path, "--lenient", "--json").json
    account = lenient["ratings"]["files"][0]
    assert (account["read"], account["used"]) == (60, 58)
    assert account["quarantined"] == {"rating-missing": 1, "criterion-missing": 1}
    assert "1 of 60 rows set aside: rating-missing" in lenient["warnings"]


BAD = {
    "no rating column": ("patient,box-iou\na,0.5\n", [], "missing-column", "1"),
    "a column that is not there": (f"{HEADER}\n", ["--rating", "ratng"], "missing-column", "1"),
    "a criterion that is not there": (f"{HEADER}\n", ["--criteria", "iou"], "missing-column", "1"),
    "a cluster that is not there": (f"{HEADER}\n", ["--cluster", "centre"], "missing-column", "1"),
    "only a header": ("rating,iou\n", [], "no-ratings", ""),
    "nothing left": ("rating,iou\n,0.5\n", ["--lenient"], "no-ratings", ""),
    "a typing error": (
        "rating,iou\nuseful,0.5\nnot useful,0.5\nusefull,0.5\n",
        [],
        "rating-value",
        "4:1",
    ),
    "not one of the categories": (
        "rating,iou\n1,0.5\n9,0.5\n",
        ["--categories", "1,2,3"],
        "rating-value",
        "3:1",
    ),
    "too many ratings": (
        "rating,iou\n" + "".join(f"{k / 7},1\n" for k in range(80)),
        [],
        "rating-value",
        "",
    ),
    "a text": ("rating,iou\n1,0.5\n0,high\n", [], "type", "3:2"),
    "a decimal comma between commas": ('rating,iou\n1,"0,5"\n0,"0,1"\n', [], "type", "2:2"),
    "NaN": ("rating,iou\n1,0.5\n0,nan\n", [], "non-finite", "3:2"),
    "infinity": ("rating,iou\n1,0.5\n0,inf\n", [], "non-finite", "3:2"),
    "no value": ("rating,iou\n1,0.5\n0,\n", [], "criterion-missing", "3:2"),
    "no patient": ("patient,rating,iou\na,1,0.5\n,0,0.1\n", [], "missing-group", "3:1"),
    "a ragged row": ("rating,iou\n1,0.5\n0,0.1,7\n", [], "ragged", "3:3"),
    "rated twice by one": ("item,rater,rating\n1,a,1\n2,a,1\n1,a,0\n", [], "dup-rating", "4:3"),
    "two values of one item": (
        "item,rater,rating,iou\n1,a,1,0.5\n1,b,1,0.6\n",
        [],
        "item-conflict",
        "3:4",
    ),
    "two patients of one item": (
        "item,rater,rating,patient\n1,a,1,x\n1,b,1,y\n",
        [],
        "item-conflict",
        "3:4",
    ),
    "nothing to compare with": ("rating,score\n1,0.5\n0,0.5\n", [], "no-criteria", ""),
    "columns of one name": ("rating,iou,IOU\n1,0.5,0.5\n", [], "dup-column", "1:3"),
    "JSON": ('{"rating": [1]}', [], "format", ""),
    "no text": ("rating,iou\n\0,1\n", [], "encoding", "line 2"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables(calipers, table, case):
    text, options, rule, where = BAD[case]
    said = calipers("agreement", table(text), *options, "--json")
    assert said.code == 2
    problem = said.json["error"]["problems"][0]
    assert (problem["rule"], problem["location"]) == (rule, where)
    loud = calipers("agreement", table(text), *options)
    assert (loud.code, loud.out) == (2, "")
    assert f"[{rule}]" in loud.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--thresholds", "high"], "--thresholds takes"),
        (["--thresholds", "0.5", "--thresholds", "0.7"], "given twice"),
        (
            ["--thresholds", "box-iou=0.5", "--thresholds", "box-iou=0.7"],
            "given twice for 'box-iou'",
        ),
        (["--thresholds", "boxiou=0.5"], "did you mean 'box-iou'"),
        (["--thresholds", "nan"], "finite"),
        (["--criteria", "box-iou,"], "--criteria takes names"),
        (["--level", "95"], "not in the range 0<x<1"),
        (["--replicates", "5"], "--replicates"),
        (["--seed", "-1"], "--seed"),
        (["--scale", "ratio"], "--scale"),
        (["--useful", "good"], "cannot count as useful"),
        (["--cluster"], "--cluster"),
    ],
)
def test_bad_options(calipers, good, options, said):
    found = calipers("agreement", good, *options)
    assert (found.code, found.out) == (2, "")
    assert said in found.err


def test_more_than_two_ratings_need_a_word_on_usefulness(calipers, table):
    text = "rating,iou\n" + "".join(f"{1 + k % 5},{k / 20}\n" for k in range(20))
    assert "the table has: 1, 2, 3, 4, 5" in calipers("agreement", table(text)).err
    document = calipers("agreement", table(text), "--useful", "4,5", "--json").json
    assert document["ratings"]["useful"] == 8


def test_a_missing_file(calipers, tmp_path):
    said = calipers("agreement", tmp_path / "none.csv")
    assert said.code == 2
    assert "[not-found]" in said.err


def test_names_cannot_drive_a_terminal(calipers, table):
    text = "rater,rating,iou \x1b[31m\n" + "".join(
        f"\x1b[2J{'ab'[k % 2]},{k % 2},{k / 12}\n" for k in range(12)
    )
    said = calipers("agreement", table(text), "--criteria", "iou \x1b[31m", "--thresholds", "0.5")
    assert said.code == 0
    assert "\x1b" not in said.out + said.err
    assert "\\x1b[31m" in said.out


@pytest.mark.parametrize(("column", "value"), [(3, "-0.4"), (3, "55"), (5, "-1")])
def test_a_criterion_out_of_range_is_refused(calipers, table, column, value):
    rows = lines()
    cells = rows[10].split(",")
    cells[column] = value
    rows[10] = ",".join(cells)
    said = calipers(
        "agreement", table("\n".join([HEADER, *rows]) + "\n"), "--thresholds", "0.5", "--json"
    )
    assert said.code == 2
    assert "criterion-range" in said.out
