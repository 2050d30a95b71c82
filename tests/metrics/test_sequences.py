"""Metrics of sequences: by hand, against the slow twin, without columns, and their intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.evaluation.tables import metrics_table
from calipers.matching.matches import View
from cases import MODEL, metric_of, values_of
from random_cohorts import random_cohort
from reference import sequences as slow

BOX = [0.0, 0.0, 10.0, 10.0]
ELSEWHERE = [50.0, 50.0, 60.0, 60.0]
FAR = [80.0, 80.0, 90.0, 90.0]


def video(frames: str, name: str, start: int = 0) -> tuple[list[Any], list[Any]]:
    """Return references and predictions: H hit, M missed, F false alarm, X missed and a false
    alarm, - nothing.
    """
    references, predictions = [], []
    for k, letter in enumerate(frames):
        true = [BOX] if letter in "HMX" else []
        said = {"H": [BOX], "F": [ELSEWHERE], "X": [ELSEWHERE]}.get(letter, [])
        shape = {"image_id": f"{name}{k}", "sequence": name, "frame": float(start + k)}
        references.append({"boxes": np.reshape(true, (-1, 4)), "labels": [0] * len(true), **shape})
        predictions.append(
            {
                "boxes": np.reshape(said, (-1, 4)),
                "labels": [0] * len(said),
                "scores": [0.9] * len(said),
                "image_id": f"{name}{k}",
            }
        )
    return references, predictions


def videos(**frames: str) -> cal.Cohort:
    references, predictions = [], []
    for name, letters in frames.items():
        true, said = video(letters, name)
        references += true
        predictions += said
    return cal.Cohort.from_arrays(references, {MODEL: predictions}, classes=("polyp",))


def value(cohort: cal.Cohort, kind: str, **options: Any) -> float:
    return float(values_of(metric_of(kind, {}, {}, **options), cohort)[0, 0])


def test_by_hand() -> None:
    # a: first polyp in frame 1, found in frame 3; b: never found, five frames; c: no polyp.
    cohort = videos(a="-MMHH", b="MMXXM", c="FF-F-")
    assert value(cohort, "detection-latency") == pytest.approx((2 + 5) / 2)
    assert value(cohort, "detection-latency", unit="seconds", fps=10.0) == pytest.approx(0.35)
    assert value(cohort, "detection-latency", min_duration=2) == pytest.approx((3 + 5) / 2)
    assert value(cohort, "detection-latency", min_duration=3) == pytest.approx((4 + 5) / 2)
    assert value(cohort, "detected-sequences") == 0.5
    assert value(cohort, "detected-sequences", min_duration=3) == 0.0
    # a: 2 hits, 2 missed: F1 = 4 / 6; b and c: 0.
    assert value(cohort, "sequence-f-beta") == pytest.approx((4 / 6) / 3)
    # Alarms: b one of two frames, c one of two and one of one; 15 frames at 30 per second.
    minutes = 15 / 30 / 60
    assert value(cohort, "alarms-per-minute", fps=30.0) == pytest.approx(3 / minutes)
    assert value(cohort, "alarms-per-minute", fps=30.0, min_duration=2) == pytest.approx(
        2 / minutes
    )


def test_frames_that_were_not_read_still_take_time() -> None:
    cohort = videos(a="MMHM")
    every_third = cohort.with_groups({"frame": cohort.group("frame").astype(float) * 3})
    assert value(every_third, "detection-latency") == 6.0
    assert value(every_third, "alarms-per-minute", fps=10.0) == 0.0


def test_without_frame_numbers_the_order_is_that_of_the_input() -> None:
    cohort = videos(a="MMH", b="MH")
    groups = {key: column for key, column in cohort.images.groups.items() if key != "frame"}
    plain = replace(cohort, images=replace(cohort.images, groups=groups))
    assert value(plain, "detection-latency") == 1.5
    mixed = plain.take([0, 3, 1, 4, 2])
    assert value(mixed, "detection-latency") == 1.5


@pytest.mark.parametrize("seed", range(4))
def test_the_slow_twin_agrees(seed: int) -> None:
    cohort = random_cohort(30, 1, seed=seed, models=1, crowd_share=0.1)
    random = np.random.default_rng(seed)
    cohort = cohort.with_groups(
        {
            "sequence": random.choice(["a", "b", "c", "d"], 30),
            "frame": random.permutation(60)[:30].astype(float),
        }
    )
    view = View(threshold=0.5)
    frames = slow.frames_of(cohort, MODEL, view)
    for duration in (1, 2):
        answers = {
            "detection-latency": slow.latency(frames, duration),
            "detected-sequences": slow.detected(frames, duration),
        }
        for kind, expected in answers.items():
            assert value(cohort, kind, min_duration=duration) == pytest.approx(expected, abs=1e-12)
        expected = slow.alarms_per_minute(frames, duration, 24.0)
        own = value(cohort, "alarms-per-minute", fps=24.0, min_duration=duration)
        assert own == pytest.approx(expected)
    for beta in (1.0, 2.0):
        expected = slow.mean_f(frames, beta)
        assert value(cohort, "sequence-f-beta", beta=beta) == pytest.approx(expected)


def test_without_the_columns_there_is_no_value_and_a_reason() -> None:
    cohort = videos(a="MH")
    bare = replace(cohort, images=replace(cohort.images, groups={}))
    ev = cal.evaluate(bare.with_groups({}), protocol(), ci=False)
    assert ev["F1/sequence"].reason == "no_sequences"
    assert ev["FP/minute"].reason == "no_sequences"
    known = cal.evaluate(cohort, protocol(), ci=False)
    assert known["F1/sequence"].value == pytest.approx(2 / 3)
    assert known["FP/minute"].reason == "no_frame_rate"
    timed = cal.evaluate(cohort.with_groups({"fps": np.full(2, 25.0)}), protocol(), ci=False)
    assert timed["FP/minute"].value == 0.0


def protocol(**changes: Any) -> cal.Protocol:
    text = """
    schema = "calipers.protocol/1"
    name = "video"
    source = "test"
    [[metric]]
    name = "F1/sequence"
    kind = "sequence-f-beta"
    [[metric]]
    name = "latency"
    kind = "detection-latency"
    [[metric]]
    name = "FP/minute"
    kind = "alarms-per-minute"
    """
    return replace(cal.Protocol.from_toml(text), **changes)


def test_words_in_a_column_of_numbers_are_refused() -> None:
    cohort = videos(a="MH").with_groups({"frame": np.array(["first", "second"])})
    with pytest.raises(cal.UsageError, match="'frame' of the images has words"):
        value(cohort, "detection-latency")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "hours"}, "no unit 'hours'"),
        ({"fps": 0.0}, "fps"),
        ({"min_duration": 0}, "least 1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(cal.CalipersError, match=message):
        metric_of("detection-latency", {}, {}, **options)


def test_intervals_are_resampled_by_sequence_unless_patients_are_known() -> None:
    letters = np.random.default_rng(0).choice(list("HHMF-"), (20, 8))
    cohort = videos(**{f"s{k}": "".join(row) for k, row in enumerate(letters)})
    ev = cal.evaluate(cohort, protocol(replicates=300))
    for metric in ("F1/sequence", "latency"):
        estimate = ev[metric]
        assert (estimate.unit, estimate.n_units) == ("sequence", 20)
        assert estimate.low < estimate.value < estimate.high
    patients = cohort.with_groups({"patient": np.repeat(np.arange(10).astype(str), 16)})
    assert cal.evaluate(patients, protocol(replicates=300))["latency"].unit == "patient"


def test_a_bootstrap_over_sequences_is_that_of_whole_sequences() -> None:
    cohort = videos(a="MMH", b="HF", c="MM", d="FF")
    metric = metric_of("detection-latency")
    draws = {"a": 2, "b": 0, "c": 1, "d": 1}
    weights = np.array([draws[name] for name in cohort.group("sequence").tolist()])
    # a counts twice: (2 + 2 + 2) / 3; d has no reference.
    assert values_of(metric, cohort, weights)[0, 0] == pytest.approx(2.0)


def test_sequences_that_units_tear_apart_are_a_warning() -> None:
    cohort = videos(a="MMH", b="HM")
    by_image = cal.evaluate(cohort, protocol(cluster="image"), ci=False).warnings
    assert any("2 of 2 sequences lie in several images" in warning for warning in by_image)
    assert not any("several" in warning for warning in cal.evaluate(cohort, protocol()).warnings)


def test_the_presets_of_videos_state_latency_and_means_over_sequences() -> None:
    cohort = videos(a="-MMHH", b="MMXXM", c="FF-F-")
    ev = cal.evaluate(cohort, "giana2021", ci=False)
    assert ev["latency@0.5"].value == 3.5
    assert ev["detected/sequence@0.5"].value == 0.5
    notes = metrics_table(ev).notes
    assert "latency@0.5 is in frames." in notes
    assert ev.protocol.remark("latency@0.5") == "frames, lower is better"
    assert ev.protocol.remark("AP@0.5:0.95") == ""
    mask = np.zeros((1, 20, 20), np.uint8)
    mask[0, :10, :10] = 1
    shapes, said = video("MH", "a")
    for record in shapes:
        record.update(masks=mask, width=20, height=20)
        del record["boxes"]
    masked = cal.Cohort.from_arrays(shapes, {MODEL: said}, classes=("polyp",))
    for preset in ("endovis2015", "giana2017", "giana2018"):
        ev = cal.evaluate(masked, preset, ci=False)
        name = "F1/sequence@point-in-mask" if preset == "endovis2015" else "latency@point-in-mask"
        assert ev[name].value == pytest.approx(2 / 3 if preset == "endovis2015" else 1.0)
        assert "ours" in cal.Protocol.load(preset).source
