"""`calipers corrupt`: predictions that are wrong in a known way, in any format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import calipers as cal

NOISE = "position-noise(sigma=0.5)"


@pytest.mark.parametrize("suffix", ["json", "csv", "tsv", "parquet"])
def test_the_file_holds_what_corrupt_gives(calipers, files, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"oracle.{suffix}"
    said = calipers(
        "corrupt",
        files.references,
        "--kind",
        NOISE,
        "--kind",
        "class-confusion(p=0.5)",
        "-o",
        target,
    )
    assert (said.code, said.out) == (0, f"{target}\n")
    assert (
        "5 references on 4 images became 5 predictions: position-noise(sigma=0.5) + "
        "class-confusion(p=0.5)" in said.err
    )
    read = cal.read(files.references, {"oracle": target}).predictions("oracle")
    expected = cal.corrupt(
        cal.read(files.references), [NOISE, "class-confusion(p=0.5)"], name="o"
    ).predictions("o")
    np.testing.assert_allclose(read.boxes, expected.boxes, atol=1e-9)
    np.testing.assert_array_equal(read.label, expected.label)
    assert (read.score == 1).all()


def test_the_json_says_what_was_done(calipers, files, tmp_path: Path) -> None:
    target = tmp_path / "oracle.csv"
    said = calipers(
        "corrupt", files.references, "--kind", NOISE, "--seed", 3, "-o", target, "--json"
    ).json
    assert said == {
        "schema": "calipers.corrupt/1",
        "calipers": cal.__version__,
        "written": str(target),
        "kinds": [NOISE],
        "seed": 3,
        "of": "references",
        "images": 4,
        "objects": 5,
        "predictions": 5,
        "warnings": [],
    }


def test_a_model_can_be_corrupted(calipers, files, tmp_path: Path) -> None:
    target = tmp_path / "worse.json"
    said = calipers(
        "corrupt",
        files.references,
        "--kind",
        NOISE,
        "--of",
        f"ours={files.ours}",
        "-o",
        target,
        "--json",
    )
    assert (said.json["of"], said.json["objects"], said.json["predictions"]) == ("ours", 5, 5)


def test_ignored_references_are_told(calipers, files, tmp_path: Path) -> None:
    document = json.loads(Path(files.references).read_text())
    document["annotations"][0]["ignore"] = 1
    references = files.write("ignoring.json", document)
    said = calipers("corrupt", references, "--kind", NOISE, "-o", tmp_path / "o.json")
    assert said.code == 0
    assert "note: 1 ignored references are left out" in said.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--kind", "position-nose(sigma=1)"], "did you mean 'position-noise'"),
        (["--kind", "position-noise"], "needs sigma"),
        ([], "--kind"),
        (["--kind", NOISE, "--to", "yaml"], "no format 'yaml'"),
        (["--kind", NOISE, "--seed", "-1"], "--seed"),
    ],
)
def test_bad_requests_are_told_before_anything_is_read(
    calipers, tmp_path: Path, options: list[str], told: str
) -> None:
    said = calipers("corrupt", tmp_path / "missing.json", *options, "-o", tmp_path / "o.json")
    assert said.code == 2
    assert told in said.err


def test_nothing_is_replaced_unless_asked(calipers, files, tmp_path: Path) -> None:
    target = tmp_path / "oracle.json"
    target.write_text("mine")
    said = calipers("corrupt", files.references, "--kind", NOISE, "-o", target)
    assert (said.code, target.read_text()) == (2, "mine")
    assert "output-exists" in said.err
    assert calipers("corrupt", files.references, "--kind", NOISE, "-o", target, "--force").code == 0
    over = calipers("corrupt", files.references, "--kind", NOISE, "-o", files.references, "--force")
    assert (over.code, "output-in-input" in over.err) == (2, True)
