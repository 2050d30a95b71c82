"""A quick run of the whole study: every claim has its verdict, with figures, tables, a page, and
given maps.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from calipers.errors import InputError, UsageError
from calipers.results.estimate import Estimate
from calipers.show.figures import style
from calipers.show.svg.draw import svg
from calipers.show.table import Amount
from calipers.studies.framework import STUDIES, StudyOptions, StudyResult, load_study, run_study
from calipers.studies.page import study_page
from calipers.studies.stability import claims_maps, claims_networks, study, tables
from calipers.studies.stability.claims_maps import LocatedBags
from calipers.studies.stability.data import MAX, NOR, RULES, XRAY, read_maps
from calipers.studies.stability.experiments import (
    Network,
    NetworkTable,
    StabilityRun,
    prepare_all,
    printed_networks,
)
from calipers.studies.stability.figures import SLOTS
from calipers.studies.steps import StepSet
from calipers.synthetic.bags import demo_bags, write_bags
from studies.documented import quick_passages, unsupported
from studies.judged import verdict_by_numbers

# What a full run gives too: replicates change intervals only.
VERDICTS = {
    "lse-between-mean-and-max": "held in part",
    "po-is-one-for-subsets": "held",
    "apo-limits": "held",
    "hapj-limits": "held",
    "apj-limits": "held in part",
    "aj-limits": "held in part",
    "undefined-if-all-alike": "held",
    "aj-is-kappa": "held",
    "monotone": "held in part",
    "corrected-for-chance": "held in part",
    "spearman-formula": "held in part",
    "spearman-punishes-few-large-deviations": "held",
    "spearman-sees-consistent-shifts": "did not hold",
    "kendall-ignores-consistent-shifts": "held",
    "kendall-formula": "held in part",
    "tables-ii-iii": "held",
    "table-iiib-margin": "did not hold",
    "imbalance-lowers-scores": "held",
    "asymmetry-raises-scores": "held",
    "tar-formula": "did not hold",
    "apj-and-aj-interchangeable": "held",
    "kendall-and-spearman-interchangeable": "held",
    "stability-falls-with-threshold": "held in part",
    "stable-means-none-or-all": "held",
    "good-localization-without-stability": "did not hold",
    "stability-linear-in-dice": "held in part",
    "low-stability-goes-with-varying-dice": "held in part",
    "consistent-but-wrong": "held",
    "low-quality-stable-and-wrong": "held in part",
    "low-quality-covers-picture": "did not hold",
    "x-ray-good-pascal-stable": "held",
    "good-bags-without-stability": "held in part",
    "stability-linear-in-auc": "did not hold",
    "most-stable-operators": "held in part",
    "nor-stable-everywhere": "held in part",
    "max-lowest-spearman": "held",
    "no-best-operator": "held in part",
    "mean-like-lse-small": "held in part",
    "lse-one-unlike-max": "held",
    "bag-auc-invariant-dice-not": "held in part",
    "no-relation-of-dice-and-stability": "held in part",
    "stable-is-not-good": "held",
    "stability-is-a-prerequisite": "held",
    "scores-are-complementary": "held",
    "negative-bags-undefined": "held",
    "same-auc-varying-stability": "held in part",
    "spearman-above-apj": "did not hold",
    "apj-minimum-vanishes": "did not hold",
    "derivatives": "held in part",
    "start-is-zero": "held",
    "green-line-falls": "held",
    "dotted-lines-differ": "held",
    "less-agreement-scores-higher": "held",
}


@dataclass
class Run:
    result: StudyResult
    found: StabilityRun
    progress: list[tuple[int, int]]


@pytest.fixture(scope="module")
def runs_() -> Run:
    """The parts are run once, and the study is put together from them."""
    seen: list[tuple[int, int]] = []
    options = StudyOptions(quick=True)
    found = prepare_all(options, lambda *said: None).run(lambda what, *step: seen.append(step))
    with pytest.MonkeyPatch.context() as patch:
        steps = StepSet((), lambda results: found)
        patch.setattr(study, "prepare_all", lambda options, progress: steps)
        return Run(run_study("stability", quick=True), found, seen)


@pytest.mark.parametrize("name", VERDICTS)
def test_a_claim_has_its_verdict(runs_: Run, name: str) -> None:
    assert verdict_by_numbers(runs_.result, name) == VERDICTS[name]


def test_every_statement_is_judged_in_the_order_of_the_paper(runs_: Run) -> None:
    said = [statement.name for statement in load_study("stability").statements]
    assert [claim.name for claim in runs_.result.claims] == said
    assert set(said) == set(VERDICTS) == set(RULES.statements)


def test_verdicts_follow_the_networks_and_the_printed_table_stands_beside(runs_: Run) -> None:
    assert printed_networks().rows[XRAY, NOR] == Network(0.42, 0.36, 0.88, 0.75)

    def verdict(rows) -> str:
        changed = replace(runs_.found)
        changed.__dict__["networks"] = NetworkTable(rows, "In this run")
        claims = claims_networks.OPERATORS.judge_all(changed)
        return next(claim.verdict for claim in claims if claim.name == "max-lowest-spearman")

    rows = runs_.found.networks.rows
    assert verdict({key: replace(one, spearman=0.9) for key, one in rows.items()}) == "did not hold"
    low = {key: replace(one, spearman=0.9 - 0.8 * (key[1] == MAX)) for key, one in rows.items()}
    assert verdict(low) == "held"
    assert verdict({key: one for key, one in rows.items() if key[1] != MAX}) == "not tested"
    evidence = runs_.result.claim("max-lowest-spearman").evidence
    assert "In this run: digits" in evidence
    assert "the printed table VII agrees" in evidence


def located(apj: list[float], worst: list[float]) -> LocatedBags:
    return LocatedBags(np.array(apj), np.array(worst), np.full(len(apj), 0.1))


STEADY = located([0.8, 0.9, 0.1, 0.2], [0.8, 0.9, 0.1, 0.2])
SHAKY = located([0.1, 0.2, 0.8, 0.9], [0.8, 0.9, 0.1, 0.2])


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        ({"one": STEADY}, "held"),
        ({"one": STEADY, "two": located([0.8, 0.3, 0.9], [0.8, 0.9, 0.1])}, "did not hold"),
        # Many well localized bags, one of which is unstable, in a setting where stability says
        # nothing about the others.
        ({"one": located([0.1, *[0.9] * 30], [0.8, *[0.8] * 29, 0.1])}, "held in part"),
        ({"one": SHAKY}, "did not hold"),
        ({"one": located([0.1, 0.2], [0.1, 0.2])}, "not tested"),
        ({}, "not tested"),
    ],
)
def test_stability_as_a_prerequisite_can_fail(
    runs_: Run, monkeypatch, settings: dict[str, LocatedBags], verdict: str
) -> None:
    monkeypatch.setattr(claims_maps, "located_bags", lambda run: settings)
    claims = claims_maps.DISCUSSION.judge_all(runs_.found)
    assert {one.name: one for one in claims}["stability-is-a-prerequisite"].verdict == verdict


def test_the_bound_of_arithmetic_holds_on_every_bag(runs_: Run) -> None:
    bags = claims_maps.located_bags(runs_.found)
    assert len(bags) == 6
    for own in bags.values():
        assert np.nanmin(own.spare) > -1e-12


def test_an_operator_that_is_first_everywhere_is_seen(runs_: Run) -> None:
    rows = {}
    for key in runs_.found.networks.rows:
        value = 0.9 if key[1] == NOR else 0.1 if key[1] == MAX else 0.5
        rows[key] = Network(value, value, 0.9, 0.5)
    changed = replace(runs_.found)
    changed.__dict__["networks"] = NetworkTable(rows, "In this run")
    claims = {one.name: one for one in claims_networks.OPERATORS.judge_all(changed)}
    assert claims["no-best-operator"].verdict == "did not hold"


def test_tables_with_networks_have_spreads_or_intervals(runs_: Run) -> None:
    by_name = {table.name: table for table in runs_.result.appendix}
    for name in ("table-5", "table-6", "table-7", "table-7-performance"):
        own = [row for row in by_name[name].rows if row[0] == "this run"]
        assert own, name
        for row in own:
            assert any(isinstance(cell, Amount | Estimate) for cell in row), (name, row)


def test_verdicts_say_what_they_rest_on_and_by_which_rule(runs_: Run) -> None:
    printed = {claim.name for claim in runs_.result.claims if claim.basis == "printed"}
    assert printed == {"table-iiib-margin", "x-ray-good-pascal-stable", "most-stable-operators"}
    made = [claim.name for claim in runs_.result.claims if claim.basis == "made"]
    assert made == ["stable-is-not-good"]
    assert all(claim.rule for claim in runs_.result.claims)
    assert runs_.result.claim("max-lowest-spearman").share.unit == "settings"
    assert [entry["file"] for entry in runs_.result.rules] == ["stability/claims.toml"]


def test_figures_and_tables_are_there(runs_: Run) -> None:
    names = [figure.name for figure in runs_.result.figures]
    numbers = [f"figure-{k}" for k in (2, *range(5, 10))]
    assert [name for name in names if name[-1].isdigit()] == numbers
    assert {
        "figure-limits",
        "figure-ties",
        "figure-scores",
        "figure-threshold",
        "figure-families",
    } <= set(names)
    for figure in runs_.result.figures:
        assert figure.title
        assert figure.caption
        for name, panel in figure.parts():
            assert svg(panel, name=name).startswith("<svg")
    by_name = {table.name: table for table in runs_.result.appendix}
    assert {
        *("table-1", "table-2-3", "table-4", "table-5", "table-6"),
        *("table-7", "table-9", "table-misprints"),
    } <= set(by_name)
    assert all(len(row) == len(table.columns) for table in by_name.values() for row in table.rows)
    n = len(runs_.found.cells) + 15
    assert len(by_name["table-7"].rows) == len(by_name["table-7-performance"].rows) == n
    # What has no counterpart is named.
    assert any(
        "Figures 1, 3 and 4" in words and "Table VIII" in words for words in runs_.result.methods
    )


def test_figure_2_counts_every_instance(runs_: Run) -> None:
    figure = next(figure for figure in runs_.result.figures if figure.name == "figure-2")
    _, calls, labels, kinds = figure.panels
    counts = {word: sum(row.count(word) for row in kinds.words) for word in ("TP", "FP", "FN")}
    assert counts["TP"] + counts["FP"] == calls.values.sum()
    assert counts["TP"] + counts["FN"] == labels.values.sum()
    assert f"TP {counts['TP']}, FP {counts['FP']}, FN {counts['FN']}" in figure.caption


def test_figure_9_has_the_strokes_of_the_paper() -> None:
    dashed = {line: bool(style(slot).dash) for line, slot in SLOTS.items()}
    assert dashed == {"blue": False, "green": False, "black dotted": True, "red dotted": True}
    assert {line: style(slot).slot for line, slot in SLOTS.items()} == {
        "blue": 0,
        "green": 2,
        "black dotted": 6,
        "red dotted": 1,
    }


def test_printed_numbers_stand_beside_ours(runs_: Run) -> None:
    table = next(table for table in runs_.result.appendix if table.name == "table-7")
    rows = [dict(zip(table.columns, row)) for row in table.rows]
    ours, paper = rows[0], rows[-15]
    assert (paper["source"], paper["data set"], paper["APJ"]) == ("printed", XRAY, 0.42)
    assert ours["source"] == "this run"
    assert ours["APJ"].low < ours["APJ"].value < ours["APJ"].high
    misprints = next(table for table in runs_.result.appendix if table.name == "table-misprints")
    assert misprints.rows[0][1:3] == ("row total 55", "45")


def test_table_iv_counts_the_table_of_nih_where_it_is_installed(
    tmp_path: Path, monkeypatch
) -> None:
    entries = "Image Index,Finding Labels,Patient ID\n" + "".join(
        f"{k}.png,{labels},{patient}\n"
        for k, (labels, patient) in enumerate(
            [("Cardiomegaly|Effusion", 1), ("No Finding", 1), ("No Finding", 2), ("Effusion", 3)]
        )
    )
    boxes = "Image Index,Finding Label\n0.png,Cardiomegaly\n0.png,Effusion\n"
    for name, text in ((tables.NIH_ENTRIES, entries), (tables.NIH_BOXES, boxes)):
        with gzip.open(tmp_path / name, "wt", encoding="utf-8") as stream:
            stream.write(text)
    assert tables.nih_population(tmp_path, "Cardiomegaly") == (1, 1, 1)
    assert tables.nih_population(tmp_path, "Effusion") == (2, 1, 1)
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    assert tables.nih_tables() is None


def test_tables_of_nih_that_are_damaged_say_what_to_install(
    runs_: Run, tmp_path: Path, monkeypatch
) -> None:
    for name in (tables.NIH_ENTRIES, tables.NIH_BOXES):
        (tmp_path / name).write_bytes(b"no gzip")
    monkeypatch.setattr(tables, "nih_tables", lambda: tmp_path)
    with pytest.raises(InputError, match=r"force-reinstall torchxrayvision==1\.5\.7"):
        tables.study_tables(runs_.found)


def test_progress_counts_to_the_end(runs_: Run) -> None:
    assert runs_.progress == sorted(runs_.progress)
    assert runs_.progress[-1][0] == runs_.progress[-1][1]


def test_it_says_which_networks_were_trained(runs_: Run) -> None:
    assert "networks were trained (seed 0" in runs_.result.source
    assert any("orders and signs" in words for words in runs_.result.methods)
    assert runs_.result.inputs[0]["file"] == "networks.npz"


def test_the_page_says_everything_and_the_folder_is_whole(runs_: Run, tmp_path: Path) -> None:
    page = study_page(runs_.result)
    assert all(f'id="claim-{claim.name}"' in page for claim in runs_.result.claims)
    page = runs_.result.save(tmp_path / "study")
    files = {path.name for path in page.parent.iterdir()}
    assert {"study.html", "claims.csv", "figure-9a.svg", "figure-5.csv", "table-2-3.csv"} <= files
    document = json.loads((tmp_path / "study" / "study.json").read_text())
    assert document["study"] == "stability"


def test_the_study_takes_data_and_nothing_else() -> None:
    assert "stability" in STUDIES
    for given in ({"ranking": "people.csv"}, {"runs": 3}, {"predictions": {"a": "b"}}):
        with pytest.raises(UsageError, match="takes no"):
            run_study("stability", quick=True, **given)


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two data sets with two operators; one of them without annotations, its labels beside the
    operators.
    """
    root = tmp_path_factory.mktemp("maps")
    for operator, kind in ((NOR, "stable-good"), (MAX, "unstable")):
        write_bags(root / XRAY / operator, demo_bags(kind, n_bags=12, n_models=3, shape=(8, 8)))
        bags = demo_bags(kind, n_bags=8, n_models=3, shape=(20,), seed=1)
        (root / "ours" / operator).mkdir(parents=True)
        for k, model in enumerate(bags.models):
            np.savez(
                root / "ours" / operator / f"{model}.npz", **{bag.id: bag.values[k] for bag in bags}
            )
    rows = "".join(f"{name},{int(label)}\n" for name, label in zip(bags.ids, bags.positive))
    (root / "ours" / "labels.csv").write_text("bag,label\n" + rows)
    return root


def test_given_maps_take_the_place_of_the_networks(maps: Path) -> None:
    result = run_study("stability", data=maps, quick=True)
    table = next(table for table in result.appendix if table.name == "table-7")
    ours = [row[1:4] for row in table.rows if row[0] == "this run"]
    assert ours == [
        *((XRAY, MAX, 6), (XRAY, NOR, 6)),
        *(("ours", MAX, 4), ("ours", NOR, 4)),
    ]
    assert result.claim("max-lowest-spearman").verdict == "held"
    assert "given maps" in result.claim("max-lowest-spearman").evidence
    assert result.claim("low-quality-stable-and-wrong").verdict == "not tested"
    assert result.claim("stability-linear-in-dice").verdict != "not tested"
    assert (
        len(result.inputs) == 4 * 3 + 2 + 2 + 1
    )  # models, labels and scores of X-Ray, labels of ours
    assert all(len(str(entry["sha256"])) == 64 for entry in result.inputs)
    assert study_page(result)


def test_labels_and_masks_beside_models_are_understood(maps: Path) -> None:
    found = read_maps(maps)
    assert found.bags[XRAY, NOR].models == ("run-1", "run-2", "run-3")
    assert found.bags[XRAY, NOR][0].instances is not None
    assert found.bags[XRAY, NOR].bag_scores.shape == (3, 12)
    assert found.bags["ours", MAX].positive.sum() == 4


def test_a_folder_that_is_not_laid_out_so_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not-a-folder"):
        read_maps(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no-bags"):
        read_maps(tmp_path)
    (tmp_path / "a" / "b" / "only").mkdir(parents=True)
    with pytest.raises(InputError, match="one-model"):
        read_maps(tmp_path)


def test_the_docs_quote_what_the_page_says(runs_: Run) -> None:
    assert unsupported(runs_.result.as_dict(), quick_passages("stability")) == []
