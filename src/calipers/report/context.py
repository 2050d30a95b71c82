# SPDX-License-Identifier: Apache-2.0
"""What the sections of the page share, made once: the evaluation, its comparisons, its pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from calipers.errors import UsageError, did_you_mean
from calipers.evaluate import evaluate
from calipers.evaluation import Evaluation
from calipers.metrics.contract import MetricPlan
from calipers.monitors import MonitorEvaluation
from calipers.pictures.album import Album, album
from calipers.plots.forests import headline_of
from calipers.report.monitors_names import bearable_monitors
from calipers.report.naming import bearable
from calipers.report.order import by_value
from calipers.report.redaction import redacted
from calipers.results.comparison import Comparison
from calipers.results.pictures import Slices
from calipers.results.provenance import sha256_of
from calipers.results.ranking import Ranking
from calipers.sensitivity import Multiverse
from calipers.sensitivity import multiverse as multiverse_of
from calipers.stability.objects import object_stability
from calipers.stability.objects_result import ObjectStability

# models of which all pairs are compared; of more, the leader is compared with the others
MOST_PAIRED = 4
ONE_ALARM = "FROC@1"
ALARMS = "FP/image"  # of all predictions, whatever their score
MOST_IMAGES = 6  # of each group, for a single model
FEW_MODELS = 3
REPLICATES = 200  # of the multiverse
MAP = "map-"  # how the keys of maps begin, among pictures
Step = Callable[[str], None]


@dataclass(frozen=True)
class Context:
    """An evaluation and everything else that the page tells of it."""

    evaluation: Evaluation
    at_one: Evaluation | None  # sensitivity at one false alarm per image
    duel: Comparison | None  # its best model against the others
    comparison: Comparison | None  # the headline metrics
    ranking: Ranking | None  # how firmly the order of three models or more stands
    album: Album | None
    command: tuple[str, ...]
    protocol_hash: str
    result_hash: str  # as in run.json; "" if ids are replaced
    hidden: bool  # ids are replaced, pictures left out
    multiverse: Multiverse | None = None  # if it was asked for
    stability: ObjectStability | None = None  # if it was asked for
    monitor: MonitorEvaluation | None = None  # if one was given


def context_of(
    evaluation: Evaluation,
    *,
    images: Path | None = None,
    pictures: bool = True,
    redact: bool = False,
    command: Sequence[str] = (),
    multiverse: bool = False,
    stability: bool = False,
    monitor: MonitorEvaluation | None = None,
    step: Step = lambda name: None,
) -> Context:
    """Work out what the page needs beyond the rows of the evaluation."""
    if redact and images is not None:
        raise UsageError("--redact leaves pictures out, so it cannot be used with --images")
    monitors = None if monitor is None else bearable_monitors(_of_these(monitor, evaluation))
    document = evaluation.protocol.as_dict()
    rows = [] if redact else [row.as_dict() for row in evaluation.rows]
    hashes = _hash(document), "" if redact else _hash({"protocol": document, "rows": rows})
    evaluation = bearable(redacted(evaluation) if redact else evaluation)
    step("comparing models")
    at_one = sensitivity_at_one_alarm(evaluation)
    duel = _comparison_of(at_one, ONE_ALARM) if at_one is not None else None
    comparison = _comparison_of(evaluation, None)
    step("pictures")
    pictures_album = _album(evaluation, images) if pictures and not redact else None
    ranking, command_words = (
        _ranking_of(evaluation) if comparison is not None else None,
        () if redact else tuple(command),
    )
    if multiverse:
        step("multiverse")
    multiverse_result = (
        multiverse_of(evaluation.cohort, replicates=REPLICATES if evaluation.ci else 0)
        if multiverse
        else None
    )
    if stability:
        step("stability")
    objects = stability_of(evaluation) if stability else None
    return Context(
        evaluation,
        at_one,
        duel,
        comparison,
        ranking,
        pictures_album,
        command_words,
        *hashes,
        redact,
        multiverse_result,
        objects,
        monitors,
    )


def stability_of(evaluation: Evaluation) -> ObjectStability:
    """Return what the models find object by object, under the matching and the statistics of the
    protocol.
    """
    protocol, view = evaluation.protocol, evaluation.protocol.matching
    return object_stability(
        evaluation.cohort,
        view.criterion,
        view.threshold,
        cluster=protocol.cluster,
        level=protocol.level,
        replicates=protocol.replicates or REPLICATES,
        seed=protocol.seed,
        ci=evaluation.ci and bool(protocol.replicates),
    )


def _of_these(monitor: MonitorEvaluation, evaluation: Evaluation) -> MonitorEvaluation:
    """Return the monitors if they watch a model of the evaluation on its images."""
    if monitor.scope.model not in evaluation.models:
        suggestion = did_you_mean(monitor.scope.model, evaluation.models)
        raise UsageError(
            f"the monitors watch {monitor.scope.model!r}, which is not evaluated here; {suggestion}"
        )
    unknown_images = set(monitor.scope.images) - set(evaluation.cohort.images.ids)
    if unknown_images:
        raise UsageError(
            f"the monitors watch {len(unknown_images)} images that are not evaluated here, such as {min(unknown_images)!r}; make "
            "their scope with scope_scores of the same cohort"
        )
    return monitor


def slices_of(evaluation: Evaluation, images: Path | None = None) -> Slices | None:
    """Return the pictures of samples that the page shows, to be kept with an evaluation; None if
    there are none.

    Pictures from a folder of ``images`` are not among them: whoever makes the page anew can name it
    again.
    """
    if evaluation.slices is not None or evaluation.load_sample is None:
        return evaluation.slices
    samples = _album(bearable(evaluation), images)
    own_pictures = {
        key: one for key, one in samples.pictures.items() if images is None or key.startswith(MAP)
    }
    return Slices(own_pictures, samples.notes if images is None else ())


def _hash(document: object) -> str:
    """Return the hash of a document; "" if half a surrogate pair is in it, which has no bytes."""
    try:
        return sha256_of(document)
    except UnicodeEncodeError:
        return ""


def _album(evaluation: Evaluation, images: Path | None) -> Album:
    """Return the images: fewer of each kind, and of fewer models, the more models there are."""
    few = len(evaluation.models) <= FEW_MODELS
    number = (
        MOST_IMAGES if len(evaluation.models) == 1 else MOST_IMAGES - 2 if few else MOST_IMAGES - 3
    )
    order = by_value(evaluation)
    return album(
        evaluation, images, models=order, per_group=number, most_models=FEW_MODELS if few else 2
    )


def sensitivity_at_one_alarm(evaluation: Evaluation) -> Evaluation | None:
    """Return the models judged by the references they find at one false alarm per image, and by all
    their alarms.

    None without scores.
    """
    if not all(predictions.scored for predictions in evaluation.cohort.models.values()):
        return None
    protocol = evaluation.protocol
    at = {"thresholds": (protocol.matching.threshold,)}
    plans = (
        MetricPlan(ONE_ALARM, "froc", {"rates": (1.0,), **at}),
        MetricPlan(ALARMS, "false-alarms", at),
    )
    return evaluate(
        evaluation.cohort, replace(protocol, metrics=plans, headline=(ONE_ALARM,)), ci=evaluation.ci
    )


def _comparison_of(evaluation: Evaluation, metric: str | None) -> Comparison | None:
    """Return the comparison of all pairs of few models, of the leader with the others of many; None
    if impossible.
    """
    if len(evaluation.models) < 2 or not evaluation.ci or not evaluation.protocol.replicates:
        return None
    leader = by_value(evaluation)[0]
    first = leader if metric is not None or len(evaluation.models) > MOST_PAIRED else None
    try:
        return evaluation.compare(
            first, metrics=headline_of(evaluation) if metric is None else [metric]
        )
    except (
        UsageError
    ):  # one unit only, or too few replicates: nothing can be compared, and the page goes without
        return None


def _ranking_of(evaluation: Evaluation) -> Ranking | None:
    """Return the ranking by the first headline metric; None for two models, or if one of them has
    no value.
    """
    if len(evaluation.models) < 3:
        return None
    try:
        ranking = evaluation.rank()
    except UsageError:  # a model without a value has no rank
        return None
    return ranking if ranking.reason is None else None
