# SPDX-License-Identifier: Apache-2.0
"""Labels, alarm scores and thresholds: everything that an evaluation of monitors is computed from.

`evaluate_monitor` calls all of it. `labellings_of` gives the labels of the images on which an alarm
is wanted (positive): those out of the model's scope at a tau (OMS), or those out of distribution
(OOD). *Headlines* are the labels whose results are stated: OMS at the single tau of the caller, and
OOD. The other labels belong to the sweep over tau.

`monitors_of`, `flags_of` and `numbers_of` check the arrays, mappings or tables of the caller, and
bring them into the order of the scope's images (`order_of`).

`thresholds_of` gives the threshold of every monitor: a number of the user, or a rule on tuning
images that are not judged (`split_of`). An image is rejected if its alarm score is at least the
threshold. The rules:

``q95-safe``
    rejects what lies above the 95th percentile of the images on which no alarm is wanted: the
    lowest threshold that rejects at most 5 % of them. With many equal scores it may reject far
    fewer.
``best-f1``, ``youden``
    the attained score with the largest F1, or the largest sensitivity + specificity; the highest of
    equals.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Flags
from calipers.errors import InputError, UsageError, did_you_mean, finite, flag, several, word
from calipers.kernels.resampling import generator
from calipers.kernels.roc import Cuts, operating
from calipers.monitors.scope import Scope, array_of
from calipers.show.words import digits
from calipers.statistics.weights import Units

OMS, OOD = "oms", "ood"
PARADIGMS = (OMS, OOD)

LARGEST = 1e100  # of a hazard or reward: sums and products of them stay finite
ONLY = "monitor"  # the name of a monitor that came without one

RULES = ("q95-safe", "best-f1", "youden")
# The share of images without a wanted alarm that q95-safe accepts.
ACCEPTED = 0.95
HALVES = 2**63  # the replicates whose random numbers split the units; no bootstrap comes that far
Rule = float | str | None


@dataclass(frozen=True)
class Labelling:
    """One definition of the images on which an alarm is wanted."""

    paradigm: str
    positive: Flags  # (n,) an alarm is wanted
    tau: float | None = None
    swept: bool = False  # part of the sweep, not a headline

    @property
    def group(self) -> dict[str, str]:
        """The group of its rows."""
        group = {"paradigm": self.paradigm}
        if self.swept:
            group["tau"] = tau_text(self.tau)
        return group

    def take(self, images: Flags) -> Labelling:
        """Return the labels of some images."""
        return Labelling(self.paradigm, self.positive[images], self.tau, self.swept)


def labellings_of(
    scope: Scope, tau: float | Sequence[float] | None, ood: Flags | None
) -> list[Labelling]:
    """Return the headlines, then the sweep, rising in tau.

    A single tau is a headline, and every tau that makes a difference is swept beside it. Several
    are swept and none is a headline. Without a tau a scope of 0 and 1 needs none, and other scopes
    are swept.
    """
    one, several = _taus(scope, tau)
    labels = []
    if one is not None:
        labels.append(Labelling(OMS, scope.unsafe(one), one))
    if ood is not None:
        labels.append(Labelling(OOD, ood))
    labels += [Labelling(OMS, scope.unsafe(value), value, swept=True) for value in several]
    if not labels:
        raise InputError(
            "different scores, or a tau, or OOD labels",
            rule="constant-scope",
            value=f"s = {scope.score[0]:g} on all {len(scope)} images",
            hint="if all scores are equal, no tau separates safe from unsafe images: "
            "give tau=..., or ood=...",
        )
    return labels


def tau_text(tau: float | None) -> str:
    """Return a tau as the text of a group: all digits, no trailing .0."""
    return repr(float(tau if tau is not None else np.nan)).removesuffix(".0")


def _taus(scope: Scope, tau: float | Sequence[float] | None) -> tuple[float | None, list[float]]:
    """Return the tau of the headline, if there is one, and those of the sweep."""
    if tau is None:  # every tau in (0, 1] gives the same labels of a scope of 0 and 1
        return (1.0, []) if scope.binary else (None, scope.taus().tolist())
    taus = [finite("tau", value) for value in np.ravel(np.asarray(tau, object)).tolist()]
    if not taus:
        raise UsageError("no tau: give one, several, or leave it out for a sweep")
    if len(taus) > 1:
        return None, sorted(set(taus))
    return taus[0], [] if scope.binary else scope.taus().tolist()


@runtime_checkable
class AlarmTable(Protocol):
    """A table read from a file of alarms: scores of several monitors, and flags of the images."""

    @property
    def names(self) -> Sequence[str]:
        """The monitors."""
        ...

    @property
    def values(self) -> NDArray[Any]:
        """(M, n) scores."""
        ...

    @property
    def ood(self) -> Flags | None:
        """(n,) which images are out of distribution, if the file says so."""
        ...

    @property
    def tuning(self) -> Flags | None:
        """(n,) which images thresholds may be chosen on, if the file says so."""
        ...


@dataclass(frozen=True)
class Monitors:
    """Alarm scores in the order of the images, turned so that high means alarm."""

    names: tuple[str, ...]
    alarm: F64  # (M, n)
    higher_is_alarm: tuple[bool, ...]
    switches: tuple[bool, ...]  # monitors that only say yes or no

    def index(self, name: str | None) -> int:
        """Return which monitor is meant; with a single one the name may be left out."""
        if name is None:
            if len(self.names) > 1:
                raise UsageError(f"there are several monitors: name one of {', '.join(self.names)}")
            return 0
        if word("a monitor", name) not in self.names:
            raise UsageError(f"no monitor {name!r}; {did_you_mean(name, self.names)}")
        return self.names.index(name)


def monitors_of(
    alarms: Any,
    images: Sequence[str],
    order: I64 | None,
    higher_is_alarm: bool | Mapping[str, bool],
) -> Monitors:
    """Return the monitors of an array, a mapping of arrays or a table of alarms.

    Parameters
    ----------
    images
        The ids of the scope, for messages.
    order
        Which entry of an array belongs to each of them; None: they are in order.
    """
    columns = _columns(alarms)
    if not columns:
        raise UsageError("no monitor: give an array of alarm scores, or several by name")
    directions = _directions(higher_is_alarm, list(columns))
    scores, switches = [], []
    for name, column in columns.items():
        values, switch = _checked(name, column, images, order)
        # Turned once, so that high means alarm everywhere below; messages turn it back.
        scores.append(values if directions[name] else -values)
        switches.append(switch)
    higher = tuple(directions[name] for name in columns)
    return Monitors(tuple(columns), np.stack(scores), higher, tuple(switches))


def order_of(alarm_images: Sequence[str] | None, images: Sequence[str]) -> I64 | None:
    """Return the index of each image of the scope among the images of the alarms."""
    if alarm_images is None:
        return None
    names = [str(name) for name in several("images", alarm_images)]
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise InputError("every image once", rule="dup-image", field="images", value=twice)
    place = {name: k for k, name in enumerate(names)}
    missing = [name for name in images if name not in place]
    if missing:
        raise InputError(
            "an alarm score",
            rule="missing-image",
            location=f"image {missing[0]!r}",
            value=f"{len(missing)} of {len(images)} images without one",
            hint="every image of the scope needs an alarm score",
        )
    scope = set(images)
    # An alarm of an image that is not evaluated is a sign of two different data sets.
    strangers = [name for name in names if name not in scope]
    if strangers:
        raise InputError(
            "images of the scope",
            rule="unknown-image",
            location=f"image {strangers[0]!r}",
            value=f"{len(strangers)} unknown images",
        )
    return np.array([place[name] for name in images], np.int64)


def flags_of(values: Any, name: str, images: Sequence[str], order: I64 | None) -> Flags | None:
    """Return one flag per image from booleans, or numbers 0 and 1; None for None."""
    if values is None:
        return None
    column = array_of(values, name)
    if column.shape != (len(images),):
        raise InputError(
            f"one entry for each of {len(images)} images",
            rule="length",
            field=name,
            value=column.shape,
        )
    if column.dtype.kind not in "biuf":
        raise InputError("true or false, 1 or 0", rule="type", field=name, value=str(column.dtype))
    column = column if order is None else column[order]
    wrong = np.flatnonzero(~np.isin(column, (0, 1)))
    if len(wrong):
        where, value = f"image {images[wrong[0]]!r}", column[wrong[0]].item()
        raise InputError(
            "true or false, 1 or 0", rule="flag", location=where, field=name, value=value
        )
    return column.astype(np.bool_)


def numbers_of(entries: Any, name: str, images: Sequence[str], order: I64 | None) -> F64:
    """Return one finite number of at least 0 per image, from an array or a single number."""
    column = array_of(entries, name)
    if column.dtype.kind not in "biuf" or column.shape not in ((), (len(images),)):
        value = f"{column.dtype} of shape {column.shape}"
        raise InputError("a number, or one per image", rule="type", field=name, value=value)
    values = np.broadcast_to(column.astype(np.float64), (len(images),))
    values = values if order is None or not column.shape else values[order]
    wrong = np.flatnonzero(~((values >= 0) & (values <= LARGEST)))
    if len(wrong):
        where, value = f"image {images[wrong[0]]!r}", values[wrong[0]].item()
        raise InputError(
            f"a number from 0 to {LARGEST:g}", rule="range", location=where, field=name, value=value
        )
    return np.asarray(values)


def _columns(alarms: Any) -> dict[str, NDArray[Any]]:
    if isinstance(alarms, AlarmTable):
        return dict(zip((str(name) for name in alarms.names), np.asarray(alarms.values)))
    if isinstance(alarms, Mapping):
        return {str(name): array_of(column, str(name)) for name, column in alarms.items()}
    return {ONLY: array_of(alarms, "alarm_scores")}


def _directions(
    higher_is_alarm: bool | Mapping[str, bool], names: Sequence[str]
) -> dict[str, bool]:
    if not isinstance(higher_is_alarm, Mapping):
        return {name: flag("higher_is_alarm", higher_is_alarm) for name in names}
    for name in higher_is_alarm:
        if name not in names:
            raise UsageError(f"higher_is_alarm: no monitor {name!r}; {did_you_mean(name, names)}")
    return {
        name: flag(f"higher_is_alarm[{name!r}]", higher_is_alarm.get(name, True)) for name in names
    }


def _checked(
    name: str, column: NDArray[Any], images: Sequence[str], order: I64 | None
) -> tuple[F64, bool]:
    """Return the scores of one monitor, and whether it only says yes or no."""
    if column.shape != (len(images),):
        hint = "with alarms in another order, or of a file, give their image ids: images=..."
        value = f"shape {column.shape}"
        raise InputError(
            f"{len(images)} alarm scores", rule="length", field=name, value=value, hint=hint
        )
    if column.dtype.kind not in "biuf":
        raise InputError(
            "numbers or true and false", rule="type", field=name, value=str(column.dtype)
        )
    column = column if order is None else column[order]
    values = column.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        where, value = f"image {images[wrong[0]]!r}", values[wrong[0]].item()
        hint = "a monitor that cannot judge an image should give its highest or its lowest score"
        raise InputError(
            "a finite alarm score",
            rule="non-finite",
            location=where,
            field=name,
            value=value,
            hint=hint,
        )
    return values, bool(np.isin(values, (0.0, 1.0)).all())


@dataclass(frozen=True)
class Threshold:
    """The score from which on a monitor alarms, and how it was chosen."""

    value: float  # on the scale on which high means alarm; NaN: the rule finds none
    rule: str  # "given", "switch" or one of RULES
    n_tuning: int  # images it was chosen on
    own_value: float  # the same on the monitor's own scale

    @property
    def exists(self) -> bool:
        """Whether there is a threshold."""
        return not math.isnan(self.value)

    def rejected(self, alarm: F64) -> Flags:
        """Return which images are rejected."""
        return np.asarray(alarm >= self.value)


@dataclass(frozen=True)
class Split:
    """Which images thresholds are chosen on, and which are judged with them."""

    tuning: Flags
    judged: Flags
    random: bool  # a random split, because no tuning images were given
    notes: tuple[str, ...] = ()  # on patients that are on both sides


def rules_of(threshold: Rule | Mapping[str, Rule], monitors: Monitors) -> list[Rule]:
    """Return the rule of every monitor: a number, the name of one, None for no threshold."""
    if isinstance(threshold, Mapping):
        for name in threshold:
            if name not in monitors.names:
                raise UsageError(
                    f"threshold: no monitor {name!r}; {did_you_mean(name, monitors.names)}"
                )
        rules = [threshold.get(name, "q95-safe") for name in monitors.names]
    else:
        rules = [threshold] * len(monitors.names)
    for rule in rules:
        if isinstance(rule, str) and rule not in RULES:
            raise UsageError(
                f"no threshold rule {rule!r}; {did_you_mean(rule, RULES)}, or a number"
            )
        if not isinstance(rule, str) and rule is not None:
            finite("a threshold", rule)
    return rules


def split_of(
    rules: list[Rule], monitors: Monitors, tuning: Flags | None, units: Units, seed: int
) -> Split:
    """Return the images to choose on and the images to judge.

    Without tuning images of the caller, all images are judged if no threshold has to be chosen;
    else the units are split into two random halves.
    """
    n = monitors.alarm.shape[1]
    if tuning is not None:
        return Split(tuning, ~tuning, random=False)
    needs_tuning = any(
        isinstance(rule, str) and not switch for rule, switch in zip(rules, monitors.switches)
    )
    if not needs_tuning:
        return Split(np.zeros(n, np.bool_), np.ones(n, np.bool_), random=False)
    return random_half(units, seed)


def random_half(units: Units, seed: int, k: int = 0) -> Split:
    """Return the k-th random split of the units of a seed into two halves."""
    # whole units, so that images of one patient never lie in both halves
    whole, n_outer = units.outer_code, int(units.outer_code.max(initial=-1)) + 1
    order = generator(seed, HALVES + k).permutation(n_outer)
    first = np.zeros(n_outer, np.bool_)
    first[order[: n_outer // 2]] = True
    return Split(first[whole], ~first[whole], random=True)


def thresholds_of(
    rules: list[Rule], monitors: Monitors, split: Split, positive: Flags
) -> list[Threshold | None]:
    """Return the threshold of every monitor, or None for the rule None."""
    thresholds = []
    for k, rule in enumerate(rules):
        switch, higher = monitors.switches[k], monitors.higher_is_alarm[k]
        thresholds.append(
            _threshold(rule, monitors.alarm[k], split.tuning, positive, switch, higher)
        )
    return thresholds


def _threshold(
    rule: Rule, alarm: F64, tuning: Flags, positive: Flags, switch: bool, higher: bool
) -> Threshold | None:
    if rule is None:
        return None
    sign = 1.0 if higher else -1.0
    if not isinstance(rule, str):
        return Threshold(sign * float(rule), "given", 0, float(rule))
    if switch:  # a monitor that only says yes or no has one threshold: nothing is chosen
        on = 1.0 if higher else 0.0
        return Threshold(sign * on, "switch", 0, on)
    value = choose_threshold(rule, alarm[tuning], positive[tuning])
    return Threshold(value, rule, int(tuning.sum()), sign * value)


def choose_threshold(rule: str, alarm: F64, positive: Flags) -> float:
    """Return the threshold that a rule finds on some images; NaN if they lack the kind it needs."""
    if rule == "q95-safe":
        return above_safe(alarm[~positive])
    if not positive.any() or positive.all():
        return math.nan
    points = operating(alarm, positive, np.ones((1, len(alarm)), np.int64))
    tp, fp = points.tp[:, 0], points.fp[:, 0]
    if rule == "best-f1":
        quality = 2.0 * tp / (tp + fp + points.positives)
    else:
        # Sensitivity + specificity, less 1, which changes no order.
        quality = tp / points.positives - fp / points.others
    # Cuts fall in score and argmax takes the first: the highest of equal thresholds.
    return float(Cuts.of(alarm).threshold[int(np.argmax(quality))])


def above_safe(alarm: F64) -> float:
    """Return the lowest threshold that rejects at most 5 % of the images; NaN without images."""
    if not len(alarm):
        return math.nan
    # 1e-9: 0.95 n must not round up to one image more
    n_accepted = max(math.ceil(ACCEPTED * len(alarm) - 1e-9), 1)
    # Rejected is at least the threshold, so the score itself must lie below it.
    return float(np.nextafter(np.sort(alarm)[n_accepted - 1], np.inf))


def threshold_text(threshold: Threshold | None, others: str = "safe images") -> str:
    """Return a threshold and its rule in words; ``others`` names the images without an alarm."""
    if threshold is None:
        return "no threshold"
    n = threshold.n_tuning
    at = f"threshold {_number(threshold.own_value)}"
    # where low scores mean alarm, the scale is turned round
    side = "above" if threshold.value == threshold.own_value else "below"
    words: dict[str, Any] = {
        "given": f"{at}, as given",
        "switch": "the monitor's own alarm",
        "q95-safe": f"{at}, {side} 95 % of the {others} among {n} tuning images",
        "best-f1": f"{at}, the best F1 on {n} tuning images",
        "youden": f"{at}, the best Youden index on {n} tuning images",
    }
    return str(words[threshold.rule])


def _number(value: float) -> str:
    """Return a threshold for a reader; subnormal numbers, the neighbours of 0, in words."""
    if 0 < abs(value) < sys.float_info.min:
        return "just above 0" if value > 0 else "just below 0"
    return digits(value, 4)
