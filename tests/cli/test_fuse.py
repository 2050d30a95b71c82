"""`calipers fuse`: several files become one, with its account and its evaluation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six prediction files of the demo: three models, and the same a little displaced."""
    folder = tmp_path_factory.mktemp("fuse")
    cohort = cal.demo_cohort()
    cal.write(cohort, folder / "refs.json")
    for name in list(cohort.models):
        cal.write(cohort, folder / f"{name}.json", what=name)
        moved = cal.corrupt(cohort, "position-noise", sigma=0.02, of=name, name="moved")
        cal.write(moved, folder / f"{name}-moved.csv", what="moved")
    return folder


def members(folder: Path, n: int = 6) -> list[str]:
    names = ("mislabels", "overpredicts", "misses-small")
    files = [f"{name}.json" for name in names] + [f"{name}-moved.csv" for name in names]
    return [f"m{k}={folder / file}" for k, file in enumerate(files[:n])]


@pytest.mark.parametrize("suffix", ["json", "csv", "tsv", "parquet"])
def test_the_file_holds_what_fuse_gives(
    calipers: Any, folder: Path, tmp_path: Path, suffix: str
) -> None:
    target = tmp_path / f"fused.{suffix}"
    said = calipers("fuse", folder / "refs.json", *members(folder), "-o", target)
    assert said.code == 0, said.err
    assert "Recipe endocv2022" in said.out
    assert "6 members on 120 images; recipe endocv2022" in said.err
    files = dict(entry.split("=", 1) for entry in members(folder))
    expected = cal.fuse(cal.read(folder / "refs.json", files)).models["endocv2022"]
    back = cal.read(folder / "refs.json", {"fused": target}).models["fused"]
    np.testing.assert_allclose(back.boxes, expected.boxes, atol=1e-9)
    np.testing.assert_array_equal(back.score, expected.score)
    np.testing.assert_array_equal(back.label, expected.label)


def test_the_json_is_one_object(calipers: Any, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "fused.json"
    said = calipers(
        "fuse", folder / "refs.json", *members(folder, 3), "-o", target, "--recipe", "nms", "--json"
    ).json
    assert list(said) == [
        "schema",
        "calipers",
        "written",
        "ensemble",
        "recipe",
        "images",
        "predictions",
        "members",
        "steps",
        "tuning",
        "evaluation",
        "warnings",
    ]
    assert (said["schema"], said["ensemble"], said["written"]) == (
        "calipers.fusion/1",
        "nms",
        str(target),
    )
    assert said["steps"][-1]["boxes"] == said["predictions"]
    assert sum(member["boxes"] for member in said["members"]) == said["steps"][0]["boxes"]
    assert said["evaluation"] is None


def test_evaluate_prints_members_ensemble_and_contributions(
    calipers: Any, folder: Path, tmp_path: Path
) -> None:
    arguments = ("fuse", folder / "refs.json", *members(folder, 3), "--evaluate")
    choices = ("--metrics", "AP50", "--replicates", 200, "--name", "all")
    said = calipers(*arguments, *choices, "-o", tmp_path / "a.json")
    assert said.code == 0, said.err
    assert "Members and ensemble" in said.out
    assert "What each member adds" in said.out
    document = calipers(*arguments, *choices, "-o", tmp_path / "b.json", "--json").json
    evaluation = document["evaluation"]
    assert [row["model"] for row in evaluation["rows"]] == ["m0", "m1", "m2", "all"]
    assert [row["model_b"] for row in evaluation["differences"]] == ["m0", "m1", "m2"]
    assert [row["member"] for row in evaluation["contributions"]] == ["m0", "m1", "m2"]
    assert all(row["low"] <= row["difference"] <= row["high"] for row in evaluation["differences"])


def test_a_recipe_file_is_obeyed(calipers: Any, folder: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "own.toml"
    recipe.write_text(
        'schema = "calipers.recipe/1"\nname = "own"\nmembers = ["m0"]\n'
        '[[step]]\nkind = "top-k"\nk = 1\n'
    )
    said = calipers(
        "fuse",
        folder / "refs.json",
        *members(folder, 2),
        "--recipe",
        recipe,
        "-o",
        tmp_path / "fused.json",
        "--json",
    ).json
    assert [member["model"] for member in said["members"]] == ["m0"]
    assert said["predictions"] == said["members"][0]["images"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--recipe", "endocv"], "did you mean 'endocv2022'"),
        (["--name", "m0"], "a member is called 'm0'"),
        (["--metrics", "AP50"], "--metrics is for --evaluate"),
        (["--seed", "0"], "--seed is for --evaluate"),
        (["--evaluate", "--metrics", "AP7"], "did you mean 'AP75'"),
        (["--to", "cococo"], "did you mean 'coco'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    calipers: Any, folder: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    target = tmp_path / "fused.json"
    said = calipers("fuse", folder / "refs.json", *members(folder, 2), "-o", target, *options)
    assert said.code == 2
    assert words in said.err
    assert not target.exists()


def test_scores_outside_the_unit_interval_are_refused(
    calipers: Any, folder: Path, tmp_path: Path
) -> None:
    document = json.loads((folder / "mislabels.json").read_text())
    document["annotations"][0]["score"] = 7.5
    raw = tmp_path / "raw.json"
    raw.write_text(json.dumps(document))
    arguments = ("fuse", folder / "refs.json", *members(folder, 2), f"raw={raw}")
    target = tmp_path / "fused.json"
    said = calipers(*arguments, "-o", target, "--score-scale", "raw", "--json")
    assert said.code == 2
    assert said.json["error"]["kind"] == "score-range"
    assert said.json["error"]["message"].startswith(f"{raw}, predictions of 'raw'")
    assert not target.exists()
    # No hint of an option that is refused afterwards, be it one score or many.
    for n in (1, 3):
        for record in document["annotations"][:n]:
            record["score"] = 7.5
        raw.write_text(json.dumps(document))
        said = calipers(*arguments, "-o", target)
        assert said.code == 2
        assert "/annotations/0/score" in said.err
        assert "turn these into probabilities" in said.err
        assert "--score-scale" not in said.err


def test_members_of_other_images_or_classes_are_refused(
    calipers: Any, folder: Path, tmp_path: Path
) -> None:
    for key, wrong in (("image_id", "elsewhere"), ("category_id", 99)):
        document = json.loads((folder / "mislabels.json").read_text())
        document["annotations"][0][key] = wrong
        other = tmp_path / f"{key}.json"
        other.write_text(json.dumps(document))
        arguments = ("fuse", folder / "refs.json", *members(folder, 2), f"other={other}")
        said = calipers(*arguments, "-o", tmp_path / "fused.json")
        assert said.code == 2, key


def test_an_empty_member_is_counted(calipers: Any, folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text("[]")
    arguments = ("fuse", folder / "refs.json", *members(folder, 2), f"empty={empty}")
    said = calipers(*arguments, "-o", tmp_path / "fused.json", "--json").json
    assert said["members"][-1] == {"model": "empty", "boxes": 0, "images": 0, "classes": 0}
    assert any("'empty' has no boxes" in note for note in said["warnings"])


def test_results_are_replaced_only_by_force_and_inputs_never(
    calipers: Any, folder: Path, tmp_path: Path
) -> None:
    target = tmp_path / "fused.json"
    arguments = ("fuse", folder / "refs.json", *members(folder, 2), "-o")
    assert calipers(*arguments, target).code == 0
    assert calipers(*arguments, target).code == 2
    assert calipers(*arguments, target, "--force").code == 0
    assert calipers(*arguments, folder / "mislabels.json", "--force").code == 2


SMALL = """
schema = "calipers.recipe/1"
name = "small"
[[step]]
kind = "calibrate"
method = "none"
tune = { method = ["none", "isotonic"] }
[[step]]
kind = "weighted-boxes-fusion"
tune = { iou_threshold = [0.4, 0.5] }
"""


def test_a_folder_gets_predictions_recipe_page_tables_and_figures(
    calipers: Any, folder: Path, tmp_path: Path
) -> None:
    target = tmp_path / "ensemble"
    said = calipers(
        *("fuse", folder / "refs.json", *members(folder), "-o", target),
        *("--evaluate", "--metrics", "AP50", "--replicates", 200),
    )
    assert said.code == 0, said.err
    assert f"Open {target / 'fusion.html'}" in said.err
    assert sorted(file.name for file in target.iterdir()) == [
        "fused.json",
        "fusion-contributions.svg",
        "fusion-differences.svg",
        "fusion-ensemble.svg",
        "fusion-pr.svg",
        "fusion.html",
        "fusion.json",
        "recipe.toml",
        "table-contributions.csv",
        "table-ensemble.csv",
        "table-members.csv",
        "table-steps.csv",
    ]
    document = json.loads((target / "fusion.json").read_text())
    page = (target / "fusion.html").read_text()
    assert document["written"] == str(target / "fused.json")
    for member in ("m0", "m5", "endocv2022"):
        assert member in page
    assert "Precision and recall" in page
    assert page.count("<svg") == 4
    again = calipers(
        *("fuse", folder / "refs.json", *members(folder), "-o", tmp_path / "again.json"),
        *("--recipe", target / "recipe.toml"),
    )
    assert again.code == 0, again.err
    assert (tmp_path / "again.json").read_text() == (target / "fused.json").read_text()


def test_words_call_nobody_better_without_a_test(
    calipers: Any, folder: Path, tmp_path: Path
) -> None:
    """The verdict names as better or worse exactly those whose corrected test says so."""
    target = tmp_path / "ensemble"
    arguments = ("fuse", folder / "refs.json", *members(folder, 3), "-o", target, "--evaluate")
    calipers(*arguments, "--metrics", "AP50", "--replicates", 200)
    rows = json.loads((target / "fusion.json").read_text())["evaluation"]["differences"]
    page = (target / "fusion.html").read_text()
    verdict = page.split('class="verdict">')[1].split("</p>")[0]
    better = [row["model_b"] for row in rows if row["verdict"] == "a_better"]
    others = [row["model_b"] for row in rows if row["verdict"] == "no_difference_shown"]
    assert (better, others) == (["m0", "m2"], ["m1"])
    assert "it is shown to be better than m0 and m2; no difference from m1 is shown" in verdict


def test_tuning_writes_a_recipe_and_judges_by_other_images(
    calipers: Any, folder: Path, tmp_path: Path
) -> None:
    recipe, target = tmp_path / "small.toml", tmp_path / "tuned"
    recipe.write_text(SMALL)
    said = calipers(
        *("fuse", folder / "refs.json", *members(folder, 3), "-o", target, "--recipe", recipe),
        *("--tune", "--tuning", "0.5", "--folds", 2, "--rounds", 1, "--evaluate"),
        *("--preset", "overview", "--metrics", "F1@0.5", "--replicates", 200, "--json"),
    )
    document = said.json
    assert document["ensemble"] == "small-tuned"
    tuning, rows = document["tuning"], document["evaluation"]["rows"]
    assert tuning["n_images"] + rows[0]["n_images"] == 120
    assert document["images"] == 120
    assert not (tmp_path / "tuned.tuning.jsonl").exists()
    text = (target / "recipe.toml").read_text()
    assert 'tuned_for = "F1@0.5"' in text
    assert (target / "table-parameters.csv").exists()
    assert "which is optimistic" in (target / "fusion.html").read_text()


def test_a_calibration_is_fitted_on_the_tuning_split(
    calipers: Any, folder: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "own.toml"
    recipe.write_text(
        SMALL.replace('method = "none"\ntune = { method = ["none", "isotonic"] }', "")
    )
    arguments = ("fuse", folder / "refs.json", *members(folder, 2), "--recipe", recipe)
    refused = calipers(*arguments, "-o", tmp_path / "a.json")
    assert refused.code == 2
    assert "no curve for 'm0'" in refused.err
    fitted = calipers(*arguments, "-o", tmp_path / "dir", "--tuning", "0.5", "--quiet")
    assert fitted.code == 0, fitted.err
    assert "[step.curves.m1]" in (tmp_path / "dir" / "recipe.toml").read_text()


def test_a_patient_in_two_spellings_on_both_sides_of_the_split_is_told(
    calipers: Any, folder: Path, tmp_path: Path
) -> None:
    cohort = cal.read(folder / "refs.json")
    plain = replace(cohort, images=replace(cohort.images, groups={}))
    cal.write(plain, tmp_path / "refs.json")
    rows = ["image,patient,part"]
    for k, name in enumerate(cohort.images.ids):
        rows.append(f"{name},{'pq'[k % 2]}{k // 4},{'ab'[k % 2]}")
    table = tmp_path / "groups.csv"
    table.write_text("\n".join(rows) + "\n")
    arguments: tuple[object, ...] = ("fuse", tmp_path / "refs.json", *members(folder, 2))
    arguments += ("--recipe", "wbf", "--groups", table, "--tuning", "part=a")
    said = calipers(*arguments, "-o", tmp_path / "one")
    assert (said.code, "both sides" in said.err) == (0, False), said.err
    table.write_text(table.read_text().replace(",q3,", ",P3,"))
    said = calipers(*arguments, "-o", tmp_path / "two")
    assert said.code == 0
    assert "'p3' and 'P3' lie on both sides of the split for tuning" in " ".join(said.err.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--folds", "3"], "--folds is for --tune"),
        (["--tune", "--evaluate"], "would be optimistic"),
        (["--tune", "--tuning", "site=x"], "'site'"),
        (["--to", "yolo"], "not a single file"),
    ],
)
def test_wrong_options_of_a_folder_are_refused(
    calipers: Any, folder: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    target = tmp_path / "out"
    said = calipers("fuse", folder / "refs.json", *members(folder, 2), "-o", target, *options)
    assert said.code == 2
    assert words in said.err
    assert not target.exists()


def test_tuning_needs_a_folder(calipers: Any, folder: Path, tmp_path: Path) -> None:
    said = calipers(
        "fuse", folder / "refs.json", *members(folder, 2), "-o", tmp_path / "x.json", "--tune"
    )
    assert said.code == 2
    assert "give a folder" in said.err
