"""Folders and lists: paired by name, never by a silent guess; headers first,
one sample at a time.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.errors import InputError, InputProblems, UsageError
from calipers.io.volumes.pairing import pair
from calipers.io.volumes.volume import Volume
from calipers.io.write_volume import write_volume
from volume_cases import OBLIQUE, labels, noise


def folder(
    place: Path, names: Iterable[str], *, shape: tuple[int, ...] = (4, 5, 6), **options: Any
) -> Path:
    """Write labels where a name says ref, else a map."""
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        kind = np.uint8 if name.endswith((".png", ".tif")) or "refs" in str(place) else np.float32
        write_volume(place / name, labels(shape, kind), **options)
    return place


def unpaired(*arguments: Any, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        pair(*arguments, **options)
    assert caught.value.rule == "unpaired"
    return caught.value


def test_names_without_extension_are_the_samples(tmp_path: Path) -> None:
    refs = folder(tmp_path / "refs", ["b.nii.gz", "a.nii.gz", "sub/c.npz"], affine=OBLIQUE)
    ours = folder(tmp_path / "ours", ["a.npy", "b.npy", "sub/c.npy"])
    theirs = folder(tmp_path / "theirs", ["a.nii", "b.npz", "sub/c.nii.gz"], affine=OBLIQUE)
    paired = pair(refs, {"ours": ours, "theirs": theirs})
    assert [sample.name for sample in paired] == ["a", "b", "sub/c"]
    assert paired.models == ("ours", "theirs")
    sample = paired[0].load()
    assert np.array_equal(sample.labels, labels())
    assert np.array_equal(sample.maps["ours"], labels())
    assert sample.spacing == pytest.approx(np.linalg.norm(OBLIQUE[:3, :3], axis=0), abs=1e-6)
    assert any("no orientation" in note and "(3 of 3)" in note for note in paired.notes)


def test_names_that_differ_are_listed_and_a_pattern_is_proposed(tmp_path: Path) -> None:
    refs = folder(tmp_path / "refs", [f"case_{k}_seg.npy" for k in range(8)])
    preds = folder(tmp_path / "preds", [f"case_{k}_0000.npy" for k in range(8)])
    error = unpaired(refs, {"m": preds})
    assert (
        "'case_0_seg', 'case_1_seg', 'case_2_seg', 'case_3_seg', 'case_4_seg' and 3 more"
        in error.hint
    )
    assert 'reference_pattern="{name}_seg.npy" and pattern="{name}_0000.npy"' in error.hint
    paired = pair(refs, {"m": preds}, pattern="{name}_0000.npy", reference_pattern="{name}_seg.npy")
    assert [sample.name for sample in paired] == [f"case_{k}" for k in range(8)]


@pytest.mark.parametrize(
    ("wanted", "came", "pattern"),
    [
        ("{}.npy", "{}_pred.npy", 'pattern="{name}_pred.npy"'),
        ("{}.npy", "map-{}.npy", 'pattern="map-{name}.npy"'),
        ("{}.npy", "{}/map.npy", 'pattern="{name}/map.npy"'),
        ("{}-mask.npy", "{}.npy", 'reference_pattern="{name}-mask.npy"'),
    ],
)
def test_proposals_work_as_they_are(tmp_path: Path, wanted: str, came: str, pattern: str) -> None:
    refs = folder(tmp_path / "refs", [wanted.format(name) for name in ("p1", "p2", "q7")])
    preds = folder(tmp_path / "preds", [came.format(name) for name in ("p1", "p2", "q7")])
    error = unpaired(refs, {"m": preds})
    assert pattern in error.hint
    key, _, value = pattern.partition("=")
    assert len(pair(refs, {"m": preds}, **{key: value.strip('"')})) == 3


def test_a_pattern_may_hold_the_name_twice_or_lack_the_extension(tmp_path: Path) -> None:
    refs = folder(tmp_path / "refs", ["a.npy", "b.npy"])
    preds = folder(tmp_path / "preds", ["a/a_map.npy", "b/b_map.npy", "a/b_map.npy"])
    paired = pair(refs, {"m": preds}, pattern="{name}/{name}_map")
    assert len(paired) == 2
    assert any("files that do not match the pattern" in note for note in paired.notes)
    with pytest.raises(UsageError, match=r"\{name\}"):
        pair(refs, {"m": preds}, pattern="_map.npy")
    with pytest.raises(UsageError, match="not a model"):
        pair(refs, {"m": preds}, pattern={"n": "{name}"})


def test_missing_predictions_are_an_error_unless_something_is_said(tmp_path: Path) -> None:
    refs = folder(tmp_path / "refs", ["a.npy", "b.npy", "c.npy"])
    preds = folder(tmp_path / "preds", ["a.npy", "b.npy"])
    assert "'c'" in unpaired(refs, {"m": preds}).hint
    empty = pair(refs, {"m": preds}, missing="empty")
    assert not empty[2].load().maps["m"].any()
    assert "1 of 3 samples have no prediction of m and count as empty" in empty.notes
    skipped = pair(refs, {"m": preds}, missing="skip")
    assert [sample.name for sample in skipped] == ["a", "b"]
    assert "1 of 3 samples have no prediction of m and are skipped" in skipped.notes
    with pytest.raises(UsageError):
        pair(refs, {"m": preds}, missing="ignore")


def test_predictions_without_reference_are_an_error_unless_skipped(tmp_path: Path) -> None:
    refs = folder(tmp_path / "refs", ["a.npy"])
    preds = folder(tmp_path / "preds", ["a.npy", "z.npy"])
    for missing in ("error", "empty"):
        assert (
            "predictions without reference: 'z'"
            in unpaired(refs, {"m": preds}, missing=missing).hint
        )
    assert (
        "1 predictions of m have no reference" in pair(refs, {"m": preds}, missing="skip").notes[0]
    )


def test_nothing_in_common_is_always_an_error(tmp_path: Path) -> None:
    refs, preds = folder(tmp_path / "refs", ["a.npy"]), folder(tmp_path / "preds", ["b.npy"])
    for missing in ("error", "empty", "skip"):
        error = unpaired(refs, {"m": preds}, missing=missing)
        assert "'a'" in error.hint, missing
        assert "'b'" in error.hint, missing


def test_one_name_with_two_extensions_is_refused(tmp_path: Path) -> None:
    refs = folder(tmp_path / "refs", ["a.npy", "a.npz"])
    with pytest.raises(InputError, match=r"a\.npy and a\.npz") as caught:
        pair(refs, {"m": refs})
    assert caught.value.rule == "dup-name"
    assert len(pair(refs, {"m": refs}, pattern="{name}.npz", reference_pattern="{name}.npy")) == 1


def test_accents_pair_however_they_are_encoded(tmp_path: Path) -> None:
    name = "Müller"
    refs = folder(tmp_path / "refs", [unicodedata.normalize("NFD", name) + ".npy"])
    preds = folder(tmp_path / "preds", [unicodedata.normalize("NFC", name) + ".npy"])
    assert [sample.name for sample in pair(refs, {"m": preds})] == [
        unicodedata.normalize("NFC", name)
    ]
    folder(tmp_path / "refs", [unicodedata.normalize("NFC", name) + ".npy"])
    with pytest.raises(InputError) as caught:
        pair(refs, {"m": preds})
    assert caught.value.rule == "dup-name"


def test_case_is_not_ignored_but_mentioned(tmp_path: Path) -> None:
    refs, preds = (
        folder(tmp_path / "refs", ["A.npy", "b.npy"]),
        folder(tmp_path / "preds", ["a.npy", "b.npy"]),
    )
    assert "without regard to case" in unpaired(refs, {"m": preds}).hint
    both = folder(tmp_path / "both", ["A.npy", "a.npy", "b.npy"])
    assert len(pair(both, {"m": both})) == 3


def test_links_out_of_a_folder_loops_and_pipes_are_not_followed(tmp_path: Path) -> None:
    refs, preds = folder(tmp_path / "refs", ["a.npy"]), folder(tmp_path / "preds", ["a.npy"])
    folder(tmp_path / "elsewhere", ["b.npy"])
    (refs / "b.npy").symlink_to(tmp_path / "elsewhere" / "b.npy")
    (refs / "loop").symlink_to(refs)
    (refs / "self.npy").symlink_to(refs / "self.npy")
    os.mkfifo(refs / "c.npy")
    paired = pair(refs, {"m": preds})
    assert [sample.name for sample in paired] == ["a"]
    assert any("links out of the folder" in note for note in paired.notes)
    with pytest.raises(InputError) as caught:
        pair(refs / "c.npy", {"m": preds / "a.npy"})
    assert caught.value.rule == "not-a-file"


def test_other_files_are_counted_and_checkpoints_refused(tmp_path: Path) -> None:
    refs, preds = folder(tmp_path / "refs", ["a.npy"]), folder(tmp_path / "preds", ["a.npy"])
    (preds / "notes.md").write_text("x")
    assert any(
        "files of other kinds, not read: 1" in note for note in pair(refs, {"m": preds}).notes
    )
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "best.pt").write_bytes(b"x")
    for place, rule in ((tmp_path / "models", "pickle"), (tmp_path / "empty", "no-volumes")):
        place.mkdir(exist_ok=True)
        with pytest.raises(InputError) as caught:
            pair(refs, {"m": place})
        assert caught.value.rule == rule


def test_lists_of_paths(tmp_path: Path) -> None:
    folder(tmp_path / "refs", ["a.npy", "b.npy"])
    folder(tmp_path / "preds", ["a.npy", "b.npy"])
    (tmp_path / "refs.txt").write_text("# labels\nrefs/a.npy\n\nrefs/b.npy\n")
    (tmp_path / "preds.txt").write_text(f"{tmp_path}/preds/b.npy\npreds/a.npy\n")
    paired = pair(tmp_path / "refs.txt", tmp_path / "preds.txt")
    assert [sample.name for sample in paired] == ["a", "b"]
    assert paired.models == ("model",)


@pytest.mark.parametrize("named", [True, False])
def test_a_table_pairs_by_name_or_by_row(tmp_path: Path, named: bool) -> None:
    folder(tmp_path / "refs", ["a.npy", "b.npy"])
    folder(tmp_path / "preds", ["x.npy", "y.npy"])
    rows = [["reference", "ours", "prediction"], ["refs/a.npy", "preds/y.npy", "preds/x.npy"]]
    rows += [["refs/b.npy", "preds/x.npy", "preds/y.npy"]]
    if named:
        rows = [[*row, extra] for row, extra in zip(rows, ["name", "first", "second"])]
    (tmp_path / "list.csv").write_text("\n".join(",".join(row) for row in rows))
    paired = pair(
        tmp_path / "list.csv", {"ours": tmp_path / "list.csv", "theirs": tmp_path / "list.csv"}
    )
    assert [sample.name for sample in paired] == (["first", "second"] if named else ["a", "b"])
    first = paired[0].maps
    assert first["ours"] is not None
    assert first["theirs"] is not None
    assert (Path(first["ours"].file).name, Path(first["theirs"].file).name) == ("y.npy", "x.npy")


def test_tables_without_the_column_or_with_empty_cells_are_refused(tmp_path: Path) -> None:
    refs = folder(tmp_path / "refs", ["a.npy"])
    for text, rule in (
        ("label,x\nrefs/a.npy,1\n", "missing-column"),
        ("reference,x\n,1\n", "missing-path"),
    ):
        (tmp_path / "list.csv").write_text(text)
        with pytest.raises(InputError) as caught:
            pair(tmp_path / "list.csv", {"m": refs})
        assert caught.value.rule == rule


def test_two_single_files_are_a_pair_whatever_they_are_called(tmp_path: Path) -> None:
    folder(tmp_path / "refs", ["truth.npy"])
    folder(tmp_path / "preds", ["output.npz"])
    (sample,) = pair(tmp_path / "refs" / "truth.npy", {"m": tmp_path / "preds" / "output.npz"})
    assert sample.name == "truth"


def test_all_headers_are_checked_before_a_voxel_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = folder(tmp_path / "refs", ["a.npy", "b.npy", "c.npy"])
    preds = folder(tmp_path / "preds", ["a.npy"])
    folder(tmp_path / "preds", ["b.npy", "c.npy"], shape=(4, 5, 7))
    monkeypatch.setattr(Volume, "read", lambda self: pytest.fail("a volume was read"))
    with pytest.raises(InputProblems) as caught:
        pair(refs, {"m": preds})
    assert [problem.rule for problem in caught.value.problems] == ["shape-mismatch"] * 2


def test_volumes_with_one_fault_are_one_kind_of_problem(tmp_path: Path) -> None:
    names = [f"case{k}.npy" for k in range(8)]
    refs = folder(tmp_path / "refs", names)
    preds = folder(tmp_path / "preds", names, shape=(4, 5, 7))
    with pytest.raises(InputProblems) as caught:
        pair(refs, {"m": preds})
    assert len(caught.value.problems) == 8
    assert len({problem.expected for problem in caught.value.problems}) == 1
    lines = caught.value.lines()
    assert "  8 times: expected the shape of its reference [shape-mismatch]" in lines
    assert sum("case" in line for line in lines) == 5
    assert "    ... and 3 more" in lines


def test_maps_of_other_shapes_are_resized_when_asked(tmp_path: Path) -> None:
    refs = folder(tmp_path / "refs", ["a.npy"], shape=(8, 10, 12))
    preds = folder(tmp_path / "preds", ["a.npy"], shape=(4, 5, 6))
    paired = pair(refs, {"m": preds}, resize="nearest")
    assert paired.notes == ("maps resized to the shape of their labels (nearest) (1 of 1)",)
    small = labels((4, 5, 6), np.float32)
    assert np.array_equal(paired[0].load().maps["m"], np.kron(small, np.ones((2, 2, 2))))


def test_pictures_and_volumes_do_not_mix(tmp_path: Path) -> None:
    refs, preds = folder(tmp_path / "refs", ["a.npy"]), folder(tmp_path / "preds", ["a.npy"])
    for place in (refs, preds):
        folder(place, ["b.npy"], shape=(5, 6))
    with pytest.raises(InputError) as caught:
        pair(refs, {"m": preds})
    assert caught.value.rule == "volume-shape"


def test_images_are_found_and_counted_if_missing(tmp_path: Path) -> None:
    refs = folder(tmp_path / "refs", ["a.png", "b.png"], shape=(5, 6))
    preds = folder(tmp_path / "preds", ["a.npy", "b.npy"], shape=(5, 6))
    images = folder(tmp_path / "images", ["a_0000.png"], shape=(5, 6))
    paired = pair(refs, {"m": preds}, images, image_pattern="{name}_0000.png")
    assert paired[0].load().image is not None
    assert paired[1].image is None
    assert "1 of 2 samples have no image" in paired.notes


def test_values_are_named_with_their_file(tmp_path: Path) -> None:
    refs, preds = tmp_path / "refs", tmp_path / "preds"
    refs.mkdir()
    preds.mkdir()
    write_volume(refs / "a.npy", labels() * 3 + labels((4, 5, 6))[::-1])
    write_volume(preds / "a.npy", noise() * 300)
    (sample,) = pair(refs, {"m": preds})
    with pytest.raises(InputError, match="mask-values") as caught:
        sample.load()
    assert caught.value.file == str(refs / "a.npy")
    with pytest.raises(InputError, match="score-range") as caught:
        sample.load(label_values="nonzero")
    assert caught.value.file == str(preds / "a.npy")
    assert sample.load(label_values=[3, 4], normalise="minmax").maps["m"].max() == 1


def test_groups_come_from_a_table_of_samples(tmp_path: Path) -> None:
    refs, preds = (
        folder(tmp_path / "refs", ["a.npy", "b.npy"]),
        folder(tmp_path / "preds", ["a.npy", "b.npy"]),
    )
    table = tmp_path / "groups.csv"
    table.write_text("image,patient,spacing_x,spacing_y,spacing_z\nb,007,1,1,2\na,8,1,1,3\n")
    paired = pair(refs, {"m": preds}).with_groups(table)
    assert [dict(sample.groups) for sample in paired] == [{"patient": "8"}, {"patient": "007"}]
    assert paired[0].load().spacing == (1.0, 1.0, 3.0)
    assert paired.tables[0].role == "groups"
    table.write_text("image,patient\na,8\n")
    with pytest.raises(InputError) as caught:
        pair(refs, {"m": preds}).with_groups(table)
    assert caught.value.rule == "missing-group"
