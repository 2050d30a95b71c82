# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

import calipers as cal
from calipers.data.cohort import FileIntake, Intake
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.rename import Mask, redact_ids

QUICK = replace(Protocol.load("overview"), replicates=200)


@pytest.fixture(scope="module")
def evaluation():
    cohort = cal.demo_cohort()
    place, digest = "/data/St-Elsewhere/refs.json", "5ec4e7" * 10
    file = FileIntake(place, "references", "coco", 189, 189, sha256=digest, notes=(NOTE,))
    return cal.evaluate(replace(cohort, intake=Intake((file,))), QUICK, by=["centre", "size"])


NOTE = "image 'P001_1' is odd"


def secrets_of(evaluation):
    cohort = evaluation.cohort
    names = {str(value) for column in cohort.images.groups.values() for value in column.tolist()}
    return names | set(cohort.images.ids) | {"St-Elsewhere", "refs.json", "P001_1", "5ec4e75ec4e7"}


def test_no_id_is_left_in_the_page(evaluation, tmp_path):
    command = ["calipers", "evaluate", "/data/St-Elsewhere/refs.json"]
    text = evaluation.report(tmp_path / "page.html", redact=True, command=command).read_text(
        encoding="utf-8"
    )
    left = [name for name in secrets_of(evaluation) if name in text]
    assert left == []
    assert "keyed hashes" in text
    assert "<image" not in text


def test_the_unredacted_page_would_have_shown_them(evaluation, tmp_path):
    text = evaluation.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert {"Harbour", "refs.json"} <= {name for name in secrets_of(evaluation) if name in text}


def test_numbers_classes_and_models_stay(evaluation):
    hidden = redact_ids(evaluation)
    assert hidden.models == evaluation.models
    assert hidden.cohort.classes == evaluation.cohort.classes
    assert [row.estimate for row in hidden.rows] == [row.estimate for row in evaluation.rows]


def test_equal_names_get_equal_hashes_and_sizes_keep_their_names(evaluation):
    hidden = redact_ids(evaluation)
    centres = {row.group["centre"] for row in hidden.rows if row.group and "centre" in row.group}
    assert len(centres) == 4
    assert all(name.startswith("centre-") for name in centres)
    assert {row.group["size"] for row in hidden.rows if row.group and "size" in row.group} == {
        "small",
        "medium",
        "large",
    }


def test_the_key_is_another_one_each_time():
    assert Mask().hashed("patient", "P001") != Mask().hashed("patient", "P001")
    mask = Mask()
    assert mask.hashed("patient", "P001") == mask.hashed("patient", "P001")
    assert mask.hashed("patient", "P001")[8:] != mask.hashed("image", "P001")[6:]


def test_pictures_and_redaction_exclude_each_other(evaluation, tmp_path):
    with pytest.raises(cal.UsageError, match="--redact leaves pictures out"):
        evaluation.report(tmp_path / "page.html", redact=True, images=tmp_path)
