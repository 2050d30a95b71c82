# SPDX-License-Identifier: Apache-2.0
"""The experiments of the study of monitors, and the numbers that a run gives (`MonitorsRun`).

`study.run` calls them; claims, figures and tables read the run. The parts:

- `definitions`: the definitions of the paper on counts and on constructed images. They show where
  the printed formulas have no value, and what the mean over classes hides.
- `Trial`: one detector on one set of images, with monitors that are evaluated under both paradigms.
- `crowds`: the matching rule of the paper taken literally, on images with references close to each
  other. Literally, a prediction is matched with a reference if their IoU is at least 0.5 and no
  other prediction of the class has a larger IoU with that reference. Nothing prevents a prediction
  from being the best for two references.
- `strength_proxy`: how good a proxy OOD labels are, as shifts grow stronger.
- `label_areas`: every monitor under OMS labels and under OOD labels by every definition.
- `tau_curves`: the order of monitors as tau grows.

Nothing here makes a detector fail: trials are of detectors that were trained
(`calipers.studies.monitors.training`), or of the user's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Flags
from calipers.data.cohort import Cohort
from calipers.kernels import boxes as overlap
from calipers.kernels.roc import Cuts, Standing
from calipers.monitors.baselines import BASELINES, baseline, picture_features
from calipers.monitors.evaluate import evaluate_monitor
from calipers.monitors.labels import OMS, OOD
from calipers.monitors.result import MonitorEvaluation, headline
from calipers.monitors.scope import Scope, mean_f1, scope_scores
from calipers.results.estimate import Estimate
from calipers.show.words import interval_text
from calipers.statistics.ranks import kendall_tau_b
from calipers.statistics.spread import quantiles
from calipers.statistics.weights import Units, bootstrap, units_of
from calipers.studies.claim_rules import ClaimRules
from calipers.studies.monitors.archive import MODEL, DetectorRecord
from calipers.synthetic.demo import stream

MOST = 6  # predictions, references: all counts up to here are tried
NUMBERS_OF_CLASSES = (1, 2, 3, 4, 8, 14, 20, 80)
MOST_PREDICTIONS = 8  # on an image with one runway
MEANS = ("declared", "present", "micro")
BOX = (10.0, 10.0, 50.0, 40.0)

RULES = ClaimRules.load("monitors/claims.toml")
TAU = RULES.limit("tau")
IDEAL = {OMS: "ideal-OMS", OOD: "ideal-OOD"}  # they know the labels: not part of any ranking
USUAL = "none"
RAISED_CUT = RULES.limit("raised-cut")  # of the same detector as another model
TUNING = 0.25  # share of the images of a trained detector that thresholds are chosen on
HEADLINE = "either"  # definition of OOD that both paradigms are compared by

FOREGROUND = 0.5
SIDE = 100.0
CLOSE = (0.0, 0.45)  # how far the second reference lies from the first, in sides
ONE_FOR_BOTH = 0.4  # share of images on which the detector sees a pair as one

REPLICATES = 500
BESIDE = 0.005  # a step of a curve over tau is as wide as this

EXACT = 1e-12


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """One class on one image, and its scores; NaN where a formula divides by 0."""

    predictions: int
    references: int
    hits: int
    precision: float
    recall: float
    printed_score: float  # the score by the four printed cases
    defined_score: float  # 2 TP / (Nd + Nx), 1 if both are 0


@dataclass(frozen=True)
class Definitions:
    """Consequences of the definitions alone."""

    counts: tuple[ClassCounts, ...]  # all that can be, up to MOST of each
    one_runway: tuple[tuple[int, bool, float], ...]  # predictions, hit, measured s
    # kind of mean -> score of an image whose only object is missed, by number of classes
    missed_scores: dict[str, F64]
    confused_scores: dict[str, F64]  # the same with a wrong class instead; NaN for one class


def definitions() -> Definitions:
    """Compute all consequences of the definitions."""
    missed_scores, confused_scores = {}, {}
    for mean in MEANS:
        missed_scores[mean] = np.array([_score_if_missed(c, mean) for c in NUMBERS_OF_CLASSES])
        confused_scores[mean] = np.array([_score_if_confused(c, mean) for c in NUMBERS_OF_CLASSES])
    return Definitions(all_counts(), one_runway(), missed_scores, confused_scores)


def all_counts(most: int = MOST) -> tuple[ClassCounts, ...]:
    """Return every number of predictions, references and hits up to ``most``, with all scores."""
    counts = []
    for n_predictions, n_references in product(range(most + 1), repeat=2):
        for hits in range(min(n_predictions, n_references) + 1):
            p = hits / n_predictions if n_predictions else math.nan
            r = hits / n_references if n_references else math.nan
            printed_score = _printed_score(n_predictions, n_references, p, r)
            # One image with one class, as `mean_f1` takes them.
            one = np.array([[[hits]], [[n_predictions]], [[n_references]]], np.float64)
            score = float(mean_f1(one[0], one[1], one[2], "declared")[0])
            counts.append(
                ClassCounts(n_predictions, n_references, hits, p, r, printed_score, score)
            )
    return tuple(counts)


def _printed_score(n_predictions: int, n_references: int, p: float, r: float) -> float:
    """Return the score by the printed cases, taken literally: 2 P R / (P + R) is 0 / 0 without
    hits.
    """
    if n_predictions == 0 and n_references == 0:
        return 1.0
    if n_predictions == 0 or n_references == 0:
        return 0.0
    return 2.0 * p * r / (p + r) if p + r > 0 else math.nan


def one_runway() -> tuple[tuple[int, bool, float], ...]:
    """Return the scores of images with one runway and up to eight predictions, of which one or none
    hits the runway.
    """
    cases: list[tuple[int, bool]] = [(0, False)]
    for n in range(1, MOST_PREDICTIONS + 1):
        cases += [(n, False), (n, True)]
    records, predictions = [], []
    for k, (n, hit) in enumerate(cases):
        boxes = [list(BOX)] if hit else []
        for j in range(n - hit):
            boxes.append([60.0 + 12.0 * j, 60.0, 70.0 + 12.0 * j, 70.0])
        image = {"image_id": str(k), "width": 200, "height": 100}
        records.append({**image, "boxes": [list(BOX)], "labels": [0]})
        labels, scores = np.zeros(n, np.int64), np.linspace(0.9, 0.5, n)
        corners = np.array(boxes).reshape(-1, 4)
        predictions.append(
            {"image_id": str(k), "boxes": corners, "labels": labels, "scores": scores}
        )
    scope = scope_scores(Cohort.from_arrays(records, {"made": predictions}, classes=("runway",)))
    return tuple((n, hit, float(s)) for (n, hit), s in zip(cases, scope.score))


def _score_if_missed(n_classes: int, mean: str) -> float:
    hits = n_predictions = np.zeros((1, n_classes))
    n_references = np.zeros((1, n_classes))
    n_references[0, 0] = 1.0
    return float(mean_f1(hits, n_predictions, n_references, mean)[0])


def _score_if_confused(n_classes: int, mean: str) -> float:
    if n_classes == 1:
        return math.nan
    hits, n_predictions, n_references = np.zeros((3, 1, n_classes))
    n_references[0, 0] = n_predictions[0, 1] = 1.0
    return float(mean_f1(hits, n_predictions, n_references, mean)[0])


@dataclass(frozen=True)
class Trial:
    """A detector, its scope, and the evaluation of monitors on the images for testing."""

    name: str  # "runways"
    title: str  # "Runways"
    evaluation: MonitorEvaluation
    cohort: Cohort  # the images for testing
    # s as the mean over all declared classes; the evaluation has the mean over those present
    declared_scope: Scope
    # s of another model: a detector trained from other random weights on the same pictures, or,
    # where there is one model only, the same with a higher score cut
    other_scope: Scope
    # (n,) the shift of every image; "ID" or "OOD" where no shift is known
    kinds: NDArray[np.str_]
    strength: I64 | None = None  # (n,) of the shifts, 0 for usual images
    definitions: Mapping[str, Flags] = field(default_factory=dict)  # of OOD -> (n,)
    other_is_trained: bool = False

    @property
    def scope(self) -> Scope:
        """The score of the detector on every image for testing."""
        return self.evaluation.scope

    @property
    def unsafe(self) -> Flags:
        """(n,) OMS labels."""
        return self.scope.unsafe(TAU)

    @property
    def ood(self) -> Flags | None:
        """(n,) OOD labels, if there are any."""
        labels = headline(self.evaluation.basis.labels, OOD)
        return None if labels is None else labels.positive

    @property
    def contenders(self) -> tuple[str, ...]:
        """The monitors that do not know the labels, unlike the ideal ones."""
        return tuple(name for name in self.evaluation.monitors if name not in IDEAL.values())

    @property
    def is_mixed(self) -> bool:
        """Whether there are safe and unsafe images."""
        return bool(self.unsafe.any() and not self.unsafe.all())

    @property
    def is_comparable(self) -> bool:
        """Whether both paradigms have images of both kinds."""
        return bool(
            self.is_mixed and self.ood is not None and self.ood.any() and not self.ood.all()
        )

    def alarm(self, monitor: str) -> F64:
        """Return (n,) alarm scores, high where a monitor alarms."""
        monitors = self.evaluation.basis.monitors
        return np.asarray(monitors.alarm[monitors.index(monitor)])

    def order(self, paradigm: str) -> list[str]:
        """Return the contenders from the best AUROC to the worst."""
        return sorted(
            self.contenders, key=lambda name: -self.evaluation.get("AUROC", name, paradigm).value
        )

    @cached_property
    def harm(self) -> tuple[float, float]:
        """95 % confidence interval (bootstrap percentiles) of the difference between the shares of
        unsafe images among OOD and among ID images.
        """
        assert self.ood is not None
        basis = self.evaluation.basis
        marks = np.stack(
            [self.ood & self.unsafe, self.ood, ~self.ood & self.unsafe, ~self.ood]
        ).astype(np.float64)
        blocks = bootstrap(basis.units, basis.certainty.replicates, basis.certainty.seed)
        sums = np.concatenate([weights @ marks.T for weights in blocks])
        # A replicate without any OOD image, or without any ID image, has no difference.
        sums = sums[(sums[:, 1] > 0) & (sums[:, 3] > 0)]
        differences = sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
        low, high = np.quantile(differences, (0.025, 0.975))
        return float(low), float(high)

    @cached_property
    def rank_agreement(self) -> RankAgreement:
        """Agreement of the orders of the contenders under both paradigms; needs OOD labels."""
        assert self.ood is not None
        return rank_agreement(self, np.stack([self.unsafe, self.ood]))


@dataclass(frozen=True)
class RankAgreement:
    """Two orders by AUROC, under the same bootstrap weights."""

    kendall: float  # tau-b between them
    low: float
    high: float
    winner_differs: float  # share of the replicates in which no monitor wins both
    replicates: int  # that are defined


def rank_agreement(trial: Trial, labels: Flags) -> RankAgreement:
    """Return the agreement of the orders under two labellings (2, n)."""
    certainty = trial.evaluation.basis.certainty
    units = trial.evaluation.basis.units
    alarms = np.stack([trial.alarm(name) for name in trial.contenders])
    table = bootstrap_auroc(
        alarms, labels, units, certainty.replicates, certainty.seed
    )  # (M, 2, B)
    value = auroc(alarms, labels)
    # Replicates without both kinds of images are undefined and left out for all monitors.
    table = table[:, :, ~np.isnan(table).any(axis=(0, 1))]
    # Ties for the first place: the winners agree if any monitor wins under both.
    best = table == table.max(axis=0)
    differs = ~(best[:, 0] & best[:, 1]).any(axis=0)
    taus = []
    for b in range(table.shape[2]):
        taus.append(float(kendall_tau_b(table[:, 0, b], table[None, :, 1, b])[0]))
    low, high = np.nanquantile(taus, (0.025, 0.975)) if taus else (np.nan, np.nan)
    tau = float(kendall_tau_b(value[:, 0], value[None, :, 1])[0])
    return RankAgreement(tau, float(low), float(high), float(differs.mean()), table.shape[2])


def auroc(alarms: F64, labels: Flags) -> F64:
    """Return (M, L): the AUROC of monitors (M, n) under labellings (L, n); NaN where all images are
    of one kind.
    """
    ones = np.ones((1, alarms.shape[1]), np.int64)
    return np.stack([Standing.of(Cuts.of(alarm), ones).auroc(labels)[:, 0] for alarm in alarms])


def bootstrap_auroc(alarms: F64, labels: Flags, units: Units, replicates: int, seed: int) -> F64:
    """Return (M, L, B): AUROC under bootstrap weights of the units; all monitors and labellings
    share the weights.
    """
    all_cuts = [Cuts.of(alarm) for alarm in alarms]
    blocks = []
    for weights in bootstrap(units, replicates, seed):
        blocks.append(np.stack([Standing.of(cuts, weights).auroc(labels) for cuts in all_cuts]))
    return np.concatenate(blocks, axis=2)


def network_trial(
    record: DetectorRecord, other: DetectorRecord | None, replicates: int, seed: int
) -> Trial:
    """Return the trial of a trained detector; ``other`` saw the same pictures in training."""
    cohort = record.cohort()
    n = cohort.n_images
    tuning = stream(seed, "monitors tuning", record.name).random(n) < TUNING
    other_scope = None
    if other is not None:
        other_scope = scope_scores(
            other.cohort(), model=MODEL, classes="present", score_cut=other.score_cut
        )
    data = TrialData(
        name=record.name,
        cohort=cohort,
        model=MODEL,
        alarms=record.alarms,
        fit=np.zeros(n, np.bool_),
        tuning=tuning,
        ood=record.ood[HEADLINE],
        kinds=np.array(record.shift),
        score_cut=record.score_cut,
        other_scope=other_scope,
        strength=record.strength,
        definitions=record.ood,
    )
    return evaluate_trial(data, replicates, seed)


def baselines(cohort: Cohort, model: str, fit: Flags, pictures: object | None) -> dict[str, F64]:
    """Return alarms of the baseline monitors; those that need pictures only if there are any."""
    features = None
    if pictures is not None:
        # Features are computed once for all monitors that use them.
        features = picture_features(cohort, pictures)  # type: ignore[arg-type]
    alarms = {}
    for name in BASELINES:
        if features is not None or not name.startswith("image-"):
            alarms[name] = baseline(name, cohort, model, features, fit)
    return alarms


@dataclass(frozen=True)
class TrialData:
    """A detector, its monitors and the labels of images, before anything is evaluated."""

    name: str
    cohort: Cohort
    model: str
    alarms: Mapping[str, F64]
    fit: Flags  # images that monitors were fitted on, which are left out
    tuning: Flags  # images that thresholds are chosen on
    ood: Flags | None
    kinds: NDArray[np.str_]
    score_cut: float = -np.inf
    cluster: str | Sequence[str] = "auto"
    other_scope: Scope | None = None  # of another model on the same images
    strength: I64 | None = None
    definitions: Mapping[str, Flags] = field(default_factory=dict)


def evaluate_trial(data: TrialData, replicates: int, seed: int) -> Trial:
    """Return the trial of a detector and its monitors."""
    options: dict[str, Any] = {"model": data.model, "score_cut": data.score_cut}
    scope = scope_scores(data.cohort, classes="present", **options)
    alarms = {**data.alarms, IDEAL[OMS]: scope.unsafe(TAU).astype(np.float64)}
    if data.ood is not None:
        alarms[IDEAL[OOD]] = data.ood.astype(np.float64)
    # Images that baselines were fitted on would flatter them.
    subset = ~data.fit
    evaluation = evaluate_monitor(
        {key: values[subset] for key, values in alarms.items()},
        scope.take(subset),
        TAU,
        None if data.ood is None else data.ood[subset],
        tuning=data.tuning[subset],
        cluster=data.cluster,
        replicates=replicates,
        seed=seed,
    )
    test = np.flatnonzero(~data.fit & ~data.tuning)
    raised = {**options, "score_cut": max(RAISED_CUT, data.score_cut)}
    other = data.other_scope or scope_scores(data.cohort, classes="present", **raised)
    return Trial(
        data.name,
        data.name[:1].upper() + data.name[1:],
        evaluation,
        data.cohort.take(test),
        scope_scores(data.cohort, **options).take(test),
        other.take(test),
        data.kinds[test],
        None if data.strength is None else data.strength[test],
        {name: flags[test] for name, flags in data.definitions.items()},
        other_is_trained=data.other_scope is not None,
    )


def split_images(
    cohort: Cohort, ood: Flags | None, cluster: str, random: np.random.Generator
) -> tuple[Flags, Flags]:
    """Return images to fit on (3 of 10 that are not OOD) and to tune on (a quarter of the others);
    a unit is never divided.
    """
    units = units_of(cohort.images.groups, cohort.n_images, cluster)
    chance = random.random((2, units.number))[:, units.outer_code]
    fit = chance[0] < 0.3 if ood is None else (chance[0] < 0.3) & ~ood
    return fit, ~fit & (chance[1] < 0.25)


@dataclass(frozen=True)
class Crowds:
    """Counts by the literal rule and by one-to-one matching."""

    images: int
    references: int
    twice: int  # images on which a prediction is matched with two references
    hits_by_reference: int
    hits_by_prediction: int  # predictions that are matched with any reference
    hits_one_to_one: int
    recall_without_cost: int  # images with literal recall 1 and fewer predictions than references
    ties: int  # references for which two predictions have the same largest IoU: both match


def crowds(n: int, seed: int) -> Crowds:
    """Return the counts on ``n`` images with two close references, such as parallel runways."""
    random = stream(seed, "close references")
    records, predictions, hits = [], [], []
    for k in range(n):
        reference_boxes, boxes = _pair(random)
        image = {"image_id": str(k), "width": 200, "height": 200}
        records.append({**image, "boxes": reference_boxes, "labels": [0, 0]})
        labels, scores = np.zeros(len(boxes), np.int64), np.linspace(0.9, 0.5, len(boxes))
        predictions.append({"image_id": str(k), "boxes": boxes, "labels": labels, "scores": scores})
        hits.append(literal_hits(reference_boxes, boxes))
    cohort = Cohort.from_arrays(records, {"made": predictions}, classes=("runway",))
    scope = scope_scores(cohort, FOREGROUND)
    # The score is F1 = 2 TP / (references + predictions); solved for TP.
    one_to_one = np.rint(scope.score * (scope.n_references + scope.n_predictions) / 2.0)
    literal = np.array(hits, np.int64).reshape(-1, 3)
    full = (literal[:, 0] == scope.n_references) & (scope.n_predictions < scope.n_references)
    return Crowds(
        images=n,
        references=int(scope.n_references.sum()),
        twice=int((literal[:, 0] > literal[:, 1]).sum()),
        hits_by_reference=int(literal[:, 0].sum()),
        hits_by_prediction=int(literal[:, 1].sum()),
        hits_one_to_one=int(one_to_one.sum()),
        recall_without_cost=int(full.sum()),
        ties=int(literal[:, 2].sum()),
    )


def literal_hits(references: F64, predictions: F64) -> tuple[int, int, int]:
    """Return the counts by the literal rule: references with a match, predictions with a match,
    and references with two equally good matches.
    """
    if not len(references) or not len(predictions):
        return 0, 0, 0
    a = np.repeat(references, len(predictions), axis=0).T
    b = np.tile(predictions, (len(references), 1)).T
    areas = (np.prod(overlap.sides(boxes), axis=0) for boxes in (a, b))
    iou = overlap.iou(a, b, *areas).reshape(len(references), len(predictions))
    best = (iou == iou.max(axis=1, keepdims=True)) & (iou >= FOREGROUND)
    return (
        int(best.any(axis=1).sum()),
        int(best.any(axis=0).sum()),
        int((best.sum(axis=1) > 1).sum()),
    )


def _pair(random: np.random.Generator) -> tuple[F64, F64]:
    """Return two close references and the predictions for them: one for each, or one for both."""
    corner = random.uniform(0.0, 50.0, 2)
    aside = random.uniform(*CLOSE) * SIDE
    first = np.array([*corner, *(corner + SIDE)])
    references = np.stack([first, first + np.array([aside, 0.0, aside, 0.0])])
    predictions = references.copy()
    if random.random() < ONE_FOR_BOTH:
        predictions = references.mean(axis=0, keepdims=True)
    return references, predictions + random.normal(0.0, 3.0, predictions.shape)


@dataclass(frozen=True)
class StrengthProxy:
    """How good a monitor that knows what is OOD finds failures, by the strength of the shifts.

    For every strength, usual images and the shifted ones of that strength are taken. The AUROC of
    yes and no is ``1/2 + (p - q) / 2``, p and q being the shares of OOD images among the unsafe and
    among the safe ones.
    """

    trial: str
    strengths: tuple[int, ...]
    n_images: tuple[int, ...]
    unsafe: F64  # (S,) share of unsafe images among the shifted ones
    values: F64  # (S,) AUROC of the ideal OOD monitor for unsafe images
    low: F64
    high: F64
    difference: tuple[float, float, float]  # strongest less weakest: value and interval


def strength_proxy(trial: Trial, replicates: int) -> StrengthProxy | None:
    """Return the numbers of a trial whose strengths are known."""
    if trial.strength is None or trial.ood is None:
        return None
    strengths = tuple(k for k in np.unique(trial.strength).tolist() if k > 0)
    basis = trial.evaluation.basis
    blocks = bootstrap(basis.units, replicates, basis.certainty.seed)
    weights = np.concatenate([np.ones((1, len(trial.kinds))), *blocks])
    ood, unsafe = trial.ood, trial.unsafe
    areas, shares, counts = [], [], []
    for k in strengths:
        subset = (trial.strength == 0) | (trial.strength == k)
        marks = np.stack([ood & unsafe, unsafe, ood & ~unsafe, ~unsafe]) & subset
        sums = weights @ marks.T.astype(np.float64)
        with np.errstate(invalid="ignore"):
            areas.append(0.5 + (sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]) / 2)
        shares.append(float(unsafe[trial.strength == k].mean()))
        counts.append(int(subset.sum()))
    table = np.stack(areas)  # (S, 1 + B)
    low, high = np.nanquantile(table[:, 1:], (0.025, 0.975), axis=1)
    gap = table[-1] - table[0]
    ends = np.nanquantile(gap[1:], (0.025, 0.975))
    return StrengthProxy(
        trial.name,
        strengths,
        tuple(counts),
        np.array(shares),
        table[:, 0],
        low,
        high,
        (float(gap[0]), float(ends[0]), float(ends[1])),
    )


@dataclass(frozen=True)
class LabelWinner:
    """The best monitor under one kind of labels."""

    trial: str
    labels: str  # "OMS", "OOD: picture", ...
    n_positive: int
    winner: str
    value: float  # its AUROC
    low: float
    high: float
    second: str
    wins: float  # share of the replicates in which the winner is the best, alone or not


def label_sets(trial: Trial) -> dict[str, Flags]:
    """Return the labels that monitors can be judged by: OMS, and OOD by every definition."""
    labels = {"OMS": trial.unsafe}
    for name, flags in trial.definitions.items():
        labels[f"OOD: {name}"] = flags
    if not trial.definitions and trial.ood is not None:
        labels["OOD"] = trial.ood
    return {name: flags for name, flags in labels.items() if flags.any() and not flags.all()}


@dataclass(frozen=True)
class LabelAreas:
    """AUROC of all contenders of a trial under all kinds of labels."""

    trial: str
    labels: tuple[str, ...]
    monitors: tuple[str, ...]
    values: F64  # (M, L)
    low: F64
    high: F64
    winners: tuple[LabelWinner, ...]


def label_areas(trial: Trial, replicates: int) -> LabelAreas:
    """Return who is how good under which labels, all under the same bootstrap weights."""
    labels = label_sets(trial)
    flags = np.stack(list(labels.values()))
    alarms = np.stack([trial.alarm(name) for name in trial.contenders])
    basis = trial.evaluation.basis
    sample = bootstrap_auroc(alarms, flags, basis.units, replicates, basis.certainty.seed)
    values = auroc(alarms, flags)
    low, high = np.nanquantile(sample, (0.025, 0.975), axis=2)
    winners = []
    for k, name in enumerate(labels):
        order = np.argsort(-values[:, k], kind="stable")
        best = int(order[0])
        defined = sample[:, k, ~np.isnan(sample[:, k]).any(axis=0)]
        value, lower, upper = (float(table[best, k]) for table in (values, low, high))
        wins = float((defined[best] == defined.max(axis=0)).mean())
        second = trial.contenders[int(order[1])] if len(order) > 1 else ""
        winner = trial.contenders[best]
        n_positive = int(flags[k].sum())
        winners.append(
            LabelWinner(
                trial=trial.name,
                labels=name,
                n_positive=n_positive,
                winner=winner,
                value=value,
                low=lower,
                high=upper,
                second=second,
                wins=wins,
            )
        )
    return LabelAreas(
        trial.name, tuple(labels), trial.contenders, values, low, high, tuple(winners)
    )


@dataclass(frozen=True)
class TauCurves:
    """Prevalence and AUROC of the contenders of a trial over tau, for one way to average over
    classes.
    """

    trial: str
    classes: str  # "present" or "declared"
    taus: F64  # (T,)
    prevalence: F64  # (T,)
    monitors: tuple[str, ...]
    values: F64  # (M, T), NaN where all images are of one kind
    low: F64
    high: F64
    # pairs of monitors whose order is certain at two values of tau, in opposite directions
    turned_pairs: tuple[tuple[str, str], ...]

    @property
    def n_pairs(self) -> int:
        """All pairs of monitors."""
        return len(self.monitors) * (len(self.monitors) - 1) // 2

    @property
    def defined(self) -> Flags:
        """(T,) where there are safe and unsafe images."""
        return np.asarray(~np.isnan(self.values).any(axis=0))

    @property
    def winners(self) -> tuple[str, ...]:
        """The monitors that are best at some tau, in the order of tau."""
        best = self.values[:, self.defined].argmax(axis=0)
        return tuple(dict.fromkeys(self.monitors[k] for k in best.tolist()))


def tau_grid(scope: Scope) -> F64:
    """Return values of tau from near 0 to 1: every score that occurs, and a value just above it, at
    which an image with that score is unsafe.
    """
    values = scope.taus()
    steps = np.concatenate([[BESIDE, 1.0], values, values + BESIDE])
    return np.unique(steps[steps <= 1.0])


def tau_curves(trial: Trial, replicates: int) -> list[TauCurves]:
    """Return the curves for the mean over present classes and, if there are several, over declared
    ones.
    """
    scopes = {"present": trial.scope}
    if trial.scope.n_classes > 1:
        scopes["declared"] = trial.declared_scope
    return [_tau_curves(trial, name, scope, replicates) for name, scope in scopes.items()]


def _tau_curves(trial: Trial, classes: str, scope: Scope, replicates: int) -> TauCurves:
    taus = tau_grid(scope)
    labels = np.stack([scope.unsafe(tau) for tau in taus.tolist()])
    # Most values of tau give the same labels; each labelling is evaluated once.
    unique_labels, back = np.unique(labels, axis=0, return_inverse=True)
    alarms = np.stack([trial.alarm(name) for name in trial.contenders])
    basis = trial.evaluation.basis
    replicate_values = bootstrap_auroc(
        alarms, unique_labels, basis.units, replicates, basis.certainty.seed
    )
    back = back.reshape(-1)
    value = auroc(alarms, unique_labels)
    blank = np.isnan(value)
    low, high = (
        np.where(blank, np.nan, end.reshape(value.shape))
        for end in quantiles(replicate_values.reshape(value.size, -1).T, 0.95)
    )
    curves = (value[:, back], low[:, back], high[:, back])
    turned = _turned_pairs(trial.contenders, replicate_values[:, ~blank.any(axis=0)])
    return TauCurves(
        trial.name, classes, taus, scope.prevalence(taus), trial.contenders, *curves, turned
    )


def _turned_pairs(names: Sequence[str], replicates: F64) -> tuple[tuple[str, str], ...]:
    """Return the pairs whose difference (M, L, B) lies wholly above 0 under some labels and wholly
    below 0 under others, each with its 95 % interval.
    """
    pairs = []
    for i, j in combinations(range(len(names)), 2):
        if not replicates.shape[1]:
            break
        low, high = quantiles((replicates[i] - replicates[j]).T, 0.95)
        if (low > 0).any() and (high < 0).any():
            pairs.append((names[i], names[j]))
    return tuple(pairs)


@dataclass(frozen=True)
class TrialNumbers:
    """A trial, and all that is computed from it alone."""

    trial: Trial
    taus: tuple[TauCurves, ...]
    proxy: StrengthProxy | None  # None with the user's data, whose strengths are not known
    areas: LabelAreas | None  # None where all images are safe, or none is


def network_numbers(
    record: DetectorRecord, other: DetectorRecord | None, replicates: int, seed: int
) -> TrialNumbers:
    """Return the numbers of a trained detector, see `network_trial`."""
    return _trial_numbers(network_trial(record, other, replicates, seed), replicates)


def model_numbers(data: TrialData, replicates: int, seed: int) -> TrialNumbers:
    """Return the numbers of a model of the user."""
    return _trial_numbers(evaluate_trial(data, replicates, seed), replicates)


def _trial_numbers(trial: Trial, replicates: int) -> TrialNumbers:
    taus = tau_curves(trial, min(replicates, REPLICATES))
    if trial.is_comparable:
        # Claims, figures and tables ask for these, which resample; a worker keeps them here.
        _ = trial.harm, trial.rank_agreement
    return TrialNumbers(
        trial,
        tuple(taus),
        strength_proxy(trial, replicates),
        label_areas(trial, replicates) if trial.is_mixed else None,
    )


@dataclass(frozen=True)
class MonitorsRun:
    """The numbers of a run."""

    definitions: Definitions
    crowds: Crowds
    trials: tuple[Trial, ...]
    taus: tuple[TauCurves, ...]
    proxies: tuple[StrengthProxy, ...]  # () with the user's data, whose strengths are not known
    areas: tuple[LabelAreas, ...]
    records: tuple[DetectorRecord, ...] = ()  # the detectors that were trained

    @property
    def featured(self) -> tuple[Trial, ...]:
        """The trials that figures show: the first detector of every data set, or all given ones."""
        if not self.records:
            return self.trials
        first: dict[str, Trial] = {}
        for record, trial in zip(self.records, self.trials):
            first.setdefault(record.data, trial)
        return tuple(first.values())

    @property
    def comparable_trials(self) -> tuple[Trial, ...]:
        """The trials with images of both kinds under both paradigms."""
        return tuple(trial for trial in self.trials if trial.is_comparable)

    @property
    def mixed_trials(self) -> tuple[Trial, ...]:
        """The trials with safe and unsafe images."""
        return tuple(trial for trial in self.trials if trial.is_mixed)


def bounded_text(value: float, low: float, high: float) -> str:
    """Return "0.633 [0.570, 0.691]", or the value alone if there is no interval."""
    return f"{value:.3f} {interval_text(low, high)}".rstrip()


def estimate_text(estimate: Estimate) -> str:
    """Return an estimate with its interval, or that it is undefined."""
    if math.isnan(estimate.value):
        return "undefined"
    return bounded_text(estimate.value, estimate.low, estimate.high)
