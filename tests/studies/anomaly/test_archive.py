"""Archives of the benchmark: what is written is read again; what is none is refused.

Brains are not in them: they are made anew from the template, and only if it is the same one.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.studies.anomaly.archive import AnomalyArchive, shipped_brains, with_brains
from calipers.studies.anomaly.brains import BrainTemplate
from calipers.studies.framework import run_study
from studies.anomaly.made_brains import NAMES, archive_of_template, made_archive, made_template


@pytest.fixture(scope="module")
def template() -> BrainTemplate:
    return made_template()


@pytest.fixture(scope="module")
def archive(template: BrainTemplate) -> AnomalyArchive:
    return archive_of_template(template)


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


def test_the_shipped_archive_holds_maps_and_spheres_but_no_brains() -> None:
    with np.load(shipped_brains()) as content:
        members = set(content.files)
    assert members == {"about", "0-labels", "0-maps", "1-labels", "1-maps"}
    for bench in AnomalyArchive.read(shipped_brains()).benchmarks:
        assert all(one.image is None and one.grey > 0.1 for one in bench.examples)


def test_brains_are_made_anew_from_the_template(tmp_path, template, archive) -> None:
    archive.write(tmp_path / "brains.npz")
    again = AnomalyArchive.read(tmp_path / "brains.npz")
    for before, after in zip(archive.benchmarks, again.benchmarks):
        assert after.examples[0].image is None
        shown = with_brains(after, again.about, template)
        assert (shown.examples[0].image == before.examples[0].image).all()


def without_images(archive: AnomalyArchive) -> AnomalyArchive:
    benchmarks = []
    for bench in archive.benchmarks:
        examples = tuple(replace(one, image=None) for one in bench.examples)
        benchmarks.append(replace(bench, examples=examples))
    return replace(archive, benchmarks=tuple(benchmarks))


@pytest.mark.parametrize("kind", ["hash", "grey values", "seed"])
def test_brains_of_another_template_are_refused(template, archive, kind: str) -> None:
    bench, about = without_images(archive).benchmarks[0], archive.about
    if kind == "hash":
        template = replace(template, files=({**template.files[0], "sha256": "b" * 64},))
    if kind == "grey values":
        template = replace(template, t1=template.t1 * np.float32(1.01))
    if kind == "seed":
        about = {**about, "seed": 6}
    with pytest.raises(InputError, match=r"pip install nilearn==0\.14\.1") as caught:
        with_brains(bench, about, template)
    assert caught.value.rule == "template-differs"


def test_an_archive_of_before_has_its_brains_inside(tmp_path, archive) -> None:
    archive.write(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as content:
        arrays = dict(content)
    document = json.loads(bytes(arrays["about"]))
    document["schema"] = "calipers.anomaly-archive/1"
    for b, bench in enumerate(archive.benchmarks):
        document["benchmarks"][b]["examples"] = [one.title for one in bench.examples]
        images = np.stack([one.image for one in bench.examples])
        arrays[f"{b}-images"] = np.round(255 * images).astype(np.uint8)
    arrays["about"] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    np.savez(tmp_path / "old.npz", **arrays)
    for before, after in zip(
        archive.benchmarks, AnomalyArchive.read(tmp_path / "old.npz").benchmarks
    ):
        one, other = before.examples[0], after.examples[0]
        assert one.title == other.title
        np.testing.assert_allclose(other.image, one.image, atol=1 / 500)
