# SPDX-License-Identifier: Apache-2.0
"""Display names of monitors: short enough for a page, and never two that look the same.

`bearable_monitors` takes an evaluation of monitors and returns it with such names; no number
changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from calipers.monitors.disagreement import Disagreement
from calipers.monitors.result import MonitorEvaluation
from calipers.report.naming import Short
from calipers.results import Row


def monitors_with_display_names(result: MonitorEvaluation) -> MonitorEvaluation:
    """Return the evaluation with display names of monitors, model, unit and images."""
    unit = result.settings["unit"]
    names = Short([*result.monitors, result.scope.model, *result.scope.images, unit])
    if not names.changed:
        return result
    name = names.name
    basis, scope = result.basis, result.scope
    disagreement = None
    if result.disagreement is not None:
        disagreement = _disagreement(result.disagreement, name)
    return replace(
        result,
        monitors=tuple(map(name, result.monitors)),
        scope=replace(scope, model=name(scope.model), images=tuple(map(name, scope.images))),
        rows=tuple(_row(row, name) for row in result.rows),
        thresholds={name(monitor): threshold for monitor, threshold in result.thresholds.items()},
        disagreement=disagreement,
        settings={**result.settings, "unit": name(unit)},
        basis=replace(
            basis,
            monitors=replace(basis.monitors, names=tuple(map(name, basis.monitors.names))),
            units=replace(basis.units, name=name(basis.units.name)),
            free=tuple(replace(one, model=name(one.model)) for one in basis.free),
            decided=tuple(replace(one, model=name(one.model)) for one in basis.decided),
        ),
    )


def _disagreement(result: Disagreement, name: Callable[[str], str]) -> Disagreement:
    alarms = {name(monitor): counts for monitor, counts in result.alarms.items()}
    return replace(result, alarms=alarms, rows=tuple(_row(row, name) for row in result.rows))


def _row(row: Row, name: Callable[[str], str]) -> Row:
    return replace(
        row, model=name(row.model), estimate=replace(row.estimate, unit=name(row.estimate.unit))
    )
