"""Intervals hold the truth as often as they say, and are no wider than they must be.

The quick cells run always: few data sets, a wide tolerance. The long test runs all experiments of
`calipers.validation` and holds what `docs/validation/coverage.md` promises.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.statistics.comparison import standard_error
from calipers.statistics.estimates import Certainty, _columns, estimates, replicates
from calipers.statistics.intervals import intervals
from calipers.statistics.support import Support
from calipers.statistics.weights import Units
from calipers.validation import (
    choices_areas,
    choices_classes,
    choices_costs,
    choices_few_errors,
    choices_gains,
    choices_steps,
    experiments,
    features,
    least_widths,
)
from calipers.validation.cells import (
    HIGHEST,
    LOWEST,
    NEAR_PERFECTION,
    NOT_POSSIBLE,
    TOO_OFTEN,
    UNEQUAL_COSTS,
    UNEXPLAINED,
    WIDEST,
    WITHIN_ERROR,
    CoverageCell,
    Effort,
    Tally,
)
from calipers.validation.choices import DESIGNS, compare
from calipers.validation.coverage import END, START, main, measured, read_csv
from calipers.validation.designs import CohortDesign, cohort_of
from calipers.validation.objects import Quantity, Simulation, object_cells

FEW = Effort(simulations=40, replicates=200, extra=160, images_of_truth=30_000, seed=77)
# 40 data sets at 95 %: fewer than 33 intervals with the truth have a chance of 1 in 1,000.
QUICK_LOWEST, QUICK_WIDEST = 33 / 40, 2.5


def designs() -> dict[str, CohortDesign]:
    return {
        design.name: design for design in (*experiments.SINGLE, *experiments.TWO, *experiments.MANY)
    }


@pytest.mark.parametrize(
    ("design", "metrics"),
    [
        ("50 patients x 3, 10 classes, 3 rare", ("AP@0.5",)),
        ("50 images, sensitivity .98", ("sensitivity", "FROC", "AP@0.5")),
        ("10 centres x 20", ("AP@0.5", "sensitivity", "F1")),
        ("9 patients x 8, two classes", ("dAP/loc", "dAP/cls", "RoDeO")),
        ("15 patients x 8, sensitivity .98", ("FP/image", "PPV")),  # 0.09 false alarms per image
    ],
)
def test_a_few_cells_hold_the_truth(design: str, metrics: tuple[str, ...]) -> None:
    quantities = [Quantity("quick", metric) for metric in metrics]
    for cell in object_cells(designs()[design], quantities, FEW):
        assert cell.stated == 1.0, str(cell)
        assert cell.without == 0.0, str(cell)
        assert cell.coverage >= QUICK_LOWEST, str(cell)
        assert cell.width <= QUICK_WIDEST, str(cell)


def test_means_over_rare_classes_hold_the_truth_and_are_not_too_wide() -> None:
    """AP over thresholds of a good detector was up to twice as wide as it must be."""
    design = choices_classes.CHOOSING[4]
    quantities = [Quantity("quick", metric) for metric in ("AP@0.5", "AP")]
    for cell in object_cells(design, quantities, FEW):
        assert cell.coverage >= QUICK_LOWEST, str(cell)
        assert cell.width <= QUICK_WIDEST, str(cell)


def test_gains_of_a_mean_with_a_rare_class_hold_the_truth() -> None:
    """The rule before held the gain without false alarms in .66 of the data sets, and more cells
    are no wider: without a rare class nothing changes.
    """
    quantities = [Quantity("quick", metric) for metric in ("dAP/fp", "dAP/cls")]
    for cell in object_cells(choices_classes.FOURTH[1], quantities, FEW):
        assert cell.coverage >= QUICK_LOWEST, str(cell)
        assert cell.width <= QUICK_WIDEST, str(cell)


def test_intervals_over_images_of_patients_are_too_narrow() -> None:
    alike = replace(experiments.SINGLE[0], likeness=0.8, name="alike")
    quantity = [Quantity("control", "sensitivity")]
    (right,) = object_cells(alike, quantity, FEW)
    (narrow,) = object_cells(alike, quantity, FEW, unit="image")
    assert narrow.truth == right.truth
    assert narrow.width < 0.8 < right.width < WIDEST
    assert narrow.coverage < QUICK_LOWEST <= right.coverage


def test_a_tally_counts_by_hand() -> None:
    tally = Tally(0.5)
    for value, low, high in ((0.4, 0.3, 0.6), (0.6, 0.55, 0.7), (0.5, np.nan, np.nan)):
        tally.add(value, low, high)
    tally.add_value(np.nan)
    cell = tally.cell("f", "m", "d", Units.of("image", None, 7))
    assert (cell.stated, cell.coverage, cell.simulations) == (pytest.approx(2 / 3), 0.5, 3)
    bottom, top = np.quantile([0.4, 0.6, 0.5], [0.025, 0.975])
    assert cell.width == pytest.approx(0.225 / (top - bottom))
    assert (cell.without, cell.n_units, cell.inside) == (0.0, 7, False)
    assert cell.mc_error == pytest.approx(0.5 / np.sqrt(2))


@pytest.mark.parametrize("generator", ["counts", "latent"])
def test_simulated_detectors_are_as_good_as_they_say(generator: str) -> None:
    design = CohortDesign(
        "d", 4000, 3, always=True, sensitivity=0.9, alarms=0.2, generator=generator
    )
    cohort = cohort_of(design, 1, seed=3)
    hits = np.isin(cohort.models["a"].boxes[:, 1], cohort.references.boxes[:, 1])
    n = cohort.n_images
    assert len(cohort.references) == n == 12_000
    assert hits.sum() / n == pytest.approx(0.9, abs=0.015)
    assert (~hits).sum() / n == pytest.approx(0.2, abs=0.03)


PAGE = Path(__file__).parents[2] / "docs" / "validation" / "coverage.md"


@pytest.mark.slow
def test_the_command_measures_what_the_page_promises(tmp_path: Path) -> None:
    """``make coverage`` as it is, but for the page that it writes."""
    table, page = tmp_path / "cells.csv", tmp_path / "coverage.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    # It fails if intervals over images pass.
    assert main(["--jobs", "2", "--csv", str(table), "--page", str(page)]) == 0
    cells = [cell for cell in read_csv(table) if cell.family != "control"]
    outside = [str(cell) for cell in cells if not cell.holds]
    assert len(outside) <= 0.05 * len(cells), "\n".join(outside)
    # Width too, but for cells that no honest interval could have inside.
    possible = [cell for cell in cells if cell.possible]
    wide = [str(cell) for cell in possible if not cell.inside]
    assert len(wide) <= 0.05 * len(possible), "\n".join(wide)
    assert len(possible) >= 0.97 * len(cells)
    assert all(cell.without == 0 for cell in cells)
    # No cell may lie below the gate by more than its number of data sets explains: intervals that
    # hold the truth in .90 of the cases are this low in 2 of 100 measurements.
    lowest = LOWEST - 2 * math.sqrt(LOWEST * (1 - LOWEST) / Effort().simulations)
    assert min(cell.coverage for cell in cells) > lowest, "\n".join(outside)
    assert (LOWEST, HIGHEST) == (0.90, 0.995)


def assert_the_summary_counts(
    text: str, n_cells: int, n_misses: int, n_wide: int, n_impossible: int
) -> None:
    """The sentence above the tables says what the tables have."""
    n_possible = n_cells - n_impossible
    assert f"in {n_cells - n_misses} of {n_cells} cells" in text
    assert f"{n_possible} cells could be inside at all: {n_possible - n_wide} of them are" in text


def table_of(text: str, title: str) -> list[list[str]]:
    """The rows of the first table below a title, without those of the header."""
    rows = []
    for line in text.partition(title)[2].lstrip().splitlines():
        if not line.startswith("|"):
            break
        rows.append([entry.strip() for entry in line.strip().strip("|").split("|")])
    return rows[2:]


def test_every_cell_outside_is_named_on_the_page_with_its_reason() -> None:
    """And the prose beside the tables repeats no count of them, which the next run would change."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    measured_part, _, after = rest.partition(END)
    named = []
    for _, numbers, design, coverages, widths, why in table_of(measured_part, "### Cells outside"):
        assert why, design
        assert why != UNEXPLAINED, design
        parts = zip(numbers.split("; "), coverages.split("; "), widths.split("; "))
        named += [(number, design, *both) for number, *both in parts]
    marked = []
    for row in table_of(measured_part, "### Every cell"):
        if row[6].endswith("⚠"):
            marked.append((row[1], row[2], row[6].removesuffix(" ⚠"), row[8]))
    assert sorted(named) == sorted(marked)
    for prose in (before, after):
        counts = re.findall(r"\d+ of (?:the )?\d+ cells|\d+ cells|\d+(?:\.\d+)? ?%\)", prose)
        assert counts == []


def test_a_cell_outside_has_the_reason_of_its_kind() -> None:
    cell = CoverageCell(
        "sensitivity", "sensitivity", "d", "patient", 40, 0.7, 300, 1.0, 0.95, 1.1, 0.0
    )
    assert cell.why_outside == ""
    assert replace(cell, coverage=0.88).why_outside == WITHIN_ERROR
    assert replace(cell, coverage=0.80).why_outside == UNEXPLAINED
    assert replace(cell, coverage=1.0).why_outside == TOO_OFTEN
    wide = replace(cell, width=1.6)
    assert wide.why_outside == UNEXPLAINED
    assert replace(wide, truth=0.98).why_outside == NEAR_PERFECTION
    gain = replace(wide, family="dAP", metric="dAP/miss", truth=0.02)
    assert gain.why_outside == NEAR_PERFECTION
    assert replace(gain, truth=0.98).why_outside == UNEXPLAINED
    assert replace(gain, metric="dAP/loc").why_outside == UNEQUAL_COSTS
    assert replace(gain, least=1.7).why_outside == NOT_POSSIBLE
    # Reasons are for numbers that are measured.
    names = {design.name: design for design in (*designs().values(), *experiments.EQUAL)}
    for design, metric in experiments.COVERED_TOO_SELDOM:
        assert metric in {q.metric for q in (*experiments.ONE_CLASS, *experiments.CLASS_MEANS)}
        assert design in names


def test_the_page_keeps_the_gate_and_its_control_does_not() -> None:
    """What is written there, row by row; the command above writes it."""
    measured_part = PAGE.read_text(encoding="utf-8").partition(START)[2].partition(END)[0]
    rows, control = measured_part.partition("### Control")[::2]
    cells: list[str] = []
    misses, wide, impossible = [], [], []
    for line in rows.partition("### Every cell")[2].splitlines()[4:]:
        if line.startswith("|"):
            entries = [entry.strip() for entry in line.strip().strip("|").split("|")]
            number, width = float(entries[6].removesuffix(" ⚠")), float(entries[8] or "nan")
            # Families of equal models have a share of data sets, and no width.
            assert math.isnan(width) == (entries[0] == "equal models"), line
            holds = LOWEST <= number <= HIGHEST
            is_inside = not entries[6].endswith("⚠")
            # The page has two digits of the width, so that 1.50 may be either.
            assert is_inside == (holds and not width > WIDEST) or width == WIDEST, line
            cells.append(entries[0])
            misses += [] if holds else [line]
            least = float(entries[9] or "nan")
            # The page has two digits of this width, too.
            impossible += [line] if least > WIDEST else []
            wide += [] if is_inside or least > WIDEST else [line]
            assert math.isnan(least) or (entries[0] == "dAP" and width > WIDEST - 0.01), line
    assert len(cells) == 339
    assert len(misses) <= 0.05 * len(cells), "\n".join(misses)
    # Width too, but for cells that no honest interval could have inside, which are few.
    assert len(impossible) <= 0.03 * len(cells), "\n".join(impossible)
    assert len(wide) <= 0.05 * (len(cells) - len(impossible)), "\n".join(wide)
    assert_the_summary_counts(measured_part, len(cells), len(misses), len(wide), len(impossible))
    of_control = [line for line in control.splitlines() if "60 patients x 5" in line]
    assert len(of_control) == 2
    assert all("⚠" in line for line in of_control)


def test_the_least_length_of_an_interval_is_the_integral_of_pratt() -> None:
    """With a cost of 1 per error: ln 20 less what the best test of level .05 rejects."""
    costs = least_widths.EXPECTED
    expected = math.log(20) - 0.05 * (20 - 1)
    assert least_widths.least_length(costs.tolist()) == pytest.approx(expected, rel=1e-5)
    assert least_widths.least_length((0.3 + costs / 7).tolist()) == pytest.approx(expected / 7)
    # A truth that is reached again with more errors counts once.
    bent = np.where(costs > 2.0, costs[4], costs)
    number = np.linspace(0.0, costs[4], 100_001)
    once = (1 - 0.05 * np.exp(number)).mean() * costs[4]
    assert least_widths.least_length(bent.tolist()) == pytest.approx(once, rel=1e-3)


def test_no_honest_interval_is_narrower_than_the_least_length() -> None:
    """Of the rate of events of which none is there: exact bounds of Poisson numbers, level .95."""
    truths = (least_widths.EXPECTED / 40).tolist()
    length = least_widths.least_length(truths)
    exact = -math.log(0.05) / 40  # the narrowest of those that start at 0 and always hold
    assert length < exact < 1.5 * length


@pytest.mark.parametrize(
    ("name", "plant", "most"),
    [
        ("dAP/bkg", "alarm", 1.0),
        ("dAP/loc", "place", 2.0),
        ("dAP/cls", "class", 2.0),
        ("dAP/dup", "duplicate", 1.0),
    ],
)
def test_planted_errors_are_of_their_kind_and_cost_about_as_much_as_they_can(
    name: str, plant: str, most: float
) -> None:
    design = CohortDesign(
        "d", 100, 1, (0.5, 0.5), always=True, sensitivity=1.0, alarms=0.0, likeness=0.0
    )
    assert least_widths.PLANTS[name] == plant
    truths = []
    for planted in (0.0, 0.02):
        simulation = Simulation(replace(design, planted=planted, plant=plant), [name], 9)
        effort = Effort(images_of_truth=10_000)
        truths.append(float(simulation.truth([Quantity("dAP", name)], effort)[0, 0]))
    assert truths[0] == 0.0
    # Two errors in a data set of 100 references.
    assert 0.5 * most * 0.02 < truths[1] < 1.3 * most * 0.02


def test_only_gains_that_are_too_wide_have_a_least_width() -> None:
    tiny = Effort(simulations=4, replicates=100, extra=60, images_of_truth=3_000)
    design = replace(experiments.TWO[0], units=20)
    names = ("dAP/dup", "dAP/miss", "sensitivity")
    quantities = [Quantity("dAP", name) for name in names]
    cells = {c.metric: c for c in least_widths.cells_with_least_widths(design, quantities, tiny)}
    assert cells["dAP/dup"].width > cells["dAP/dup"].least > WIDEST
    assert not cells["dAP/dup"].possible
    assert math.isnan(cells["sensitivity"].least)
    assert cells["sensitivity"].possible
    assert "least" in str(cells["dAP/dup"])


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_the_rule_for_rare_classes_is_the_better_candidate(design) -> None:
    cells = {cell.family: cell for cell in compare(design)}
    assert cells["units and binomial"].coverage >= cells["plain"].coverage
    assert cells["units and binomial"].coverage >= 0.86


@pytest.mark.parametrize(("units", "size"), [(20, 5), (15, 30), (50, 1), (6, 40)])
def test_the_chosen_rule_for_few_errors_is_that_of_the_code(units: int, size: int) -> None:
    """The comparison has a closed form of the bootstrap; the code has replicates."""
    rule = choices_few_errors.CHOSEN
    kind = choices_few_errors.ErrorKind(0.95, units, size, 0.0, "smooth")
    drawn = np.random.default_rng(1).multinomial(units, np.full(units, 1 / units), 4000)
    n = units * size
    for n_error in range(7):
        hits = np.full((1, units), size)
        hits[0, :n_error] -= 1
        low, high = choices_few_errors.share_bounds(hits, kind, rule)
        replicates = 1 - drawn[:, :n_error].sum(axis=1) / n
        support = [Support(units, n_error=n_error, n_trials=n)]
        (interval,) = intervals(np.array([1 - n_error / n]), replicates[:, None], support)
        assert (low[0], high[0]) == pytest.approx((interval.low, interval.high), abs=0.004)


def test_the_chosen_rule_for_gains_is_that_of_the_code() -> None:
    """Few errors, many of them, and units of many images; a candidate has its own way to bounds."""
    made = []
    for units, images, alarms in ((60, 1, 0.1), (9, 12, 0.4), (90, 2, 0.8)):
        design = CohortDesign("d", units, images, (0.6, 0.5), alarms=alarms, loose=0.1)
        simulation = Simulation(design, choices_gains.NAMES, 5)
        code = np.repeat(np.arange(units), images)
        drawn = Units.of("patient", code, design.n_images)
        certainty = Certainty(replicates=200)
        for (evidence,) in simulation.data_sets(2):
            cases = list(zip(simulation.metrics, evidence))
            for case, sample in zip(cases, replicates(cases, drawn, certainty)):
                value = case[0].value(case[1], np.ones((1, design.n_images), np.int64))[0]
                columns = _columns(case, value, sample, drawn, certainty)
                for name, (column, _) in zip(case[0].facts.names, columns):
                    row = np.array([choices_costs._summed_up(column)]).T
                    data = choices_costs.GainSamples(
                        name,
                        drawn.number,
                        drawn.freedom,
                        0.0,
                        np.zeros(1),
                        dict(zip(choices_costs.FIELDS, row)),
                    )
                    expected = choices_costs.bounds(data, choices_costs.CHOSEN)
                    bits = column.values[:1], column.replicates[:, :1], column.support[:1]
                    (stated,) = intervals(*bits, apart=True)
                    found = expected[0][0], expected[1][0]
                    assert (stated.low, stated.high) == pytest.approx(found, abs=1e-12)
                    made.append(stated.method)
    assert {"gamma-t", "bootse-t-logit"} == set(made)


@pytest.mark.parametrize(
    "design",
    [choices_classes.CHOOSING[0], choices_classes.CONFIRMING[2], choices_classes.FOURTH[4]],
)
def test_the_chosen_rules_for_means_over_classes_are_those_of_the_code(design) -> None:
    """With one rare class, and with three; the candidates make the interval in their own way."""
    rules = dict.fromkeys(choices_gains.NAMES, choices_classes.CHOSEN_FOR_GAINS)
    rules["AP@0.5"] = choices_classes.CHOSEN_AT_ONE
    rules["AP"] = choices_classes.CHOSEN_OVER_THRESHOLDS
    simulation = Simulation(design, list(rules), 5)
    units = Units.of("patient", np.repeat(np.arange(design.units), design.images), design.n_images)
    certainty, n_numbers = Certainty(replicates=100), 0
    for (evidence,) in simulation.data_sets(2):
        for case in zip(simulation.metrics, evidence):
            means = choices_classes.class_means_of(case, units, certainty)
            (table,) = estimates([case], units, certainty)
            for name, estimate in zip(case[0].facts.names, table[0]):
                (bounds,) = choices_classes.bounds_of([rules[name]], *means[name])
                assert (estimate.low, estimate.high) == pytest.approx(bounds, abs=1e-12), name
                n_numbers += 1
    assert n_numbers == 2 * len(rules)


def test_the_chosen_error_of_metrics_in_steps_is_that_of_the_code() -> None:
    design = replace(choices_steps.CONFIRMING[0], models=3)
    units = choices_steps.units_of(design)
    n_apart = 0
    for (sample,) in choices_steps.samples(design, ["AP@0.5"], 3, 9):
        pairs = sample.of_pairs(3)
        values = pairs.values, pairs.replicates, units, pairs.left_out
        for kind, in_steps in (("both", True), ("jackknife", False)):
            expected = choices_steps.error_of(pairs, units, choices_steps.ErrorRule(kind))
            flags = np.full(len(pairs.values), in_steps)
            error = standard_error(*values, flags)
            np.testing.assert_allclose(error, expected, rtol=1e-12)
        n_apart += int((np.abs(error / standard_error(*values[:3]) - 1) > 0.01).sum())
    assert n_apart > 0


def test_standard_errors_are_chosen_by_the_rule_that_was_written_before() -> None:
    rules, cases = choices_steps.CANDIDATES, choices_steps.STEPPED
    names = [rule.name for rule in rules]
    so_far, both = names.index("jackknife"), names.index("both")
    fine = choices_steps.Findings(0.05, 0.05, 0.0, 1.0, 0.2)
    table = {case: [replace(fine) for _ in rules] for case in cases}
    power = [0.1] * len(rules)
    # The simplest of those that find as much.
    assert choices_steps.chosen_error([table], power).name == "bootstrap"
    for case in cases:
        table[case][0].alone = 0.06
        table[case][so_far].uneven = 0.25
    assert choices_steps.chosen_error([table], power).name == "both"
    power[-1] = 0.12
    assert choices_steps.chosen_error([table], power) == rules[-1]
    table[cases[0]][-1].width = 1.6
    assert choices_steps.broken([table], cases, len(rules) - 1, 0) == ["AP@0.5: width"]
    assert choices_steps.chosen_error([table], power) == rules[both]
    # Nobody keeps everything: the fewest conditions, then the smallest width.
    for case in cases:
        for row in table[case]:
            row.family = 0.2
    table[cases[0]][both].width = table[cases[1]][both].width = 0.9
    assert choices_steps.chosen_error([table], power) == rules[both]
    few = {
        case: [replace(fine) for _ in choices_steps.FROM_UNITS] for case in choices_steps.FAMILIES
    }
    assert choices_steps.chosen_number([few]) == 20
    few["AP@0.5", 10][0].family = 0.09
    assert choices_steps.chosen_number([few]) == 25


@pytest.mark.parametrize("graded", [False, True])
def test_the_chosen_interval_of_excess_risk_is_that_of_the_code(graded: bool) -> None:
    design = choices_areas.CONFIRMING_SECOND_EXCESS[1]
    metric: Any = choices_areas.ExcessRisk(choices_areas.EXCESS_NAMES, 1)
    if graded:
        design = replace(choices_areas.CONFIRMING_GRADED_EXCESS[1], units=30)
        metric = choices_areas.GradedExcess(choices_areas.GRADED_NAMES, 1)
    rule = choices_areas.ExcessRule(cost=1.0)
    methods = set()
    for seed in range(4):
        rng = np.random.default_rng(seed)
        evidence, units = choices_areas.drawn_excess(design, rng, 1 if seed else 3)
        (table,) = estimates([(metric, evidence)], units, Certainty(replicates=200, seed=seed))
        (sample,) = replicates([(metric, evidence)], units, Certainty(replicates=200, seed=seed))
        support = [choices_areas.excess_support(evidence, units, rule)]
        value = np.array([table[0][0].value])
        (stated,) = intervals(value, sample.reshape(200, -1), support)
        assert (table[0][0].low, table[0][0].high) == (stated.low, stated.high)
        methods.add(table[0][0].method)
    assert "gamma-t" in methods


def test_the_first_rounds_of_gains_are_measured_with_the_limit_of_then() -> None:
    """The rule that they chose is the one from which the fourth round starts."""
    design = CohortDesign("d", 9, 12, (0.6, 0.5), alarms=0.4, loose=0.1)
    simulation = Simulation(design, choices_gains.NAMES, 5)
    drawn = Units.of("patient", np.repeat(np.arange(9), 12), design.n_images)
    (evidence,) = next(iter(simulation.data_sets(1)))
    cases = list(zip(simulation.metrics, evidence))
    certainty = Certainty(replicates=200)
    n_numbers = 0
    for case, sample in zip(cases, replicates(cases, drawn, certainty)):
        value = case[0].value(case[1], np.ones((1, design.n_images), np.int64))[0]
        columns = _columns(case, value, sample, drawn, certainty)
        for name, (column, _) in zip(case[0].facts.names, columns):
            then = choices_gains.bounds_of(choices_gains.CHOSEN, column, name)
            rows = dict(zip(choices_costs.FIELDS, np.array([choices_costs._summed_up(column)]).T))
            data = choices_costs.GainSamples(name, 9, 8, 0.0, np.zeros(1), rows)
            low, high = choices_costs.bounds(data, choices_costs.SO_FAR)
            assert then == pytest.approx((low[0], high[0]), abs=1e-12), name
            n_numbers += 1
    assert n_numbers == len(choices_gains.NAMES)


def test_candidates_for_gains_are_chosen_by_the_rule_that_was_written_before() -> None:
    before, chosen = choices_gains.BEFORE, choices_gains.CHOSEN

    def cells(rule, coverages, width) -> list[CoverageCell]:
        made = []
        for coverage in coverages:
            made.append(CoverageCell(rule.name, "", "", "", 9, 0.1, 400, 1.0, coverage, width, 0.0))
        return made

    # More inside, but two more below .90: under-coverage comes first.
    low = cells(before, (0.89, 0.89, 0.95, 0.95), 1.0)
    wide = cells(chosen, (0.95,) * 4, 1.6)
    assert choices_gains.chosen([*low, *wide], (before, chosen)) == chosen
    # One more below is no reason; then the number inside counts, then the width.
    low = cells(before, (0.89, 0.95, 0.95, 0.95), 1.0)
    assert choices_gains.chosen([*low, *wide], (before, chosen)) == before
    assert (
        choices_gains.chosen(
            [*cells(before, (0.95,), 1.2), *cells(chosen, (0.95,), 1.1)], (before, chosen)
        )
        == chosen
    )


def test_candidates_for_few_errors_are_compared_on_kinds_of_their_own() -> None:
    kinds = choices_few_errors.CHOOSING[2][1][:40]
    lines = list(choices_few_errors.compare("rates", kinds, 1, seed=3))
    assert lines[0] == "rates, 1 kinds, seed 3"
    assert [line.split(" inside ")[0].strip() for line in lines[1:]] == [
        rule.name for rule in choices_few_errors.RATE_RULES
    ]


def test_experiments_are_measured_in_their_order() -> None:
    tiny = Effort(simulations=2, replicates=100, extra=4, images_of_truth=500)
    name = "8 patients x 6, latent, good"
    (cells,) = measured(name, tiny)
    assert {cell.design for cell in cells} == {name}
    again = least_widths.cells_with_least_widths(designs()[name], experiments.ONE_CLASS, tiny)
    assert list(map(str, cells)) == list(map(str, again))


def test_excess_risk_of_a_good_monitor_holds_the_truth() -> None:
    """The t interval held it in .74 of such data sets: a failure that was not seen costs more."""
    effort = Effort(simulations=60, replicates=150, extra=200, images_of_truth=40_000, seed=3)
    rules = choices_areas.ExcessRule(), choices_areas.ExcessRule(cost=1.0)
    before, now = choices_areas.excess_cells(choices_areas.SECOND_EXCESS[3], rules, effort)
    # 60 data sets at 95 %: fewer than 51 have a chance of 1 in 1,000.
    assert before.coverage < 51 / 60 <= now.coverage
    assert now.width < WIDEST


@pytest.mark.parametrize(
    ("family", "measure", "design"),
    [
        ("agreement", features.rating_cells, features.RATINGS[0]),
        ("stability", features.training_cells, features.TRAININGS[1]),
        ("stability", features.other_training_cells, features.OTHER_TRAININGS[0]),
    ],
)
def test_ratings_and_trainings_have_intervals_that_hold_their_value(
    family: str, measure, design
) -> None:
    tiny = Effort(simulations=4, replicates=100, extra=8, images_of_truth=3_000)
    cells = measure(design, tiny)
    assert {(cell.family, cell.design) for cell in cells} == {(family, design.name)}
    for cell in cells:
        assert (cell.stated, cell.without) == (1.0, 0.0), str(cell)
        assert 0.2 < cell.truth < 1.0, str(cell)
        assert cell.coverage > 0, str(cell)
