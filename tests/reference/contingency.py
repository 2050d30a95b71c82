"""Scores of one 2x2 table in plain Python, by their definitions with chance terms; None where
undefined.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Score = float | None


def ratio(part: float, whole: float) -> Score:
    return None if whole == 0 else part / whole


def beyond_chance(po: float, pe: float) -> Score:
    return None if math.isclose(pe, 1, rel_tol=1e-15) else (po - pe) / (1 - pe)


def kappa(a: int, b: int, c: int, d: int) -> Score:
    n = a + b + c + d
    p, q = (a + b) / n, (a + c) / n
    return beyond_chance((a + d) / n, p * q + (1 - p) * (1 - q))


def scott(a: int, b: int, c: int, d: int) -> Score:
    n = a + b + c + d
    pi = (2 * a + b + c) / (2 * n)
    return beyond_chance((a + d) / n, pi**2 + (1 - pi) ** 2)


def alpha(a: int, b: int, c: int, d: int) -> Score:
    value = scott(a, b, c, d)
    return None if value is None else 1 - (1 - value) * (1 - 1 / (2 * (a + b + c + d)))


def ac1(a: int, b: int, c: int, d: int) -> Score:
    n = a + b + c + d
    pi = (2 * a + b + c) / (2 * n)
    return beyond_chance((a + d) / n, 2 * pi * (1 - pi))


def apj(a: int, b: int, c: int, d: int) -> Score:
    if a + b + c == 0 or b + c + d == 0:
        return None
    expected = (a + b) * (a + c) / (a + b + c + d)
    return ratio(a - expected, a + b + c - expected)


def apo(a: int, b: int, c: int, d: int) -> Score:
    n = a + b + c + d
    if 0 in (a + b, a + c) or n in (a + b, a + c):
        return None
    expected = (a + b) * (a + c) / n
    return ratio(a - expected, min(a + b, a + c) - expected)


def hapj(a: int, b: int, c: int, d: int) -> Score:
    forced = max(a + b + a + c - (a + b + c + d), 0)
    return ratio(a - forced, a + b + c - forced)


def mcc(a: int, b: int, c: int, d: int) -> Score:
    return ratio(a * d - b * c, math.sqrt((a + b) * (a + c) * (d + b) * (d + c)))


def balanced(a: int, b: int, c: int, d: int) -> Score:
    first, second = ratio(a, a + c), ratio(d, d + b)
    return None if first is None or second is None else (first + second) / 2


SCORES: dict[str, Callable[[int, int, int, int], Score]] = {
    "sensitivity": lambda a, b, c, d: ratio(a, a + c),
    "specificity": lambda a, b, c, d: ratio(d, d + b),
    "PPV": lambda a, b, c, d: ratio(a, a + b),
    "NPV": lambda a, b, c, d: ratio(d, d + c),
    "balanced-accuracy": balanced,
    "MCC": mcc,
    "po": lambda a, b, c, d: ratio(a + d, a + b + c + d),
    "kappa": kappa,
    "Scott-pi": scott,
    "alpha": alpha,
    "PABAK": lambda a, b, c, d: 2 * (a + d) / (a + b + c + d) - 1,
    "AC1": ac1,
    "prevalence-index": lambda a, b, c, d: (a - d) / (a + b + c + d),
    "bias-index": lambda a, b, c, d: (b - c) / (a + b + c + d),
    "PAR": lambda a, b, c, d: ratio(2 * a, 2 * a + b + c),
    "NAR": lambda a, b, c, d: ratio(2 * d, 2 * d + b + c),
    "PJ": lambda a, b, c, d: ratio(a, a + b + c),
    "PO": lambda a, b, c, d: ratio(a, min(b, c) + a),
    "APO": apo,
    "HAPJ": hapj,
    "APJ": apj,
    "positive_share": lambda a, b, c, d: a / (a + b + c + d),
    "n0*-n1*": lambda a, b, c, d: float(c + d - a - b),
    "n*0-n*1": lambda a, b, c, d: float(b + d - a - c),
}
