"""Every number of `evaluate_monitor` again, by trying all thresholds and counting pairs, from the
definitions alone.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.monitors.scope import Scope
from seeds import looped, looped_seeds

NAN = math.nan
ROUNDS = 150


def auroc(m: Any, y: Any) -> float:
    pairs = [(a > b) + 0.5 * (a == b) for a, u in zip(m, y) if u for b, v in zip(m, y) if not v]
    return float(np.mean(pairs))


def average_precision(m: Any, y: Any) -> float:
    total, before = 0.0, 0.0
    for t in sorted(set(m), reverse=True):
        rejected = [v >= t for v in m]
        tp = sum(r and u for r, u in zip(rejected, y))
        recall = tp / sum(y)
        total, before = total + (recall - before) * tp / sum(rejected), recall
    return total


def points(m: Any, y: Any) -> list[tuple[int, int, int, int]]:
    """Return TP FP FN TN at every threshold, the one that rejects nothing among them."""
    found = []
    for t in [*sorted(set(m)), math.inf]:
        r = [v >= t for v in m]
        tp, fp = sum(a and b for a, b in zip(r, y)), sum(a and not b for a, b in zip(r, y))
        found.append((tp, fp, sum(y) - tp, len(y) - sum(y) - fp))
    return found


def area_under_risk(m: Any, loss: Any, cumulative: bool = False) -> float:
    """Return the mean over k of the expected risk of the k images accepted first; ties are in
    random order.
    """
    order, accepted, total = sorted(set(m)), 0, 0.0
    risks: list[float] = []
    for value in order:
        group = [x for v, x in zip(m, loss) if v == value]
        for _ in group:
            accepted, total = accepted + 1, total + math.fsum(group) / len(group)
            risks.append(total / (len(m) if cumulative else accepted))
    return math.fsum(risks) / len(risks)


def expected_free(m: Any, y: Any) -> dict[str, float]:
    fpr = min(fp / (fp + tn) for tp, fp, fn, tn in points(m, y) if tp / (tp + fn) >= 0.95)
    loss = [float(u) for u in y]
    ideal = area_under_risk(list(range(len(loss))), sorted(loss))
    return {
        "AUROC": auroc(m, y),
        "AUPR": average_precision(m, y),
        "AUPR-in": average_precision([-v for v in m], [not u for u in y]),
        "FPR95": fpr,
        "TNR95": 1 - fpr,
        "best-F1": max(2 * tp / (2 * tp + fp + fn) for tp, fp, fn, tn in points(m, y)),
        "AURC": area_under_risk(m, loss),
        "E-AURC": area_under_risk(m, loss) - ideal,
        "AUGRC": area_under_risk(m, loss, cumulative=True),
    }


def expected_at(m: Any, y: Any, t: float) -> dict[str, float]:
    r = [v >= t for v in m]
    tp, fp = sum(a and b for a, b in zip(r, y)), sum(a and not b for a, b in zip(r, y))
    fn, tn, n = sum(y) - tp, len(y) - sum(y) - fp, len(y)
    root = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    sensitivity, specificity = tp / (tp + fn), tn / (tn + fp)
    return {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "FPR": fp / (fp + tn),
        "precision": tp / (tp + fp) if tp + fp else NAN,
        "F1": 2 * tp / (2 * tp + fp + fn),
        "MCC": (tp * tn - fp * fn) / root if root else NAN,
        "g-mean": math.sqrt(sensitivity * specificity),
        "Youden": sensitivity + specificity - 1,
        "SG": tp / n,
        "RH": fn / n,
        "AC": fp / n,
        "coverage": (fn + tn) / n,
        "rejected": (tp + fp) / n,
    }


def drawn(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, kind = int(rng.integers(2, 25)), int(rng.integers(0, 5))
    m, s = rng.normal(size=n), rng.integers(0, 6, n) / 5
    if kind == 1:
        m = rng.integers(0, 3, n).astype(float)
    elif kind == 2:
        m[:] = 0.25
    elif kind == 3:
        m = s + rng.integers(-1, 2, n) / 5
    elif kind == 4:
        s[:] = rng.choice([0.0, 0.4, 1.0])
    return m, s, rng.random(n) < rng.choice([0.0, 0.3, 0.7, 1.0])


def assert_numbers(found: Any, expected: dict[str, float], paradigm: str, mixed: bool) -> None:
    for name, value in expected.items():
        e = found.get(name, paradigm=paradigm)
        wanted = value if mixed or name in ("coverage", "rejected") else NAN
        assert e.value == pytest.approx(wanted, abs=1e-12, nan_ok=True), (name, paradigm)
        assert (e.reason == "not_requested") == (not math.isnan(e.value)), (name, e.reason)


@pytest.mark.parametrize("higher", [True, False])
@looped_seeds(ROUNDS, default=100)
def test_every_quantity_is_what_its_definition_says(seed: int, higher: bool) -> None:
    rng = np.random.default_rng([8, seed, higher])
    m, s, ood = drawn(rng)
    tau, threshold = (
        float(rng.choice([0.0, 0.2, 0.4, 0.5, 0.6, 1.0, 1.1])),
        float(rng.choice(m)),
    )  # attained values
    sign = 1 if higher else -1
    found = cal.evaluate_monitor(
        m, Scope.from_values(s), tau, ood, threshold=threshold, higher_is_alarm=higher, ci=False
    )
    assert found.get("prevalence").value == pytest.approx(np.mean(s < tau))
    for paradigm, labels in (("oms", s < tau), ("ood", ood)):
        y, alarm = labels.tolist(), (sign * m).tolist()
        mixed = 0 < sum(y) < len(y)
        blank = dict.fromkeys(
            ["AUROC", "AUPR", "AUPR-in", "FPR95", "TNR95", "best-F1", "AURC", "E-AURC", "AUGRC"],
            NAN,
        )
        at = expected_at(alarm, y, sign * threshold) if mixed else {}
        rejected = float(np.mean(sign * m >= sign * threshold))
        at |= {"coverage": 1 - rejected, "rejected": rejected}
        assert_numbers(found, (expected_free(alarm, y) if mixed else blank) | at, paradigm, mixed)
    unsafe, rejected = s < tau, sign * m >= sign * threshold
    assert found.disagreement is not None
    cells = found.disagreement.alarms["monitor"]
    for a, b, c in itertools.product((0, 1), repeat=3):
        assert cells[a, b, c] == ((ood == a) & (unsafe == b) & (rejected == c)).sum()


@looped("seed", range(60))
def test_graded_risk_and_the_sweep_are_what_their_definitions_say(seed: int) -> None:
    rng = np.random.default_rng([9, seed])
    m, s, _ = drawn(rng)
    if len(np.unique(s)) < 3:
        return
    found = cal.evaluate_monitor(
        m, Scope.from_values(s), float(np.unique(s)[1]), ci=False, threshold=None
    )
    loss = (1 - s).tolist()
    graded = area_under_risk(m.tolist(), loss)
    ideal = area_under_risk(list(range(len(loss))), sorted(loss))
    assert found.get("AURC/graded").value == pytest.approx(graded, abs=1e-12)
    assert found.get("E-AURC/graded").value == pytest.approx(graded - ideal, abs=1e-12)
    assert found.taus == tuple(np.unique(s)[1:])
    for tau in found.taus:
        free = expected_free(m.tolist(), (s < tau).tolist())
        for name in ("AUROC", "AUPR", "TNR95", "FPR95"):
            assert found.get(name, tau=tau).value == pytest.approx(free[name], abs=1e-12)
        assert found.get("prevalence", tau=tau).value == pytest.approx(np.mean(s < tau))


@looped("seed", range(40))
def test_stakes_are_what_their_definitions_say(seed: int) -> None:
    rng = np.random.default_rng([10, seed])
    n = int(rng.integers(4, 20))
    m, safe = rng.integers(0, 4, n).astype(float), rng.random(n) < 0.5
    if safe.all() or not safe.any():
        return
    h, g, v = rng.random(n), rng.random(n), rng.random(n) * 3
    fh, fg = float(rng.random() / 5), rng.random(n) / 5
    found = cal.evaluate_monitor(
        m,
        safe,
        threshold=2.0,
        hazard=h,
        reward=g,
        severity=v,
        fallback_hazard=fh,
        fallback_reward=fg,
        ci=False,
    )
    gain = left = cost = 0.0
    for i in range(n):
        rejected = m[i] >= 2
        hazard = h[i] * v[i]
        with_it = fh if rejected else hazard
        gain, left = gain + (hazard - with_it) / n, left + with_it / n
        cost += (g[i] - (fg[i] if rejected else g[i])) / n
    assert found.get("SG").value == pytest.approx(gain, abs=1e-12)
    assert found.get("RH").value == pytest.approx(left, abs=1e-12)
    assert found.get("AC").value == pytest.approx(cost, abs=1e-12)


@pytest.mark.parametrize("rule", ["q95-safe", "best-f1", "youden"])
@looped("seed", range(30))
def test_thresholds_are_those_of_the_tuning_images(seed: int, rule: str) -> None:
    rng = np.random.default_rng([11, seed])
    n = 60
    m, safe, tuning = rng.integers(0, 12, n) / 4, rng.random(n) < 0.6, rng.random(n) < 0.5
    found = cal.evaluate_monitor(m, safe, tuning=tuning, threshold=rule, ci=False)
    threshold = found.thresholds["monitor"]
    assert threshold is not None
    y = (~safe[tuning]).tolist()
    here, best = m[tuning], []
    for t in sorted(set(here.tolist())):
        r = here >= t
        tp, fp = int((r & ~safe[tuning]).sum()), int((r & safe[tuning]).sum())
        f1 = 2 * tp / (tp + fp + sum(y))
        best.append((f1 if rule == "best-f1" else tp / sum(y) - fp / (len(y) - sum(y)), t))
    if rule == "q95-safe":
        calm = here[safe[tuning]]
        lower = calm[
            calm < threshold.value
        ].max()  # the next threshold that rejects more of the safe images
        assert (calm >= lower).mean() > 0.05
        assert (here[safe[tuning]] >= threshold.value).mean() <= 0.05
    else:
        assert threshold.value == max(best)[1]
    wanted = expected_at(m[~tuning].tolist(), (~safe[~tuning]).tolist(), threshold.value)
    assert_numbers(found, wanted, "oms", mixed=True)


@pytest.mark.parametrize("classes", ["declared", "present", "micro"])
@looped("seed", range(25))
def test_scope_scores_are_what_their_definition_says(seed: int, classes: str) -> None:
    rng = np.random.default_rng([12, seed])
    names, images = [f"c{k}" for k in range(int(rng.integers(1, 4)))], [f"i{k}" for k in range(5)]

    def boxes(scored: bool) -> list[dict[str, Any]]:
        found = []
        for image in images:
            for _ in range(int(rng.integers(0, 4))):
                x, y = rng.integers(0, 4, 2) * 3
                entry = {
                    "image": image,
                    "label": str(rng.choice(names)),
                    "box": (x, y, x + 6, y + 6),
                }
                found.append(entry | ({"score": float(rng.integers(1, 10) / 10)} if scored else {}))
        return found

    references, predictions = boxes(False), boxes(True)
    cohort = cohort_of(images, names, references, predictions)
    found = cal.scope_scores(cohort, 0.5, classes=classes, score_cut=0.3)
    for image, s in zip(images, found.score):
        real = [r for r in references if r["image"] == image]
        said = [p for p in predictions if p["image"] == image and p["score"] >= 0.3]
        counts = []
        for name in names:
            x, d = (
                [r["box"] for r in real if r["label"] == name],
                [p["box"] for p in said if p["label"] == name],
            )
            counts.append((by_overlap(x, d), len(d), len(x)))
        assert s == pytest.approx(image_score(counts, classes), abs=1e-12)


def image_score(counts: list[tuple[int, int, int]], classes: str) -> float:
    if classes == "micro":
        counts = [(sum(c[0] for c in counts), sum(c[1] for c in counts), sum(c[2] for c in counts))]
    f1 = [
        2 * tp / (d + x) if d + x else 1.0 for tp, d, x in counts if d + x or classes != "present"
    ]
    return float(np.mean(f1)) if f1 else 1.0


def by_overlap(references: list[Any], predictions: list[Any]) -> int:
    """Return the hits when pairs are taken from the largest IoU down."""
    pairs = sorted(
        (
            (iou(r, p), -i, -j)
            for (i, r), (j, p) in itertools.product(enumerate(references), enumerate(predictions))
        ),
        reverse=True,
    )
    taken: set[tuple[str, int]] = set()
    hits = 0
    for value, i, j in pairs:
        if value >= 0.5 and ("r", i) not in taken and ("p", j) not in taken:
            taken |= {("r", i), ("p", j)}
            hits += 1
    return hits


def iou(a: Any, b: Any) -> float:
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(w, 0) * max(h, 0)
    return both / (2 * 36 - both)


def cohort_of(
    images: list[str], names: list[str], references: list[Any], predictions: list[Any]
) -> cal.Cohort:
    def of(image: str, entries: list[Any]) -> dict[str, Any]:
        here = [entry for entry in entries if entry["image"] == image]
        found: dict[str, Any] = {
            "boxes": np.array([entry["box"] for entry in here], float).reshape(-1, 4)
        }
        found["labels"] = [names.index(entry["label"]) for entry in here]
        return found | (
            {"scores": [entry["score"] for entry in here]} if entries is predictions else {}
        )

    real, said = ([of(image, entries) for image in images] for entries in (references, predictions))
    return cal.Cohort.from_arrays(real, said, classes=names, box_format="xyxy")
