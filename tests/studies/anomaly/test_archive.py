"""Archives of the benchmark: what is written is read again; what is none is refused."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.studies.anomaly.archive import AnomalyArchive
from calipers.studies.framework import run_study
from studies.anomaly.made_brains import NAMES, made_archive


def test_an_archive_is_read_as_it_was_written(tmp_path) -> None:
    made = made_archive()
    for name in ("one.npz", "two.npz"):
        made.write(tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    again = AnomalyArchive.read(tmp_path / "one.npz")
    assert again.about == made.about
    for before, after in zip(made.benchmarks, again.benchmarks):
        assert (after.name, after.records, after.counts) == (
            before.name,
            before.records,
            before.counts,
        )
        assert after.views == before.views
        assert after.intervals == before.intervals
        for one, other in zip(before.examples, after.examples):
            assert one.title == other.title
            for name in NAMES:
                np.testing.assert_allclose(other.maps[name], one.maps[name], atol=1 / 510)


@pytest.mark.parametrize("content", [b"PK", b"no archive"])
def test_what_is_no_archive_is_refused(tmp_path, content: bytes) -> None:
    (tmp_path / "brains.npz").write_bytes(content)
    with pytest.raises(InputError, match="calipers study anomaly --train --keep DIR") as caught:
        run_study("anomaly", keep=tmp_path, quick=True)
    assert caught.value.rule == "npz-format"


def test_an_archive_of_something_else_is_refused(tmp_path) -> None:
    np.savez(tmp_path / "brains.npz", about=np.frombuffer(b"{}", np.uint8))
    with pytest.raises(InputError, match="an archive of the study of anomaly maps"):
        AnomalyArchive.read(tmp_path / "brains.npz")
