# SPDX-License-Identifier: Apache-2.0
"""Which class of the references does a predicted class mean? The boxes tell.

Predictions whose class has a name in another language, a number of another list, or the name of
another class lie on references all the same. If nearly all of them lie on references of one class,
that is the class they mean. `class_votes` counts on which classes the boxes of every predicted
class lie; `renamed_classes` returns the classes of names that the references lack,
`exchanged_classes` those of names that are all in use for another class.

A class is never given to two predicted ones, and few boxes decide nothing.
`calipers.doctor.symptoms` calls this, and tries what comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calipers.arrays import I64
from calipers.data.cohort import Cohort
from calipers.doctor.trial import HIT, RawPredictions, selected
from calipers.kernels.boxes import overlapping

FEWEST_BOXES = 5  # that lie on references, of one predicted class
# Of the boxes of a class. A detector has more false alarms than hits; boxes that hardly ever lie on
# a reference tell nothing.
LEAST_ON_REFERENCES = 0.15
SAME_CLASS = 0.8  # of the boxes on references, those on references of one class
MOST_RIGHT = 0.2  # of the boxes on references, those of the right class where names are exchanged


class ClassVote(NamedTuple):
    """Where the boxes of one predicted class lie."""

    n_boxes: int
    n_on_references: int
    label: int  # the class of most of these references
    share: float  # of the boxes on references, those on this class

    @property
    def is_clear(self) -> bool:
        """Whether the boxes decide on a class."""
        is_enough = self.n_on_references >= FEWEST_BOXES
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
    n_classes = len(cohort.classes)
    return ClassVotes(
        {key: _vote(labels, n_classes) for key, labels in by_label.items()},
        {name: _vote(labels, n_classes) for name, labels in by_name.items()},
    )


def _vote(labels: Sequence[int], n_classes: int) -> ClassVote:
    on_references = [label for label in labels if label >= 0]
    counts = np.bincount(np.array(on_references, np.int64), minlength=n_classes)
    label = int(counts.argmax())
    share = float(counts[label]) / max(len(on_references), 1)
    return ClassVote(len(labels), len(on_references), label, share)


def renamed_classes(votes: ClassVotes) -> dict[object, int]:
    """Return the classes of unknown names, where the boxes are clear and the class is free."""
    clear = {name: vote.label for name, vote in votes.by_name.items() if vote.is_clear}
    n_names = Counter(clear.values())
    renamed = {}
    for name, label in clear.items():
        # Classes that predictions name rightly, or that two names mean, are not free.
        if label not in votes.by_label and n_names[label] == 1:
            renamed[name] = label
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
    # Labels without a clear vote keep their class, if nobody else has it now.
    for label in range(n_classes):
        meanings.setdefault(label, label)
    return meanings if len(set(meanings.values())) == n_classes else None


def targets(cohort: Cohort, sample: RawPredictions) -> tuple[I64, I64]:
    """Return the compared rows, and the class of the reference that each lies on, -1 if none."""
    picks = selected(cohort, sample)
    references = cohort.references
    label = np.zeros(len(picks.rows), np.int32)
    ours = (references.offsets, references.label, references.boxes, references.extent)
    theirs = (picks.offsets, label, picks.boxes, picks.extent)
    reference, prediction, iou = overlapping(ours, theirs, references.crowd, 0)
    target = np.full(len(picks.rows), -1, np.int64)
    # The best overlap is written last, and stays.
    order = np.argsort(iou, kind="stable")
    order = order[iou[order] >= HIT]
    target[prediction[order]] = references.label[reference[order]]
    return picks.rows, target
