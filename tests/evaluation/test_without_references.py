# SPDX-License-Identifier: Apache-2.0
"""Tables of images without a reference: no value, no mean, and no note contradicts another."""

from __future__ import annotations

from dataclasses import replace

import pytest

import calipers as cal
from calipers.evaluation.tables import groups_table, print_evaluation
from calipers.results.estimate import Estimate
from calipers.show.html import table_block
from calipers.show.table import Table, notes_of
from calipers.show.terminal import print_tables

BOX = {"boxes": [[0, 0, 10, 10]], "labels": [0]}
NOTHING = {"boxes": [], "labels": []}


def evaluation_of(references, n_predicted, preset):
    images = [
        {**references[k], "patient": f"p{k}", "centre": f"c{k % 2}"} for k in range(len(references))
    ]
    predictions = []
    for k in range(len(references)):
        part = {**BOX, "scores": [0.5]} if k < n_predicted else {**NOTHING, "scores": []}
        predictions.append(part)
    cohort = cal.Cohort.from_arrays(images, predictions, classes=("nodule",))
    protocol = replace(cal.Protocol.load(preset), replicates=100)
    return cal.evaluate(cohort, protocol, by=["centre"])


@pytest.mark.parametrize("preset", ["coco", "overview", "rodeo"])
@pytest.mark.parametrize("n_predicted", [0, 12])
def test_groups_without_a_reference_have_no_mean(preset, n_predicted, capsys):
    print_evaluation(evaluation_of([NOTHING] * 12, n_predicted, preset))
    text = capsys.readouterr().out
    assert "no references" in text
    assert "0 of 2 groups" not in text
    for line in text.splitlines():
        assert line.split()[:1] not in (["mean"], ["range"]) or "0.000" in line


def test_a_model_without_a_value_in_any_group_says_so():
    references = [{**BOX, "patient": f"p{k}", "centre": f"c{k % 2}"} for k in range(12)]
    hits, nothing = [{**BOX, "scores": [0.5]}] * 12, [{**NOTHING, "scores": []}] * 12
    cohort = cal.Cohort.from_arrays(
        references, {"ours": hits, "empty": nothing}, classes=("nodule",)
    )
    ev = cal.evaluate(cohort, replace(cal.Protocol.load("overview"), replicates=100), by=["centre"])
    table = groups_table(ev, ev.groupings[0], "PPV@0.5", None)
    mean, span = table.summary
    assert [cell.main for cell in table.texts()[-2]][1:3] == ["1.000", "no value"]
    assert (mean[2], span[2]) == ("no value", "no value")
    print_tables([table])
    assert "no value" in table_block(table)


def test_tables_that_stand_together_explain_each_word_once(capsys):
    print_evaluation(evaluation_of([NOTHING] * 12, 0, "overview"))
    text = capsys.readouterr().out
    assert text.count("Words instead of a number") == 1
    reasons = ("no_references", "no_objects")
    tables = []
    for reason in reasons:
        nan = float("nan")
        undefined = Estimate(nan, nan, nan, 0.95, "none", "image", 0, 0, 0, 0, nan, 0, reason)
        tables.append(Table(("metric", "ours"), (("AP", undefined),)))
    (note,) = notes_of(tables)
    assert "“no references”" in note
    assert "“no objects”" in note


def test_no_intervals_of_one_table_is_no_note_on_all(capsys):
    # RoDeO has no interval without references; the counts have one.
    print_evaluation(evaluation_of([NOTHING] * 12, 12, "overview"))
    text = capsys.readouterr().out
    assert "95 % confidence intervals" in text
    assert "No intervals" not in text
    grouped = text[text.index("RoDeO by centre") :]
    assert grouped.splitlines()[4].split()[:2] == ["c0", "0.000"]
    assert "(" in grouped.splitlines()[4]


def test_an_empty_entry_of_a_column_is_a_group_with_a_name(capsys):
    references = [{**BOX, "patient": f"p{k}", "centre": ["", "C1"][k % 2]} for k in range(12)]
    cohort = cal.Cohort.from_arrays(
        references, [{**BOX, "scores": [0.5]}] * 12, classes=("nodule",)
    )
    print_evaluation(cal.evaluate(cohort, "coco", by=["centre"], ci=False))
    grouped = capsys.readouterr().out.split("AP by centre")[1]
    assert "(no name)" in grouped.split("mean of")[0]
