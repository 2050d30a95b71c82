# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import calipers as cal
from calipers.report.context import context_of
from calipers.report.sections import MOST_CLASSES, section


def test_many_classes_are_cut_by_references_and_the_total_stays():
    names = tuple(f"class {k}" for k in range(MOST_CLASSES + 30))
    image = {"boxes": [[0, 0, 9, 9]] * 3, "labels": [170, 170, 3]}
    found = {"boxes": [[0, 0, 9, 9]], "labels": [3], "scores": [0.5]}
    ev = cal.evaluate(
        cal.Cohort.from_arrays([image] * 2, [found] * 2, classes=names), "overview", ci=False
    )
    table = section(context_of(ev, pictures=False)).split("</table>")[0]
    rows = re.findall(r'<tr[^>]*><td>(.*?)</td><td class="num">(\d+)</td>', table)
    assert len(rows) == MOST_CLASSES + 1
    assert ("class 170", "4") in rows
    assert rows[-1] == ("all classes", "6")
