"""Arrays come from anywhere: tensors with a gradient or of a GPU, frames, lists of tensors; what is
no array gets a typed error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.arrays import host_array


class Tensor:
    """Behaves like a PyTorch tensor towards NumPy: no gradient, no other memory, or no array."""

    def __init__(self, values: Any, *, requires_grad: bool = False, device: str = "cpu") -> None:
        self.values = np.asarray(values)
        self.requires_grad, self.device = requires_grad, device

    def detach(self) -> Tensor:
        return Tensor(self.values, device=self.device)

    def cpu(self) -> Tensor:
        return Tensor(self.values, requires_grad=self.requires_grad)

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.device != "cpu":
            raise TypeError(f"can't convert {self.device} device type tensor to numpy.")
        return np.asarray(self.values, dtype)


BOXES = [[0.0, 0.0, 10.0, 10.0], [20.0, 20.0, 30.0, 30.0]]


@pytest.mark.parametrize(
    "options", [{}, {"requires_grad": True}, {"device": "cuda:0"}], ids=["plain", "grad", "gpu"]
)
def test_tensors_are_read_with_their_gradient_and_from_any_device(options: dict[str, Any]) -> None:
    def tensor(values: Any) -> Tensor:
        return Tensor(values, **options)

    references = [{"boxes": tensor(BOXES), "labels": tensor([0, 0])}]
    predictions = [
        {"boxes": tensor(BOXES), "labels": tensor([0, 0]), "scores": tensor([0.9, 0.8])},
    ]
    cohort = cal.Cohort.from_arrays(references, predictions, classes=("a",))
    assert cal.evaluate(cohort, ci=False)["AP"].value == pytest.approx(1.0)
    rows = [tensor(row) for row in BOXES]
    assert np.array_equal(host_array(rows), np.array(BOXES))


@pytest.mark.parametrize(
    "options", [{"requires_grad": True}, {"device": "cuda:0"}], ids=["grad", "gpu"]
)
def test_maps_bags_and_alarms_may_be_tensors(options: dict[str, Any]) -> None:
    labels = np.zeros((8, 8), int)
    labels[2:5, 2:5] = 1
    result = cal.evaluate_maps([(Tensor(labels * 0.9, **options), labels)], "anomaly", ci=False)
    assert result["AP/dataset"].value == pytest.approx(1.0)
    maps = np.random.default_rng(0).random((3, 6, 16))
    plain = cal.stability(maps)["Pearson"].value
    assert cal.stability(Tensor(maps, **options))["Pearson"].value == plain


def test_frames_are_read() -> None:
    pandas = pytest.importorskip("pandas")
    boxes = pandas.DataFrame(BOXES)
    cohort = cal.Cohort.from_arrays(
        [{"boxes": boxes, "labels": pandas.Series([0, 0])}], None, classes=("a",)
    )
    assert cohort.references.boxes.tolist() == BOXES


@pytest.mark.parametrize("key", ["boxes", "labels", "scores", "masks", "points"])
def test_what_is_no_array_is_an_input_error(key: str) -> None:
    class Broken:
        def __len__(self) -> int:
            return 2

        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            raise RuntimeError("lost")

    record = {"boxes": BOXES, "labels": [0, 0], "scores": [0.9, 0.8], key: Broken()}
    with pytest.raises(cal.InputError):
        cal.Cohort.from_arrays([{"boxes": BOXES, "labels": [0, 0]}], [record], classes=("a",))


class Brain(Tensor):
    """A tensor of bfloat16, which NumPy does not have."""

    dtype = "torch.bfloat16"

    def detach(self) -> Brain:
        return self

    def cpu(self) -> Brain:
        return self

    def float(self) -> Tensor:
        return Tensor(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("Got unsupported ScalarType BFloat16")


def test_brain_floats_are_read_and_complex_numbers_are_not() -> None:
    assert host_array(Brain(BOXES), np.float64).tolist() == BOXES
    assert host_array([Brain(row) for row in BOXES]).tolist() == BOXES
    cohort = cal.Cohort.from_arrays(
        [{"boxes": Brain(BOXES), "labels": [0, 0]}], None, classes=("a",)
    )
    assert cohort.references.boxes.tolist() == BOXES
    with pytest.raises(cal.InputError, match="expected numbers"):
        cal.Cohort.from_arrays(
            [{"boxes": np.array(BOXES) * 1j, "labels": [0, 0]}], None, classes=("a",)
        )


def test_maps_that_are_no_array_say_why() -> None:
    class Lost(Tensor):
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")

        def detach(self) -> Lost:
            return self

        def cpu(self) -> Lost:
            return self

    with pytest.raises(cal.InputError, match="Cannot copy out of meta tensor"):
        cal.stability(Lost(np.zeros((2, 3, 4))))
    with pytest.raises(cal.InputError, match="rows of different lengths"):
        cal.stability([[[1.0, 2.0], [1.0]]])


class Exchanged:
    """An array that others read by DLPack alone."""

    def __init__(self, values: object) -> None:
        self.values = np.array(values)

    def __len__(self) -> int:
        return len(self.values)

    def __dlpack__(self, **options: object) -> object:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()


def test_arrays_may_come_by_dlpack_alone() -> None:
    assert host_array(Exchanged(BOXES), np.float64).tolist() == BOXES
    labels, scores = [0] * len(BOXES), [0.5] * len(BOXES)
    record = {"boxes": Exchanged(BOXES), "labels": Exchanged(labels)}
    cohort = cal.Cohort.from_arrays(
        [record], [{**record, "scores": Exchanged(scores)}], classes=("a",)
    )
    assert cohort.references.boxes.tolist() == BOXES
    assert cohort.models["model"].score.tolist() == scores


class Nested:
    """As nested tensors of PyTorch: nothing can be asked of it but its parts."""

    def __len__(self) -> int:
        raise RuntimeError("sizes are not supported")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise RuntimeError("no array")


@pytest.mark.parametrize("key", ["boxes", "labels", "scores", "masks"])
def test_what_has_no_length_is_an_input_error(key: str) -> None:
    record = {"boxes": BOXES, "labels": [0, 0], "scores": [0.9, 0.8], key: Nested()}
    with pytest.raises(cal.InputError):
        cal.Cohort.from_arrays([{"boxes": BOXES, "labels": [0, 0]}], [record], classes=("a",))


def test_masks_and_maps_that_are_no_array_say_why() -> None:
    masks = np.ones((2, 4, 4), np.uint8)
    hidden = np.ma.masked_array(masks, mask=masks == 1)
    refs = [{"boxes": BOXES, "labels": [0, 0]}]
    reasons = ((hidden, "masked entries"), (Nested(), "no array"), ([masks[0], masks[:, 0]], "2 a"))
    for value, reason in reasons:
        with pytest.raises(cal.InputError, match=reason):
            cal.Cohort.from_arrays([{**refs[0], "masks": value}], None, classes=("a",))
    with pytest.raises(cal.InputError, match="masked entries"):
        cal.evaluate_maps([(hidden * 0.5, masks)])
    # Views of several axes cannot be indexed, and are arrays all the same.
    cohort = cal.Cohort.from_arrays(
        [{"labels": [0, 0], "masks": memoryview(masks)}], None, classes=("a",)
    )
    assert len(cohort.references) == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("boxes", [[True, 2, 3, 4], [1, 2, 3, 4]]),
        ("boxes", [(1, 2.5, 3, 4), (1, 2, 3, np.True_)]),
        ("boxes", [np.array([1, 2, 3, 4]), np.array([False, False, True, True])]),
        ("labels", [True, 0]),
        ("scores", [0.5, True]),
        ("points", [[True, 2.0], [1.0, 2.0]]),
        ("width", True),
        ("spacing", [True, 0.5]),
    ],
)
def test_yes_and_no_among_numbers_are_no_numbers(key: str, value: Any) -> None:
    reference = {"boxes": BOXES, "labels": [0, 0]}
    prediction = {**reference, "scores": [0.9, 0.8]}
    record = prediction if key == "scores" else reference
    record[key] = value
    with pytest.raises(cal.InputError):
        cal.Cohort.from_arrays([reference], [prediction], classes=("a", "b"))


def test_flags_and_masks_may_be_yes_and_no_among_numbers() -> None:
    mask = np.zeros((6, 6), np.uint8)
    mask[1:3, 1:3] = 1
    record = {"masks": [mask, mask > 0], "labels": [0, 0], "ignore": [True, 0], "crowd": [0, False]}
    cohort = cal.Cohort.from_arrays([record], None, classes=("a",))
    assert cohort.references.ignore.tolist() == [True, False]
    assert cohort.references.area.tolist() == [4, 4]
    assert len(cal.nms([BOXES], [[0.5, 0.6]], [[0, 0]])) == 3
    with pytest.raises(cal.InputError):
        cal.nms([BOXES], [[0.5, True]], [[0, 0]])
