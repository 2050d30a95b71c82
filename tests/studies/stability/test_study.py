"""A quick run of the whole study: every claim has its verdict, with figures, tables, a page, and
given maps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from calipers.errors import InputError, UsageError
from calipers.show.figures import style
from calipers.show.svg.draw import svg
from calipers.studies.framework import STUDIES, StudyOptions, StudyResult, load_study, run_study
from calipers.studies.page import study_page
from calipers.studies.stability import claims_networks, study
from calipers.studies.stability.data import MAX, NOR, XRAY, read_maps
from calipers.studies.stability.experiments import Network, StabilityRun, run_all
from calipers.studies.stability.figures import SLOTS
from calipers.synthetic.bags import demo_bags, write_bags
from studies.judged import verdict_by_numbers

# What a full run gives too. Those at the end are judged on simulated families, the two last need
# maps of networks.
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
    "x-ray-good-pascal-stable": "held",
    "good-bags-without-stability": "held in part",
    "stability-linear-in-auc": "held",
    "most-stable-operators": "held in part",
    "nor-stable-everywhere": "held",
    "max-lowest-spearman": "held",
    "mean-like-lse-small": "held in part",
    "lse-one-unlike-max": "held",
    "bag-auc-invariant-dice-not": "held",
    "no-relation-of-dice-and-stability": "did not hold",
    "same-auc-varying-stability": "held",
    "spearman-above-apj": "did not hold",
    "negative-bags-undefined": "held",
    "apj-minimum-vanishes": "did not hold",
    "derivatives": "held in part",
    "start-is-zero": "held",
    "green-line-falls": "held",
    "dotted-lines-differ": "held",
    "less-agreement-scores-higher": "held",
    "apj-and-aj-interchangeable": "held",
    "kendall-and-spearman-interchangeable": "held",
    "stability-falls-with-threshold": "held in part",
    "stable-means-none-or-all": "held",
    "good-localization-without-stability": "held",
    "consistent-but-wrong": "held",
    "stable-is-not-good": "held",
    "stability-is-a-prerequisite": "held",
    "scores-are-complementary": "held",
    "stability-linear-in-dice": "not tested",
    "low-stability-goes-with-varying-dice": "not tested",
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
    found = run_all(options, lambda what, done, total: seen.append((done, total)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "run_all", lambda options, progress: found)
        return Run(run_study("stability", quick=True), found, seen)


@pytest.mark.parametrize("name", VERDICTS)
def test_a_claim_has_its_verdict(runs_: Run, name: str) -> None:
    assert verdict_by_numbers(runs_.result, name) == VERDICTS[name]


def test_every_statement_is_judged_in_the_order_of_the_paper(runs_: Run) -> None:
    said = [statement.name for statement in load_study("stability").statements]
    assert [claim.name for claim in runs_.result.claims] == said
    assert set(said) == set(VERDICTS)


def test_networks_are_those_that_the_paper_prints_and_verdicts_follow_them(runs_: Run) -> None:
    assert runs_.found.networks[XRAY, NOR] == Network(0.42, 0.36, 0.88, 0.75)
    found = replace(runs_.found)
    found.__dict__["networks"] = {
        key: replace(one, spearman=0.9) for key, one in runs_.found.networks.items()
    }
    claims = {claim.name: claim.verdict for claim in claims_networks.OPERATORS.judge_all(found)}
    assert claims["max-lowest-spearman"] == "did not hold"
    found.__dict__["networks"] = {
        key: one for key, one in runs_.found.networks.items() if key[1] != MAX
    }
    claims = {claim.name: claim.verdict for claim in claims_networks.OPERATORS.judge_all(found)}
    assert claims["max-lowest-spearman"] == "not tested"


def test_figures_and_tables_are_there(runs_: Run) -> None:
    names = [figure.name for figure in runs_.result.figures]
    assert [name for name in names if name[-1].isdigit()] == [f"figure-{k}" for k in range(5, 10)]
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
    tables = {table.name: table for table in runs_.result.appendix}
    assert {
        "table-1",
        "table-2-3",
        "table-5",
        "table-6",
        "table-7",
        "table-9",
        "table-misprints",
    } <= set(tables)
    assert all(len(row) == len(table.columns) for table in tables.values() for row in table.rows)
    assert len(tables["table-7"].rows) == len(tables["table-7-performance"].rows) == 15


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
    row = dict(zip(table.columns, table.rows[0]))
    assert (row["APJ, printed"], row["Spearman, printed"]) == (0.42, 0.36)
    assert row["APJ low"] < row["APJ"] < row["APJ high"]
    misprints = next(table for table in runs_.result.appendix if table.name == "table-misprints")
    assert misprints.rows[0][1:3] == ("row total 55", "45")


def test_progress_counts_to_the_end(runs_: Run) -> None:
    assert runs_.progress == sorted(runs_.progress)
    assert runs_.progress[-1][0] == runs_.progress[-1][1]


def test_it_says_that_maps_are_simulated(runs_: Run) -> None:
    assert "simulated" in runs_.result.source
    assert any("no evidence" in words for words in runs_.result.methods)


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


def test_given_maps_take_the_place_of_the_families(maps: Path) -> None:
    result = run_study("stability", data=maps, quick=True)
    table = next(table for table in result.appendix if table.name == "table-7")
    assert [row[:3] for row in table.rows] == [
        *((XRAY, MAX, 6), (XRAY, NOR, 6)),
        *(("ours", MAX, 4), ("ours", NOR, 4)),
    ]
    assert result.claim("max-lowest-spearman").verdict == "held"
    assert "given maps" in result.claim("max-lowest-spearman").evidence
    assert result.claim("most-stable-operators").verdict == "not tested"
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
