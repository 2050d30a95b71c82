# SPDX-License-Identifier: Apache-2.0
"""Everything that the page shows, computed once and before it: comparisons, figures, pictures.

`context_of` takes an evaluation and returns a `Context`; `calipers.report.page` calls it, and every
section of the page reads from it. This is the only place of the page that asks for results: writing
a page of a context evaluates, matches and resamples nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from calipers.errors import UsageError, did_you_mean
from calipers.evaluation.compare import compare_together, reader_sentences
from calipers.evaluation.rename import redact_ids, with_display_names
from calipers.evaluation.result import ONE_ALARM, Evaluation
from calipers.pictures.album import Album, album
from calipers.report.contents import MOST_MODELS, MOST_PAIRED, figures_of, worst_objects
from calipers.results.comparison import Comparison, Ranking
from calipers.results.files import Slices, sha256_of
from calipers.show.figures import Figure
from calipers.show.html import figure_block
from calipers.show.table import Table

if TYPE_CHECKING:
    from calipers.monitors.result import MonitorEvaluation
    from calipers.sensitivity.result import Multiverse
    from calipers.stability.objects_result import ObjectStability

MOST_IMAGES = 6  # of each group, for a single model
FEW_MODELS = 3
REPLICATES = 200  # of the multiverse
MAP = "map-"  # how the keys of maps begin, among pictures
Step = Callable[[str], None]
Progress = Callable[[int, int], None]  # (work done, work in all)
StepProgress = Callable[[str, int, int], None]  # and the name of the step before


@dataclass(frozen=True)
class Context:
    """An evaluation and everything else that the page shows about it."""

    evaluation: Evaluation
    at_one: Evaluation | None  # sensitivity at one false alarm per image
    duel: Comparison | None  # its best model against the others
    comparison: Comparison | None  # the headline metrics; one family of tests with those of duel
    ranking: Ranking | None  # how stable the order of three or more models is
    album: Album | None
    command: tuple[str, ...]
    protocol_hash: str
    result_hash: str  # as in run.json; "" if ids are replaced
    hidden: bool  # ids are replaced, pictures left out
    warnings: tuple[str, ...]
    figures: Mapping[str, Figure]  # by their ids in the page
    objects: Table | None  # those that were localised worst
    multiverse: Multiverse | None = None  # only on request
    stability: ObjectStability | None = None  # only on request
    monitor: MonitorEvaluation | None = None  # only on request
    readers: tuple[str, ...] = ()  # models against readers, where every reader is the reference

    def blocks(self, *beginnings: str) -> str:
        """Return the figures whose ids begin so, as HTML; nothing where there is none."""
        blocks = []
        for beginning in beginnings:
            for name, figure in self.figures.items():
                if name.startswith(beginning):
                    blocks.append(figure_block(figure, name))
        return "".join(blocks)


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
    progress: StepProgress | None = None,
) -> Context:
    """Compute what the page needs beyond the rows of the evaluation."""
    if redact and images is not None:
        raise UsageError("--redact leaves pictures out, so it cannot be used with --images")
    monitors = None
    if monitor is not None:
        from calipers.monitors.page import monitors_with_display_names

        monitors = monitors_with_display_names(_of_these(monitor, evaluation))
    # The hashes are those of run.json, so they are taken before any name is shortened or masked.
    protocol_hash, result_hash = _hashes(evaluation, redact=redact)
    evaluation = with_display_names(evaluation)
    cohort = evaluation.cohort
    if redact:
        evaluation = redact_ids(evaluation)

    # Draws follow the names of patients, so whatever draws from a cohort sees their own names; the
    # renamed evaluation keeps its units.
    step("comparing models")
    at_one = evaluation.at_one_alarm
    comparison, duel = _comparisons_of(evaluation, at_one, _of_step("comparing models", progress))

    step("pictures")
    image_album = None
    if pictures and not redact:
        image_album = _album(evaluation, images)
    ranking = None
    if comparison is not None:
        ranking = _ranking_of(evaluation, _of_step("ranking", progress))

    multiverse_result = None
    if multiverse:
        from calipers.sensitivity.multiverse import multiverse as multiverse_of

        step("multiverse")
        replicates = REPLICATES if evaluation.ci else 0
        counter = _of_step("multiverse", progress)
        multiverse_result = multiverse_of(cohort, replicates=replicates, progress=counter)
    objects = None
    if stability:
        step("stability")
        own_names = replace(evaluation, cohort=cohort, bootstrap_units=None)
        objects = stability_of(own_names, _of_step("stability", progress))
        objects = replace(objects, cohort=replace(objects.cohort, images=evaluation.cohort.images))

    step("figures")
    # The page shows who was matched with whom.
    for model in evaluation.leading(MOST_MODELS):
        evaluation.matches(model)
    return Context(
        evaluation,
        at_one,
        duel,
        comparison,
        ranking,
        image_album,
        # A command names files, and names of files can name patients.
        () if redact else tuple(command),
        protocol_hash,
        result_hash,
        redact,
        evaluation.warnings,
        figures_of(evaluation, comparison, ranking, _of_step("figures", progress)),
        worst_objects(evaluation),
        multiverse_result,
        objects,
        monitors,
        tuple(reader_sentences(evaluation)),
    )


def _hashes(evaluation: Evaluation, *, redact: bool) -> tuple[str, str]:
    """Return the hashes of the protocol and of the result; "" for a result with masked ids."""
    protocol = evaluation.protocol.as_dict()
    if redact:
        return _hash(protocol), ""
    rows = [row.as_dict() for row in evaluation.rows]
    return _hash(protocol), _hash({"protocol": protocol, "rows": rows})


def _of_step(name: str, progress: StepProgress | None) -> Progress | None:
    """Return what counts the work of one step."""
    return None if progress is None else partial(progress, f"page: {name}")


def stability_of(evaluation: Evaluation, progress: Progress | None = None) -> ObjectStability:
    """Return which objects the models find, with the matching and the statistics of the
    protocol.
    """
    from calipers.stability.objects import object_stability

    protocol, view = evaluation.protocol, evaluation.protocol.matching
    result = object_stability(
        evaluation.cohort,
        view.criterion,
        view.threshold,
        cluster=protocol.cluster,
        level=protocol.level,
        replicates=protocol.replicates or REPLICATES,
        seed=protocol.seed,
        ci=evaluation.ci and bool(protocol.replicates),
        progress=progress,
    )
    # The page states it, and computes nothing itself.
    _ = result.without_models
    return result


def _of_these(monitor: MonitorEvaluation, evaluation: Evaluation) -> MonitorEvaluation:
    """Return the monitors; raise if they watch another model or other images."""
    if monitor.scope.model not in evaluation.models:
        suggestion = did_you_mean(monitor.scope.model, evaluation.models)
        raise UsageError(
            f"the monitors watch {monitor.scope.model!r}, which is not evaluated here; {suggestion}"
        )
    unknown_images = set(monitor.scope.images) - set(evaluation.cohort.images.ids)
    if unknown_images:
        raise UsageError(
            f"the monitors watch {len(unknown_images)} images that are not evaluated here, such as "
            f"{min(unknown_images)!r}; make their scope with scope_scores of the same cohort"
        )
    return monitor


def slices_of(evaluation: Evaluation, images: Path | None = None) -> Slices | None:
    """Return the pictures of samples that the page shows, to be stored with an evaluation; None if
    there are none.

    Pictures from a folder of ``images`` are not included: a later report can be given that folder
    again.
    """
    if evaluation.slices is not None or evaluation.load_sample is None:
        return evaluation.slices
    samples = _album(with_display_names(evaluation), images)
    if images is None:
        return Slices(dict(samples.pictures), samples.notes)
    maps = {key: one for key, one in samples.pictures.items() if key.startswith(MAP)}
    return Slices(maps, ())


def _hash(document: object) -> str:
    """Return the hash of a document; "" if half a surrogate pair is in it, which has no bytes."""
    try:
        return sha256_of(document)
    except UnicodeEncodeError:
        return ""


def _album(evaluation: Evaluation, images: Path | None) -> Album:
    """Return the pictures: the more models there are, the fewer images and models are shown."""
    n_models = len(evaluation.models)
    if n_models == 1:
        number = MOST_IMAGES
    elif n_models <= FEW_MODELS:
        number = MOST_IMAGES - 2
    else:
        number = MOST_IMAGES - 3
    return album(
        evaluation,
        images,
        models=evaluation.models_by_value,
        per_group=number,
        most_models=FEW_MODELS if n_models <= FEW_MODELS else 2,
    )


def _comparisons_of(
    evaluation: Evaluation, at_one: Evaluation | None, progress: Progress | None
) -> tuple[Comparison | None, Comparison | None]:
    """Return the comparison of the headline metrics, and that at one false alarm per image.

    All pairs of models in all these metrics are one family of tests. At one false alarm only the
    pairs of the leader are kept; it was chosen on the data, so the tests of the other pairs stay in
    the family. None if impossible.
    """
    if len(evaluation.models) < 2 or not evaluation.ci or not evaluation.protocol.replicates:
        return None, None
    models = evaluation.models
    if len(models) > MOST_PAIRED:
        models = evaluation.models_by_value
    questions = [(evaluation, evaluation.headline, models)]
    if at_one is not None:
        questions.append((at_one, (ONE_ALARM,), at_one.models_by_value))
    try:
        comparisons = compare_together(questions, progress)
    except UsageError:
        # One unit only, or too few replicates: the page is written without a comparison.
        return None, None
    duel = None
    if at_one is not None:
        duel = comparisons[1].of_model(at_one.models_by_value[0])
    return comparisons[0], duel


def _ranking_of(evaluation: Evaluation, progress: Progress | None) -> Ranking | None:
    """Return the ranking by the first headline metric; None for two models, or if one of them has
    no value.
    """
    if len(evaluation.models) < 3:
        return None
    try:
        ranking = evaluation.rank(progress=progress)
    except UsageError:  # a model without a value has no rank
        return None
    return ranking if ranking.reason is None else None
