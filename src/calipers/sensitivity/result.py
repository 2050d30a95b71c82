# SPDX-License-Identifier: Apache-2.0
"""`Multiverse`, the result: values and ranks of all models under all configurations.

`calipers.sensitivity.multiverse` makes it. It answers who wins how often, which choices move the
ranks (eta squared), how far the configurations agree (Kendall's W, mean tau-b), and which smallest
change of choices reverses the two best models; as sentences, rows, JSON, figures and a page.

- `ranks_of`, `kendall_w`, `mean_tau`, `explained`, `winners` and `nearest_flip` analyse arrays of
  shape (configurations, models); the result and its bootstrap call them.
- `replicate_values` and `robustness` give bootstrap intervals: would it look the same with other
  patients? All configurations of a bootstrap sample see the same weights of the units (patients or
  images), so that the effect of a choice is kept apart from the effect of chance.
- `configuration_text`, `choice_text` and others say configurations, choices and shares in words,
  for the terminal, the page and the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calipers.arrays import F64
from calipers.errors import UsageError, did_you_mean
from calipers.evaluation.result import Evaluation
from calipers.metrics.base import Metric
from calipers.results.document import Document
from calipers.results.estimate import number
from calipers.show.words import (
    interval_text,
    join,
    level_text,
    number_text,
    percent_text,
    two_decimals,
)
from calipers.statistics.estimates import weighed
from calipers.statistics.support import FEWEST_UNITS
from calipers.statistics.weights import BLOCK, Weights, bootstrap

MOST_PAIRS = 20_000  # of configurations, for the mean tau

Progress = Callable[[int, int], None]
Span = tuple[float, float]

LEVEL = 0.95

OWN_WORDS = {
    ("average", "pooled"): "all classes pooled",
    ("average", "classes"): "mean of classes",
    ("classes", "within"): "matched within classes",
    ("classes", "ignore"): "classes ignored",
    ("score_cut", "none"): "no score cut",
    ("least_area", "0"): "all sizes",
}

NOTICED = 0.01  # smaller changes of a share of configurations are not reported


@dataclass(frozen=True)
class Flip:
    """The configuration nearest to the base in which two models change places."""

    better: str  # under the base
    worse: str
    base: Mapping[str, Any]
    other: Mapping[str, Any]
    values: tuple[float, float]  # of the two models under the base
    turned: tuple[float, float]  # under the other

    @property
    def changed(self) -> dict[str, tuple[Any, Any]]:
        """The choices that differ: name -> (base, other)."""
        return changes_of(self.base, self.other)

    def __str__(self) -> str:
        changes = " and ".join(change_text(name, *pair) for name, pair in self.changed.items())
        first, second = map(number_text, self.turned)
        return f"with {changes}, {self.worse} ({second}) is ahead of {self.better} ({first})"


@dataclass(frozen=True)
class Robustness:
    """Percentile intervals over bootstrap samples; NaN where too few samples have a value."""

    wins: tuple[Span, ...]  # of the share of configurations that each model wins
    # Share of bootstrap samples in which each model wins most configurations; t tied models get
    # 1/t each.
    leads: tuple[float, ...]
    kendall_w: Span
    difference: F64  # (configurations, 2) pointwise interval of best - second of the base
    replicates: int
    seed: int
    unit: str
    n_units: int
    level: float = LEVEL

    def as_dict(self, models: Sequence[str]) -> dict[str, Any]:
        """Return the intervals for JSON output."""
        wins = {model: [number(low), number(high)] for model, (low, high) in zip(models, self.wins)}
        return {
            "level": self.level,
            "replicates": self.replicates,
            "seed": self.seed,
            "unit": self.unit,
            "n_units": self.n_units,
            "wins": wins,
            "leads": dict(zip(models, self.leads)),
            "kendall_w": [number(end) for end in self.kendall_w],
        }


@dataclass(frozen=True, repr=False, eq=False)
class Multiverse(Document):
    """Values and ranks of all models under all configurations in which every model has a value.

    Figures are ``ranks``, ``curve``, ``choices`` and ``levels``. ``report(path, ...)`` and
    ``save(folder, ...)`` take the options of `calipers.sensitivity.page.write_multiverse`.
    """

    SCHEMA = "calipers.multiverse/1"
    ROW = "configuration"
    FIGURES = "calipers.sensitivity.figures:FIGURES"
    FIRST_FIGURE = "curve"
    TABLES = "calipers.sensitivity.tables:tables"
    PAGE = "calipers.sensitivity.page:write_multiverse_page"
    FOLDER = "calipers.sensitivity.page:write_multiverse"
    NOTEBOOK = "calipers.sensitivity.page:of_multiverse"

    models: tuple[str, ...]
    choices: tuple[str, ...]
    each: tuple[Mapping[str, Any], ...]  # configurations
    values: F64  # (configurations, models)
    base: int  # the configuration that the others are compared with
    n_possible: int  # combinations of the grid
    n_undefined: int  # configurations left out, because a model has no value
    n_images: int
    n_references: int
    robustness: Robustness | None = None  # with replicates, if there are enough units

    @cached_property
    def ranks(self) -> F64:
        """(configurations, models), 1 is best; equal values share the mean of their ranks."""
        return ranks_of(self.values)

    @property
    def kendall_w(self) -> float:
        """Kendall's W over configurations."""
        return kendall_w(self.ranks)

    @property
    def mean_tau(self) -> float:
        """The mean tau-b between two configurations."""
        return mean_tau(self.ranks)

    @property
    def winner(self) -> str:
        """The model that is best under the base."""
        return self.models[int(np.argmax(self.values[self.base]))]

    @cached_property
    def wins(self) -> dict[str, float]:
        """Model -> the share of configurations that it wins."""
        return dict(zip(self.models, winners(self.ranks).tolist()))

    @cached_property
    def explained(self) -> dict[str, float]:
        """Choice -> the share of the variance of the winner's rank that it explains by itself, in
        descending order.
        """
        rank = self.ranks[:, self.models.index(self.winner)]
        shares: dict[str, float] = {}
        for name in self.choices:
            levels = [_level_of(one, name) for one in self.each]
            shares[name] = explained(rank, levels)
        return dict(sorted(shares.items(), key=lambda pair: -pair[1]))

    @property
    def silent(self) -> list[str]:
        """The choices with several values that change no model's share by `NOTICED` or more."""
        shares_of: dict[str, list[list[float]]] = {}
        for choice, _, _, wins in self.levels:
            shares_of.setdefault(choice, []).append(list(wins.values()))
        ranges = {name: np.ptp(np.array(shares), axis=0) for name, shares in shares_of.items()}
        return [name for name, differences in ranges.items() if differences.max() < NOTICED]

    @cached_property
    def levels(self) -> list[tuple[str, str, int, dict[str, float]]]:
        """(choice, level, configurations, model -> share of them that it wins), for choices with
        several levels.
        """
        rows = []
        for name in self.choices:
            level_of_each = np.array([_level_of(one, name) or "" for one in self.each])
            levels = [level for level in dict.fromkeys(level_of_each.tolist()) if level]
            if len(levels) < 2:
                continue
            for level in levels:
                ranks = self.ranks[level_of_each == level]
                wins = dict(zip(self.models, winners(ranks).tolist()))
                rows.append((name, level, len(ranks), wins))
        return rows

    @property
    def best_two(self) -> tuple[str, str]:
        """The best and the second best model under the base."""
        order = np.argsort(-self.values[self.base], kind="stable")
        return self.models[order[0]], self.models[order[1]]

    @property
    def better(self) -> F64:
        """(models, models): the share of configurations in which the row beats the column."""
        return better(self.values)

    @cached_property
    def flip(self) -> Flip | None:
        """The nearest configuration in which the two best models of the base change places; None
        if there is none.
        """
        return self.flip_of(*self.best_two)

    def flip_of(self, one: str, other: str) -> Flip | None:
        """Return the nearest configuration in which two models change places; None without one."""
        for name in (one, other):
            if name not in self.models:
                raise UsageError(
                    f"no model {name!r} in this multiverse; {did_you_mean(name, self.models)}"
                )
        pair = self.models.index(one), self.models.index(other)
        place = nearest_flip(self.values, self.each, self.base, pair)
        if place is None:
            return None
        if self.values[self.base, pair[0]] < self.values[self.base, pair[1]]:
            one, other, pair = other, one, (pair[1], pair[0])
        return Flip(
            one,
            other,
            self.each[self.base],
            self.each[place],
            (float(self.values[self.base, pair[0]]), float(self.values[self.base, pair[1]])),
            (float(self.values[place, pair[0]]), float(self.values[place, pair[1]])),
        )

    def sentences(self) -> list[str]:
        """Return the findings of the multiverse in sentences, the most important first."""
        won, n = self._share_won(self.winner), len(self.each)
        base = configuration_label(self.each[self.base])
        leaders = self._leaders()
        if len(leaders) == 1:
            sentences = [
                f"{self.winner} has the best value under the base configuration ({base}), and in "
                f"{won} of {n} configurations."
            ]
        else:
            sentences = [
                f"{join(leaders)} share the best value under the base configuration ({base}); "
                f"{self.winner} has it in {won} of {n} configurations."
            ]
        rivals = [m for m in self.models if m != self.winner and self.wins[m] > 0]
        rivals.sort(key=lambda model: -self.wins[model])
        if rivals:
            shares = ", ".join(f"{model} in {self._share_won(model)}" for model in rivals)
            sentences.append(f"Other models with the best value: {shares}.")
        top = [(name, share) for name, share in self.explained.items() if share >= 0.01][:3]
        if top:
            parts = ", ".join(f"{choice_name(name)} {percent_text(share)}" for name, share in top)
            sentences.append(
                f"Choices that explain most of the variance in the rank of {self.winner}: {parts}."
            )
        sentences.append(self._flip_sentence())
        # For two models W and tau only say how often one of them wins.
        if len(self.models) > 2 and np.isnan(self.kendall_w):
            why = "all models are tied in every one" if n > 1 else "there is only one"
            sentences.append(f"Agreement of the configurations on the order is undefined: {why}.")
        elif len(self.models) > 2:
            w = f"Kendall's W = {two_decimals(self.kendall_w)}{self._w_interval()}"
            sentences.append(
                f"Agreement of the configurations on the order: {w}, "
                f"mean tau-b {two_decimals(self.mean_tau)}."
            )
        return [*sentences, *self._robustness_sentences()]

    def _leaders(self) -> list[str]:
        """Return the models with the best value under the base configuration, several if tied."""
        values = self.values[self.base]
        return [self.models[k] for k in np.flatnonzero(values == values.max()).tolist()]

    def _share_won(self, model: str) -> str:
        """Return the share of configurations that a model wins, with its interval if known."""
        text = percent_text(self.wins[model])
        if self.robustness is None:
            return text
        low, high = self.robustness.wins[self.models.index(model)]
        return f"{text} {interval_text(low, high, percent_text)}".rstrip()

    def _flip_sentence(self) -> str:
        """Return where the two best models change places."""
        if self.flip is None:
            best, second = np.sort(self.values[self.base])[[-1, -2]]
            if best == second:
                return "The two best models are tied under the base configuration."
            return "The two best models never change places."
        n = len(self.flip.changed)
        changes = "1 change" if n == 1 else f"{n} changes"
        return f"The order of the two best reverses after {changes}: {self.flip}."

    def _w_interval(self) -> str:
        if self.robustness is None:
            return ""
        return f" {interval_text(*self.robustness.kendall_w, two_decimals)}".rstrip()

    def _robustness_sentences(self) -> list[str]:
        robust = self.robustness
        if robust is None:
            return []
        k = int(np.argmax(robust.leads))
        return [
            f"In {percent_text(robust.leads[k])} of {robust.replicates} bootstrap samples, "
            f"resampled by {robust.unit} (n = {robust.n_units}), {self.models[k]} has the best "
            "value in more configurations than any other model; this is not a probability of "
            f"being better. In brackets: {level_text(robust.level)} percentile intervals."
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per configuration and model."""
        rows = []
        for k, one in enumerate(self.each):
            choices = {name: one.get(name) for name in self.choices}
            for m, model in enumerate(self.models):
                value, rank = float(self.values[k, m]), float(self.ranks[k, m])
                rows.append({**choices, "model": model, "value": number(value), "rank": rank})
        return rows

    def _content(self) -> dict[str, Any]:
        flip = None
        if self.flip is not None:
            flip = {"words": str(self.flip), "other": dict(self.flip.other)}
        robust = None
        if self.robustness is not None:
            robust = self.robustness.as_dict(self.models)
        return {
            "cohort": {"images": self.n_images, "references": self.n_references},
            "models": list(self.models),
            "choices": list(self.choices),
            "configurations": {
                "possible": self.n_possible,
                "different": len(self.each) + self.n_undefined,
                "undefined": self.n_undefined,
                "evaluated": len(self.each),
            },
            "base": dict(self.each[self.base]),
            "winner": self.winner,
            "wins": self.wins,
            "kendall_w": number(self.kendall_w),
            "mean_tau": number(self.mean_tau),
            "explained": self.explained,
            "better": self.better.tolist(),
            "flip": flip,
            "levels": [
                {"choice": name, "level": level, "configurations": n, "wins": wins}
                for name, level, n, wins in self.levels
            ],
            "sentences": self.sentences(),
            "robustness": robust,
            "rows": self.rows(),
        }


def _level_of(configuration: Mapping[str, Any], name: str) -> str | None:
    return str(configuration[name]) if name in configuration else None


def ranks_of(values: F64) -> F64:
    """Return (n, m) ranks of the models in every configuration.

    The highest value has rank 1; tied models share the mean of their ranks.
    """
    # By counting and not by sorting: ties come out right, and models are few.
    above = (values[:, None, :] > values[:, :, None]).sum(axis=2)
    equal = (values[:, None, :] == values[:, :, None]).sum(axis=2)
    return np.asarray(1.0 + above + (equal - 1) / 2.0)


def kendall_w(ranks: F64) -> float:
    """Return Kendall's W, corrected for ties: 1 if all configurations agree, near 0 at random.

    NaN for fewer than two configurations or models, or if all ranks are tied.
    """
    m, n = ranks.shape
    if m < 2 or n < 2:
        return float("nan")
    deviation = ((ranks.sum(axis=0) - m * (n + 1) / 2.0) ** 2).sum()
    # Each of t tied models has t equal ranks: the sum of t^2 - 1 over them is t^3 - t, the usual
    # correction of a group of ties.
    equal = (ranks[:, :, None] == ranks[:, None, :]).sum(axis=2)
    ties = float((equal**2 - 1).sum())
    maximum = m**2 * (n**3 - n) - m * ties
    if maximum <= 0:
        return float("nan")
    return float(12.0 * deviation / maximum)


def mean_tau(ranks: F64, seed: int = 0) -> float:
    """Return the mean Kendall tau-b over pairs of configurations, or over a random sample of them.

    Pairs in which one configuration ties all models have no tau and are left out.
    """
    n = len(ranks)
    first, second = np.triu_indices(n, 1)
    if len(first) > MOST_PAIRS:
        # A key of its own keeps the sample apart from replicates that share its seed.
        generator = np.random.Generator(np.random.Philox(key=[seed, 0x746175]))  # "tau" in ASCII
        sample = generator.choice(len(first), MOST_PAIRS, replace=False)
        first, second = first[sample], second[sample]
    a, b = np.triu_indices(ranks.shape[1], 1)
    order = np.sign(ranks[:, a] - ranks[:, b])  # (n, pairs of models)
    concordance = (order[first] * order[second]).sum(axis=1)
    untied = (order != 0).sum(axis=1).astype(np.float64)
    size = np.sqrt(untied[first] * untied[second])
    defined = size > 0
    if not defined.any():
        return float("nan")
    return float((concordance[defined] / size[defined]).mean())


def explained(outcome: F64, levels: Sequence[str | None]) -> float:
    """Return eta squared: the share of an outcome's variance between the levels of one choice.

    The level is None where the choice has no effect. Such configurations count in the total
    variance, but not between levels: what sets them apart is another choice.
    """
    total = ((outcome - outcome.mean()) ** 2).sum()
    effective = np.array([level is not None for level in levels])
    if not total > 0 or not effective.any():
        return 0.0
    # Levels are compared with the mean of the configurations in which the choice has an effect.
    names = np.array([level for level in levels if level is not None])
    code = np.unique(names, return_inverse=True)[1]
    part, n = outcome[effective], np.bincount(code)
    mean = np.bincount(code, weights=part) / n
    return float((n * (mean - part.mean()) ** 2).sum() / total)


def winners(ranks: F64) -> F64:
    """Return (n_models,) the share of configurations that each model wins; t tied winners get 1/t
    each.
    """
    first = ranks == ranks.min(axis=1, keepdims=True)
    return np.asarray((first / first.sum(axis=1, keepdims=True)).mean(axis=0))


def better(values: F64) -> F64:
    """Return (m, m): the share of configurations in which the row's model beats the column's."""
    return np.asarray((values[:, :, None] > values[:, None, :]).mean(axis=0))


def nearest_flip(
    values: F64, configurations: Sequence[Mapping[str, Any]], base: int, pair: tuple[int, int]
) -> int | None:
    """Return the configuration with the fewest changes from the base that reverses a pair.

    Of several, the one whose numbers lie nearest to those of the base; None if the order never
    reverses.
    """
    a, b = pair
    sign = np.sign(values[:, a] - values[:, b])
    reversals = np.flatnonzero(sign == -sign[base])
    if not len(reversals) or values[base, a] == values[base, b]:
        return None

    def distance(k: int) -> tuple[int, float]:
        changes = changes_of(configurations[base], configurations[k])
        # Of equally many changes, a threshold of 0.3 instead of 0.5 is nearer than 0.1.
        numbers = [(x, y) for x, y in changes.values() if _is_number(x) and _is_number(y)]
        return len(changes), sum(abs(x - y) for x, y in numbers)

    return int(min(reversals.tolist(), key=distance))


def changes_of(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the choices that two configurations make differently.

    A choice that only one of them has came with its metric, and does not count.
    """
    shared = [name for name in one if name in other]
    return {name: (one[name], other[name]) for name in shared if one[name] != other[name]}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def replicate_values(
    evaluation: Evaluation,
    names: Sequence[str],
    replicates: int,
    seed: int,
    progress: Progress | None = None,
    workers: int = 1,
) -> F64 | None:
    """Return (replicates, metrics, models) pooled values of the named metrics.

    None if there are too few units to resample. The weights depend on the seed only, not on what is
    evaluated, so that parts of a multiverse can be resampled one by one.
    """
    cohort, metrics = evaluation.cohort, evaluation.protocol.compile()
    units = evaluation.units
    if units.number < FEWEST_UNITS:
        return None
    cases = []
    for name in cohort.models:
        cases += [(metric, evaluation.evidence[name, metric.recipe.key]) for metric in metrics]
    total, count = -(-replicates // BLOCK), 0

    def report_block() -> None:
        nonlocal count
        count += 1
        if progress is not None:
            progress(count, total)

    blocks = bootstrap(units, replicates, seed)
    parts = weighed(cases, blocks, report_block, _pooled_values, workers)
    column_of = {name: k for k, name in enumerate(names)}
    table = np.full((replicates, len(names), len(cohort.models)), np.nan)
    for k, ((metric, _), (values,)) in enumerate(zip(cases, parts)):
        columns = [column_of[name] for name in metric.facts.names]
        model = k // len(metrics)  # cases go model by model
        table[:, columns, model] = values
    return table


def _pooled_values(metric: Metric[Any], evidence: Any, weights: Weights) -> tuple[F64, ...]:
    return (metric.value(evidence, weights)[:, 0, :],)


def robustness(
    point: F64, values: F64, pair: tuple[int, int], *, seed: int, unit: str, n_units: int
) -> Robustness:
    """Return the intervals of values (configurations, models) from those of bootstrap samples
    (B, configurations, models).

    ``pair`` are the two best models of the base. Within a bootstrap sample, configurations in which
    a model has no value are left out.
    """
    point_ranks = ranks_of(point)
    wins, agreement = [], []
    for sample in values:
        complete = sample[~np.isnan(sample).any(axis=1)]
        if len(complete):
            ranks = ranks_of(complete)
            wins.append(winners(ranks))
            agreement.append(kendall_w(ranks))
    shares = np.array(wins).reshape(-1, values.shape[2])
    # The two best of the base stay the same in all replicates: their order is the question.
    difference = values[:, :, pair[0]] - values[:, :, pair[1]]
    of_point = point[:, pair[0]] - point[:, pair[1]]
    leaders = shares == shares.max(axis=1, keepdims=True)
    return Robustness(
        wins=tuple(span(column, share) for column, share in zip(shares.T, winners(point_ranks))),
        leads=tuple((leaders / leaders.sum(axis=1, keepdims=True)).mean(axis=0).tolist()),
        kendall_w=span(np.array(agreement), kendall_w(point_ranks)),
        difference=np.array([span(*column) for column in zip(difference.T, of_point)]),
        replicates=len(values),
        seed=seed,
        unit=unit,
        n_units=n_units,
    )


def span(sample: F64, value: float) -> Span:
    """Return the percentile interval of the defined samples of a value, which it never leaves out.

    NaN if fewer than half are defined, or if they agree: a width of 0 would claim certainty.
    """
    values = sample[~np.isnan(sample)]
    # Quantiles of the few that are defined would look more certain than they are.
    if 2 * len(values) < len(sample) or not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    if low == high:
        return float("nan"), float("nan")
    # Samples of a share gather on few values, which may all lie on one side of it: configurations
    # in which two models are nearly equal often have one winner in the data.
    return min(float(low), value), max(float(high), value)


def configuration_text(configuration: Mapping[str, Any]) -> str:
    """Return a configuration in words: ``AP (criterion box-iou, threshold 0.5)``."""
    metric = str(configuration["metric"])
    others = [choice_text(name, value) for name, value in configuration.items() if name != "metric"]
    if not others:
        return metric
    return f"{metric} ({', '.join(others)})"


def configuration_label(configuration: Mapping[str, Any]) -> str:
    """Return a configuration in few words: ``AP, box-iou at 0.5``."""
    rule = [
        str(configuration[name]) for name in ("criterion", "threshold") if name in configuration
    ]
    metric = str(configuration["metric"])
    if not rule:
        return metric
    return f"{metric}, {' at '.join(rule)}"


def choice_name(name: str) -> str:
    """Return the name of a choice in words."""
    return name.replace("_", " ")


def choice_text(name: str, value: Any) -> str:
    """Return the value of a choice in words: ``threshold 0.5``, ``classes ignored``."""
    return OWN_WORDS.get((name, str(value)), f"{choice_name(name)} {value}")


def change_text(name: str, old: Any, new: Any) -> str:
    """Return a change in words: ``metric F1 instead of AP``."""
    own_words = (name, str(old)) in OWN_WORDS or (name, str(new)) in OWN_WORDS
    old_text = choice_text(name, old) if own_words else str(old)
    return f"{choice_text(name, new)} instead of {old_text}"
