"""A study made by hand, for tests of what surrounds studies."""

from __future__ import annotations

import numpy as np

from calipers.show.figures import Axis, Contour, Curves, Line
from calipers.show.table import Table
from calipers.studies.framework import Claim, StudyFigure, StudyResult

NASTY = "<script>alert(1)</script> & \u202e"


def small_result(words: str = "words", **changes) -> StudyResult:
    """One claim of every verdict, a figure with two panels, one with a single panel, a table."""
    x = np.array([0.0, 0.5, 1.0])
    curves = Curves(
        words, Axis("strength"), Axis("value"), (Line("AP", x, 1 - x, x - 0.1, x + 0.1),)
    )
    contour = Contour(words, Axis("a"), Axis("b"), x, x, np.outer(x, x), "value", (), 0.0, 1.0)
    claims = (
        Claim("one", f"{words} rise", "section 1", True, "0.1 to 0.2"),
        Claim("two", "b", "section 2", None, "some do", words),
        Claim("three", "c", "section 3", False, "they do not"),
        Claim("four", "d", "table 1", None, "no model was given", is_tested=False),
    )
    given = {
        "study": "made",
        "title": f"A made study: {words}",
        "citation": "Nobody N. Nothing. 2024.",
        "source": "Made data.",
        "seed": 3,
        "quick": True,
        "settings": {"runs": 2, "grid": [0.0, 0.5]},
        "claims": claims,
        "figures": (
            StudyFigure("figure-1", words, "A caption.", (curves, contour)),
            StudyFigure("figure-side", "t", "", (curves,)),
        ),
        "appendix": (
            Table(("class", "value"), ((words, 0.5), ("b", None)), name="table-1", title=words),
        ),
        "methods": (words,),
    }
    return StudyResult(**{**given, **changes})
