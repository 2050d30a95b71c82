"""Protocols: presets, round trips, and errors that say where and what was meant."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError, UsageError
from calipers.evaluation.protocol import Protocol, presets
from calipers.evaluation.protocol_schema import NO_LIMIT

HEAD = 'schema = "calipers.protocol/1"\nname = "mine"\nsource = "me"\n'
AP = '[[metric]]\nname = "AP"\nkind = "average-precision"\n'


def protocol(text: str) -> Protocol:
    return Protocol.from_toml(HEAD + text)


@pytest.mark.parametrize("name", presets())
def test_every_preset_loads_states_its_source_and_survives_a_round_trip(name: str) -> None:
    found = Protocol.load(name)
    assert found.name == name
    assert len(found.source) > 20
    assert found.headline
    assert Protocol.from_toml(found.to_toml()) == found
    json.dumps(found.as_dict(), allow_nan=False)


def test_the_presets_of_this_version_are_there() -> None:
    assert {
        "coco",
        "voc2007",
        "voc2012",
        "rodeo",
        "chestxray8",
        "luna16",
        "picai",
        "polyp-clinical",
    } <= set(presets())


@pytest.mark.parametrize(
    ("preset", "names"),
    [
        ("coco", "AP AP50 AP75 APs APm APl AR1 AR10 AR100 ARs ARm ARl"),
        ("voc2007", "AP@0.5 sensitivity@0.5 PPV@0.5"),
    ],
)
def test_metric_names_are_contract(preset: str, names: str) -> None:
    assert [plan.name for plan in Protocol.load(preset).metrics] == names.split()


def test_rodeo_names_are_contract() -> None:
    names = [plan.name for plan in Protocol.load("rodeo").metrics]
    assert names[:5] == ["RoDeO", "RoDeO/loc", "RoDeO/shape", "RoDeO/cls", "mAP@0.1:0.7"]


def test_a_protocol_with_everything_survives_a_round_trip() -> None:
    found = protocol(
        """
[matching]
criterion = "giou"
assignment = "optimal"
thresholds = [-0.5, 0, 0.25]
classes = "ignore"
max_dets = inf
score_cut = 0.125
ties = "block"
strict = true
duplicates = "forgiven"
[sizes]
from = "box"
tiny = [0, 12.5]
rest = [12.5, inf]
rescale_to = [1920, 1080]
[[metric]]
name = "AP@giou:-0.5:0.5"
kind = "average-precision"
interpolation = "tie-aware"
thresholds = { from = -0.5, to = 0.5, step = 0.25 }
max_dets = 7
size = "tiny"
[[metric]]
name = "FROC"
kind = "froc"
rates = [0.125, 2]
[statistics]
level = 0.9
replicates = 50
cluster = ["centre", "patient"]
interval = "percentile"
seed = 3
[report]
headline = ["FROC"]
"""
    )
    assert Protocol.from_toml(found.to_toml()) == found
    assert found.matching.max_dets == NO_LIMIT
    assert found.cluster == ("centre", "patient")
    assert found.rescale_to == (1920, 1080)
    assert found.as_dict()["sizes"]["rest"] == [12.5, None]


def test_names_with_quotes_and_accents_survive() -> None:
    found = Protocol.from_toml(
        'schema = "calipers.protocol/1"\nname = "a \\"b\\" \\\\ c"\nsource = "Müller\\n2020"\n' + AP
    )
    assert Protocol.from_toml(found.to_toml()) == found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("0.5", (0.5,)),
        ("1", (1.0,)),
        ("[0.25, 0.5]", (0.25, 0.5)),
        ("{ from = 0.5, to = 0.95, step = 0.05 }", tuple(np.linspace(0.5, 0.95, 10))),
        ("{ from = 0.1, to = 0.7, step = 0.1 }", tuple(np.linspace(0.1, 0.7, 7))),
        ("{ from = 0.3, to = 0.3, step = 1 }", (0.3,)),
    ],
)
def test_thresholds_are_a_number_a_list_or_a_linspace(
    given: str, expected: tuple[float, ...]
) -> None:
    assert protocol(f"[matching]\nthresholds = {given}\n{AP}").thresholds == expected


def test_defaults() -> None:
    found = protocol(AP)
    assert (found.matching.criterion, found.matching.assignment) == ("box-iou", "by-score")
    assert (found.thresholds, found.ties, found.level, found.replicates) == (
        (0.5,),
        "block",
        0.95,
        2000,
    )
    assert (found.cluster, found.interval, found.seed) == ("auto", "bootse-t-logit", 0)


@pytest.mark.parametrize(
    ("text", "rule", "hint"),
    [
        ("[machting]\n" + AP, "unknown-key", "'matching'"),
        ("[matching]\nthreshold = 0.5\n" + AP, "unknown-key", "'thresholds'"),
        ("[statistics]\nreplicate = 5\n" + AP, "unknown-key", "'replicates'"),
        ("[report]\nheadlines = []\n" + AP, "unknown-key", "'headline'"),
        (
            "[matching]\nthresholds = { from = 0, until = 1, step = 1 }\n" + AP,
            "unknown-key",
            "from, to, step",
        ),
        ('[matching]\nclasses = "withn"\n' + AP, "choice", "'within'"),
        ('[matching]\nties = "blocks"\n' + AP, "choice", "'block'"),
        ('[sizes]\nfrom = "boxes"\n' + AP, "choice", "'box'"),
        ("[sizes]\nsmall = [0, 9]\n" + AP + 'size = "smal"\n', "unknown-size", "'small'"),
        (AP + 'size = "small"\n', "unknown-size", "[sizes]"),
        (AP + '[report]\nheadline = ["AP5"]\n', "unknown-metric", "'AP'"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest_one(text: str, rule: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        protocol(text)
    assert caught.value.rule == rule
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '[matching]\ncriterion = "box-iuo"\n' + AP,
            "no criterion 'box-iuo'; did you mean 'box-iou'?",
        ),
        (
            '[matching]\nassignment = "by_score"\n' + AP,
            "no assignment 'by_score'; did you mean 'by-score'?",
        ),
        (AP.replace("average-precision", "average-precison"), "did you mean 'average-precision'?"),
        (AP + 'interpolation = "coco"\n', "did you mean 'coco101'?"),
        (AP + "interpolaton = 1\n", "did you mean 'interpolation'?"),
        (AP + 'criterion = "gioo"\n', "did you mean 'giou'?"),
    ],
)
def test_unknown_kinds_and_options_are_usage_errors_with_the_nearest_name(
    text: str, words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        protocol(text)
    assert words in str(caught.value)


RODEO = '[[metric]]\nname = "RoDeO"\nkind = "rodeo"\n'


@pytest.mark.parametrize(
    "option",
    [
        "thresholds = 0.5",
        'criterion = "giou"',
        'assignment = "optimal"',
        "max_dets = 3",
        'size = "small"',
        'ties = "block"',
        "strict = true",
        'duplicates = "forgiven"',
        'classes = "ignore"',
    ],
)
def test_an_option_that_rodeo_would_ignore_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=f"'{option.split()[0]}' does not apply, only score_cut"):
        protocol("[sizes]\nsmall = [0, 9]\n" + RODEO + option + "\n")
    assert (
        protocol("[matching]\nscore_cut = 0.2\n" + RODEO + "score_cut = 0.5\n")
        .metrics[0]
        .options["score_cut"]
        == 0.5
    )


@pytest.mark.parametrize("metric", [AP, RODEO])
def test_an_internal_option_cannot_be_given(metric: str) -> None:
    with pytest.raises(UsageError, match="has no option 'match_dets'; did you mean 'max_dets'"):
        protocol(metric + "match_dets = 3\n")


@pytest.mark.parametrize(
    ("text", "rule", "place"),
    [
        ("[matching]\nmax_dets = 0\n" + AP, "range", "matching.max_dets"),
        ("[matching]\nmax_dets = 1.5\n" + AP, "range", "matching.max_dets"),
        ("[matching]\nmax_dets = -inf\n" + AP, "range", "matching.max_dets"),
        ("[matching]\nstrict = 1\n" + AP, "type", "matching.strict"),
        ("[matching]\nscore_cut = true\n" + AP, "type", "matching.score_cut"),
        ("[matching]\nscore_cut = nan\n" + AP, "non-finite", "matching.score_cut"),
        ('[matching]\nthresholds = ["a"]\n' + AP, "thresholds", "matching.thresholds"),
        ("[matching]\nthresholds = []\n" + AP, "thresholds", "matching.thresholds"),
        ("[matching]\nthresholds = [0.5, 0.5]\n" + AP, "thresholds", "matching.thresholds"),
        (
            "[matching]\nthresholds = { from = 1, to = 0, step = 1 }\n" + AP,
            "thresholds",
            "matching.thresholds",
        ),
        (
            "[matching]\nthresholds = { from = 0, to = 1, step = 5 }\n" + AP,
            "thresholds",
            "matching.thresholds",
        ),
        (
            "[matching]\nthresholds = { from = 0, to = 1, step = 0 }\n" + AP,
            "thresholds",
            "matching.thresholds",
        ),
        (
            "[matching]\nthresholds = { from = 0, to = 1 }\n" + AP,
            "thresholds",
            "matching.thresholds",
        ),
        (
            "[matching]\nthresholds = { from = 0, to = 1, step = 1e-9 }\n" + AP,
            "thresholds",
            "matching.thresholds",
        ),
        (
            "[matching]\nthresholds = { from = inf, to = inf, step = 1 }\n" + AP,
            "thresholds",
            "matching.thresholds",
        ),
        (
            "[matching]\nthresholds = { from = 0, to = 1, step = inf }\n" + AP,
            "thresholds",
            "matching.thresholds",
        ),
        ("[matching]\nthresholds = -0.1\n" + AP, "thresholds", "metric[0]"),
        (
            '[matching]\ncriterion = "centre-distance"\nthresholds = -3.0\n' + AP,
            "thresholds",
            "metric[0]",
        ),
        ("[sizes]\nsmall = [5, 1]\n" + AP, "size-range", "sizes.small"),
        ("[sizes]\nsmall = [0]\n" + AP, "size-range", "sizes.small"),
        ("[sizes]\nrescale_to = [0, 10]\n" + AP, "size-range", "sizes.rescale_to"),
        ("[sizes]\nrescale_to = [10, inf]\n" + AP, "size-range", "sizes.rescale_to"),
        ("[statistics]\nlevel = 95\n" + AP, "range", "statistics.level"),
        ("[statistics]\nseed = -1\n" + AP, "range", "statistics.seed"),
        ("[statistics]\nreplicates = 1.5\n" + AP, "type", "statistics.replicates"),
        ("[statistics]\ncluster = []\n" + AP, "type", "statistics.cluster"),
        ("[statistics]\ncluster = [1]\n" + AP, "type", "statistics.cluster[0]"),
        ("matching = 3\n" + AP, "type", "matching"),
        ("metric = [1]\n", "type", "metric[0]"),
        ("metric = 1\n", "type", "metric"),
        ('[[metric]]\nname = "AP"\n', "missing-key", "metric[0]"),
        ('[[metric]]\nkind = "froc"\n', "missing-key", "metric[0]"),
        (AP + "max_dets = 0\n", "range", "metric[0].max_dets"),
        (AP + "size = [1]\n", "type", "metric[0].size"),
        (AP + AP, "dup-metric", "metric[1]"),
        ("", "no-metric", ""),
        ("nonsense", "toml-syntax", ""),
    ],
)
def test_wrong_values_are_refused_with_their_place(text: str, rule: str, place: str) -> None:
    with pytest.raises(InputError) as caught:
        protocol(text)
    assert (caught.value.rule, caught.value.location) == (rule, place)


@pytest.mark.parametrize(
    "text", [AP, 'schema = "calipers.protocol/2"\n' + AP, 'schema = 1\nname = "a"\n' + AP]
)
def test_the_schema_must_be_named(text: str) -> None:
    with pytest.raises(InputError) as caught:
        Protocol.from_toml(text)
    assert caught.value.rule == "schema"


@pytest.mark.parametrize("key", ["name", "source"])
def test_name_and_source_are_needed(key: str) -> None:
    text = "\n".join(line for line in HEAD.splitlines() if not line.startswith(key))
    with pytest.raises(InputError, match=key):
        Protocol.from_toml(text + "\n" + AP)


HONEST = {
    "AP": "",
    "mAP@0.1:0.7": "thresholds = { from = 0.1, to = 0.7, step = 0.1 }",
    "AP@iop:0.25": 'criterion = "iop"\nthresholds = 0.25',
    "AP@point-in-box": 'criterion = "point-in-box"',
    "AP@giou:-0.5": 'criterion = "giou"\nthresholds = -0.5',
    "AP@1e-05": "thresholds = 1e-5",
    "AP@0.5#0.3": "thresholds = 0.5\nscore_cut = 0.3",
    "AP@centre": 'criterion = "point-in-hull"',
}


@pytest.mark.parametrize("name", HONEST)
def test_names_of_the_grammar(name: str) -> None:
    assert protocol(AP.replace('"AP"', f'"{name}"') + f"\n{HONEST[name]}\n").metrics[0].name == name


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("AP@0.9", "thresholds = 0.2"),
        ("AP@0.5", "thresholds = [0.5, 0.6]"),
        ("mAP@0.1:0.7", "thresholds = [0.1, 0.6]"),
        ("AP@iop:0.5", "thresholds = 0.5"),
        ("AP@0.5#0.3", "thresholds = 0.5"),
        ("AP@centre", "thresholds = 0.5"),
        ("AP@centre", 'criterion = "point-in-box"'),
    ],
)
def test_a_name_cannot_contradict_its_options(name: str, options: str) -> None:
    with pytest.raises(InputError) as caught:
        protocol(AP.replace('"AP"', f'"{name}"') + f"\n{options}\n")
    assert (caught.value.rule, caught.value.location) == ("metric-claim", "metric[0]")


def test_a_changed_threshold_does_not_hide_behind_a_preset_name() -> None:
    text = 'schema = "calipers.protocol/1"\nextends = "voc2012"\n[matching]\nthresholds = 0.95\n'
    with pytest.raises(InputError, match=r"AP@0\.5"):
        Protocol.from_toml(text)


def test_an_overlap_above_one_is_refused() -> None:
    with pytest.raises(InputError, match=r"0\.5 for 50 %"):
        protocol(AP + "\nthresholds = 50\n")
    assert protocol(AP + '\ncriterion = "centre-distance"\nthresholds = 50\n').resolved()[
        0
    ].options["thresholds"] == (50.0,)


@pytest.mark.parametrize(
    "name", ["", "@0.5", "AP@", "AP@..", "AP@0.5.5", "AP#", "AP//x", "AP\\n", "AP@0.5@0.6"]
)
def test_names_outside_the_grammar(name: str) -> None:
    with pytest.raises(InputError) as caught:
        protocol(AP.replace('"AP"', f'"{name}"'))
    assert caught.value.rule == "metric-name"


def extending(text: str) -> Protocol:
    return Protocol.from_toml('schema = "calipers.protocol/1"\nextends = "coco"\n' + text)


def test_extends_replaces_key_by_key() -> None:
    coco, found = (
        Protocol.load("coco"),
        extending("[matching]\nmax_dets = 5\n[sizes]\nsmall = [0, 100]\n"),
    )
    assert found.matching.max_dets == 5
    assert found.thresholds == coco.thresholds
    assert found.sizes == {**coco.sizes, "small": (0.0, 100.0)}
    assert found.metrics == coco.metrics
    assert found.headline == coco.headline


def test_extends_replaces_the_list_of_metrics_and_with_it_the_headline() -> None:
    found = extending('name = "mine"\nsource = "me"\n[[metric]]\nname = "F1"\nkind = "f-beta"\n')
    assert [plan.name for plan in found.metrics] == ["F1"]
    assert found.headline == ()
    assert extending(AP + '[report]\nheadline = ["AP"]\n').headline == ("AP",)


CHANGE = "[matching]\nmax_dets = 5\n"


@pytest.mark.parametrize(
    ("text", "name", "changed"),
    [
        ("", "coco", False),
        ("[matching]\nmax_dets = 100\n", "coco", False),
        ('name = "mine"\n', "mine", False),
        (CHANGE, "coco, changed", True),
        ("[statistics]\nseed = 7\n", "coco, changed", True),
        ('name = "mine"\n' + CHANGE, "mine", True),
    ],
)
def test_a_changed_preset_does_not_speak_in_the_name_of_the_preset(
    text: str, name: str, changed: bool
) -> None:
    found, source = extending(text), Protocol.load("coco").source
    assert found.name == name
    assert found.source == (f"{source}; with changes" if changed else source)
    assert extending('source = "me"\n' + text).source == "me"
    assert Protocol.from_toml(found.to_toml()) == found


@pytest.mark.parametrize("base", ['"cocoa"', "3", '["coco"]'])
def test_extends_names_a_preset(base: str) -> None:
    with pytest.raises(InputError) as caught:
        Protocol.from_toml(f'schema = "calipers.protocol/1"\nextends = {base}\n')
    assert caught.value.rule == "unknown-preset"


def test_load_takes_a_preset_a_path_or_a_protocol(tmp_path: Path) -> None:
    coco = Protocol.load("coco")
    assert Protocol.load(coco) is coco
    file = tmp_path / "mine.toml"
    file.write_text(coco.to_toml(), encoding="utf-8")
    assert Protocol.load(file) == Protocol.load(str(file)) == coco


def test_load_of_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'coco'"):
        Protocol.load("cocoo")
    with pytest.raises(InputError) as caught:
        Protocol.load(tmp_path / "none.toml")
    assert caught.value.rule == "not-found"
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(InputError):
        Protocol.load(tmp_path / "latin.toml")


def test_only_keeps_some_metrics() -> None:
    few = Protocol.load("coco").only(["AR1", "AP50"])
    assert [plan.name for plan in few.metrics] == ["AP50", "AR1"]
    assert few.headline == ("AP50",)
    with pytest.raises(UsageError, match="did you mean 'AR100'"):
        Protocol.load("coco").only(["AR1000"])


def test_metrics_that_share_their_evidence_are_compiled_together() -> None:
    compiled = Protocol.load("coco").compile()
    assert [len(metric.facts.names) for metric in compiled] == [6, 6]
    assert compiled[0].recipe.key == compiled[1].recipe.key


def test_a_limit_of_one_metric_does_not_limit_another() -> None:
    found = protocol(
        "[matching]\nmax_dets = 5\n" + AP + "max_dets = inf\n" + AP.replace('"AP"', '"AP5"')
    )
    views = [plan.options["match_dets"] for plan in found.resolved()]
    assert views == [NO_LIMIT, NO_LIMIT]
    assert [plan.options["max_dets"] for plan in found.resolved()] == [NO_LIMIT, 5]


def test_json_has_null_where_there_is_no_limit() -> None:
    document = Protocol.load("rodeo").as_dict()
    assert document["matching"]["max_dets"] is None
    assert document["matching"]["size"] == [0.0, None]
    assert Protocol.load("coco").as_dict()["matching"]["max_dets"] == 100


def test_a_limit_may_be_written_as_a_float() -> None:
    found = protocol("[matching]\nmax_dets = 5.0\n" + AP + "max_dets = 3.0\n")
    assert (
        repr([(plan.options["max_dets"], plan.options["match_dets"]) for plan in found.resolved()])
        == "[(3, 5)]"
    )


def test_the_preset_of_polyps_has_the_criteria_of_the_papers_table_3() -> None:
    names = {plan.name for plan in Protocol.load("polyp-clinical").metrics}
    for criterion in ("box-iou:0.5", "point-in-box", "point-in-mask", "point-in-hull"):
        for metric in ("sensitivity", "PPV", "F1", "F2", "AP"):
            assert f"{metric}@{criterion}" in names


@pytest.mark.parametrize("preset", ["endovis2015", "giana2017", "giana2018"])
def test_the_first_polyp_challenges_count_points_in_masks_and_every_polyp_once(preset: str) -> None:
    mask = np.zeros((2, 20, 20), np.uint8)
    mask[0, 2:8, 2:8] = 1
    mask[1, 12:18, 12:18] = 1
    references = [{"masks": mask, "labels": [0, 0], "width": 20, "height": 20}]
    # Two centres in the first polyp, one beside both; the second polyp is missed.
    boxes = [[2.0, 2, 8, 8], [3, 3, 7, 7], [8, 8, 12, 12]]
    predictions = [{"boxes": boxes, "labels": [0, 0, 0], "scores": [0.9, 0.8, 0.7]}]
    cohort = cal.Cohort.from_arrays(references, predictions, classes=("polyp",))
    evaluation = cal.evaluate(cohort, preset, ci=False)
    assert evaluation["sensitivity@point-in-mask"].value == 0.5
    assert evaluation["PPV@point-in-mask"].value == 0.5
    assert evaluation["F1@point-in-mask"].value == 0.5


@pytest.mark.parametrize("preset", ["endocv2021", "endocv2022"])
def test_the_sizes_of_endocv_are_those_of_the_full_picture(preset: str) -> None:
    """A box of 60 x 60 in a picture of half the sides is 120 x 120 there: medium."""
    box = {"boxes": [[0.0, 0, 60, 60]], "labels": [0], "width": 960, "height": 540}
    predictions = [{"boxes": [[0.0, 0, 60, 60]], "labels": [0], "scores": [0.9]}]
    evaluation = cal.evaluate(
        cal.Cohort.from_arrays([box], predictions, classes=("polyp",)), preset, ci=False
    )
    assert evaluation["APm@0.5:0.95"].value == pytest.approx(1.0)
    assert np.isnan(evaluation["APs@0.5:0.95"].value)
    assert evaluation["AP@0.5"].value == pytest.approx(1.0)


def test_more_metrics_or_thresholds_than_anyone_reads_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = '[[metric]]\nname = "AP@0.{k:04}"\nkind = "average-precision"\nthresholds = 0.{k:04}\n'
    with pytest.raises(InputError, match=r"at most 1,000 metrics, got 1001 \[too-large\]"):
        protocol("".join(entry.format(k=k) for k in range(1, 1002)))
    wide = "thresholds = {from = 0.0, to = 1.0, step = 0.0001}"
    with pytest.raises(InputError, match="at most 20,000 thresholds of all metrics"):
        protocol("".join(f"{AP.replace('AP', f'A{k}')}{wide}\n" for k in "bcd"))
    images = [{"boxes": [[0, 0, 9, 9]], "labels": [0]}]
    predictions = [{**images[0], "scores": [0.5]}]
    cohort = cal.Cohort.from_arrays(images, predictions, classes=("a", "b"))
    monkeypatch.setattr("calipers.evaluation.collect.MOST_RESAMPLED", 1000)
    with pytest.raises(InputError, match="metrics x classes x replicates"):
        cal.evaluate(cohort, "coco")
