"""Rows per group: the same as evaluating the group alone; sizes, bins, classes, summaries,
refusals.
"""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.evaluation.groups import spread_of_values
from calipers.show.svg.draw import svg
from random_cohorts import random_cohort


def quick(preset: str, **changes) -> cal.Protocol:
    return replace(cal.Protocol.load(preset), **{"replicates": 130, **changes})


def said(rows) -> list[tuple]:
    """What rows say apart from their group, as text: NaN equals NaN."""
    return [(row.model, row.metric, row.label, repr(row.estimate)) for row in rows]


@pytest.fixture(scope="module")
def cohort() -> cal.Cohort:
    made = random_cohort(60, 3, seed=4, models=2, crowd_share=0.05)
    age = np.where(np.arange(60) % 10 == 0, np.nan, np.arange(60) * 1.5)
    return made.with_groups({"age": age, "device": np.array(list("xyz"))[np.arange(60) % 3]})


@pytest.mark.parametrize("preset", ["overview", "coco"])
@pytest.mark.parametrize("cluster", ["patient", "image", ("centre", "patient")])
def test_rows_of_a_group_are_those_of_its_images_alone(
    cohort: cal.Cohort, preset: str, cluster
) -> None:
    protocol = quick(preset, cluster=cluster)
    found = cal.evaluate(cohort, protocol, by="device,class")
    for device in "xyz":
        part = [row for row in found.rows if row.group == {"device": device}]
        alone = cal.evaluate(cohort.take(cohort.group("device") == device), protocol)
        assert said(part) == said(alone.rows)
        assert part[0].estimate.n_images == 20


def test_strata_inside_a_group(cohort: cal.Cohort) -> None:
    protocol = quick("overview", strata="centre")
    found = cal.evaluate(cohort, protocol, by="device")
    alone = cal.evaluate(cohort.take(cohort.group("device") == "y"), protocol)
    pooled = [row for row in alone.rows if row.label is None]
    assert said(row for row in found.rows if row.group == {"device": "y"}) == said(pooled)


def test_crossed_columns(cohort: cal.Cohort) -> None:
    found = cal.evaluate(cohort, quick("overview"), by="centre,device").rows
    groups = {(row.group["centre"], row.group["device"]) for row in found if row.group}
    there = set(zip(cohort.group("centre").tolist(), cohort.group("device").tolist()))
    assert groups == there
    chosen = (cohort.group("centre") == "C2") & (cohort.group("device") == "x")
    alone = cal.evaluate(cohort.take(chosen), quick("overview")).rows
    part = [row for row in found if row.group == {"centre": "C2", "device": "x"}]
    assert said(part) == said(row for row in alone if row.label is None)


def test_rows_of_groups_follow_the_others_and_method_and_argument_agree(cohort: cal.Cohort) -> None:
    plain = cal.evaluate(cohort, quick("overview"))
    by_method, by_argument = (
        plain.by("centre", "device"),
        cal.evaluate(cohort, quick("overview"), by=["centre", "device"]),
    )
    assert said(by_method.rows[: len(plain.rows)]) == said(plain.rows)
    assert said(by_method.rows) == said(by_argument.rows)
    assert str(by_method.groups) == str(by_argument.groups)
    assert by_method.get("F1@0.5", model="model-2", centre="C1").n_images < 60
    keys = [(row.model, row.metric, row.label, str(row.group)) for row in by_method.rows]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("ci", [True, False])
def test_sizes_are_those_of_the_coco_preset(cohort: cal.Cohort, ci: bool) -> None:
    found = cal.evaluate(cohort, quick("coco"), by="size,class", ci=ci)
    for size, letter in (("small", "s"), ("medium", "m"), ("large", "l")):
        for group, own in (("AP", f"AP{letter}"), ("AR100", f"AR{letter}")):
            for model in found.models:
                for label in (None, *cohort.classes):
                    expected = found.get(own, model=model, label=label)
                    ours = found.get(group, model=model, label=label, size=size)
                    assert repr(ours) == repr(expected), (size, group, label)


def test_cuts_of_sizes_are_areas(cohort: cal.Cohort) -> None:
    found = cal.evaluate(cohort, quick("coco"), by=["size=1024:9216", "size=5000"], ci=False)
    assert found.get("AP", model="model-1", size="medium").value == found["model-1", "APm"].value
    counted = cohort.references.keep(~cohort.references.ignore)
    two = [
        row.estimate.n_references
        for row in found.rows
        if row.group and row.metric == "AP75" and row.label is None
    ]
    small, large = (counted.area <= 5000).sum(), (counted.area >= 5000).sum()
    assert small in two
    assert large in two
    four = cal.evaluate(cohort, quick("coco"), by="size=100:1000:10000", ci=False)
    names = {row.group["size"] for row in four.rows if row.group}
    assert names == {"0 to 100", "100 to 1000", "1000 to 10000", "10000 to inf"}


def test_sizes_by_centre_are_sizes_of_the_centre(cohort: cal.Cohort) -> None:
    found = cal.evaluate(cohort, quick("coco"), by="centre,size")
    alone = cal.evaluate(cohort.take(cohort.group("centre") == "C3"), quick("coco"))
    for name, size in (("APs", "small"), ("APm", "medium"), ("APl", "large")):
        ours = found.get("AP", model="model-1", centre="C3", size=size)
        assert repr(ours) == repr(alone["model-1", name])


def test_metrics_of_one_size_only_have_no_sizes(cohort: cal.Cohort) -> None:
    found = cal.evaluate(cohort, quick("coco"), by="size", ci=False)
    assert {row.metric for row in found.rows if row.group} == {
        "AP",
        "AP50",
        "AP75",
        "AR1",
        "AR10",
        "AR100",
    }
    only = cal.Protocol.load("coco").only(["APs"])
    with pytest.raises(cal.UsageError, match="no metric of protocol 'coco' looks at all sizes"):
        cal.evaluate(cohort, only, by="size", ci=False)


def test_bins_are_closed_below_and_nobody_is_lost(cohort: cal.Cohort) -> None:
    found = cal.evaluate(cohort, quick("overview"), by="age=30:60", ci=False)
    age = cohort.group("age")
    expected = {
        "below 30": (age < 30).sum(),
        "30 to below 60": ((age >= 30) & (age < 60)).sum(),
        "60 or more": (age >= 60).sum(),
        "unknown": np.isnan(age).sum(),
    }
    counted = {row.group["age"]: row.estimate.n_images for row in found.rows if row.group}
    assert counted == expected
    assert sum(counted.values()) == 60
    text = cohort.with_groups({"age": np.array([f"{a:g}" for a in age])})
    again = cal.evaluate(text, quick("overview"), by="age=30:60", ci=False)
    assert {row.group["age"]: row.estimate.n_images for row in again.rows if row.group} == expected


def test_images_without_a_number_are_a_group_of_their_own(cohort: cal.Cohort) -> None:
    few = cohort.with_groups({"dose": np.where(np.arange(60) < 7, np.nan, np.arange(60) % 2 * 1.0)})
    counted = {
        row.group["dose"]: row.estimate.n_images
        for row in cal.evaluate(few, quick("overview"), by="dose", ci=False).rows
        if row.group
    }
    assert counted == {"0.0": 26, "1.0": 27, "unknown": 7}
    endless = cohort.with_groups({"dose": np.where(np.arange(60) < 7, np.inf, 1.0)})
    bins = cal.evaluate(endless, quick("overview"), by="dose=2", ci=False).rows
    assert {row.group["dose"]: row.estimate.n_images for row in bins if row.group} == {
        "below 2": 53,
        "2 or more": 7,
    }


def test_empty_bins_do_not_exist(cohort: cal.Cohort) -> None:
    found = cal.evaluate(cohort, quick("overview"), by="age=-5:500", ci=False)
    assert {row.group["age"] for row in found.rows if row.group} == {"-5 to below 500", "unknown"}


def test_classes_are_shown_per_group_if_asked_for(cohort: cal.Cohort) -> None:
    without, with_classes = (
        cal.evaluate(cohort, quick("overview"), by=by, ci=False)
        for by in ("centre", "centre,class")
    )
    assert {row.label for row in without.rows if row.group} == {None}
    assert {row.label for row in with_classes.rows if row.group} == {None, *cohort.classes}


def test_class_alone_summarises_the_rows_that_are_there(cohort: cal.Cohort) -> None:
    plain, found = (
        cal.evaluate(cohort, quick("overview"), ci=False),
        cal.evaluate(cohort, quick("overview"), by="class", ci=False),
    )
    assert said(found.rows) == said(plain.rows)
    of_classes = [
        row.estimate.value
        for row in plain.rows
        if row.metric == "AP" and row.label and row.model == plain.models[0]
    ]
    summary = next(
        entry for entry in found.groups if entry.metric == "AP" and entry.model == plain.models[0]
    )
    assert (summary.by, summary.label, summary.n_groups) == ("class", None, len(cohort.classes))
    assert summary.mean == pytest.approx(np.nanmean(of_classes))
    assert summary.sd == pytest.approx(np.nanstd(of_classes, ddof=1))


def test_summaries_are_unweighted_over_the_groups(cohort: cal.Cohort) -> None:
    found = cal.evaluate(cohort, quick("overview"), by="centre,class", ci=False)
    assert len(found.groups) == 2 * len(found.metrics) * 4
    for summary in found.groups:
        chosen = {"model": summary.model, "label": summary.label}
        values = np.array(
            [found.get(summary.metric, centre=c, **chosen).value for c in ("C1", "C2", "C3")]
        )
        defined = values[~np.isnan(values)]
        assert (summary.by, summary.n_groups, summary.n_defined) == (
            "centre,class",
            3,
            len(defined),
        )
        assert summary.mean == pytest.approx(defined.mean(), abs=1e-15)
        assert summary.sd == pytest.approx(np.std(defined, ddof=1), abs=1e-15)
        assert (summary.lowest, summary.highest) == (defined.min(), defined.max())


def test_a_summary_of_one_group_has_no_deviation_and_one_of_none_nothing(
    cohort: cal.Cohort,
) -> None:
    one = cohort.with_groups({"site": np.full(60, "here")})
    summary = cal.evaluate(one, quick("overview"), by="site", ci=False).groups[0]
    assert (summary.n_groups, summary.n_defined) == (1, 1)
    assert math.isnan(summary.sd)
    assert summary.mean == summary.lowest == summary.highest
    nobody = replace(one, references=one.references.keep(np.zeros(len(one.references), bool)))
    empty = cal.evaluate(nobody, quick("coco"), by="site", ci=False).groups[0]
    assert (empty.n_groups, empty.n_defined) == (1, 0)
    assert np.isnan([empty.mean, empty.sd, empty.lowest, empty.highest]).all()
    assert empty.as_dict()["mean"] is None


def test_intervals_of_small_groups_say_why_they_are_missing(cohort: cal.Cohort) -> None:
    found = cal.evaluate(
        cohort.with_groups({"site": np.arange(60) // 3}), quick("overview"), by="site"
    )
    for row in found.rows:
        if row.group:
            e = row.estimate
            assert e.n_images == 3
            assert e.n_units <= 3
            assert math.isnan(e.low)
            assert e.reason in (
                "one_unit",
                "too_few_units",
                "no_references",
                "no_predictions",
                "no_objects",
            )


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("sentre", "by: the images have no column 'sentre'; did you mean 'centre'?"),
        ("centre,sise", "did you mean 'size'?"),
        ("clas", "did you mean 'class'?"),
        ("", "the images have no column ''"),
        ("centre,centre", "'centre' is named twice"),
        ("age=", "cuts are numbers with colons, such as age=40:60"),
        ("age=40:x", "cuts are numbers with colons"),
        ("age=60:40", "cuts ascend and are finite"),
        ("age=40:40", "cuts ascend and are finite"),
        ("age=nan", "cuts ascend and are finite"),
        ("age=inf", "cuts ascend and are finite"),
        ("centre=1:2", "bins need numbers, but the column has 'C"),
        ("size=0:100", "areas are cut above 0"),
        ("size=-5", "areas are cut above 0"),
        ("class=3", "the images have no column 'class'"),
    ],
)
def test_what_cannot_be_grouped_is_told(cohort: cal.Cohort, by: str, words: str) -> None:
    with pytest.raises(cal.UsageError) as caught:
        cal.evaluate(cohort, quick("overview"), by=by, ci=False)
    assert words in str(caught.value)


def test_too_many_groups_are_refused_with_a_way_out() -> None:
    cohort = random_cohort(501, 1, seed=1).with_groups({"weight": np.arange(501)})
    with pytest.raises(
        cal.UsageError, match="more than 500 groups; bin a numeric column with weight=40:60"
    ):
        cal.evaluate(cohort, quick("voc2007"), by="weight", ci=False)
    assert len(cal.evaluate(cohort, quick("voc2007"), by="weight=250", ci=False).groups) == 3


def test_too_many_groups_are_refused_before_any_is_made() -> None:
    n = 20_000
    cohort = random_cohort(1, 1, seed=1).take(np.zeros(n, np.int64))
    names = np.array([f"p{k}" for k in range(n)])
    cohort = cohort.with_groups({"a": names, "b": names})
    tracemalloc.start()
    with pytest.raises(cal.UsageError, match="more than 500 groups"):
        cal.evaluate(cohort, quick("voc2007"), by="a,b", ci=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # a flag for every image and value takes 400 MB


# Table 2 of Tran et al. (2023): AP@0.5 of small, medium and large polyps in six centres. The mean
# of the small ones is .12; the paper prints .14.
POLYPS = {
    "small": ([0.24, 0.00, 0.16, 0.14, 0.19, 0.00], 0.12, 0.10),
    "medium": ([0.48, 0.46, 0.64, 0.33, 0.39, 0.52], 0.47, 0.11),
    "large": ([0.73, 0.81, 0.91, 0.59, 0.59, 0.89], 0.75, 0.14),
}


@pytest.mark.parametrize("size", POLYPS)
def test_means_over_centres_are_those_of_the_paper(size: str) -> None:
    values, mean, sd = POLYPS[size]
    answer = spread_of_values(values)
    assert answer[0] == 6
    assert round(answer[1], 2) == mean
    assert round(answer[2], 2) == sd
    assert answer[3:] == (min(values), max(values))
    assert spread_of_values([*values, math.nan]) == answer


def test_a_summary_is_that_of_the_rows(cohort: cal.Cohort) -> None:
    ev = cal.evaluate(cohort, quick("overview"), by=["centre,size", "device"], ci=False)
    summary = ev.summary("centre")
    centres = sorted(set(cohort.group("centre").tolist()))
    assert [group.name for group in summary.groups] == centres
    for group in summary.groups:
        part = cohort.take(cohort.group("centre") == group.name)
        true = ~(part.references.ignore | part.references.crowd)
        assert group.n_images == part.n_images
        assert group.n_positive == len(set(part.references.image[true].tolist()))
    assert summary.n_images == cohort.n_images
    assert {tuple(a.group.items()) for a in summary.averages} == {
        (("size", "small"),),
        (("size", "medium"),),
        (("size", "large"),),
    }
    for average in summary.averages:
        values = []
        for centre in centres:
            place = {"centre": centre, **average.group}
            values.append(ev.get(average.metric, model=average.model, **place).value)
        np.testing.assert_array_equal(average.values, values)
        defined = [value for value in values if value == value]
        assert average.n_defined == len(defined)
        if len(defined) > 1:
            assert average.mean == pytest.approx(np.mean(defined))
            assert average.sd == pytest.approx(np.std(defined, ddof=1))
    other = ev.summary("device")
    assert other.by == "device"
    assert all(average.group == {} for average in other.averages)
    assert [table.title for table in other.tables()] == [f"{m} per device" for m in ev.models]


def test_a_summary_needs_a_grouping_with_its_column(cohort: cal.Cohort) -> None:
    ev = cal.evaluate(cohort, quick("overview"), by="device,size", ci=False)
    with pytest.raises(cal.UsageError, match="there are: device,size"):
        ev.summary("centre")
    with pytest.raises(cal.UsageError, match="not over size"):
        ev.summary("size")


def test_the_box_figure_shows_the_values_of_the_groups(cohort: cal.Cohort) -> None:
    ev = cal.evaluate(cohort, quick("overview"), by=["centre,size", "device"], ci=False)
    crossed = ev.figure("groups-box")
    metric = ev.headline[0]
    assert len(crossed.names) == 3 * len(ev.models)
    averages = [a for a in ev.summary("centre").averages if a.metric == metric]
    samples = [sample.tolist() for sample in crossed.samples]
    assert sorted(map(repr, samples)) == sorted(repr(list(a.values)) for a in averages)
    plain = ev.figure("groups-box", by="device", metrics=["AP@0.5"])
    assert plain.points == (("x", "y", "z"),) * len(ev.models)
    assert len(plain.table().rows) == 3 * len(ev.models)
    assert svg(plain).count("<title>z: ") == len(ev.models)
    assert "whiskers the range" in plain.note
