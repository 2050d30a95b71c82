"""A quick run of the whole study: every claim has its verdict, with figures, tables and a page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from calipers.errors import InputError, UsageError
from calipers.io.read import read
from calipers.monitors.labels import OMS, OOD
from calipers.monitors.scope import scope_scores
from calipers.show.figures import HeatMap, Scatter
from calipers.studies.framework import STUDIES, StudyResult, load_study, run_study
from calipers.studies.monitors import study
from calipers.studies.monitors.archive import MonitorArchive
from calipers.studies.monitors.claims import OTHER_WINNER, scan_of
from calipers.studies.monitors.experiments import (
    IDEAL,
    MonitorsRun,
    network_trial,
    rank_agreement,
    tau_curves,
)
from calipers.studies.monitors.study import ood_labels, unit_of
from calipers.studies.monitors.tables import tables as tables_
from calipers.studies.page import study_page
from calipers.studies.steps import TICKS
from calipers.synthetic.runways import runway_cohort, write_runways
from studies.documented import quick_passages, unsupported
from studies.judged import verdict_by_numbers
from studies.monitors.detectors import made_detector

# What the definitions decide, whatever a detector does.
VERDICTS = {
    "ood-needs-no-model": "held",
    "ood-is-a-proxy": "held",
    "ideal-monitors-differ": "held",
    "equality-asks-too-much": "held",
    "classification-is-a-special-case": "held in part",
    "prevalence-depends-on-tau": "held",
    "one-prediction-one-reference": "held in part",
    "precision-and-recall-ill-defined": "held",
    "four-cases-define-f1": "did not hold",
    "mean-over-classes": "held in part",
    "lard-one-ill-defined-case": "did not hold",
    "lard-score": "held",
}
# What the detectors that ship decide.
SHIPPED = {
    "good-in-worse-out-of-distribution": "held",
    "ood-gives-a-biased-indication": "held",
    "ood-ranking-misleads": "held",
    "ood-is-ambiguous-for-detection": "held",
    "tau-changes-the-order": "held",
    "harm-decides-on-the-proxy": "held",
    "chosen-by-ood-leaves-hazard": "held",
    "risk-falls-with-rejection": "held in part",
}
NEEDS_OOD = [
    "ood-needs-no-model",
    "good-in-worse-out-of-distribution",
    "ood-is-a-proxy",
    "ideal-monitors-differ",
    "ood-gives-a-biased-indication",
    "ood-ranking-misleads",
    "ood-is-ambiguous-for-detection",
    "chosen-by-ood-leaves-hazard",
]


@dataclass
class Run:
    result: StudyResult
    found: MonitorsRun
    progress: list[tuple[int, int]]


@pytest.fixture(scope="module", autouse=True)
def few_replicates() -> Iterator[None]:
    """A quick run takes 400, which decide none of the claims that are tested here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "QUICK_BOOTSTRAP", 100)
        yield


@pytest.fixture(scope="module")
def run() -> Run:
    kept: list[MonitorsRun] = []
    seen: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        tables = tables_
        patch.setattr(study, "tables", lambda found: kept.append(found) or tables(found))
        result = run_study(
            "monitors", quick=True, progress=lambda what, done, total: seen.append((done, total))
        )
    return Run(result, kept[0], seen)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lard")
    write_runways(folder, runway_cohort(160, 3), pictures=False)
    return folder


def given(files: Path, ood: str | None) -> StudyResult:
    predictions = {"ours": str(files / "detector.csv")}
    return run_study(
        "monitors", data=files / "lard.csv", predictions=predictions, ood=ood, quick=True
    )


@pytest.mark.parametrize("name", VERDICTS | SHIPPED)
def test_a_claim_has_its_verdict(run: Run, name: str) -> None:
    assert verdict_by_numbers(run.result, name) == (VERDICTS | SHIPPED)[name]


def test_every_statement_is_judged_in_order(run: Run) -> None:
    said = [statement.name for statement in load_study("monitors").statements]
    assert [claim.name for claim in run.result.claims] == said
    assert len(said) == len({*said}) == 20
    assert {*VERDICTS, *SHIPPED} == {*said}


def test_verdicts_follow_the_numbers(run: Run) -> None:
    """Labels that agree, and a sweep in which nothing turns, give other verdicts."""
    trials = []
    for one in run.found.trials:
        assert one.ood is not None
        labels = tuple(replace(label, positive=one.ood) for label in one.evaluation.basis.labels)
        basis = replace(one.evaluation.basis, labels=labels)
        rows = tuple(
            replace(row, estimate=one.evaluation.get(row.metric, row.model, OOD))
            if row.group == {"paradigm": OMS} and row.metric == "AUROC"
            else row
            for row in one.evaluation.rows
        )
        trials.append(replace(one, evaluation=replace(one.evaluation, basis=basis, rows=rows)))
    flat = tuple(replace(proxy, difference=(0.0, -0.1, 0.1)) for proxy in run.found.proxies)
    taus = tuple(replace(curve, turned_pairs=()) for curve in run.found.taus)
    found = replace(run.found, trials=tuple(trials), proxies=flat, taus=taus)
    claims = {claim.name: claim.verdict for claim in study.CLAIMS.judge_all(found)}
    assert claims["ood-ranking-misleads"] == "did not hold"
    assert claims["ideal-monitors-differ"] == "did not hold"
    assert claims["chosen-by-ood-leaves-hazard"] == "did not hold"
    assert claims["harm-decides-on-the-proxy"] == "did not hold"
    assert claims["tau-changes-the-order"] == "did not hold"


def test_the_scan_counts_configurations_whose_winners_differ(run: Run) -> None:
    scan = scan_of(run.found)
    assert scan is not None
    share = scan.share(OTHER_WINNER)
    assert run.result.claim("ood-ranking-misleads").share == share
    assert 0 < share.n_held <= share.n_total <= len(scan.configurations)
    # At tau = 0.5, by the mean over present classes, it is what the claim itself compares.
    for trial in run.found.trials:
        at = {"mean over classes": "present", "out of distribution": "OOD: either"}
        one = scan.share(OTHER_WINNER, data=trial.name, tau=0.5, **at)
        assert one.n_held == (trial.order(OOD)[0] != trial.order(OMS)[0])
    # If monitors were ranked by failures under every label, no winner could differ.
    areas = []
    for one in run.found.areas:
        oms = one.values[:, one.labels.index("OMS")]
        areas.append(replace(one, values=np.repeat(oms[:, None], len(one.labels), axis=1)))
    same = scan_of(replace(run.found, areas=tuple(areas)))
    assert same is not None
    at = {"mean over classes": "present", "tau": 0.5}
    assert same.share(OTHER_WINNER, **at).n_held == 0


def test_the_other_detector_is_the_other_model(run: Run) -> None:
    records = run.found.records
    for record, trial in zip(records, run.found.trials):
        assert trial.other_is_trained
        other = next(one for one in records if one.data == record.data and one is not record)
        scope = scope_scores(other.cohort(), classes="present", score_cut=other.score_cut)
        np.testing.assert_array_equal(
            trial.other_scope.score,
            scope.score[[int(name[6:]) for name in trial.cohort.images.ids]],
        )
        assert len(trial.kinds) == trial.evaluation.n_images == trial.cohort.n_images


def test_figures_show_one_detector_per_data_set(run: Run) -> None:
    assert len(run.found.featured) == len({one.data for one in run.found.records})
    assert run.found.featured[0] is run.found.trials[0]


def test_a_kept_folder_is_shown_again(tmp_path: Path) -> None:
    archive = MonitorArchive((made_detector(),), {"command": "by hand"})
    archive.write(tmp_path / "archive.npz")
    result = run_study("monitors", keep=tmp_path, quick=True)
    assert "Made by: by hand" in result.source
    assert result.inputs[0]["file"] == "archive.npz"
    assert result.claim("ood-ranking-misleads").verdict == "held"  # the made monitors know why
    assert "turns" not in result.claim("ood-needs-no-model").evidence
    assert "a score cut of 0.6" in result.claim("ood-needs-no-model").evidence
    with pytest.raises(InputError):
        run_study("monitors", keep=tmp_path / "nowhere", quick=True)


def test_rules_are_hashed_into_the_result(run: Run) -> None:
    (rules,) = run.result.rules
    assert rules["file"] == "monitors/claims.toml"
    path = Path(study.__file__).with_name("claims.toml")
    assert rules["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert all(claim.rule for claim in run.result.claims)


def test_ideal_monitors_are_perfect_for_their_own_labels_and_in_no_ranking(run: Run) -> None:
    for trial in run.found.trials:
        assert not {*IDEAL.values()} & {*trial.contenders}
        for paradigm, name in IDEAL.items():
            assert trial.evaluation.get("AUROC", name, paradigm).value == 1.0
        assert (
            trial.evaluation.get("RH", IDEAL[OMS]).value
            == trial.evaluation.get("AC", IDEAL[OMS]).value
            == 0.0
        )


def test_equal_labels_have_one_winner_in_every_replicate(run: Run) -> None:
    trial = run.found.trials[0]
    same = rank_agreement(trial, np.stack([trial.unsafe, trial.unsafe]))
    assert same.winner_differs == 0.0
    assert same.kendall == same.low == same.high == 1.0


def test_the_curves_over_tau_agree_with_the_evaluation(run: Run) -> None:
    trial = run.found.trials[0]
    curve = tau_curves(trial, 20)[0]
    at = int(np.flatnonzero(curve.taus <= 0.5)[-1])
    assert curve.prevalence[at] == pytest.approx(trial.unsafe.mean())
    for k, name in enumerate(curve.monitors):
        assert curve.values[k, at] == pytest.approx(trial.evaluation.get("AUROC", name, OMS).value)


def test_figures_and_tables_are_there(run: Run) -> None:
    numbered = [f"figure-{k}" for k in range(1, 9)]
    assert [figure.name for figure in run.result.figures] == ["figure-scenes", *numbered]
    assert all(figure.title and figure.caption and figure.panels for figure in run.result.figures)
    # A share of no images has no place in a title.
    assert not any("nan" in figure.title for figure in run.result.figures)
    assert isinstance(run.result.figures[3].panels[0], Scatter)
    assert isinstance(run.result.figures[4].panels[0], HeatMap)
    names = [table.name for table in run.result.appendix]
    n = len(run.found.trials)
    per_trial = [f"table-{kind}-{k}" for k in range(1, n + 1) for kind in (5, 6)]
    first = ["table-1", "table-2", "table-3", "table-4"]
    assert names == [*first, *per_trial, "table-7", "table-8", "table-9", "table-counterparts"]
    # Captions speak of tables by number, so titles have them.
    for table in run.result.appendix[:-1]:
        assert table.title.startswith(f"Table {table.name.split('-')[1]}"), table.title
    decided = {row[:2]: row[2] for row in run.result.appendix[5].rows}
    base = float(run.found.trials[0].unsafe.mean())
    assert decided["max-score", "SG"] + decided["max-score", "RH"] == pytest.approx(base)


def test_progress_counts_to_the_end(run: Run) -> None:
    assert run.progress == sorted(run.progress)
    assert (run.progress[0][0], *run.progress[-1]) == (0, TICKS, TICKS)


def test_the_page_says_everything_and_the_folder_is_whole(run: Run, tmp_path: Path) -> None:
    page = study_page(run.result)
    assert all(f'id="claim-{claim.name}"' in page for claim in run.result.claims)
    page = run.result.save(tmp_path / "study")
    files = {path.name for path in page.parent.iterdir()}
    assert {"study.html", "claims.csv", "figure-2a.svg", "figure-7.csv", "table-6-2.csv"} <= files
    assert json.loads((tmp_path / "study" / "study.json").read_text())["study"] == "monitors"


def test_given_data_are_judged_by_what_they_have(files: Path) -> None:
    with_labels = given(files, "weather=sky,fog,blur,night,taxiway")
    assert with_labels.claim("harm-decides-on-the-proxy").verdict == "not tested"
    assert with_labels.claim("ood-is-ambiguous-for-detection").verdict == "not tested"
    assert with_labels.claim("ood-is-a-proxy").verdict == "held"
    assert "160 images of lard.csv" in with_labels.source
    assert [Path(entry["file"]).name for entry in with_labels.inputs] == [
        "lard.csv",
        "detector.csv",
    ]
    assert [figure.name for figure in with_labels.figures] == [f"figure-{k}" for k in range(1, 7)]
    without = given(files, None)
    assert all(without.claim(name).verdict == "not tested" for name in NEEDS_OOD)
    assert without.claim("risk-falls-with-rejection").verdict != "not tested"
    assert "--ood" in without.warnings[0]
    assert not {"figure-3", "figure-4"} & {figure.name for figure in without.figures}


def test_ood_labels_come_from_a_column_or_from_values(files: Path) -> None:
    cohort = read(files / "lard.csv", {"ours": str(files / "detector.csv")})
    airport = cohort.images.groups["airport"]
    np.testing.assert_array_equal(
        ood_labels(cohort, "airport=LFAA, EDCC"), np.isin(airport, ["LFAA", "EDCC"])
    )
    flagged = cohort.with_groups({"ood": np.where(airport == "LFAA", "Yes", "0")})
    np.testing.assert_array_equal(ood_labels(flagged, None), airport == "LFAA")
    assert ood_labels(cohort, None) is None
    with pytest.raises(UsageError, match="airport = 'LFA'"):
        ood_labels(cohort, "airport=LFA")
    with pytest.raises(UsageError, match="no column 'airports'"):
        ood_labels(cohort, "airports=LFAA")
    with pytest.raises(InputError, match="--ood weather=a,b") as error:
        ood_labels(cohort, "weather")
    assert "lard.csv" in str(error.value)


def test_airports_are_resampled_if_there_are_enough(files: Path) -> None:
    cohort = read(files / "lard.csv")
    assert unit_of(cohort) == "image"  # five airports
    many = cohort.with_groups({"airport": np.array([f"A{k % 12}" for k in range(cohort.n_images)])})
    assert unit_of(many) == "airport"
    assert (
        unit_of(many.with_groups({"patient": np.arange(cohort.n_images).astype(str)})) == "patient"
    )


def test_what_cannot_be_run_is_refused(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whether PyTorch is there is another question than whether options fit each other.
    monkeypatch.setattr("calipers.studies.framework.find_spec", lambda name: object())
    assert "monitors" in STUDIES
    with pytest.raises(UsageError, match="--predictions NAME=FILE"):
        run_study("monitors", data=files / "lard.csv")
    with pytest.raises(UsageError, match="belong to a data set"):
        run_study("monitors", ood="airport=LFAA")
    with pytest.raises(UsageError, match="leave out --predictions"):
        run_study("monitors", data=files, predictions={"a": "b"}, train=True)
    with pytest.raises(UsageError, match="takes no runs"):
        run_study("monitors", runs=3)
    with pytest.raises(UsageError, match="takes no ood"):
        run_study("rodeo", ood="airport=LFAA")


def test_the_same_seed_gives_the_same_trial() -> None:
    one, other = (
        network_trial(made_detector(80), None, 100, 2).evaluation.to_json() for _ in range(2)
    )
    assert one == other


def test_a_model_without_failures_leaves_most_claims_untested(tmp_path: Path) -> None:
    write_runways(tmp_path, runway_cohort(80, 4), pictures=False)
    cohort = read(tmp_path / "lard.csv")
    boxes = cohort.references.boxes.tolist()
    rows = [
        ",".join(map(str, (name, "runway", *box, 0.9)))
        for name, box in zip(cohort.images.ids, boxes)
    ]
    (tmp_path / "perfect.csv").write_text(
        "image,class,x0,y0,x1,y1,score\n" + "\n".join(rows) + "\n"
    )
    predictions = {"perfect": str(tmp_path / "perfect.csv")}
    result = run_study(
        "monitors",
        data=tmp_path / "lard.csv",
        predictions=predictions,
        ood="weather=fog",
        quick=True,
    )
    assert all(
        result.claim(name).verdict == "not tested"
        for name in [*NEEDS_OOD, "risk-falls-with-rejection"]
    )
    assert result.claim("equality-asks-too-much").verdict == "did not hold"
    assert "figure-5" not in {figure.name for figure in result.figures}
    assert study_page(result)


def test_the_docs_quote_what_the_page_says(run: Run) -> None:
    assert unsupported(run.result.as_dict(), quick_passages("monitors")) == []
