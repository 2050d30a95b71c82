# SPDX-License-Identifier: Apache-2.0
"""Choose the parameters of a recipe on a tuning split, and say honestly what that is worth.

`tune_fusion` searches the parameters (`calipers.fusion.search`) on all images of the cohort that it
is given, the tuning split. The value of the recipe it ends with is *optimistic*: the same images
chose the parameters and judge them. So the whole search is repeated with each fold of the units
(patients, if they are known) left out, and the recipe it ends with there is carried out on the fold
that it has not seen. All folds together give one set of held-out predictions, and their value is
the honest, *nested* estimate of what searching achieves on new data. Calibrations are fitted inside
the search, on the images that it may see.

A point without a calibration has the same boxes whichever fold is left out, so that one pass gives
the values of all searches: every metric is a function of evidence and of weights of images.

``calipers fuse --tune`` and `calipers.tune_fusion` are the callers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calipers.arguments import names_arguments
from calipers.arrays import I64, Flags
from calipers.data.cohort import Cohort
from calipers.data.objects import Predictions
from calipers.engine.cost import RunCost, Stopwatch, peak_bytes
from calipers.engine.ordered_map import in_order
from calipers.errors import InputError, UsageError, whole
from calipers.evaluation.collect import collect, jobs_of, units_for, with_areas
from calipers.evaluation.compare import chosen_metrics
from calipers.evaluation.evaluate import evaluate
from calipers.evaluation.protocol import Protocol
from calipers.fusion.evaluate import told_warnings
from calipers.fusion.fuse import carry_out, chosen_members, fit_calibration
from calipers.fusion.recipe import FusionRecipe, tuned_name
from calipers.fusion.result import AS_GIVEN, HELD_OUT, SAME_IMAGES, FusionTuning, TunedParameter
from calipers.fusion.search import (
    Journal,
    Parameter,
    Point,
    climb,
    most_trials,
    parameters_of,
    recipe_at,
)
from calipers.kernels.resampling import check_seed, generator
from calipers.kernels.route import MOST_THREADS
from calipers.results.files import sha256_of
from calipers.show.words import count_text
from calipers.statistics.weights import Units

# Of the generator: no replicate of a bootstrap has these numbers.
DRAW_OF_FOLDS, DRAW_OF_SPLIT = 2**62, 2**62 + 1
TRIAL_BYTES = 300  # per object of a trial: fused boxes, clusters and matches

Progress = Callable[[str, int, int], None]  # (name of the step, trials done, at most)


@names_arguments
def tune_fusion(
    cohort: Cohort,
    recipe: str | Path | FusionRecipe = "endocv2022",
    protocol: str | Path | Protocol = "coco",
    *,
    metric: str | None = None,
    members: Sequence[str] | None = None,
    folds: int = 5,
    rounds: int = 3,
    seed: int | None = None,
    journal: str | Path | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> FusionTuning:
    """Choose the parameters of a recipe on a tuning split, with an honest estimate of its value.

    Parameters
    ----------
    cohort
        The tuning split. Judge the ensemble on other images, of other patients.
    recipe
        As in `fuse`. Its ``tune`` tables say what is searched; without any, sensible ranges are.
    protocol, metric
        What to maximise: a metric of the protocol, by default the first of its headline.
    folds
        How many parts of the units (patients, if known) are left out in turn for the nested
        estimate.
    rounds
        Maximum number of rounds over the parameters.
    seed
        Of the folds and of the intervals; replaces that of the protocol.
    journal
        A file that keeps the values of the search; a search that was stopped continues from there.
    jobs
        Number of threads that try values of a parameter side by side; the result does not depend
        on it.
    progress
        Called with (name of the step, trials done, trials at most).

    Examples
    --------
    >>> import calipers as cal
    >>> tuning = cal.tune_fusion(cal.demo_cohort(), "wbf", metric="AP50", folds=2, rounds=1)
    >>> tuning.held_out.value <= tuning.optimistic.value
    True
    """
    search = _search_of(
        cohort,
        recipe,
        protocol,
        metric=metric,
        members=members,
        folds=folds,
        rounds=rounds,
        seed=seed,
        journal=journal,
        jobs=jobs,
        progress=progress,
    )
    return search.result()


def tuning_cost(cohort: Cohort, recipe: FusionRecipe, protocol: Protocol, **how: Any) -> RunCost:
    """Return what a search takes at most, from two of its trials; ``how`` as in `tune_fusion`."""
    search = _search_of(cohort, recipe, protocol, **how)
    start = tuple(parameter.start for parameter in search.parameters)
    search.trial(start)  # the first one loads modules
    watch = Stopwatch()
    search.trial(start)
    watch.stop()
    n_objects = len(cohort.references)
    for predictions in cohort.models.values():
        n_objects += len(predictions)
    return RunCost(
        work="fuse",
        n_items=search.most,
        unit="trial",
        n_models=len(cohort.models),
        n_blocks=search.most,
        file_bytes=sum(file.bytes for file in cohort.intake.files),
        fixed_bytes=peak_bytes(),
        job_bytes=n_objects * TRIAL_BYTES,
        largest=f"{count_text('image', cohort.n_images)} with {count_text('object', n_objects)}",
        basis="from one trial, if none is known already and no search ends early; intervals and "
        "page are not included",
        shared_seconds=watch.seconds * search.most,
    )


def _search_of(
    cohort: Cohort,
    recipe: str | Path | FusionRecipe,
    protocol: str | Path | Protocol,
    *,
    metric: str | None = None,
    members: Sequence[str] | None = None,
    folds: int = 5,
    rounds: int = 3,
    seed: int | None = None,
    journal: str | Path | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> _NestedSearch:
    """Check what `tune_fusion` is given and return its search."""
    plan = FusionRecipe.load(recipe)
    protocol = Protocol.load(protocol)
    if seed is not None:
        protocol = replace(protocol, seed=seed)
    check_seed(protocol.seed)
    name = chosen_metrics(protocol, None if metric is None else [metric])[0]
    names = chosen_members(cohort, plan, members)
    plan, parameters = parameters_of(replace(plan, members=names), names)
    return _NestedSearch(
        cohort=replace(cohort, models={model: cohort.models[model] for model in names}, maps={}),
        recipe=plan,
        parameters=parameters,
        protocol=protocol.only([name]),
        units=units_for(cohort, protocol),
        folds=folds,
        rounds=whole("rounds", rounds, 1, 100),
        journal=journal,
        jobs=whole("jobs", jobs, 1, MOST_THREADS),
        progress=progress,
    )


def tuning_split(cohort: Cohort, text: str, units: Units, seed: int) -> tuple[I64, I64]:
    """Return the images of the tuning split, and all others.

    Parameters
    ----------
    text
        ``split=tune``: the images whose column has this value; or ``0.5``: a random share of the
        units. No patient may lie on both sides.
    """
    column, sign, value = text.partition("=")
    if sign:
        tuning = np.asarray(cohort.group(column.strip()).astype(str) == value.strip())
    else:
        tuning = _random_share(text, units, seed)
    if tuning.all() or not tuning.any():
        raise UsageError(
            f"--tuning {text} takes {'all' if tuning.all() else 'none'} of the images: some are "
            "needed for tuning, and others to judge the ensemble by"
        )
    _check_patients(cohort, tuning, text)
    return np.flatnonzero(tuning), np.flatnonzero(~tuning)


def _random_share(text: str, units: Units, seed: int) -> Flags:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise UsageError(
            f"--tuning takes COLUMN=VALUE, or a share between 0 and 1 such as 0.5, not {text!r}"
        )
    n_outer = int(units.outer_code.max(initial=-1)) + 1
    n_tuning = min(max(round(share * n_outer), 1), n_outer - 1)
    in_split = np.zeros(n_outer, np.bool_)
    in_split[generator(seed, DRAW_OF_SPLIT).permutation(n_outer)[:n_tuning]] = True
    return np.asarray(in_split[units.outer_code])


def _check_patients(cohort: Cohort, tuning: Flags, text: str) -> None:
    """Raise if a patient lies on both sides: what was learnt from them would be judged by them."""
    if "patient" not in cohort.images.groups:
        return
    patients = cohort.group("patient")
    both = np.intersect1d(patients[tuning], patients[~tuning])
    if len(both):
        raise InputError(
            "a tuning split that shares no patient with the other images",
            rule="patient-overlap",
            location=f"--tuning {text}",
            value=str(both[0]),
            hint=f"{count_text('patient', len(both))} lie on both sides: split by patient",
        )


class _NestedSearch:
    """The searches with every fold left out, and with none, over one journal."""

    def __init__(
        self,
        *,
        cohort: Cohort,
        recipe: FusionRecipe,
        parameters: Sequence[Parameter],
        protocol: Protocol,
        units: Units,
        folds: int,
        rounds: int,
        journal: str | Path | None,
        jobs: int,
        progress: Progress | None,
    ) -> None:
        self.cohort, self.recipe, self.parameters = cohort, recipe, parameters
        self.protocol, self.units, self.rounds = protocol, units, rounds
        self.metric = protocol.metrics[0].name
        self.fold = _folds(units, whole("folds", folds, 2, 100), protocol.seed)
        self.n_folds, self.jobs = folds, jobs
        # A row per search: the images that it may see. The last one sees all of them.
        self.visible = np.stack([self.fold != k for k in range(folds + 1)])
        path = None if journal is None else Path(journal)
        self.journal = Journal(path, self._header())
        self.progress = progress or (lambda name, step, total: None)
        self.n_asked = 0
        self.most = (folds + 1) * most_trials(parameters, rounds)

    def result(self) -> FusionTuning:
        """Search with every fold left out, then with all images, and state what came of it."""
        start = tuple(parameter.start for parameter in self.parameters)
        if math.isnan(next(self._values([start], self.n_folds))):
            raise InputError(
                f"a tuning split on which {self.metric} has a value",
                rule="no-references",
                hint="the split needs references, and predictions of the members",
            )
        points = [self._search(part) for part in range(self.n_folds + 1)]
        tuned = fit_calibration(self.cohort, self._recipe(points[-1]))
        models = {
            AS_GIVEN: self._held_out([start] * self.n_folds),
            SAME_IMAGES: carry_out(self.cohort, tuned).predictions,
            HELD_OUT: self._held_out(points[:-1]),
        }
        evaluation = evaluate(replace(self.cohort, models=models), self.protocol)
        comparison = evaluation.compare(HELD_OUT, AS_GIVEN, metrics=[self.metric])
        rows = {row.model: row for row in evaluation.rows if row.label is None}
        pooled = tuple(rows[model] for model in models)
        columns = list(zip(*points))
        parameters = []
        for parameter, column in zip(self.parameters, columns):
            parameters.append(
                TunedParameter(
                    parameter.name, parameter.values, parameter.start, column[-1], column[:-1]
                )
            )
        result = FusionTuning(
            recipe=tuned,
            metric=self.metric,
            protocol=self.protocol.name,
            lower_is_better=self.metric in self.protocol.lower_is_better,
            folds=self.n_folds,
            rounds=self.rounds,
            seed=self.protocol.seed,
            unit=self.units.name,
            n_units=self.units.number,
            n_images=self.cohort.n_images,
            n_trials=len(self.journal.values),
            parameters=tuple(parameters),
            rows=pooled,
            gain=comparison.rows[0],
            warnings=told_warnings(evaluation, comparison, pooled),
        )
        return replace(result, recipe=_with_provenance(tuned, result))

    def trial(self, point: Point) -> None:
        """Compute the value of a point, and keep it nowhere."""
        self._computed(point, self.n_folds)

    def _search(self, part: int) -> Point:
        """Return the point that the search ends at which may see the images of ``part``."""
        end = (part + 1) * (self.most // (self.n_folds + 1))

        def values_of(points: Sequence[Point]) -> Iterator[float]:
            for value in self._values(points, part):
                self.n_asked += 1
                self.progress("tuning", self.n_asked, self.most)
                yield value

        lower = self.metric in self.protocol.lower_is_better
        point = climb(self.parameters, values_of, rounds=self.rounds, lower=lower)
        # A search may end before its last round.
        self.n_asked = end
        self.progress("tuning", self.n_asked, self.most)
        return point

    def _values(self, points: Sequence[Point], part: int) -> Iterator[float]:
        """Yield the values of points for one search; new ones go into the journal, in order."""
        new = [point for point in points if _key(point, part) not in self.journal]
        results = in_order(lambda point: self._computed(point, part), new, workers=self.jobs)
        for point in points:
            key = _key(point, part)
            if key not in self.journal:
                for part_of_value, value in next(results):
                    self.journal.add(_key(point, part_of_value), value)
            yield self.journal.values[key]

    def _computed(self, point: Point, part: int) -> list[tuple[int, float]]:
        """Return (search, value) of a point: for one search, and for all where that is free."""
        recipe = self._recipe(point)
        if not any(recipe.weights.get(name, 1.0) for name in self.cohort.models):
            return [(part, math.nan)]  # no member counts
        parts = list(range(self.n_folds + 1))
        if any(step.needs_curves for step in recipe.steps):
            # Its curves are those of the images that this search may see.
            recipe, parts = fit_calibration(self._seen_cohort(part), recipe), [part]
        predictions = carry_out(self.cohort, recipe).predictions
        return list(zip(parts, self._metric_values(predictions, self.visible[parts])))

    def _metric_values(self, predictions: Predictions, visible: Flags) -> list[float]:
        cohort = replace(self.cohort, models={self.recipe.name: predictions})
        (metric,) = self.protocol.compile()
        sized = with_areas(cohort, self.protocol)
        (evidence,) = collect(sized, jobs_of(sized, [metric])).values()
        values: list[float] = metric.value(evidence, visible.astype(np.int64))[:, 0, 0].tolist()
        return values

    def _recipe(self, point: Point) -> FusionRecipe:
        return recipe_at(self.recipe, self.parameters, point)

    def _seen_cohort(self, part: int) -> Cohort:
        return self.cohort.take(np.flatnonzero(self.visible[part]))

    def _held_out(self, points: Sequence[Point]) -> Predictions:
        """Return predictions in which every fold has the recipe that has not seen it."""
        images, tables = [], []
        for k, point in enumerate(points):
            recipe = fit_calibration(self._seen_cohort(k), self._recipe(point))
            images.append(np.flatnonzero(self.fold == k))
            tables.append(carry_out(self.cohort, recipe).predictions.take(images[-1]))
        order = np.argsort(np.concatenate(images), kind="stable")
        return Predictions.concat(tables).take(order)

    def _header(self) -> dict[str, Any]:
        """Return what a journal must agree on: values of another search are no values of this."""
        from calipers import __version__

        names = [parameter.name for parameter in self.parameters]
        ranges = [list(parameter.values) for parameter in self.parameters]
        return {
            "calipers": __version__,
            "numpy": np.__version__,
            "metric": self.metric,
            "folds": self.n_folds,
            "seed": self.protocol.seed,
            "unit": self.units.name,
            "protocol": sha256_of(self.protocol.as_dict()),
            "recipe": sha256_of({"recipe": self.recipe.as_dict(), "names": names, "of": ranges}),
            "data": _data_hash(self.cohort, self.fold),
        }


def _folds(units: Units, folds: int, seed: int) -> I64:
    """Return the fold of every image; whole units, so that no patient lies in two folds."""
    of_image = units.outer_code
    n_outer = int(of_image.max(initial=-1)) + 1
    if n_outer < folds:
        raise UsageError(
            f"{folds} folds need as many units, but there are {count_text(units.name, n_outer)}: "
            "use fewer folds or more data"
        )
    place = np.empty(n_outer, np.int64)
    place[generator(seed, DRAW_OF_FOLDS).permutation(n_outer)] = np.arange(n_outer)
    return np.asarray(place[of_image] % folds)


def _key(point: Point, part: int) -> str:
    return json.dumps([part, *point])


def _data_hash(cohort: Cohort, fold: I64) -> str:
    """Return a hash of everything that a value depends on."""
    digest = hashlib.sha256(json.dumps(list(map(str, cohort.images.ids))).encode())
    arrays: list[Any] = [fold, cohort.images.size]
    references = cohort.references
    for table in (references, *cohort.models.values()):
        arrays += [table.offsets, table.boxes, table.label]
        if table.masks is not None:
            arrays += [table.masks.offsets, table.masks.start, table.masks.length]
    arrays += [references.area, references.ignore, references.crowd]
    for predictions in cohort.models.values():
        arrays += [predictions.area, predictions.score]
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(json.dumps([*cohort.models, *cohort.classes]).encode())
    return digest.hexdigest()


def _with_provenance(recipe: FusionRecipe, tuning: FusionTuning) -> FusionRecipe:
    """Return the tuned recipe with where it comes from."""
    from calipers import __version__

    values = {
        "value_as_given": tuning.as_given.value,
        "value_same_images": tuning.optimistic.value,
        "value_held_out": tuning.held_out.value,
    }
    provenance: dict[str, Any] = {
        "calipers": __version__,
        "tuned_for": tuning.metric,
        "protocol": tuning.protocol,
        "images": tuning.n_images,
        "unit": tuning.unit,
        "units": tuning.n_units,
        "folds": tuning.folds,
        "rounds": tuning.rounds,
        "seed": tuning.seed,
        **{key: value for key, value in values.items() if math.isfinite(value)},
    }
    source = f"{recipe.source}; tuned" if recipe.source else "tuned"
    return replace(recipe, name=tuned_name(recipe.name), source=source, provenance=provenance)
