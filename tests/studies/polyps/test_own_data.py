"""The study on a user's own centres, and what it says about bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calipers.errors import InputError, UsageError
from calipers.io.tables.table import delimited
from calipers.io.write import write
from calipers.studies.framework import StudyResult, run_study
from calipers.studies.polyps import people
from calipers.studies.polyps.archive import open_archive, write_archive
from studies.polyps.polyp_cases import data_of, even, uneven


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """References with masks, predictions of two models, groups and ratings, in files."""
    place = tmp_path_factory.mktemp("centres")
    cohort = data_of([uneven, even]).cohort
    write(cohort, place / "references.json")
    (place / "predictions").mkdir()
    for name in cohort.models:
        write(cohort, place / "predictions" / f"{name}.json", what=name)
    n = len(cohort.models["main"])
    rows = np.arange(0, n, 3)
    useful = cohort.models["main"].score[rows] > 0.4
    words = ["useful" if one else "not useful" for one in useful.tolist()]
    table = {"prediction": rows.tolist(), "rating": words}
    (place / "ratings.csv").write_text(delimited(table), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def own(folder: Path) -> StudyResult:
    patch = pytest.MonkeyPatch()
    patch.setattr(people, "_installed", lambda *names: None)
    try:
        return run_study("polyps", data=folder, quick=True)
    finally:
        patch.undo()


def test_a_folder_of_centres_goes_through_the_same_study(own: StudyResult) -> None:
    assert own.settings["models"] == ["main", "second"]
    assert own.claim("centres-differ").is_tested
    assert own.claim("size-effect").verdict == "held"
    # Real types are no longer made data.
    assert own.claim("type-effect").basis == "run"


def test_ratings_decide_the_claims_about_clinicians(own: StudyResult) -> None:
    for name in ("not-useful-rejected", "position-agrees-better", "any-overlap-agrees-best"):
        assert own.claim(name).is_tested, name
    assert {figure.name for figure in own.figures} >= {"figure-2", "figure-6", "figure-7"}


def test_every_file_is_hashed(own: StudyResult) -> None:
    names = {Path(str(entry["file"])).name for entry in own.inputs}
    assert names == {"references.json", "main.json", "second.json", "ratings.csv"}


def test_data_without_columns_and_masks_leave_claims_untested(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(people, "_installed", lambda *names: None)
    references = "image,label,x0,y0,x1,y1,width,height\n"
    predictions = "image,label,score,x0,y0,x1,y1\n"
    for k in range(8):
        references += f"i{k},polyp,10,10,{40 + k},50,100,80\n"
        predictions += f"i{k},polyp,0.{9 - k},12,10,{42 + k},50\n"
    (tmp_path / "r.csv").write_text(references, encoding="utf-8")
    (tmp_path / "p.csv").write_text(predictions, encoding="utf-8")
    files = {"ours": str(tmp_path / "p.csv")}
    result = run_study("polyps", data=tmp_path / "r.csv", predictions=files, quick=True)
    assert result.claim("lower-range-higher-ap").is_tested
    for name in ("centres-differ", "box-iou-highest", "type-effect", "trend-general"):
        assert result.claim(name).verdict == "not tested", name
    assert any("no column 'centre'" in note for note in result.warnings)


def test_references_alone_are_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="--predictions NAME=FILE"):
        run_study("polyps", data=folder / "references.json")


def test_predictions_need_references() -> None:
    with pytest.raises(UsageError, match="--predictions need --data"):
        run_study("polyps", predictions={"ours": "p.json"})


def test_a_folder_without_references_is_refused(tmp_path) -> None:
    (tmp_path / "predictions").mkdir()
    with pytest.raises(InputError, match=r"references\.json"):
        run_study("polyps", data=tmp_path)


def test_a_folder_without_an_archive_says_how_to_make_one(tmp_path) -> None:
    with pytest.raises(InputError, match="--train --keep"):
        run_study("polyps", keep=tmp_path)


def test_training_needs_a_place_to_keep_it(monkeypatch) -> None:
    monkeypatch.setattr("calipers.studies.framework.find_spec", lambda name: object())
    with pytest.raises(UsageError, match="--keep DIR"):
        run_study("polyps", train=True)


def test_training_without_torch_says_what_to_install(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("calipers.studies.framework.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install"):
        run_study("polyps", train=True, keep=tmp_path)


def test_own_data_are_not_trained_on(folder: Path) -> None:
    with pytest.raises(UsageError, match="leave out --data"):
        run_study("polyps", data=folder, keep=folder)


def test_an_archive_keeps_boxes_scores_and_masks(tmp_path) -> None:
    cohort = data_of([even, uneven]).cohort
    facts = {"command": "made", "seed": 0, "models": []}
    archive = write_archive(tmp_path / "polyps.npz", cohort, facts, lowest=0.1, most=5)
    again = open_archive(tmp_path / "polyps.npz")
    assert archive.sha256 == again.sha256
    assert again.cohort.references.masks is not None
    assert cohort.references.masks is not None
    assert np.array_equal(again.cohort.references.masks.start, cohort.references.masks.start)
    assert np.array_equal(again.cohort.group("centre"), cohort.group("centre"))
    table, packed = cohort.models["main"], again.cohort.models["main"]
    strong = table.keep(table.score >= 0.1)
    assert np.abs(packed.boxes - np.clip(strong.boxes, 0, None)).max() <= 1 / 32
    assert np.abs(packed.score - strong.score).max() <= 1 / 65535


def test_another_file_is_no_archive(tmp_path) -> None:
    (tmp_path / "polyps.npz").write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match="archive of the study of polyps"):
        run_study("polyps", keep=tmp_path)


def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path) -> None:
    with pytest.raises(InputError) as caught:
        run_study("polyps", data=tmp_path / "nowhere", quick=True)
    assert caught.value.rule == "not-found"
    assert "references.json" in str(caught.value)
