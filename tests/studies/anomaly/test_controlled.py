"""The controlled experiments give what the closed forms say, and each claim of the paper about them
has its test.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import ndimage

from calipers.studies.anomaly.controlled import (
    CROWD_METRICS,
    CROWDS,
    MODEL,
    TOUCHING,
    ControlledExperiments,
    DiscDesign,
    Response,
    closed_form,
    example,
    grid,
    measure_response,
)
from calipers.studies.anomaly.data import SETTINGS, Setting, disc_mask, peel_disc, place_discs
from calipers.studies.anomaly.experiments import (
    AnomalyRun,
    count_desired_changes,
    desired_change,
)
from calipers.studies.anomaly.measures import (
    F1S,
    METRICS,
    PRINTED,
    RANKING,
    SOFT,
    protocol,
)
from calipers.synthetic.volumes import Disc

DIMENSIONS = ("2D", "3D")
BY_SAMPLE = [name for name in METRICS if name.endswith(("/sample", "/slice"))]


@pytest.fixture
def run(controlled) -> ControlledExperiments:
    return controlled[0]


def response(run: ControlledExperiments, experiment: str, dimensions: str) -> Response:
    return run.responses[experiment, dimensions]


@pytest.mark.parametrize("dimensions", DIMENSIONS)
@pytest.mark.parametrize("experiment", ["c", "d", "e"])
def test_values_are_those_of_the_closed_forms(
    run: ControlledExperiments, experiment: str, dimensions: str
) -> None:
    found, seen = response(run, experiment, dimensions), 0
    for metric in METRICS:
        for x, value in zip(found.x.tolist(), found.values[metric].tolist()):
            law = closed_form(experiment, metric, x, samples=run.samples)
            if law is not None:
                seen += 1
                assert value == pytest.approx(law, abs=2e-6), (metric, x)
    assert seen > 20


@pytest.mark.parametrize("objects", CROWDS)
def test_false_objects_cost_by_the_number_of_true_ones(
    run: ControlledExperiments, objects: int
) -> None:
    found = run.crowds[objects]
    for metric in CROWD_METRICS:
        laws = [closed_form("c", metric, x, objects=objects) for x in found.x.tolist()]
        np.testing.assert_allclose(found.values[metric], laws, atol=2e-6)


def test_the_law_of_false_objects_is_that_of_the_specification() -> None:
    assert closed_form("c", "softIoU", 3.0) == pytest.approx(1 / (1 + 3 / 2))
    assert closed_form("c", "AP/dataset", 3.0) == pytest.approx(4 / 7)
    assert closed_form("d", "F1@0.5", 1.0) == pytest.approx(6 / 7)
    assert closed_form("e", "softIoU", 50.0) == pytest.approx(0.875)
    assert closed_form("e", "AUROC/dataset", 50.0) == pytest.approx(0.875)
    assert closed_form("a", "softIoU", 1.0) is None
    assert closed_form("d", "Dice", 4.0) is None


@pytest.mark.parametrize("dimensions", DIMENSIONS)
def test_a_makes_ap_and_auroc_fall_and_the_soft_iou_rise(
    run: ControlledExperiments, dimensions: str
) -> None:
    found = response(run, "a", dimensions)
    for metric in ("AP/dataset", "AP/sample", "AUROC/dataset", "AUROC/sample"):
        assert (np.diff(found.values[metric]) < -0.02).all(), metric
    for metric in (*SOFT, "IoU/instance"):
        assert found.change(metric) > 0.02, metric
    for metric in ("F1@0.01", "F1@centre"):
        assert (found.values[metric] == 1.0).all(), metric


def test_a_has_the_values_of_the_specification_up_to_how_discs_are_drawn() -> None:
    names = ("AP/dataset", "AUROC/dataset", "softIoU", "F1@0.5", "F1@0.01", "F1@centre")
    design = DiscDesign(Setting((128, 128), large=12.0, small=4.0, equal=8.0))
    values = measure_response("a", design, 4, (0, 1, 2, 3, 4), names=names).values
    stated = {
        "AP/dataset": [0.750, 0.717, 0.689, 0.663, 0.640],
        "AUROC/dataset": [0.862, 0.842, 0.825, 0.809, 0.796],
        "softIoU": [0.839, 0.867, 0.880, 0.886, 0.889],
    }
    for name, expected in stated.items():
        np.testing.assert_allclose(values[name], expected, atol=0.022, err_msg=name)
    for name in ("F1@0.01", "F1@centre"):
        assert (values[name] == 1.0).all()
    assert values["F1@0.5"][0] == 1.0


@pytest.mark.parametrize("dimensions", DIMENSIONS)
def test_with_fixed_references_ap_and_auroc_stay_and_objects_count(
    run: ControlledExperiments, dimensions: str
) -> None:
    found = response(run, "a-fixed", dimensions)
    for metric in (*SOFT, *F1S, "AUPRO", "IoU/instance"):
        assert (np.diff(found.values[metric]) > 0.05).all(), metric
    for metric in ("AP/dataset", "AP/sample", "AUROC/dataset", "AUROC/sample", "Dice"):
        np.testing.assert_allclose(found.values[metric], found.values[metric][0], atol=1e-12)


@pytest.mark.parametrize("setting", SETTINGS, ids=DIMENSIONS)
def test_a_keeps_the_number_of_called_voxels(setting) -> None:
    for experiment in ("a", "a-fixed"):
        called = {example(experiment, setting, float(k)).maps[MODEL].sum() for k in range(5)}
        assert len(called) == 1, experiment


def test_soft_maps_order_voxels_perfectly_at_every_size(run: ControlledExperiments) -> None:
    found = run.soft["b"]
    for metric in ("AP/dataset", "AUROC/dataset", "AUPRO", "Dice"):
        np.testing.assert_allclose(found.values[metric], 1.0, atol=1e-6, err_msg=metric)
    assert np.ptp(found.values["softIoU"]) > 0.3
    assert found.at("F1@0.5", 1.0) == 1.0


@pytest.mark.parametrize("setting", SETTINGS, ids=DIMENSIONS)
def test_a_soft_map_is_one_half_on_the_rim(setting) -> None:
    one = Disc(tuple(n // 2 + 0.5 for n in setting.shape), 6.0)
    values = DiscDesign(setting, soft=True).drawn([one])
    centre = tuple(n // 2 for n in setting.shape)
    assert values[centre] == 1.0
    assert values[(*centre[:-1], centre[-1] + 6)] == pytest.approx(0.5)
    n_lost = int(one.mask(setting.shape).sum()) // 3
    smaller = DiscDesign(setting, soft=True).shrunk(one, n_lost)
    assert smaller is not None
    assert smaller.sum() == pytest.approx(values.sum() - n_lost, rel=0.06)
    for soft in (False, True):
        assert DiscDesign(setting, soft=soft).shrunk(one, 10**6) is None


def test_faint_false_objects_cost_ap_nothing_and_f1_all(run: ControlledExperiments) -> None:
    for sure, faint in zip(run.of("c"), run.of("c-faint")):
        np.testing.assert_allclose(faint.values["AP/dataset"], 1.0, atol=1e-9)
        np.testing.assert_array_equal(faint.values["F1@centre"], sure.values["F1@centre"])
        assert faint.values["softIoU"][-1] > sure.values["softIoU"][-1] + 0.05


def test_the_scan_says_in_how_many_designs_sentences_hold(run: ControlledExperiments) -> None:
    scan = run.scans["a"]
    assert list(scan.choices)[:2] == ["radius found at first", "large objects"]
    share = scan.share("AP falls")
    # one large object that is found at 0.7 of its radius cannot lose twice the voxels
    assert 0 < share.n_total < len(scan.configurations)
    assert 0 < scan.share("the soft IoU rises").n_held < share.n_total
    # which maps have a soft rim decides whether AP sees a wrong size
    peak = "AP/dataset has its peak at the true size"
    assert run.scans["b"].share(peak, maps="0 and 1").outcome is True
    assert run.scans["b"].share(peak, maps="soft").outcome is False
    assert run.scans["d"].share("AP and AUROC by samples do not fall").n_held == 0


@pytest.mark.parametrize("dimensions", DIMENSIONS)
def test_b_has_its_peak_at_the_true_size(run: ControlledExperiments, dimensions: str) -> None:
    found = response(run, "b", dimensions)
    at = int(np.flatnonzero(found.x == 1.0)[0])
    for metric in METRICS:
        assert found.values[metric][at] == pytest.approx(1.0, abs=1e-6)
        if metric not in F1S:
            assert (np.delete(found.values[metric], at) < 1.0 - 1e-3).all(), metric


@pytest.mark.parametrize("metric", ["F1@0.01", "F1@centre"])
@pytest.mark.parametrize("dimensions", DIMENSIONS)
def test_b_leaves_f1_flat_until_objects_touch(
    run: ControlledExperiments, dimensions: str, metric: str
) -> None:
    found = response(run, "b", dimensions)
    assert (found.values[metric][found.x <= TOUCHING] == 1.0).all()
    assert found.values[metric][-1] < 1.0


@pytest.mark.parametrize("experiment", ["d", "d-new"])
@pytest.mark.parametrize("dimensions", DIMENSIONS)
def test_d_takes_from_metrics_by_samples_too(
    run: ControlledExperiments, dimensions: str, experiment: str
) -> None:
    found = response(run, experiment, dimensions)
    for metric in (*SOFT, *F1S, *BY_SAMPLE, "AP/dataset", "Dice"):
        assert found.change(metric) < -0.2, metric


@pytest.mark.parametrize("dimensions", DIMENSIONS)
def test_e_raises_soft_iou_and_f1_only_and_ap_falls(
    run: ControlledExperiments, dimensions: str
) -> None:
    found = response(run, "e", dimensions)
    for metric in METRICS:
        if metric in (*SOFT, *F1S):
            assert found.change(metric) > 0.05, metric
        elif metric == "AP/dataset":
            assert -0.05 < found.change(metric) < -1e-4
        else:
            assert abs(found.change(metric)) < 1e-9, metric


def test_single_cases(run: ControlledExperiments) -> None:
    for name in DIMENSIONS:
        probes = run.probes[name]
        assert probes["all"][PRINTED] == pytest.approx(0.5, abs=1e-6)
        assert probes["all"]["softIoU"] == pytest.approx(1.0, abs=1e-9)
        assert probes["large"]["AP/dataset"] > 2 * probes["small"]["AP/dataset"]
        assert probes["large"]["softIoU"] == pytest.approx(1 / 3, abs=1e-6)
        assert all(math.isnan(probes["empty"][metric]) for metric in (*RANKING, "AUPRO", "Dice"))
        assert probes["empty"]["softIoU"] == probes["empty"]["F1@0.5"] == 1.0


def test_what_is_wanted_of_a_metric(run: ControlledExperiments) -> None:
    found = AnomalyRun(run, None, None, 0)  # type: ignore[arg-type]  # the benchmark plays no part
    assert [
        count_desired_changes(found, name)
        for name in ("softIoU", "F1@centre", "AP/dataset", "AUPRO")
    ] == [
        5,
        3,
        3,
        4,
    ]
    assert desired_change(response(run, "c", "2D"), "AP/dataset") == pytest.approx(0.5, abs=1e-9)
    assert desired_change(response(run, "d", "2D"), "softIoU") == pytest.approx(0.5, abs=1e-5)


def test_the_same_seed_gives_the_same_bits_and_another_one_does_not() -> None:
    one, same, other = (example("b", SETTINGS[0], 1.2, seed) for seed in (1, 1, 2))
    assert (one.labels == same.labels).all()
    assert (one.maps[MODEL] == same.maps[MODEL]).all()
    assert (one.labels != other.labels).any()


def test_progress_reaches_its_total(controlled) -> None:
    progress = [step[1:] for step in controlled[1].steps]
    assert sorted(progress) == progress
    assert progress[-1][0] == progress[-1][1]


@pytest.mark.parametrize("setting", SETTINGS, ids=DIMENSIONS)
@pytest.mark.parametrize("seed", range(5))
def test_placed_objects_do_not_touch_and_are_whole(setting, seed: int) -> None:
    discs = place_discs(setting.shape, [setting.large] * 2 + [setting.small] * 4, seed)
    _, n = ndimage.label(disc_mask(discs, setting.shape), np.ones((3,) * len(setting.shape)))
    assert n == 6
    sizes = [int(one.mask(setting.shape).sum()) for one in discs]
    assert len(set(sizes)) == 2


def test_peeling_takes_the_outermost_voxels() -> None:
    one = Disc((8.5, 8.5), 5.0)
    whole = one.mask((17, 17))
    left = peel_disc(one, (17, 17), 20)
    assert left.sum() == whole.sum() - 20
    assert not (left & ~whole).any()
    y, x = np.indices(whole.shape) + 0.5
    away = np.hypot(x - 8.5, y - 8.5)
    assert away[left].max() <= away[whole & ~left].min()
    assert (peel_disc(one, (17, 17), 0) == whole).all()
    assert not peel_disc(one, (17, 17), int(whole.sum())).any()


def test_grids_of_quick_runs_are_parts_of_the_full_ones_where_claims_look() -> None:
    assert {0.8, 1.0, 1.2, 1.5} <= set(grid("b", quick=True)) & set(grid("b", quick=False))
    assert 4 in grid("c", quick=True)
    assert 2 in grid("d", quick=True)


def test_the_protocol_has_every_metric_once() -> None:
    assert [metric.name for metric in protocol().metrics] == list(METRICS)
