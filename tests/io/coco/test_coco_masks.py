"""Segmentations of COCO files: which are read, which are refused and why, and what they give to the
tables.
"""

from __future__ import annotations

import json
import random
from functools import partial

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.io.coco import masks, walk
from calipers.io.read import explain, read
from coco_cases import REFERENCES, RESULTS, changed, put, try_references, try_results
from refusals import assert_refused_or_set_aside
from seeds import seeds

SQUARE = [[10, 20, 14, 20, 14, 23, 10, 23]]  # 4 x 3 pixels
HEIGHT = {12: (100, 200), 0: (100, 100), 3: (100, 100)}


def square_counts(height: int, width: int) -> list[int]:
    """The counts of a block of 4 x 3 pixels at 10, 20."""
    counts = [10 * height + 20]
    for _ in range(3):
        counts += [3, height - 3]
    return [*counts, 3, width * height - 13 * height - 23]


def listed(image: int) -> dict:
    return {"size": list(HEIGHT[image]), "counts": square_counts(*HEIGHT[image])}


def with_masks(records, make=lambda image: SQUARE, box=True):
    found = []
    for record in records:
        one = {**record, "segmentation": make(record["image_id"])}
        found.append(one if box else {key: value for key, value in one.items() if key != "bbox"})
    return found


MASKED = {**REFERENCES, "annotations": with_masks(REFERENCES["annotations"])}
MASKED_RESULTS = with_masks(RESULTS, listed, box=False)
ROWS = [20 * 200 + 10, 21 * 200 + 10, 22 * 200 + 10]


def test_polygons_become_masks(tmp_path):
    table = try_references(tmp_path, MASKED).references
    assert table.masks.voxels.tolist() == [12] * 4
    assert table.masks.size.tolist() == [[100, 100]] * 2 + [[200, 100]] * 2
    assert table.masks[2:3].start.tolist() == ROWS
    assert table.masks[2:3].length.tolist() == [4] * 3
    assert table.boxes[2].tolist() == [10, 20, 40.5, 60]  # the box as it was given
    assert table.area.tolist() == [100.5, 12, 1220, 12]  # declared, else of the mask


@pytest.mark.parametrize("pretty", [False, True])
def test_results_without_boxes_have_those_of_their_masks(tmp_path, pretty):
    content = json.dumps(MASKED_RESULTS, indent=2 if pretty else None)
    table = try_results(tmp_path, content).models["dets"]
    assert table.boxes.tolist() == [[10, 20, 14, 23]] * 4
    assert table.area.tolist() == [12] * 4
    assert table.score.tolist() == [0.25, 1, 0, 0.9]


def test_results_with_boxes_keep_boxes_and_their_areas(tmp_path):
    table = try_results(tmp_path, with_masks(RESULTS, listed)).models["dets"]
    assert table.masks.voxels.tolist() == [12] * 4
    assert table.area.tolist() == table.extent.tolist()


def test_boxes_from_masks_are_in_the_format_of_the_file(tmp_path):
    for name in ("xyxy", "cxcywh", "xyxy-normalised"):
        table = try_results(tmp_path, MASKED_RESULTS, MASKED, box_format=("xywh", name)).models[
            "dets"
        ]
        assert np.allclose(table.boxes, [[10, 20, 14, 23]] * 4, rtol=0, atol=1e-12)


@pytest.mark.parametrize("empty", [None, [], KeyError])
def test_an_empty_box_is_none(tmp_path, empty):
    content = with_masks(RESULTS, listed)
    assert try_results(tmp_path, changed(content, 0, "bbox", to=empty)).models["dets"].boxes[
        3
    ].tolist() == [
        10,
        20,
        14,
        23,
    ]


def test_kinds_may_be_mixed(tmp_path):
    content = changed(MASKED_RESULTS, 0, "segmentation", to=SQUARE)
    content = changed(
        content, 1, "segmentation", to={"size": [100, 100], "counts": "XP1320000000ehf0"}
    )
    with pytest.raises(InputError):
        try_results(tmp_path, content)  # a text that was made up
    from pycocotools import mask as peer

    text = peer.frPyObjects([SQUARE[0]], 100, 100)[0]["counts"].decode()
    content = changed(content, 1, "segmentation", "counts", to=text)
    assert try_results(tmp_path, content).models["dets"].boxes.tolist() == [[10, 20, 14, 23]] * 4


def test_some_masks_are_counted_and_not_used(tmp_path):
    document = changed(MASKED, "annotations", 1, "segmentation", to=KeyError)
    document = changed(document, "annotations", 2, "segmentation", to=[])
    document = changed(
        document, "annotations", 0, "segmentation", to=[[1, 2, 3]]
    )  # broken, and not used
    cohort = try_references(tmp_path, document)
    assert cohort.references.masks is None
    assert any(
        note.startswith("masks present in 2 of 4 annotations") for note in cohort.intake.notes
    )


def test_masks_may_be_required(tmp_path):
    document = changed(MASKED, "annotations", 1, "segmentation", to=KeyError)
    attempt = partial(try_references, tmp_path, document, masks="required")
    _, cohort = assert_refused_or_set_aside(
        attempt, 0, "mask-missing", "/annotations/1/segmentation"
    )
    assert len(cohort.references.masks) == 3
    assert try_references(tmp_path, MASKED, masks="required").references.masks is not None
    with pytest.raises(InputError) as refused:
        try_references(tmp_path, REFERENCES, masks="required")
    assert (refused.value.rule, refused.value.total) == ("mask-missing", 4)


def test_masks_may_be_ignored(tmp_path):
    cohort = try_references(
        tmp_path, changed(MASKED, "annotations", 1, "segmentation", to=[[1]]), masks="ignore"
    )
    assert cohort.references.masks is None
    assert "masks present in 4 annotations, only boxes are used" in cohort.intake.notes
    with pytest.raises(InputError, match="--masks auto"):
        try_results(tmp_path, MASKED_RESULTS, masks="ignore")


def test_tables_have_no_masks(tmp_path):
    table = put(tmp_path, "refs.csv", "image,class,x0,y0,x1,y1\na,b,1,2,3,4\n")
    with pytest.raises(InputError) as refused:
        read(table, masks="required")
    assert refused.value.rule == "mask-missing"
    with pytest.raises(InputError) as refused:
        read(table, masks="yes")
    assert refused.value.rule == "masks"


def test_a_result_with_a_box_only_among_results_of_masks(tmp_path):
    content = [*MASKED_RESULTS[:3], RESULTS[3]]
    table = try_results(tmp_path, content).models["dets"]
    assert table.masks is None
    assert table.boxes.tolist() == [[10, 20, 14, 23]] * 2 + [[9, 9, 18, 18]] + [[10, 20, 14, 23]]
    assert table.area.tolist() == [12, 12, 81, 12]


def test_nothing_is_a_set_of_masks(tmp_path):
    assert len(try_results(tmp_path, []).models["dets"].masks) == 0


def test_sizes_that_images_lack_come_from_masks(tmp_path):
    document = {**MASKED, "images": [{"id": image} for image in (12, 0, 3)]}
    document["annotations"] = with_masks(REFERENCES["annotations"], listed)
    cohort = try_references(tmp_path, document)
    assert np.array_equal(
        cohort.images.size, [[100, 100], [np.nan, np.nan], [200, 100]], equal_nan=True
    )
    wrong = changed(
        MASKED_RESULTS,
        0,
        "segmentation",
        to={"size": [200, 100], "counts": square_counts(200, 100)},
    )
    with pytest.raises(InputError, match=r"look like \[width, height\]") as refused:
        try_results(tmp_path, wrong, document)
    assert refused.value.rule == "rle-size"


RLE = ("annotations", 1, "segmentation")
LISTED = {**REFERENCES, "annotations": with_masks(REFERENCES["annotations"], listed)}
COUNTS = square_counts(100, 100)
BROKEN = [
    ("polygon", [[1, 2, 3, 4, 5, 6, 7]]),
    ("polygon", [[1, 2, 3, 4]]),
    ("polygon", [[]]),
    ("polygon", [SQUARE[0], [1, 2, 3, 4]]),
    ("polygon", SQUARE[0]),
    ("polygon", [["1", 2, 3, 4, 5, 6]]),
    ("polygon", [[True, 2, 3, 4, 5, 6]]),
    ("polygon", [[1e7, 2, 3, 4, 5, 6]]),
    ("polygon", [[-1e9, 2, 3, 4, 5, 6]]),
    ("polygon", [[10**400, 2, 3, 4, 5, 6]]),
    ("polygon", "text"),
    ("polygon", 3),
    ("polygon", True),
    ("empty-mask", [[500, 500, 510, 500, 510, 510]]),
    ("empty-mask", {"size": [100, 100], "counts": [10000]}),
    ("rle-length", {"size": [100, 100], "counts": COUNTS[:-1]}),
    ("rle-length", {"size": [100, 100], "counts": [*COUNTS, 1]}),
    ("rle-length", {"size": [100, 100], "counts": [*COUNTS[:-1], COUNTS[-1] + 5, -5]}),
    ("rle-length", {"size": [100, 100], "counts": []}),
    ("rle-length", {"size": [100, 100], "counts": [2010, 3, 2110, 3]}),
    ("rle-length", {"size": [100, 100], "counts": "XP1"}),
    ("rle-length", {"size": [100, 100], "counts": ""}),
    ("rle-kind", {"size": [100, 100], "counts": "2010 3 2110 3"}),
    ("rle-kind", {"size": [100, 100], "counts": "äöü"}),
    ("rle-kind", {"size": [100, 100], "counts": "XP1o"}),
    ("rle-kind", {"size": [100, 100], "counts": "o" * 50 + "0"}),
    ("rle-kind", {"size": [100, 100], "counts": [1.5, 2]}),
    ("rle-kind", {"size": [100, 100], "counts": ["1", "2"]}),
    ("rle-kind", {"size": [100, 100], "counts": None}),
    ("rle-kind", {"size": [100, 100], "counts": [10**30]}),
    ("rle-kind", {"size": [100, 100]}),
    ("rle-size", {"size": [100], "counts": COUNTS}),
    ("rle-size", {"size": [100, 100, 1], "counts": COUNTS}),
    ("rle-size", {"size": [], "counts": COUNTS}),
    ("rle-size", {"size": [0, 100], "counts": COUNTS}),
    ("rle-size", {"size": [-100, -100], "counts": COUNTS}),
    ("rle-size", {"size": [200, 100], "counts": square_counts(200, 100)}),
    ("rle-size", {"size": "100x100", "counts": COUNTS}),
    ("rle-size", {"size": [100.0, 100], "counts": COUNTS}),
    ("rle-size", {"counts": COUNTS}),
    ("rle-size", {"a": 1}),
]


@pytest.mark.parametrize("start", [MASKED, LISTED], ids=["polygons", "run lengths"])
@pytest.mark.parametrize(("rule", "segmentation"), BROKEN, ids=lambda value: str(value)[:50])
def test_a_broken_segmentation_is_refused_or_set_aside(tmp_path, rule, segmentation, start):
    document = changed(start, *RLE, to=segmentation)
    error, cohort = assert_refused_or_set_aside(
        partial(try_references, tmp_path, document), 0, rule, "/annotations/1/segmentation"
    )
    assert error.hint
    assert cohort.references.masks.voxels.tolist() == [12] * 3
    assert json.loads(cohort.intake.quarantine[0].record)["id"] == 8


@pytest.mark.parametrize(("rule", "segmentation"), BROKEN[::4], ids=lambda value: str(value)[:50])
def test_a_box_cannot_come_from_a_broken_mask(tmp_path, rule, segmentation):
    content = changed([*MASKED_RESULTS[:3], RESULTS[3]], 1, "segmentation", to=segmentation)
    error, cohort = assert_refused_or_set_aside(
        partial(try_results, tmp_path, content), 1, rule, "/1/segmentation"
    )
    assert error.hint
    assert sum(len(said) for said in cohort.models.values()) == len(content) - 1


def test_a_swapped_size_is_suspected(tmp_path):
    document = changed(LISTED, "annotations", 0, "segmentation", "size", to=[200, 100])
    with pytest.raises(
        InputError, match=r"size is \[height, width\]; these look like \[width, height\]"
    ):
        try_references(tmp_path, document)


def test_polygons_need_the_size_of_their_image(tmp_path):
    document = changed(MASKED, "images", 0, "width", to=KeyError)
    with pytest.raises(InputError) as refused:
        try_references(tmp_path, document)
    assert refused.value.rule == "size-unknown"
    with pytest.raises(InputError, match="whole pixels"):
        try_references(tmp_path, changed(MASKED, "images", 0, "width", to=200.5))


def test_self_crossing_polygons_are_counted(tmp_path):
    document = changed(MASKED, *RLE, to=[[10, 20, 14, 24, 14, 20, 10, 24]])
    cohort = try_references(tmp_path, document)
    assert any(
        note.startswith("polygons cross themselves in 1 annotations")
        for note in cohort.intake.notes
    )
    assert cohort.references.masks.voxels[0] < 16


def test_limits_are_checked_before_anything_is_drawn(tmp_path, monkeypatch):
    huge = {"size": [100_000, 100_000], "counts": [10**10]}
    many = [[x for k in range(4000) for x in ((k % 2) * 1e6, k / 40)]]
    images = {
        **MASKED,
        "images": [{**image, "width": 10**6, "height": 10**6} for image in MASKED["images"]],
    }
    unsized = {
        **LISTED,
        "images": [{"id": image} for image in HEIGHT],
        "annotations": LISTED["annotations"][:2],
    }
    cases = [changed(unsized, *RLE, to=huge), images]
    monkeypatch.setattr(masks, "MOST_CROSSINGS", 100_000)
    cases.append(changed(MASKED, *RLE, to=many))
    for document in cases:
        for lenient in (False, True):
            with pytest.raises(InputError) as refused:
                try_references(tmp_path, document, lenient=lenient)
            assert refused.value.rule == "too-large"
    monkeypatch.setattr(masks, "MOST_CORNERS", 3)
    with pytest.raises(InputError, match="at most 3 corners"):
        try_references(tmp_path, MASKED)


def test_a_small_file_does_not_become_many_runs(tmp_path, monkeypatch):
    """Stripes: few counts, and half of all pixels are runs along rows."""
    side = 4000
    images = [{"id": 1, "width": side, "height": side}]
    stripes = {"size": [side, side], "counts": [side] * side}
    record = {"image_id": 1, "category_id": 2, "bbox": [0, 0, side, side], "segmentation": stripes}
    document = {"images": images, "annotations": [record], "categories": REFERENCES["categories"]}
    with pytest.raises(InputError) as refused:
        try_references(tmp_path, document)
    assert refused.value.rule == "too-large"
    monkeypatch.setattr(masks, "FREE_BYTES", 100)
    monkeypatch.setattr(masks, "MAX_RATIO", 0)
    with pytest.raises(InputError, match="12 in the rest of this file"):
        try_references(tmp_path, MASKED)
    with pytest.raises(InputError, match="6 in this file"):
        try_references(tmp_path, LISTED)
    assert masks.MOST_PIXELS == 250_000_000


def test_pieces_change_nothing(tmp_path, monkeypatch):
    rng = random.Random(4)
    content = [
        {
            **rng.choice(MASKED_RESULTS),
            "score": k / 500,
            "segmentation": listed(image),
            "image_id": image,
        }
        for k in range(500)
        for image in [rng.choice([0, 3, 12])]
    ]
    whole = try_results(tmp_path, content).models["dets"]
    monkeypatch.setattr(walk, "PIECE", 3000)
    pieces = try_results(tmp_path, content).models["dets"]
    careful = try_results(tmp_path, [*content[:-1], {**content[-1], "bbox": []}]).models["dets"]
    for table in (pieces, careful):
        assert np.array_equal(table.boxes, whole.boxes)
        assert np.array_equal(table.masks.start, whole.masks.start)
        assert np.array_equal(table.masks.offsets, whole.masks.offsets)


def test_a_later_piece_may_be_the_first_with_masks(tmp_path, monkeypatch):
    monkeypatch.setattr(walk, "PIECE", 200)
    content = [*RESULTS * 20, *with_masks(RESULTS, listed), *MASKED_RESULTS]
    content = [{**one, "score": k / 100} for k, one in enumerate(content)]
    table = try_results(tmp_path, content).models["dets"]
    assert (len(table), table.masks) == (88, None)


def test_repeated_keys_inside_a_segmentation_are_seen(tmp_path):
    text = json.dumps(LISTED).replace('"size": [100, 200]', '"size": [1, 1], "size": [100, 200]', 1)
    with pytest.raises(InputError) as refused:
        try_references(tmp_path, text)
    assert refused.value.rule == "dup-key"


def test_volumes_have_no_masks_in_coco(tmp_path):
    document = {
        "images": [{"id": 1, "width": 9, "height": 9, "depth": 9}],
        "annotations": [
            {"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4, 5, 6], "segmentation": SQUARE}
        ],
        "categories": [{"id": 1, "name": "nodule"}],
    }
    assert try_references(tmp_path, document).references.masks is None
    with pytest.raises(InputError) as refused:
        try_references(tmp_path, document, masks="required")
    assert refused.value.rule == "mask-missing"


def test_declared_areas_are_compared_with_the_masks(tmp_path):
    notes = try_references(tmp_path, MASKED).intake.notes
    assert any("the area of the mask by more than 10 % in 2 annotations" in note for note in notes)


def test_what_was_understood_names_the_masks(tmp_path):
    text = explain(put(tmp_path, "r.json", MASKED), put(tmp_path, "d.json", RESULTS))
    assert "  with masks   references\n" in text


def mutated(rng: random.Random, segmentation):
    """Return a segmentation with one thing changed, removed, or replaced by something strange."""
    strange = [
        None,
        "",
        -1,
        10**9,
        1e308,
        [],
        {},
        True,
        "0000",
        [0],
        2**63,
        float("nan"),
        float("inf"),
        "\ud800",
        1e6,
    ]
    value = json.loads(json.dumps(segmentation))
    target, path = value, []
    while isinstance(target, list | dict) and target and (not path or rng.random() < 0.8):
        path.append(
            rng.choice(list(target)) if isinstance(target, dict) else rng.randrange(len(target))
        )
        target = target[path[-1]]
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    if isinstance(target, str) and target and rng.random() < 0.8:
        at = rng.randrange(len(target))
        parent[path[-1]] = (
            target[:at] + chr(rng.choice([rng.randrange(33, 127), 111, 48])) + target[at + 1 :]
        )
    elif isinstance(target, int | float) and rng.random() < 0.6:
        parent[path[-1]] = rng.choice([target + 1, -target, target * 1000, target + 0.5, 0])
    elif rng.random() < 0.3 and path:
        del parent[path[-1]]
    elif path:
        parent[path[-1]] = rng.choice(strange)
    return value


# Half a second each: two hundred files are written and read.
@pytest.mark.parametrize("seed", seeds(10, default=2))
def test_mutated_segmentations_are_read_or_refused(tmp_path, seed):
    """A hundred each: success or InputError, and lenient reading accounts for every record."""
    from pycocotools import mask as peer

    rng = random.Random(seed)
    text = {"size": [100, 100], "counts": peer.frPyObjects(SQUARE, 100, 100)[0]["counts"].decode()}
    starts = [SQUARE, [*SQUARE, [50, 50, 60, 50.5, 55, 70]], listed(0), text]
    n_refused = 0
    for _ in range(100):
        broken = rng.choice(starts)
        for _ in range(rng.randrange(1, 4)):
            broken = mutated(rng, broken)
        document = changed(MASKED, *RLE, to=broken)
        try:
            try_references(tmp_path, document)
        except InputError:
            n_refused += 1
        account = try_references(tmp_path, document, lenient=True, masks="required").intake.files[0]
        assert account.read == 4 == account.used + sum(account.quarantined.values())
        assert account.used >= 3
    assert 10 < n_refused < 100
