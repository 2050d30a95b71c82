"""Formulas: what they mean, and what is answered to those that mean nothing."""

from __future__ import annotations

import pytest

import calipers as cal
from calipers.regression.design import Formula


@pytest.mark.parametrize(
    ("text", "response", "terms", "intercept"),
    [
        ("y ~ a", "y", (("a",),), True),
        ("y~a+b+a:b", "y", (("a",), ("b",), ("a", "b")), True),
        ("y ~ a:b + b + a", "y", (("b",), ("a",), ("a", "b")), True),
        ("y ~ 1", "y", (), True),
        ("y ~ a - 1", "y", (("a",),), False),
        ("y ~ 0 + a", "y", (("a",),), False),
        ("y ~ -1 + a", "y", (("a",),), False),
        ("y ~ a + b:a + a:b + a", "y", (("a",), ("b", "a")), True),
        ("`best IoU` ~ `polyp type`", "best IoU", (("polyp type",),), True),
        ("~ size", "", (("size",),), True),
        ("größe ~ x.1", "größe", (("x.1",),), True),
        ("y ~ C(a) + b:C( a )", "y", (("a",), ("b", "a")), True),
        ("y ~ C(`my age`) + C", "y", (("my age",), ("C",)), True),
    ],
)
def test_a_formula_is_understood(
    text: str, response: str, terms: tuple[tuple[str, ...], ...], intercept: bool
) -> None:
    found = Formula.parse(text)
    assert (found.response, found.terms, found.intercept) == (response, terms, intercept)
    assert Formula.parse(str(found)) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y", "one ~"),
        ("y ~ a ~ b", "one ~"),
        ("y ~", "is incomplete"),
        ("y ~ a +", "is incomplete"),
        ("y ~ a b", "'b' is not expected"),
        ("y ~ :a", "':' is not expected"),
        ("y ~ a -- b", "'-' is not expected"),
        ("y ~ a * b", r"cannot read '\* b'"),
        ("y ~ log(a)", r"cannot read '\(a\)'"),
        ("y ~ 2", "cannot read '2'"),
        ("y ~ -a", "only the intercept"),
        ("y ~ a:1", "only the intercept"),
        ("y ~ 0", "nothing is left"),
        ("y ~ y", "cannot be its own predictor"),
        ("y z ~ a", "one column stands before"),
        ("1 ~ a", "one column stands before"),
        ("y ~ a + (1 | centre)", "name their columns as groups"),
        ("y ~ a + C(a)", "'a' is a number and a category"),
        ("C(y) ~ a", "one column stands before"),
        ("y ~ C(a", r"cannot read '\(a'"),
        ("y ~ C(a + b)", r"cannot read '\(a \+ b\)'"),
    ],
)
def test_nonsense_is_answered(text: str, said: str) -> None:
    with pytest.raises(cal.UsageError, match=said):
        Formula.parse(text)
