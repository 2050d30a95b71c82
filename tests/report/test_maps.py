# SPDX-License-Identifier: Apache-2.0
"""The page of an evaluation of maps: sections, words and pictures,
and nothing of them on pages of boxes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import calipers as cal
from calipers.data.cohort import FileIntake, Intake
from calipers.maps import examine
from calipers.report import methods, sections_images
from calipers.report.context import context_of
from calipers.report.page import page
from calipers.report.verdict import verdict
from calipers.synthetic.volumes import demo_samples
from evaluated import evaluated_demo

QUICK = replace(cal.Protocol.load("anomaly"), replicates=200)


@pytest.fixture(scope="module")
def evaluation():
    return cal.evaluate_maps(list(demo_samples(16, size=32)), QUICK, by=["centre"])


@pytest.fixture(scope="module")
def context(evaluation):
    return context_of(evaluation)


def said(evaluation):
    context = context_of(evaluation, pictures=False)
    return verdict(evaluation, context.at_one, context.duel, context.comparison)


def test_the_page_is_small_without_pictures(evaluation):
    assert len(page(context_of(evaluation, pictures=False))) < 400_000


def test_maps_and_objects_have_sections(context):
    whole = page(context)
    assert re.findall(r'<section id="(\w+)"', whole)[:4] == ["content", "data", "maps", "curves"]
    assert '<section id="objects"' in whole
    for name in ("voxel-roc", "voxel-pr", "levels", "soft-sizes"):
        assert f'id="fig-{name}"' in whole


def test_assumed_maps_are_counted_in_whole_numbers():
    files = (
        FileIntake("labels", "references", "nifti", 2, 2, {}, "a" * 64, 10),
        FileIntake("maps", "predictions of m", "nifti", 2, 2, {}, "b" * 64, 10, assumed_empty=0),
    )
    ev = cal.evaluate_maps(list(demo_samples(2, 2, 32)), QUICK, ci=False)
    ev = replace(ev, cohort=replace(ev.cohort, intake=Intake(files, {})))
    text = re.sub(r"<[^>]+>", " ", page(context_of(ev, pictures=False)))
    (line,) = re.findall(r"maps +predictions of m +nifti +([\d. ]+) ", text)
    assert line.split() == ["2", "2", "0", "0"]


def test_boxes_have_neither(evaluation):
    found = context_of(evaluated_demo("overview", ci=False), pictures=False)
    assert sections_images.maps_section(found) == ""
    assert sections_images.section(found) == ""
    assert "neighbours" not in methods.methods_section(found)


def test_the_verdict_states_the_first_metric_and_what_became_of_the_objects(evaluation):
    found = said(evaluation)
    value = evaluation["sharp", "softIoU"].value
    assert f"softIoU {value:.3f} against" in found.first
    assert found.further[0].startswith("As objects, sharp finds ")
    assert found.further[-2].startswith(
        "softIoU measures how well maps cover each lesion and nothing else"
    )
    assert found.further[-2].endswith(": 1 is perfect, 0 is a miss.")
    assert found.further[-1].startswith(
        "A reference counts as found if the volume it shares with a predicted shape is"
    )
    assert found.further[-1].endswith("(mask-iou >= 0.5).")
    assert not any("at one false alarm" in sentence for sentence in (found.first, *found.further))


def test_one_model_gets_its_numbers():
    samples = [replace(s, maps={"sharp": s.maps["sharp"]}) for s in demo_samples(12, 2, 32)]
    assert said(cal.evaluate_maps(samples, QUICK)).first.startswith("softIoU 0.")


def test_equal_models_are_equal():
    samples = [
        replace(s, maps={"a": s.maps["sharp"], "b": s.maps["sharp"]})
        for s in demo_samples(12, 2, 32)
    ]
    assert said(cal.evaluate_maps(samples, QUICK)).first.startswith(
        "a and b have the same softIoU: "
    )


def test_without_references_there_is_nothing_to_find():
    samples = [replace(s, labels=np.zeros_like(s.labels)) for s in demo_samples(12, 2, 32)]
    found = cal.evaluate_maps(samples, QUICK)
    assert said(found).first.startswith("No image has a reference, so there is nothing to find")
    assert "<svg" not in sections_images.maps_section(context_of(found, pictures=False))
    assert page(context_of(found))


def test_worst_objects_are_missed_ones_and_the_largest_of_them_come_first(evaluation, context):
    text = sections_images.section(context)
    head = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', text)
    assert head == [
        "model",
        "image",
        "slice z",
        "fate",
        "size (mm³)",
        "softIoU",
        "best mask-iou",
        "object",
    ]
    rows = [re.findall(r"<td.*?>(.*?)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", text)]
    mine = [row for row in rows if row[0] == "diffuse"]
    fates = [row[3] for row in mine]
    assert fates == sorted(fates, key=lambda fate: fate != "missed")
    sizes = [float(row[4]) for row in mine if row[3] == "missed"]
    assert sizes == sorted(sizes, reverse=True)
    assert len(mine) <= 10
    row = mine[0]
    image, number = evaluation.cohort.images.ids.index(row[1]), int(row[7])
    mask = evaluation.cohort.references.masks.dense(
        int(evaluation.cohort.references.offsets[image]) + number - 1
    )
    assert int(row[2]) == int(mask.sum(axis=(1, 2)).argmax())
    assert float(row[4]) == 2.0 * mask.sum()


def test_what_has_no_value_is_in_a_table(evaluation, context):
    text = sections_images.maps_section(context)
    healthy = int((np.diff(evaluation.cohort.references.offsets) == 0).sum())
    row = (
        f'<td>AP/sample</td><td>mean of samples</td><td class="num">{16 - healthy}</td><td '
        f'class="num">{healthy}</td>'
    )
    assert row in text
    assert "table-bounds" not in text


def test_values_in_bins_have_a_table_of_bounds(monkeypatch):
    monkeypatch.setattr(examine, "MOST_BYTES", 1)
    found = cal.evaluate_maps(list(demo_samples(4, 2, 48)), QUICK, ci=False)
    text = sections_images.maps_section(context_of(found, pictures=False))
    assert "table-bounds" in text
    assert "lowest possible" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "with a score of at least 0.5"),
        ({"threshold": "fpr:0.05"}, "5 % of the voxels outside references are called positive"),
        ({"connectivity": "faces"}, "(neighbours across faces)"),
        ({"least": 4}, "Predicted objects of fewer than 4 voxels are left out."),
        ({"score": "mean"}, "is the mean score of its voxels"),
    ],
)
def test_the_choices_behind_objects_are_told(changes, words):
    protocol = replace(QUICK, maps=replace(QUICK.maps, **changes))
    found = cal.evaluate_maps(list(demo_samples(3, 2, 32)), protocol, ci=False)
    assert words in unescape(sections_images.maps_section(context_of(found, pictures=False)))


def test_methods_have_formulas_levels_and_citations(context):
    text = unescape(methods.methods_section(context))
    for words in (
        "softIoU of a reference is (Σpy + e) / (0.5 Σp + 0.5 Σy + e), which is a soft Dice.",
        "softIoU/jaccard of a reference is (TP + e) / (TP + 1 FP + 1 FN + e)",
        "connected components (26 neighbours) of the voxels with a score of at least 0.5",
        "as the mean over images",
        "images or slices without references have no value",
        "Zimmerer D, Maier-Hein K",
        "Bergmann P",
        "Kirillov A",
    ):
        assert words in text
    assert "soft Jaccard stands beside it" in text


def test_pictures_have_a_switch_and_colours_for_the_map(context):
    text = sections_images.images_section(context)
    assert 'id="show-map" checked' in text
    assert 'id="map-colours"' in text
    held = set(re.findall(r'<image id="([\w-]+)"', text))
    used = set(re.findall(r'<use [^>]*href="#([\w-]+)"', text))
    assert held == used
    assert {key.split("-")[0] for key in held} == {"picture", "map"}


def test_the_page_of_boxes_has_no_such_switch():
    found = context_of(evaluated_demo("overview", ci=False))
    assert "show-map" not in sections_images.images_section(found)


def test_a_redacted_page_has_no_picture_and_no_name(evaluation):
    text = page(context_of(evaluation, redact=True))
    assert "<image" not in text
    assert not re.search(r"\bS00\d\b|\bP00\d\b", text)
    assert 'id="fig-soft-sizes"' in text
    assert 'id="table-objects"' in text


def test_long_names_of_models_are_borne():
    samples = [
        replace(s, maps={"x" * 300: s.maps["sharp"], "b": s.maps["diffuse"]})
        for s in demo_samples(3, 2, 32)
    ]
    text = page(context_of(cal.evaluate_maps(samples, QUICK, ci=False)))
    assert "x" * 201 not in text
    assert 'id="fig-soft-sizes"' in text


def test_masks_without_maps_have_objects_but_no_maps():
    mask = np.zeros((2, 20, 20), bool)
    mask[0, 2:6, 2:6] = mask[1, 10:18, 10:18] = True
    references = [{"masks": mask, "labels": [0, 0], "image_id": "a"}]
    found = [{"masks": mask[:1], "labels": [0], "scores": [0.9], "image_id": "a"}]
    cohort = cal.Cohort.from_arrays(references, found, classes=("lesion",))
    protocol = cal.Protocol.load("overview")
    protocol = replace(protocol, matching=replace(protocol.matching, criterion="mask-iou")).only(
        ["sensitivity@0.5"]
    )
    context = context_of(cal.evaluate(cohort, protocol, ci=False))
    assert sections_images.maps_section(context) == ""
    assert "missed" in sections_images.section(context)
    assert re.search(
        r'<g class="fig-layer fig-layer-missed[^>]*><path d="M10 10h8v8h-8z">',
        sections_images.images_section(context),
    )


def test_a_notebook_shows_all_metrics(evaluation):
    shown = evaluation._repr_html_()
    assert "AP/slice" in shown
    assert "softIoU/jaccard" in shown
