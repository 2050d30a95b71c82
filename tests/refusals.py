"""What every reader does with one broken record: strict refuses it with its place, lenient accounts
for it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from calipers.data.cohort import Cohort
from calipers.errors import InputError


def assert_refused_or_set_aside(
    attempt: Callable[..., Cohort], file: int, rule: str, place: str
) -> tuple[InputError, Cohort]:
    """Check both modes; return the error of the strict one and the cohort of the lenient one."""
    with pytest.raises(InputError) as refused:
        attempt()
    assert (refused.value.rule, refused.value.location) == (rule, place)
    cohort = attempt(lenient=True)
    account = cohort.intake.files[file]
    assert account.quarantined == {rule: 1}
    assert account.used == account.read - 1
    assert account.used > 0
    return refused.value, cohort
