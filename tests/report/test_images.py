# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import calipers as cal
from calipers.report.context import context_of
from calipers.report.sections_images import images_section
from evaluated import evaluated_demo
from random_cohorts import random_cohort

QUICK = replace(cal.Protocol.load("overview"), replicates=200)


@pytest.fixture(scope="module")
def evaluation():
    return evaluated_demo(QUICK, ci=False)


def shown(evaluation, **choices):
    return images_section(context_of(evaluation, **choices))


def drawn(folder, cohort):
    """Write a plain picture for every image of the demo cohort."""
    for k, name in enumerate(cohort.group("file_name").tolist()):
        width, height = cohort.images.size[k].astype(int)
        Image.fromarray(np.full((height, width), k, np.uint8)).save(folder / name)
    return folder


def test_there_are_worst_random_and_disputed_images(evaluation):
    titles = re.findall(r"<h3>(.*?)</h3>", shown(evaluation))
    assert titles == [
        "Worst of overpredicts",
        "Worst of misses-small",
        "Worst of mislabels",
        "Random",
        "Most disputed",
    ]


def test_every_picture_is_held_once_and_in_pixels_of_its_image(evaluation, tmp_path):
    text = shown(evaluation, images=drawn(tmp_path, evaluation.cohort))
    held = re.findall(r'<image id="(picture-\d+)".*? width="(\d+)" height="(\d+)"', text)
    used = re.findall(r'<use width="(\d+)" height="(\d+)" href="#(picture-\d+)"', text)
    assert len(held) == len({name for name, _, _ in held})
    assert {(name, width, height) for width, height, name in used} == set(held)
    assert len(used) > len(held)


def test_without_a_folder_the_marks_stand_on_empty_frames(evaluation):
    text = shown(evaluation)
    assert "<image" not in text
    assert "fig-mark fig-missed" in text


def test_the_classes_of_errors_are_below_their_picture(evaluation):
    text = shown(evaluation)
    pattern = (
        r'<p>0 of 3 found, 3 false alarms</p><p class="note">missed: ([^;<]+); false: ([^;<]+)</p>'
    )
    missed, false = re.search(pattern, text).groups()
    assert set(re.sub(r" \(\d+\)", "", missed + ", " + false).split(", ")) <= set(
        evaluation.cohort.classes
    )


def test_a_switch_for_every_kind_of_mark(evaluation):
    found = re.findall(r'<input type="checkbox" id="show-([a-z-]+)" checked>', shown(evaluation))
    assert found == ["reference", "hit", "false-alarm", "duplicate", "missed"]


def test_ignored_boxes_get_a_switch_where_there_are_any():
    ev = cal.evaluate(random_cohort(12, 2, 0, ignore_share=0.5), QUICK, ci=False)
    assert 'id="show-ignored" checked' in shown(ev)


def test_pictures_can_be_left_out(evaluation):
    assert shown(evaluation, pictures=False) == ""


def test_volumes_say_that_errors_are_those_of_the_slice():
    ev = cal.evaluate(random_cohort(12, 2, 0, dimensions=3), QUICK, ci=False)
    text = shown(ev)
    assert "slice z = " in text
    assert "in this slice, " in text
