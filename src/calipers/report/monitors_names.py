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


def bearable_monitors(found: MonitorEvaluation) -> MonitorEvaluation:
    """Return the evaluation with names of monitors, model, unit and images that are not too long
    and not alike.
    """
    unit = found.settings["unit"]
    names = Short([*found.monitors, found.scope.model, *found.scope.images, unit])
    if not names.changed:
        return found
    name = names.name
    basis = found.basis
    families = [
        tuple(replace(one, model=name(one.model)) for one in part)
        for part in (basis.free, basis.decided)
    ]
    return replace(
        found,
        monitors=tuple(map(name, found.monitors)),
        scope=replace(
            found.scope, model=name(found.scope.model), images=tuple(map(name, found.scope.images))
        ),
        rows=tuple(_row(row, name) for row in found.rows),
        thresholds={name(monitor): threshold for monitor, threshold in found.thresholds.items()},
        disagreement=None
        if found.disagreement is None
        else _disagreement(found.disagreement, name),
        settings={**found.settings, "unit": name(unit)},
        basis=replace(
            basis,
            monitors=replace(basis.monitors, names=tuple(map(name, basis.monitors.names))),
            units=replace(basis.units, name=name(basis.units.name)),
            free=families[0],
            decided=families[1],
        ),
    )


def _disagreement(found: Disagreement, name: Callable[[str], str]) -> Disagreement:
    alarms = {name(monitor): counts for monitor, counts in found.alarms.items()}
    return replace(found, alarms=alarms, rows=tuple(_row(row, name) for row in found.rows))


def _row(row: Row, name: Callable[[str], str]) -> Row:
    return replace(
        row, model=name(row.model), estimate=replace(row.estimate, unit=name(row.estimate.unit))
    )
