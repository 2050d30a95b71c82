"""Names are data: they drive no terminal, no browser and no spreadsheet, and JSON keeps them to the
letter.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re

import pyarrow.parquet as pq
import pytest

from calipers.cli.main import run
from cli.conftest import Files, Said

NAMES = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</title></style><b>",
    "=cmd|'/c calc'!A1",
    "+1+1",
    "-2-3",
    "@SUM(A1)",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b2J",
    "\u202egnp.exe",
    "a\nerror: forged line",
    "a\tb\rc",
    "'; DROP TABLE",
    '"quoted", comma',
    "[bold]markup[blink]",
    "{{7*7}}",
    "Ünïcödé 肺 🫁",
    "x" * 250,
    "&lt;already&gt;",
)
MODELS = tuple(
    name for name in NAMES if not set(name) & {"/", "="}
)  # else they are paths, or name=path
DRIVING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Write every name as a class, as an image, as a patient and as a model."""
    files = Files(tmp_path_factory.mktemp("hostile"))
    document = {
        "images": [{"id": name, "width": 9, "height": 9, "file_name": name} for name in NAMES],
        "categories": [{"id": k, "name": name} for k, name in enumerate(NAMES)],
        "annotations": [
            {
                "id": k,
                "image_id": name,
                "category_id": k,
                "bbox": [1, 1, 5, 5],
                "area": 25,
                "iscrowd": 0,
            }
            for k, name in enumerate(NAMES)
        ],
    }
    for image, name in zip(document["images"], NAMES):
        image["patient"] = name
    files.write("hostile.json", document)
    found = [
        {
            "image_id": a["image_id"],
            "category_id": a["category_id"],
            "bbox": a["bbox"],
            "score": 0.5,
        }
        for a in document["annotations"][::2]
    ]
    files.write("found.json", found)
    return files.path("hostile.json"), [f"{name}={files.path('found.json')}" for name in MODELS]


@pytest.fixture(scope="module")
def saved(hostile, tmp_path_factory):
    """Evaluate them once for all tests, which only read what is printed and written."""
    references, models = hostile
    out = tmp_path_factory.mktemp("evaluation") / "out"
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        options = ["--preset", "overview", "--replicates", "100", "-o", str(out)]
        code = run(["evaluate", *options, "--", references, *models])
    assert code == 0
    return Said(code, stdout.getvalue(), stderr.getvalue()), out


def test_the_terminal_is_not_driven(calipers, hostile, saved):
    said, _ = saved
    for text in (said.out, said.err, calipers("inspect", hostile[0], hostile[1][0]).out):
        assert not DRIVING.search(text)
        assert "\nerror: forged" not in text
    assert "[bold]markup[blink]" in said.out


def test_errors_do_not_drive_the_terminal(calipers, files):
    for name in NAMES:
        if "/" not in name:
            said = calipers("evaluate", files.path(name), files.ours)
            assert said.code == 2
            assert not DRIVING.search(said.err)
            assert "\nerror: forged" not in said.err
            assert not DRIVING.search(
                calipers("evaluate", files.references, files.ours, "--preset", name).err
            )


def test_json_is_lossless_and_drives_no_terminal(calipers, hostile, saved):
    references, models = hostile
    argv = ("evaluate", "--preset", "overview", "--json", "--no-ci", "--", references, *models)
    said = calipers(*argv)
    assert not DRIVING.search(said.out)
    assert said.out.isascii()
    for document in (said.json, json.loads((saved[1] / "evaluation.json").read_text())):
        assert document["cohort"]["classes"] == list(NAMES)
        assert list(document["cohort"]["models"]) == list(MODELS)
        assert {row["class"] for row in document["rows"]} == {None, *NAMES}


def test_parquet_is_lossless(saved):
    table = pq.read_table(saved[1] / "objects.parquet")
    assert set(table["class"].to_pylist()) == set(NAMES)
    assert set(table["image"].to_pylist()) == set(NAMES)


def test_no_cell_is_a_formula(saved):
    with (saved[1] / "images.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    text = [header.index(name) for name in ("image", "model", "patient")]
    assert {len(row) for row in rows} == {len(header)}
    for row in rows:
        for column, cell in enumerate(row):
            if column in text:
                assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert {row[header.index("image")] for row in rows} == {
        f"'{n}" if n[0] in "=+-@" else n for n in NAMES
    }


def test_the_page_shows_them_as_text(saved):
    page = (saved[1] / "report.html").read_text(encoding="utf-8")
    start = page.index(
        '<script type="application/json" id="rows">'
    )  # the page's own rows and script come last
    assert page.count("<script", start) == page.count("</script>", start) == 2
    page = page[:start]
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("<title") == page.count("</title>")
    assert page.count("</style>") == 1
    assert "<b>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "&amp;lt;already&amp;gt;" in page
    assert not DRIVING.search(page)
