# SPDX-License-Identifier: Apache-2.0
"""Which class of the references does a predicted class mean? The boxes tell.

Predictions whose class has a name in another language, a number of another list, or the name of
another class lie on references all the same. If nearly all of them lie on references of one class,
that is the class they mean. `class_votes` counts on which classes the boxes of every predicted
class lie; `renamed_classes` returns the classes of names that the references lack,
`exchanged_classes` those of names that are all in use for another class, `rearranged_classes` both
where names change places. `agrees_with_votes` says whether boxes speak against a fix.

A class is never given to two predicted ones, and few boxes decide nothing.
`calipers.doctor.symptoms` calls this, and tries what comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calipers.arrays import F64, I64
from calipers.data.cohort import Cohort
from calipers.doctor.trial import HIT, RawPredictions, selected
from calipers.kernels.boxes import overlapping

FEWEST_BOXES = 5  # that lie on references, of one predicted class
# Of the boxes of a class. A detector has more false alarms than hits; boxes that hardly ever lie on
# a reference tell nothing.
LEAST_ON_REFERENCES = 0.05
SAME_CLASS = 0.7  # of the boxes on references, those on references of one class
CERTAIN = 1e-3  # probability that so many lie on one class by chance, because it is frequent
MOST_RIGHT = 0.2  # of the boxes on references, those of the right class where names are exchanged


class ClassVote(NamedTuple):
    """Where the boxes of one predicted class lie."""

    n_boxes: int
    n_on_references: int
    label: int  # the class of most of these references
    share: float  # of the boxes on references, those on this class
    by_chance: float  # probability of so large a share, for boxes that know no class

    @property
    def is_clear(self) -> bool:
        """Whether the boxes decide on a class."""
        is_enough = self.n_on_references >= FEWEST_BOXES and self.by_chance < CERTAIN
        return is_enough and self.share >= SAME_CLASS and self.on_references >= LEAST_ON_REFERENCES

    @property
    def on_references(self) -> float:
        """The share of the boxes that lie on a reference."""
        return self.n_on_references / max(self.n_boxes, 1)


class ClassVotes(NamedTuple):
    """Where the boxes of every predicted class lie."""

    by_label: dict[int, ClassVote]
    by_name: dict[object, ClassVote]  # of classes that the references lack


def class_votes(cohort: Cohort, sample: RawPredictions) -> ClassVotes:
    """Return for every predicted class where its boxes lie."""
    rows, target = targets(cohort, sample)
    by_label: dict[int, list[int]] = {}
    by_name: dict[object, list[int]] = {}
    for row, label in zip(rows.tolist(), target.tolist()):
        if row in sample.label_names:
            by_name.setdefault(sample.label_names[row], []).append(label)
        else:
            by_label.setdefault(int(sample.label[row]), []).append(label)
    own_labels = cohort.references.label
    shares = np.bincount(own_labels, minlength=len(cohort.classes)) / max(len(own_labels), 1)
    return ClassVotes(
        {key: _vote(labels, shares) for key, labels in by_label.items()},
        {name: _vote(labels, shares) for name, labels in by_name.items()},
    )


def _vote(labels: Sequence[int], shares: F64) -> ClassVote:
    """Return the vote of the boxes of one class; ``shares`` are those of the references."""
    on_references = [label for label in labels if label >= 0]
    counts = np.bincount(np.array(on_references, np.int64), minlength=len(shares))
    label, n = int(counts.argmax()), len(on_references)
    k, p = int(counts[label]), float(shares[label])
    by_chance = 0.0
    # Of a single class there is nothing to confuse. Chance is bounded as by Hoeffding.
    if len(shares) > 1 and n:
        by_chance = 1.0 if k / n <= p else float(np.exp(-2.0 * n * (k / n - p) ** 2))
        if p > 0 and k == n:
            by_chance = p**n
    return ClassVote(len(labels), n, label, k / max(n, 1), by_chance)


def renamed_classes(votes: ClassVotes, n_classes: int) -> dict[object, int]:
    """Return the classes of unknown names, where the boxes are clear and the class is free."""
    clear = {name: vote.label for name, vote in votes.by_name.items() if vote.is_clear}
    n_names = Counter(clear.values())
    renamed = {}
    for name, label in clear.items():
        # Classes that predictions name rightly, or that two names mean, are not free.
        if label not in votes.by_label and n_names[label] == 1:
            renamed[name] = label
    # The last name means the last class, if its few boxes do not say otherwise.
    others = [name for name in votes.by_name if name not in clear]
    free = set(range(n_classes)) - set(votes.by_label) - set(renamed.values())
    if len(others) == len(free) == 1 and votes.by_name[others[0]].label in free:
        renamed[others[0]] = free.pop()
    return renamed


def exchanged_classes(votes: ClassVotes, n_classes: int) -> dict[int, int] | None:
    """Return the right class of every label, if the labels of most boxes are those of others."""
    meanings: dict[int, int] = {}
    n_met = n_right = 0.0
    for key, vote in votes.by_label.items():
        n_met += vote.n_on_references
        n_right += vote.n_on_references * (vote.share if vote.label == key else 0.0)
        if vote.is_clear:
            meanings[key] = vote.label
    changed = [key for key, label in meanings.items() if key != label]
    if len(changed) < 2 or n_right > MOST_RIGHT * n_met:
        return None
    others = [label for label in range(n_classes) if label not in meanings]
    free = set(range(n_classes)) - set(meanings.values())
    # The last label means the last class. Several without a clear vote keep theirs, if they can.
    if len(others) == len(free) == 1:
        meanings[others[0]] = free.pop()
    for label in others:
        meanings.setdefault(label, label)
    return meanings if len(set(meanings.values())) == n_classes else None


def rearranged_classes(
    votes: ClassVotes,
) -> tuple[dict[int, int], dict[object, int]] | None:
    """Return the right classes of labels, and of unknown names, that change places with each other.

    A model may take one class for another. It does not also take the other for the first, in most
    of its boxes: then the labels are in another order, whatever is right about further ones.
    """
    moved, named = {}, {}
    for key, vote in votes.by_label.items():
        if vote.is_clear and vote.label != key:
            moved[key] = vote.label
    for name, vote in votes.by_name.items():
        if vote.is_clear:
            named[name] = vote.label
    new = [*moved.values(), *named.values()]
    others = set(votes.by_label) - set(moved)
    is_free = len(set(new)) == len(new) and not others & set(new)
    # Every class that loses its boxes gets others.
    return (moved, named) if moved and is_free and set(moved) <= set(new) else None


def agrees_with_votes(votes: ClassVotes, sample: RawPredictions, label: I64) -> bool:
    """Return whether new labels are those for which the boxes of every old one vote, if clearly."""
    for row, name in sample.label_names.items():
        vote = votes.by_name.get(name)
        if vote is not None and vote.is_clear and label[row] != vote.label:
            return False
    for key, vote in votes.by_label.items():
        if vote.is_clear and (label[sample.label == key] != vote.label).any():
            return False
    return True


def targets(cohort: Cohort, sample: RawPredictions, least: float = HIT) -> tuple[I64, I64]:
    """Return the compared rows, and the class of the reference that each lies on, by an IoU of at
    least that; -1 if none.
    """
    picks = selected(cohort, sample)
    references = cohort.references
    label = np.zeros(len(picks.rows), np.int32)
    ours = (references.offsets, references.label, references.boxes, references.extent)
    theirs = (picks.offsets, label, picks.boxes, picks.extent)
    reference, prediction, iou = overlapping(ours, theirs, references.crowd, 0)
    target = np.full(len(picks.rows), -1, np.int64)
    # The best overlap is written last, and stays.
    order = np.argsort(iou, kind="stable")
    order = order[iou[order] >= least]
    target[prediction[order]] = references.label[reference[order]]
    return picks.rows, target
