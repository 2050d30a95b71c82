"""Figures of object stability: titles state what the numbers say, and all can be drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calipers.errors import UsageError
from calipers.show.svg.draw import svg
from calipers.show.words import percent_span
from calipers.stability.figures import OBJECT_FIGURES
from calipers.stability.objects import object_stability
from cases import cohort_of
from superlatives import names_an_extreme


@pytest.fixture(scope="module")
def found():
    return object_stability(cohort_of("plain", 4, n_images=40, models=3), replicates=100)


def test_bars_are_the_shares_of_the_table(found):
    for name, table in (("found-by", found.found_by()), ("false-alarms", found.false_alarms_by())):
        drawn = found.figure(name)
        assert drawn.heights[0].tolist() == [row.share.value for row in table]
        assert drawn.x.names == tuple(str(row.k) for row in table)
        assert drawn.heights.sum() == pytest.approx(1)
    assert f"of {found['found-by-some'].n_references} references" in found.figure("found-by").title


def test_every_size_adds_up_to_all_its_references(found):
    drawn = found.figure("sizes")
    assert np.allclose(drawn.heights.sum(axis=0), 1)
    assert drawn.x.names == ("small", "medium", "large")
    assert drawn.title.startswith("Some but not all models find")


def test_agreement_has_a_line_per_class_and_size(found):
    rows = found.figure("agreement").rows
    assert [row.name for row in rows[:2]] == ["all objects", found.cohort.classes[0]]
    assert rows[-1].name == "large objects"
    assert rows[0].marks[0].value == found["agreement"].value


def test_the_title_of_pairs_is_their_range(found):
    span = percent_span(float(np.nanmin(found.per_pair)), float(np.nanmax(found.per_pair)))
    title = found.figure("pairs").title
    assert title == f"Two models agree on {span} of what they predict, in 3 pairs"


def test_no_title_names_what_was_not_tested(found):
    for name in (name for name in OBJECT_FIGURES if name != "sizes"):
        assert not names_an_extreme(found.figure(name).title), name


@pytest.mark.parametrize("name", OBJECT_FIGURES)
def test_every_figure_can_be_drawn(found, name):
    assert svg(found.figure(name), width=460, name=name).startswith("<svg")


@pytest.mark.parametrize("name", [name for name in OBJECT_FIGURES if name != "sizes"])
def test_silent_models_can_be_drawn(found, name):
    nobody = {
        model: table.keep(np.zeros(len(table), np.bool_))
        for model, table in found.cohort.models.items()
    }
    references = found.cohort.references
    empty = replace(
        found.cohort, models=nobody, references=references.keep(np.zeros(len(references), np.bool_))
    )
    silent = object_stability(empty, ci=False)
    assert svg(silent.figure(name), width=460, name=name).startswith("<svg")


def test_unknown_figures_and_sizes_that_were_not_parted_are_refused(found):
    with pytest.raises(UsageError, match="did you mean 'pairs'"):
        found.figure("pair")
    with pytest.raises(UsageError, match="sizes were not distinguished"):
        object_stability(found.cohort, sizes=(), ci=False).figure("sizes")
