"""Tables of the terminal: intervals with their marks, groups with their summaries,
readable at 100 columns.
"""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

import calipers as cal
from calipers.evaluation.tables import print_evaluation
from calipers.show.terminal import READABLE, print_lines, print_tables
from evaluated import evaluated_demo

QUICK = replace(cal.Protocol.load("overview"), replicates=200)


@pytest.fixture(scope="module")
def evaluation():
    return evaluated_demo(QUICK, by=["centre", "size,class"])


@pytest.fixture
def shown(capsys):
    """Print an evaluation and return its lines."""

    def call(evaluation):
        capsys.readouterr()
        print_evaluation(evaluation)
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return call


def only(*names):
    """Return the demo cohort with some of its models."""
    cohort = cal.demo_cohort()
    return replace(cohort, models={name: cohort.models[name] for name in names})


def table(lines, first):
    """Return the lines of the table with a title, and all below it."""
    start = lines.index(first)
    return lines[start:]


def test_values_come_with_intervals_and_whom_they_speak_for(shown, evaluation):
    lines = shown(evaluation)
    estimate = evaluation["mislabels", "AP"]
    row = next(line for line in lines if line.startswith(" AP "))
    assert f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]" in row
    assert "n = 120 images, 189 references." in lines
    assert (
        "95 % confidence intervals, resampled by patient (n = 80); valid for other patients like "
        "these 80." in lines
    )


def test_marks_are_explained_in_words(shown, evaluation):
    lines = shown(evaluation)
    assert any("1.000 [" in line and "1.000]*" in line for line in lines)
    assert "* interval for small counts, because few patients, or nearly all, have errors" in lines
    assert not [line for line in lines if line.startswith("†")]


def test_no_interval_asked_for_none_mentioned(shown):
    text = "\n".join(shown(evaluated_demo("overview", ci=False)))
    assert "[" not in text
    assert "interval" not in text
    assert "n = 120 images, 189 references." in text


def test_a_value_that_alone_has_no_interval_says_why(shown):
    cohort = cal.demo_cohort()
    few = cohort.take(cohort.group("centre") == "Summit")
    lines = shown(cal.evaluate(few, "overview"))
    assert any(
        re.search(r"^ cardiomegaly .* \d\.\d{3} \(too few patients\)", line) for line in lines
    )


def test_a_group_is_a_line_with_n_and_the_groups_are_summed_up(shown):
    evaluation = cal.evaluate(only("mislabels"), QUICK).by("centre")
    lines = table(shown(evaluation), "AP@0.5 by centre")
    estimate = evaluation.get("AP@0.5", centre="North")
    row = next(line for line in lines if line.startswith(" North "))
    assert row.split() == [
        *(
            "North",
            f"{estimate.value:.3f}",
            f"[{estimate.low:.3f},",
            f"{estimate.high:.3f}]",
            "32",
            "48",
            "76",
        )
    ]
    over = next(summary for summary in evaluation.groups if summary.metric == "AP@0.5")
    assert any(f"mean of 4 groups   {over.mean:.3f} (SD {over.sd:.3f})" in line for line in lines)
    assert any(
        line.split() == ["range", f"{over.lowest:.3f}", "to", f"{over.highest:.3f}"]
        for line in lines
    )


def test_groups_without_a_value_are_counted(shown, evaluation):
    lines = table(shown(evaluation), "AP@0.5 of nodule by size")
    assert any("no references" in line for line in lines)
    assert any("(1 of 3 groups)" in line for line in lines)


def test_more_metrics_than_fit_are_named(shown, evaluation):
    assert "RoDeO/loc, RoDeO/shape, RoDeO/cls by centre: see --json, or -o." in shown(evaluation)


@pytest.mark.parametrize("by", [[], ["centre"]])
def test_many_models_get_a_line_each(shown, by):
    cohort = cal.demo_cohort()
    models = {f"{name} {k}": table for k in range(3) for name, table in cohort.models.items()}
    protocol = replace(cal.Protocol.load("voc2007"), replicates=100)
    evaluation = cal.evaluate(replace(cohort, models=models), protocol).by(*by)
    lines = shown(evaluation)
    assert max(map(len, lines)) <= READABLE
    values = [line for line in lines if "mislabels 2" in line]
    assert all(line.count("[") == 1 for line in values if "SD" not in line and " to " not in line)
    assert [line.split() for line in lines if line.strip()][1] == ["metric", "model", "value"]


def test_two_models_stand_side_by_side(shown):
    lines = shown(cal.evaluate(only("mislabels", "overpredicts"), "coco"))
    assert [line.split() for line in lines if line.strip()][1] == [
        "metric",
        "mislabels",
        "overpredicts",
        "references",
    ]
    assert max(map(len, lines)) <= READABLE


def test_groups_without_intervals_say_why_below_values_that_have_one(shown):
    lines = shown(cal.evaluate(only("mislabels"), "voc2007").by("patient"))
    assert sum("(one patient only)" in line for line in lines) > 10
    assert "AP@0.5 by patient (the first 40 of 80 rows; --json has all)" in lines


def test_what_no_value_has_is_said_once(shown):
    cohort = only("mislabels")
    lines = shown(cal.evaluate(cohort.take(cohort.group("patient") == "P001"), "overview"))
    assert not [line for line in lines if "only)" in line]
    assert "No intervals: there is only one patient." in lines


def test_counts_of_mistakes_have_no_decimals(capsys: pytest.CaptureFixture[str]) -> None:
    print_evaluation(evaluated_demo("tide", ci=False))
    line = next(
        line for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["errors/dup"]
    )
    assert line.split() == ["errors/dup", "0", "222", "0"]


def on_a_terminal(tables, width):
    """Return the lines that a terminal of a width shows."""
    screen = io.StringIO()
    print_tables(tables, Console(file=screen, width=width, force_terminal=True, color_system=None))
    return screen.getvalue().splitlines()


WIDTHS = (60, 80, 100, 120)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_terminal_breaks_a_word_or_an_interval(evaluation, width):
    comparison = evaluation.compare(metrics=["AP@0.5", "F1@0.5"])
    for tables in (evaluation.tables(), comparison.tables()):
        lines = on_a_terminal(tables, width)
        text = "\n".join(lines)
        assert max(map(len, lines)) <= width
        wanted = {str(cell) for table in tables for row in table.texts() for cell in row}
        pieces = {piece for words in wanted for piece in re.findall(r"\[.*?\]|\S+", words)}
        assert not [piece for piece in pieces if piece not in text]


def test_a_table_that_fits_nowhere_has_a_line_for_every_cell():
    comparison = evaluated_demo(QUICK).compare(metrics=["AP@0.5"])
    lines = on_a_terminal(comparison.tables()[:1], 60)
    row = comparison.rows[0]
    start = next(k for k, line in enumerate(lines) if line.split() == ["metric", "AP@0.5"])
    assert lines[start + 1].split() == ["model", "a", row.model_a]
    assert lines[start + 2].split() == ["model", "b", row.model_b]


def test_a_terminal_breaks_sentences_between_words():
    sentence = "overpredicts is better than mislabels in AP@0.5, and that is all there is to say."
    screen = io.StringIO()
    print_lines([sentence], Console(file=screen, width=40, force_terminal=True, color_system=None))
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(map(str.strip, lines)) == sentence
