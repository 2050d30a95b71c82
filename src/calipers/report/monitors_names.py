# SPDX-License-Identifier: Apache-2.0
"""An evaluation of monitors with names that a page can show and a reader tell apart; the numbers
stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from calipers.monitors.disagreement import Disagreement
from calipers.monitors.result import MonitorEvaluation
from calipers.report.naming import Short
from calipers.results import Row


def bearable_monitors(result: MonitorEvaluation) -> MonitorEvaluation:
    """Return the evaluation with names of monitors, model, unit and images that are not too long
    and not alike.
    """
    unit = result.settings["unit"]
    names = Short([*result.monitors, result.scope.model, *result.scope.images, unit])
    if not names.changed:
        return result
    name = names.name
    basis = result.basis
    families = [
        tuple(replace(one, model=name(one.model)) for one in part)
        for part in (basis.free, basis.decided)
    ]
    return replace(
        result,
        monitors=tuple(map(name, result.monitors)),
        scope=replace(
            result.scope,
            model=name(result.scope.model),
            images=tuple(map(name, result.scope.images)),
        ),
        rows=tuple(_row(row, name) for row in result.rows),
        thresholds={name(monitor): threshold for monitor, threshold in result.thresholds.items()},
        disagreement=None
        if result.disagreement is None
        else _disagreement(result.disagreement, name),
        settings={**result.settings, "unit": name(unit)},
        basis=replace(
            basis,
            monitors=replace(basis.monitors, names=tuple(map(name, basis.monitors.names))),
            units=replace(basis.units, name=name(basis.units.name)),
            free=families[0],
            decided=families[1],
        ),
    )


def _disagreement(result: Disagreement, name: Callable[[str], str]) -> Disagreement:
    alarms = {name(monitor): counts for monitor, counts in result.alarms.items()}
    return replace(result, alarms=alarms, rows=tuple(_row(row, name) for row in result.rows))


def _row(row: Row, name: Callable[[str], str]) -> Row:
    return replace(
        row, model=name(row.model), estimate=replace(row.estimate, unit=name(row.estimate.unit))
    )
