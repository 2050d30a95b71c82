"""Names that look alike are told, wherever they are units, images, classes, models or raters."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.data.look_alikes import look_alikes, note_on_names, note_on_split
from calipers.errors import InputError
from calipers.metrics.maps import MapSettings
from calipers.monitors.scope import Scope
from calipers.stability.objects import object_stability
from calipers.stability.read import read_bags
from calipers.synthetic.runways import runway_cohort
from random_cohorts import random_cohort

COMPOSED, DECOMPOSED = "M\u00fcller", "Mu\u0308ller"


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        (COMPOSED, DECOMPOSED, r"'M\xfcller' and 'Mu\u0308ller'"),
        ("P1", "P1 ", r"'P1' and 'P1\x20'"),
        ("P1", " P1", r"'P1' and '\x20P1'"),
        ("P 1", "P  1", r"'P 1' and 'P\x20\x201'"),
        ("P 1", "P\u00a01", r"'P 1' and 'P\xa01'"),
        ("P1", "P\u200b1", r"'P1' and 'P\u200b1'"),
        ("P1", "P1\ufeff", r"'P1' and 'P1\ufeff'"),
        ("P1", "P1\u2800", r"'P1' and 'P1\u2800'"),
        ("P1", "\u04201", r"'P1' and '\u04201'"),
        ("P-1", "P\u20131", r"'P-1' and 'P\u20131'"),
        ("P1", "p1", "'P1' and 'p1'"),
        ("7", "7.0", "'7' and '7.0'"),
        ("7", "007", "'7' and '007'"),
        ("1", "1e0", "'1' and '1e0'"),
        ("1200", "1.2E+3", "'1200' and '1.2E+3'"),
        ("患者 1", "患者 1 ", r"'患者 1' and '患者 1\x20'"),
    ],
)
def test_pairs_are_shown_with_what_is_hidden(first: str, second: str, shown: str) -> None:
    assert look_alikes([first, "x", second, first]) == [(first, second)]
    (note,) = note_on_names("patient", [first, second])
    assert shown in note


def test_other_names_are_left_alone() -> None:
    # Two of them at a time: what the quick look at all of them together takes for plain, and not.
    others = [
        "P1",
        "P2",
        "P12",
        "P1_2",
        "7",
        "8",
        "70",
        "7.5",
        "75e-1x",
        "1e100",
        "12e4567890",
        "a|b",
        "a|B x",
        "Müller",
        "Moller",
    ]
    assert look_alikes(others) == []
    assert look_alikes(["a|b", "A|B"]) == [("a|b", "A|B")]
    assert look_alikes(["a|b", "a", "b"]) == []
    assert look_alikes([1, 1.5, "1", None]) == []
    many = [f"P{k}{end}" for k in range(5) for end in ("", " ")]
    assert "and 2 more pairs look alike" in note_on_names("patient", many)[0]


def test_the_quick_look_finds_what_a_look_at_every_name_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    signs = np.array(list("0017.a|A"))
    for _ in range(2000):
        names = ["".join(rng.choice(signs, rng.integers(1, 5))) for _ in range(4)]
        quick = look_alikes(names)
        with monkeypatch.context() as patch:
            patch.setattr("calipers.data.look_alikes._is_plain", lambda together: False)
            assert look_alikes(names) == quick, names


def test_numbered_images_need_no_look_at_every_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calipers.data.look_alikes._similar", pytest.fail)
    assert look_alikes([str(k) for k in range(1000)]) == []
    assert look_alikes([f"{k}_ct.0" for k in range(1000)]) == []


def test_an_evaluation_names_units_images_classes_and_models() -> None:
    cohort = random_cohort(8, 2, seed=1)
    patient = np.array(["a", "a ", "b", "b", "c", "c", "d", "d"])
    images = replace(cohort.images, groups={"patient": patient, "vendor": patient, "note": patient})
    cohort = replace(cohort, images=images, classes=("mass", "Mass"))
    cohort = cohort.with_predictions("MODEL-1", cohort.predictions("model-1"))
    evaluation = cal.evaluate(cohort, "coco", by="vendor", ci=False)
    notes = [text for text in evaluation.warnings if "look alike" in text]
    assert [text.split(":")[0] for text in notes] == ["class", "model", "patient", "vendor"]
    assert r"'a' and 'a\x20' look alike" in notes[2]
    assert "intervals are narrower with more of them" in notes[2]
    assert evaluation.statistics["n_units"] == 5  # told, not merged
    assert not [
        text
        for text in cal.evaluate(cohort.take([0, 2, 4]), "coco", ci=False).warnings
        if "patient" in text and "look alike" in text
    ]


def test_one_image_with_two_spellings_of_its_patient_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    rows = [["a", "n", 1, 2, 3, 4, COMPOSED], ["a", "n", 5, 6, 7, 8, DECOMPOSED]]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["image", "class", "x0", "y0", "x1", "y1", "patient"], *rows])
    with pytest.raises(InputError) as refused:
        cal.read(path)
    assert refused.value.rule == "group-conflict"
    assert r"Mu\u0308ller" in str(refused.value)


def test_hints_show_what_is_hidden(tmp_path: Path) -> None:
    header = "image,class,x0,y0,x1,y1"
    (tmp_path / "r.csv").write_text(f"{header}\na,{COMPOSED},1,2,3,4\n", encoding="utf-8")
    text = f"{header},score\na,{DECOMPOSED},1,2,3,4,0.5\n"
    (tmp_path / "p.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="unknown-category") as refused:
        cal.read(tmp_path / "r.csv", tmp_path / "p.csv")
    assert r"did you mean 'M\xfcller'?" in str(refused.value)


def test_ratings_and_mixed_models_name_raters_and_groups() -> None:
    raters = ["Ann", "ann", "Bob"] * 8
    rating = [(k * 7) % 3 > 0 for k in range(24)]
    iou = [(k * 5 % 24) / 24 for k in range(24)]
    columns = {"rating": rating, "rater": raters}
    agreement = cal.agreement({**columns, "iou": iou}, criteria="iou", replicates=100)
    assert any("'Ann' and 'ann' look alike" in text for text in agreement.warnings)
    fit = cal.mixed_model(
        {**columns, "overlap": iou}, "overlap ~ 1", groups=["rater"], few_groups=2
    )
    assert any("'Ann' and 'ann' look alike" in text for text in fit.notes)


def test_doctor_names_patients_that_look_alike(tmp_path: Path) -> None:
    from calipers.doctor.reference_checks import names_alike

    cohort = random_cohort(4, 1, seed=1)
    patient = np.array(["a", "a\u00a0", "b", "b"])
    cohort = replace(cohort, images=replace(cohort.images, groups={"patient": patient}))
    (symptom,) = names_alike(cohort)
    assert (symptom.code, symptom.level, symptom.examples) == (
        "names-alike",
        "warning",
        (r"'a' and 'a\xa0'",),
    )


def test_monitors_and_stability_name_units() -> None:
    made = runway_cohort(40, seed=5)
    names = np.array([f"p{k // 2}" for k in range(40)])
    names[1] = "P0"
    images = made.cohort.images
    images = replace(images, groups={**images.groups, "patient": names})
    scope = cal.scope_scores(replace(made.cohort, images=images))
    how = {"threshold": 1.0, "ci": False, "cluster": "patient"}
    monitor = cal.evaluate_monitor(made.alarms, scope, 0.5, made.columns["ood"], **how)
    assert any("'p0' and 'P0' look alike" in text for text in monitor.warnings)
    maps = {name: [np.full((2, 2), 0.1 * k) for k in range(4)] for name in ("a", "b")}
    patients = {"patient": ["p1", "p1 ", "p2", "p3"]}
    result = cal.stability(maps, [1, 1, 0, 1], groups=patients, ci=False)
    assert any(r"'p1' and 'p1\x20' look alike" in text for text in result.warnings)
    cohort = random_cohort(4, 1, models=2, seed=1)
    groups = {"patient": np.array(["a", "A", "b", "c"])}
    cohort = replace(cohort, images=replace(cohort.images, groups=groups))
    objects = object_stability(cohort, ci=False)
    assert any("'a' and 'A' look alike" in text for text in objects.warnings)


@pytest.mark.parametrize("other", ["a ", "\u00e4"])
def test_two_spellings_of_a_bag_are_not_merged(tmp_path: Path, other: str) -> None:
    """Instances of both were those of one bag, without a word."""
    first = "a" if other == "a " else "a\u0308"
    for bags in ((first,), (first, other)):
        rows = []
        for bag in bags:
            rows += [f"{model},{bag},{k},0.25" for model in "mn" for k in range(2)]
        path = tmp_path / "maps.csv"
        path.write_text("\n".join(["model,image,instance,score", *rows]) + "\n", encoding="utf-8")
        if len(bags) == 1:
            assert len(read_bags(path)) == 1
    with pytest.raises(InputError) as refused:
        read_bags(path)
    assert refused.value.rule == "dup-name"
    assert "look alike" in refused.value.hint


def test_raters_that_are_merged_are_told() -> None:
    rating = [(k * 7) % 3 > 0 for k in range(24)]
    raters = ["Ann"] * 12 + ["Bob"] * 11 + ["Bob "]
    result = cal.agreement({"rating": rating, "rater": raters, "item": [*range(12)] * 2})
    assert any("1 of 3 names differ from another one by blanks" in w for w in result.warnings)


def test_patients_on_both_sides_of_a_split_are_told() -> None:
    assert note_on_split(["a", "b"], ["c", "d"], "tuning") == []
    assert note_on_split(["a", "a "], ["c"], "tuning") == []  # that is for `note_on_names`
    (text,) = note_on_split(["a", "b", "B"], ["b", "a ", "c"], "tuning")
    assert text.startswith(r"patient: 'b', 'a' and 'a\x20' lie on both sides")
    (many,) = note_on_split(map(str, range(9)), map(str, range(9)), "tuning")
    assert "'2', and 6 more lie" in many


def test_monitors_and_maps_tell_patients_on_both_sides_of_the_tuning_split() -> None:
    rng = np.random.default_rng(0)
    alarm, score, tuning = rng.random(40), rng.random(40), np.arange(40) < 20
    for names, expected in ((["p0", "P0"], True), (["p0", "q0"], False), (["p0", "p0"], True)):
        patient = [names[0] if flag else names[1] for flag in tuning]
        scope = Scope.from_values(score, groups={"patient": patient})
        found = cal.evaluate_monitor(alarm, scope, 0.5, tuning=tuning, ci=False)
        assert any("both sides" in text for text in found.warnings) == expected, names
        samples = [
            {**pair, "patient": patient[k], "split": "tune" if tuning[k] else "test"}
            for k, pair in enumerate(_samples(40))
        ]
        settings = MapSettings(threshold="best-dice", tuning="split=tune")
        protocol = replace(cal.Protocol.load("anomaly"), maps=settings)
        maps = cal.evaluate_maps(samples, protocol, ci=False)
        assert any("both sides" in text for text in maps.warnings) == expected, names


def _samples(n: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    labels = np.zeros((6, 6), np.int64)
    labels[1:3, 1:4] = 1
    return [{"map": rng.random((6, 6)) / 2 + labels / 2, "labels": labels} for _ in range(n)]
