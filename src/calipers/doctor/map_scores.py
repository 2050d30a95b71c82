# SPDX-License-Identifier: Apache-2.0
"""What may be wrong with the values of maps: channels, scores beyond 0..1, the background's scores.

Each check looks at the files of a folder that `calipers.doctor.volumes.volume_folders` surveyed,
most of them beside the labels, and yields `Symptom`s. Options of `calipers maps` that mend
something are added to a dictionary that all checks share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from calipers.arrays import Array
from calipers.doctor.findings import Symptom, few
from calipers.doctor.volumes.turned_volumes import MOST_OF, UNMET, voxel_dice
from calipers.io.volumes.values import INVERTED, LEAST_PERCENT, PERCENT
from calipers.io.volumes.volume import shape_text
from calipers.show.words import count_text, digits, whole_text

if TYPE_CHECKING:
    from calipers.doctor.volumes.volume_folders import Survey

MOST_TRIED = 12  # pairs on which channels and orders are tried
# Share of pairs of voxels in which the one on a reference has the higher score: mean of all maps.
MOST_INVERTED = 0.25
FEWEST_INVERTED = 3  # maps
# Share of the lowest or highest scores on a reference by which one is more than the other, and the
# share of maps in which it has to be.
CLEARLY, LEAST_LOWEST = 0.2, 0.3
OVERSHOOT = 0.2  # by which scores that were resampled may leave 0..1
LEAST_LOGIT = -88.0  # below it a sigmoid is 0 in 32 bits: values of an image, as of CT
FEWEST_OF_BOTH = 10  # predictions on references, and beside them, from which scores are compared
MOST_CLASSES = 20  # values up to here may be classes; pictures reach further


def channel_count(reference: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Return the number of channels of a file that has one more axis than its reference."""
    return shape[0] if len(shape) == len(reference) + 1 and shape[1:] == reference else 0


def channels(labels: Survey, one: Survey, options: dict[str, str]) -> Iterator[Symptom]:
    """Maps with several channels, of which one is to be chosen."""
    counts = {}
    for name, facts in one.files.items():
        if name in labels.files:
            count = channel_count(labels.files[name].volume.shape, facts.volume.shape)
            if count:
                counts[name] = count
    if not counts:
        return
    n_channels = max(counts.values())
    name = next(iter(counts))
    # A single channel leaves nothing to choose.
    channel: int | None = 0
    if n_channels > 1:
        channel = _best_channel(labels, one, list(counts)[:MOST_TRIED], n_channels)
    hint = f"choose one of 0 to {n_channels - 1} with --channel"
    reading = {}
    if channel is not None:
        options["channel"] = str(channel)
        reading = {"channel": channel}
        hint = f"pass --channel {channel}"
        if n_channels > 1:
            hint += ", which overlaps the references most"
        if len(labels.values) > 1 and n_channels == labels.values[-1] + 1:
            hint = "every class has a channel: pass --channel N with --mask-values N"
    yield Symptom(
        "channels",
        "error",
        one.source,
        f"maps have {count_text('channel', n_channels)}",
        len(counts),
        len(one.files),
        hint,
        few([f"{name}: {shape_text(one.files[name].volume.shape)}"]),
        reading=reading,
    )


def _best_channel(labels: Survey, one: Survey, cases: Sequence[str], n: int) -> int | None:
    overlaps = np.zeros(n)
    for name in cases:
        target = labels.files[name].volume.read() != 0
        winner = one.files[name].volume.read().argmax(axis=0)
        for channel in range(n):
            overlaps[channel] += voxel_dice(target, winner == channel) / len(cases)
    best = int(overlaps.argmax())
    return best if overlaps[best] > UNMET else None


def inverted_maps(
    labels: Survey, one: Survey, model: str, options: dict[str, str]
) -> Iterator[Symptom]:
    """Maps that are low on references and high beside them: those of the background.

    The normalisation that reverses them is added to ``options``.
    """
    agreement: list[float] = []
    gains: list[float] = []
    for name, facts in one.files.items():
        if len(agreement) >= MOST_TRIED:
            break
        reference = labels.files.get(name)
        if reference is None or not reference.high > 0:
            continue
        if facts.volume.shape != reference.volume.shape:
            continue
        target, scores = reference.volume.read() != 0, facts.volume.read()
        agreement.append(rank_agreement(scores[target], scores[~target]))
        gains.append(_gain_of_lowest(target, scores))
    n_inverted = sum(share < 0.5 for share in agreement)
    if not agreement or not (_are_inverted(agreement) or _are_lowest(np.array(gains))):
        return
    key = f"normalise {model}"
    options[key] = options[key] + INVERTED if key in options else INVERTED.removeprefix(",")
    yield Symptom(
        "score-inverted",
        "warning",
        one.source,
        "voxels of the references have lower scores than nearly all others",
        n_inverted,
        len(agreement),
        f"these look like scores of what is normal: --normalise {options[key]} takes 1 - score",
    )


def _are_inverted(agreement: Sequence[float]) -> bool:
    """Return whether scores are lower on the references of nearly all maps."""
    n_inverted = sum(share < 0.5 for share in agreement)
    if n_inverted < max(FEWEST_INVERTED, MOST_OF * len(agreement)):
        return False
    return bool(np.mean(agreement) <= MOST_INVERTED)


def _are_lowest(gains: Array) -> bool:
    """Return whether the lowest scores lie on references, and the highest do not, in many maps and
    hardly the other way round: so it is told of a model that misses most, too.
    """
    n_low, n_high = int((gains > CLEARLY).sum()), int((gains < -CLEARLY).sum())
    return n_low >= max(FEWEST_INVERTED, MOST_OF * (n_low + n_high), LEAST_LOWEST * len(gains))


def _gain_of_lowest(target: Array, scores: Array) -> float:
    """Return how much more of the lowest scores lies on a reference than of the highest; as many of
    each are looked at as the reference has voxels.
    """
    n, on = int(target.sum()), target.reshape(-1)
    order = np.argpartition(scores, (n - 1, scores.size - n), axis=None)
    return float(on[order[:n]].mean() - on[order[-n:]].mean())


def rank_agreement(on: Array, beside: Array) -> float:
    """Return how often a score on a reference is the higher one; equal scores count half."""
    if not len(on) or not len(beside):
        return 0.5
    order = np.sort(beside)
    lower = np.searchsorted(order, on).mean()
    not_higher = np.searchsorted(order, on, side="right").mean()
    return float((lower + not_higher) / 2 / len(beside))


def agreement_with_error(on: Array, beside: Array) -> tuple[float, float]:
    """Return `rank_agreement` and its standard error where scores mean nothing; 0.5 and 1 of few
    scores.
    """
    if min(len(on), len(beside)) < FEWEST_OF_BOTH:
        return 0.5, 1.0
    # Of the statistic of Mann and Whitney.
    error = float(np.sqrt((len(on) + len(beside) + 1) / (12 * len(on) * len(beside))))
    return rank_agreement(on, beside), error


def background_values(one: Survey) -> Iterator[Symptom]:
    """Whole numbers from 1 on in every voxel: labels that number the background, too."""
    if not one.files or one.low < 1 or one.high > MOST_CLASSES:
        return
    if not all(facts.whole for facts in one.files.values()):
        return
    n = len(one.files)
    yield Symptom(
        "label-background",
        "error",
        one.source,
        f"every voxel has a value from {whole_text(one.low)} to {whole_text(one.high)}: labels "
        "without a 0?",
        n,
        n,
        "save the background as 0, and the classes as 1, 2, ...",
        few(list(one.files)),
    )


def scale(one: Survey, model: str, options: dict[str, str]) -> Iterator[Symptom]:
    """Scores outside [0, 1] or without any difference; the normalisation of the model is added to
    ``options``.
    """
    low, high = one.low, one.high
    n = len(one.files)
    if low >= 0 and high <= 1:
        constant = [name for name, facts in one.files.items() if facts.low == facts.high]
        if len(constant) == n and n:
            message = "maps with the same value everywhere: they rank nothing"
            hint = "check the export: the maps should hold scores"
            yield Symptom("score-constant", "warning", one.source, message, n, n, hint)
        return
    outside = [name for name, facts in one.files.items() if facts.low < 0 or facts.high > 1]
    whole = all(facts.whole for facts in one.files.values())
    normalise = "odds"
    message = f"scores reach from {digits(low, 4)} to {digits(high, 4)}"
    hint = "these are not probabilities: --normalise odds keeps the order of scores of 0 or more"
    is_percent = LEAST_PERCENT < high <= PERCENT
    if low >= -OVERSHOOT and high <= 1 + OVERSHOOT:
        normalise, hint = "clip", "resampling went beyond 0..1: --normalise clip cuts scores there"
    elif low < LEAST_LOGIT or (whole and low < 0):
        # The remedy is another folder, not an option.
        yield Symptom(
            "score-range",
            "error",
            one.source,
            f"{message}, as in an image",
            len(outside),
            n,
            "give the folder of the maps: these look like the images themselves",
            few(outside),
        )
        return
    elif low < 0:
        normalise, hint = (
            "sigmoid",
            ("if these are logits, --normalise sigmoid turns them into scores"),
        )
    elif whole and high <= 65_535 and not is_percent:
        normalise = "uint8" if high <= 255 else "uint16"
        hint = f"these are pixels of a picture: --normalise {normalise}"
    elif is_percent:
        normalise, hint = (
            "percent",
            "if these are percentages, --normalise percent divides them by 100",
        )
    options[f"normalise {model}"] = normalise
    yield Symptom(
        "score-range",
        "error",
        one.source,
        message,
        len(outside),
        n,
        hint,
        few(outside),
        reading={"normalise": normalise},
    )
