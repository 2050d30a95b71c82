# SPDX-License-Identifier: Apache-2.0
"""The demo cohort: synthetic chest radiographs of four centres, and three models with weaknesses.

`demo_cohort` makes it, `draw_images` draws its pictures: enough to see what a box is about, without
any patient. ``calipers demo``, examples and tests call them.

- Anatomy: a schematic chest, where lungs and heart are, and where each kind of finding occurs. All
  lengths are fractions of the image width (x) and height (y), so that one patient fits images of
  any size.
- Models (`Character`): what they find, mislabel, add, and how they score.
- Pictures (`draw_phantom`): densities are added up and developed like a film.

Every random number comes from a `stream` named after what it is for. The order of draws inside a
stream is part of the cohort: a change of it changes the data of a seed.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray

from calipers.arguments import names_arguments
from calipers.arrays import F64, I64
from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from calipers.kernels.resampling import check_seed
from calipers.results.files import write_atomically

CLASSES = ("nodule", "mass", "effusion", "cardiomegaly")
NODULE, MASS, EFFUSION, CARDIOMEGALY = range(len(CLASSES))

# What a class is taken for when it is taken for another one: row = true class, in the order of
# CLASSES.
CONFUSED_WITH = np.array(
    [
        [0.00, 0.80, 0.12, 0.08],
        [0.62, 0.00, 0.26, 0.12],
        [0.12, 0.48, 0.00, 0.40],
        [0.05, 0.30, 0.65, 0.00],
    ]
)
# How often a false alarm has which class, in the order of CLASSES.
FALSE_ALARM_CLASSES = np.array([0.50, 0.20, 0.22, 0.08])

PredictionList = list[tuple[F64, int, float]]  # box, label, score

Pixels = NDArray[
    np.floating[Any]
]  # single precision where possible: enough for grey values, and faster

RIBS = 9  # pairs of them

# Dealt, not drawn: every seed has the same numbers of patients and images.
VISITS = np.repeat([1, 2, 3], [48, 24, 8])  # images per patient: 120 images of 80 patients
ATTEMPTS = 30  # places that are tried for one finding
STAYS = 0.88  # probability that a finding is still there on a later image
HEALTHY = 19  # patients without findings


@dataclass(frozen=True, slots=True)
class CentreLook:
    """How the images of a centre look."""

    brightness: float = 0.0
    contrast: float = 1.0
    noise: float = 0.02
    vignette: float = 0.15


@dataclass(frozen=True, slots=True)
class Centre:
    """A hospital: how many patients, what its images are like, how hard they are."""

    name: str
    patients: int
    size: tuple[int, int]
    difficulty: float
    look: CentreLook


CENTRES = (
    Centre("North", 32, (256, 256), 0.85, CentreLook(0.0, 1.05, 0.018, 0.12)),
    Centre("Harbour", 22, (320, 256), 1.0, CentreLook(0.04, 0.92, 0.03, 0.25)),
    Centre("Valley", 16, (256, 288), 1.15, CentreLook(-0.03, 1.10, 0.024, 0.15)),
    Centre("Summit", 10, (288, 288), 1.6, CentreLook(0.03, 0.82, 0.05, 0.4)),
)


@dataclass(frozen=True, slots=True)
class Patient:
    """Who was imaged where and how often."""

    name: str
    centre: Centre
    visits: int
    healthy: bool


@names_arguments
def demo_cohort(seed: int = 0) -> Cohort:
    """Return 120 images of 80 patients with references and the predictions of three models.

    ``mislabels`` finds nearly everything and often names it wrongly; ``overpredicts`` finds and
    names nearly everything and adds duplicates and false alarms with lower scores; ``misses-small``
    is excellent on large findings and hardly sees nodules. Average precision and RoDeO rank the
    three differently.

    Examples
    --------
    >>> from calipers.synthetic.demo import demo_cohort
    >>> cohort = demo_cohort()
    >>> cohort.classes
    ('nodule', 'mass', 'effusion', 'cardiomegaly')
    >>> list(cohort.models)
    ['mislabels', 'overpredicts', 'misses-small']
    """
    references: list[dict[str, Any]] = []
    predictions: dict[str, list[dict[str, Any]]] = {name: [] for name in CHARACTERS}
    check_seed(seed)
    for patient in _patients(seed):
        for record, scene in _images(seed, patient):
            references.append(record)
            for name, character in CHARACTERS.items():
                random = stream(seed, name, record["image_id"])
                predictions[name].append(
                    {"image_id": record["image_id"], **predict(character, scene, random)}
                )
    return Cohort.from_arrays(references, predictions, classes=CLASSES)


def draw_images(cohort: Cohort, folder: Path | str, seed: int = 0) -> list[Path]:
    """Draw the images of a demo cohort as PNG files, named after its group ``file_name``.

    Parameters
    ----------
    cohort
        `demo_cohort(seed)` or a part of it.
    folder
        Where the files go; it must exist.
    seed
        The seed of the cohort: it also determines the anatomy.
    """
    from PIL import Image

    looks = {centre.name: centre.look for centre in CENTRES}
    references, paths = cohort.references, []
    names, patients = cohort.group("file_name"), cohort.group("patient")
    centres = cohort.group("centre")
    for k, image_id in enumerate(cohort.images.ids):
        if str(centres[k]) not in looks:
            raise UsageError(
                "draw_images draws demo cohorts only, "
                f"and {str(centres[k])!r} is not a centre of one"
            )
        rows = slice(int(references.offsets[k]), int(references.offsets[k + 1]))
        width, height = cohort.images.size[k].astype(int).tolist()
        pixels = draw_phantom(
            (width, height),
            patient_anatomy(seed, str(patients[k])),
            references.boxes[rows],
            references.label[rows],
            look=looks[str(centres[k])],
            random=stream(seed, "texture", image_id),
        )
        paths.append(Path(folder) / str(names[k]))
        packed = io.BytesIO()
        Image.fromarray(pixels).save(packed, format="PNG")
        write_atomically(paths[-1], packed.getvalue())
    return paths


def _patients(seed: int) -> list[Patient]:
    """Return the patients, centre by centre; visits and health are dealt in fixed numbers."""
    random = stream(seed, "patients")
    centres: list[Centre] = []
    for centre in CENTRES:
        centres += [centre] * centre.patients
    visits = random.permutation(VISITS).tolist()
    healthy = (random.permutation(len(centres)) < HEALTHY).tolist()
    patients: list[Patient] = []
    for facts in zip(centres, visits, healthy):
        patients.append(Patient(f"P{len(patients) + 1:03d}", *facts))
    return patients


def _images(seed: int, patient: Patient) -> list[tuple[dict[str, Any], Scene]]:
    """Return the images of a patient: the same chest, much the same findings."""
    random, centre = stream(seed, "findings", patient.name), patient.centre
    anatomy, size = patient_anatomy(seed, patient.name), np.array(centre.size, np.float64)
    labels = np.zeros(0, np.int64) if patient.healthy else _findings(random)
    boxes = _place_findings(labels, anatomy, size, random)
    images = []
    for visit in range(1, patient.visits + 1):
        is_present = random.random(len(labels)) < (1.0 if visit == 1 else STAYS)
        moved = _annotated_boxes(boxes[is_present], size, random)
        name = f"{patient.name}_{visit}"
        record = {
            "image_id": name,
            "boxes": moved,
            "labels": labels[is_present],
            "width": centre.size[0],
            "height": centre.size[1],
            "patient": patient.name,
            "centre": centre.name,
            "file_name": f"{name}.png",
        }
        images.append((record, Scene(size, anatomy, moved, labels[is_present], centre.difficulty)))
    return images


def _findings(random: Generator) -> I64:
    """Return the classes of a patient's findings: at most one large heart, often nodules."""
    # The order of the draws belongs to the seed: it must not change.
    nodules = masses = 0
    if random.random() < 0.46:
        nodules = int(random.integers(1, 4))
    if random.random() < 0.36:
        masses = int(random.integers(1, 3))
    effusions = int(random.random() < 0.42)
    hearts = int(random.random() < 0.36)
    counts = {NODULE: nodules, MASS: masses, EFFUSION: effusions, CARDIOMEGALY: hearts}
    if not any(counts.values()):
        counts[NODULE] = 1
    return np.repeat(np.array(list(counts), np.int64), list(counts.values()))


def _place_findings(labels: I64, anatomy: Anatomy, size: F64, random: Generator) -> F64:
    """Return (n, 4) boxes; a finding that would lie on an earlier one is placed again."""
    boxes: list[F64] = []
    for label in labels.tolist():
        for _ in range(ATTEMPTS):
            box = place(label, anatomy, size, random)
            # A large heart may lie below other findings.
            if label == CARDIOMEGALY or not any(_touch(box, other) for other in boxes):
                break
        boxes.append(box)
    return np.array(boxes, np.float64).reshape(-1, 4)


def _touch(a: F64, b: F64) -> bool:
    return bool((np.minimum(a[2:], b[2:]) > np.maximum(a[:2], b[:2])).all())


def _annotated_boxes(boxes: F64, size: F64, random: Generator) -> F64:
    """Return the boxes as an annotator drew them on one image: shifted with the patient, whole
    pixels.
    """
    # All findings of an image move together, as the patient does.
    shift = np.tile(random.normal(0.0, 1.5, 2), 2)
    annotated = boxes + shift + random.normal(0.0, 0.6, boxes.shape)
    return np.asarray(np.round(np.clip(annotated, 0.0, np.tile(size, 2))), np.float64)


def stream(seed: int, *names: str) -> Generator:
    """Return the random stream of a seed and names, independent of any other stream."""
    # A checksum of the names is half of the key: streams do not depend on the order of calls.
    return Generator(Philox(key=np.array([seed, crc32("/".join(names).encode())], np.uint64)))


@dataclass(frozen=True, slots=True)
class Ellipse:
    """An upright ellipse: centre and half axes."""

    x: float
    y: float
    across: float
    along: float

    @property
    def box(self) -> F64:
        """(4,) corners of the box around it."""
        return np.array(
            [self.x - self.across, self.y - self.along, self.x + self.across, self.y + self.along],
            np.float64,
        )


@dataclass(frozen=True, slots=True)
class Anatomy:
    """The chest of one patient."""

    lungs: tuple[Ellipse, Ellipse]  # on the left and on the right of the image
    heart: Ellipse
    spine: float  # x of the spine
    width: float  # half width of the body

    def lung_at(self, x: float) -> Ellipse:
        """Return the lung on whose side of the spine x lies."""
        return self.lungs[int(x > self.spine)]


def patient_anatomy(seed: int, patient: str) -> Anatomy:
    """Return the chest of a patient: the same for all images of that patient."""
    random = stream(seed, "anatomy", patient)
    spine = 0.5 + random.normal(0.0, 0.008)
    build = random.normal(1.0, 0.035)
    lungs = []
    for side, lift in ((-1, 0.0), (1, 0.012)):
        y = 0.43 + random.normal(0.0, 0.01) + lift
        along = 0.305 + random.normal(0.0, 0.01)
        lungs.append(Ellipse(spine + side * 0.205 * build, y, 0.165 * build, along))
    heart = Ellipse(spine + 0.045, 0.60, 0.145 * build, 0.13 + random.normal(0.0, 0.006))
    return Anatomy((lungs[0], lungs[1]), heart, spine, 0.455 * build)


def place(kind: int, anatomy: Anatomy, size: F64, random: Generator) -> F64:
    """Return a (4,) box, in pixels, where a finding of that class could be.

    Parameters
    ----------
    kind
        Index into `CLASSES`.
    size
        (2,) width and height of the image in pixels.
    """
    if kind == CARDIOMEGALY:
        box = _enlarged_heart(anatomy, random).box
    elif kind == EFFUSION:
        box = _effusion(anatomy, random)
    else:
        box = _round_finding(kind, anatomy, size, random)
    return clip(box * np.tile(size, 2), size)


def clip(box: F64, size: F64) -> F64:
    """Return the part of a box inside its image, at least two pixels wide and high."""
    low = np.clip(box[:2], 0.0, size - 2.0)
    high = np.clip(box[2:], low + 2.0, size)
    return np.concatenate([low, high])


def _enlarged_heart(anatomy: Anatomy, random: Generator) -> Ellipse:
    across, along = random.uniform(0.205, 0.245), random.uniform(0.17, 0.195)
    return Ellipse(
        anatomy.spine + 0.05 + random.normal(0.0, 0.01),
        0.60 + random.normal(0.0, 0.01),
        across,
        along,
    )


def _effusion(anatomy: Anatomy, random: Generator) -> F64:
    """A basin at the outer foot of one lung."""
    side = int(random.integers(2))
    lung = anatomy.lungs[side]
    across, height = random.uniform(1.1, 1.6) * lung.across, random.uniform(0.15, 0.34)
    base = lung.y + 0.93 * lung.along
    outer = lung.x + (1.02 if side else -1.02) * lung.across
    x0, x1 = (outer - across, outer) if side else (outer, outer + across)
    return np.array([x0, base - height, x1, base], np.float64)


def _round_finding(kind: int, anatomy: Anatomy, size: F64, random: Generator) -> F64:
    """A nodule or a mass somewhere in a lung."""
    side = int(random.integers(2))
    lung = anatomy.lungs[side]
    angle, radius = (
        random.uniform(0.0, 2.0 * np.pi),
        np.sqrt(random.uniform(0.0, 0.60 if kind == NODULE else 0.30)),
    )
    x = lung.x + (radius * np.cos(angle) + (0.12 if side else -0.12)) * lung.across
    y = lung.y - 0.05 + radius * np.sin(angle) * lung.along
    pixels = random.uniform(9.0, 21.0) if kind == NODULE else random.uniform(39.0, 62.0)
    half = pixels / 256.0 * size.min() / 2.0 / size * random.uniform(0.88, 1.12, 2)
    return np.array([x - half[0], y - half[1], x + half[0], y + half[1]], np.float64)


@dataclass(frozen=True, slots=True)
class Character:
    """How a synthetic model behaves.

    It finds a finding of area A with probability ``hit_rate / (1 + (half_seen / A) **
    steepness)``; the box is moved by ``position`` (deviation relative to its sides) and scaled by
    ``scale`` (deviation of the log).
    """

    hit_rate: float = 0.97
    half_seen: float = 0.0  # px² at 256 x 256: the area of which half the findings are seen
    steepness: float = 3.0
    position: float = 0.03
    scale: float = 0.04
    confusion: float = 0.0  # share of findings that get another class
    duplicates: float = 0.0  # mean per finding that was found
    false_alarms: float = 0.0  # mean per image
    score: tuple[float, float] = (8.0, 2.0)  # Beta distribution of the score of a finding
    false_score: tuple[float, float] = (2.0, 5.0)  # ... and of a false alarm
    calibrated: bool = False  # false alarms exactly as frequent as the scores admit


# Chosen so that average precision and RoDeO disagree about the order.
CHARACTERS = {
    "mislabels": Character(
        position=0.025,
        scale=0.035,
        confusion=0.38,
        false_alarms=0.06,
        score=(7.0, 2.2),
        false_score=(3.0, 4.0),
    ),
    "overpredicts": Character(
        position=0.035,
        scale=0.045,
        confusion=0.02,
        duplicates=1.3,
        false_alarms=2.6,
        score=(11.0, 2.5),
    ),
    "misses-small": Character(
        hit_rate=0.98,
        half_seen=1150.0,
        position=0.014,
        scale=0.02,
        confusion=0.01,
        score=(9.0, 1.4),
        calibrated=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """One image as a model meets it."""

    size: F64  # (2,) pixels
    anatomy: Anatomy
    boxes: F64  # (n, 4) references
    labels: I64  # (n,)
    difficulty: float  # 1 = ordinary; scales every weakness


def predict(
    character: Character, scene: Scene, random: Generator
) -> dict[str, NDArray[np.generic]]:
    """Return the predictions of a model of that character on an image: boxes, labels, scores."""
    predictions: PredictionList = []
    for box, label in zip(scene.boxes, scene.labels.tolist()):
        if random.random() < _hit_probability(character, box, scene):
            predictions += _finding(character, box, label, scene, random)
    for _ in range(random.poisson(character.false_alarms * scene.difficulty)):
        predictions.append(_false_alarm(scene, float(random.beta(*character.false_score)), random))
    # Hits first would give ties in score an order that no real model has.
    order = random.permutation(len(predictions))
    boxes = [predictions[k][0] for k in order]
    return {
        "boxes": np.round(np.array(boxes, np.float64).reshape(-1, 4), 2),
        "labels": np.array([predictions[k][1] for k in order], np.int64),
        "scores": np.round(np.clip([predictions[k][2] for k in order], 0.001, 0.999), 4),
    }


def _hit_probability(character: Character, box: F64, scene: Scene) -> float:
    # Relative to a side of 256, whatever the size of the image.
    area = float(np.prod(box[2:] - box[:2]) / scene.size.min() ** 2 * 256.0**2)
    probability: float = character.hit_rate / (
        1.0 + (character.half_seen / area) ** character.steepness
    )
    return 1.0 - min(1.0, (1.0 - probability) * scene.difficulty)


def _finding(
    character: Character, box: F64, label: int, scene: Scene, random: Generator
) -> PredictionList:
    """The prediction for one finding, its duplicates, and the false alarms that keep the score
    calibrated.
    """
    score = float(random.beta(*character.score))
    confused = random.random() < character.confusion * min(scene.difficulty, 1.2)
    label_of_model = int(random.choice(len(CLASSES), p=CONFUSED_WITH[label])) if confused else label
    noise = (character.position * scene.difficulty, character.scale * scene.difficulty)
    predictions = [(_jitter(box, *noise, scene.size, random), label_of_model, score)]
    for _ in range(random.poisson(character.duplicates)):
        copy = _jitter(box, 0.13, 0.16, scene.size, random)
        predictions.append((copy, label_of_model, score * float(random.uniform(0.25, 0.7))))
    # One false alarm in (1 - s) / s hits of score s: then a share s of that score is right.
    if character.calibrated and random.random() < (1.0 - score) / score:
        predictions.append(_false_alarm(scene, score, random))
    return predictions


def _false_alarm(scene: Scene, score: float, random: Generator) -> tuple[F64, int, float]:
    label = int(random.choice(len(CLASSES), p=FALSE_ALARM_CLASSES))
    return place(label, scene.anatomy, scene.size, random), label, score


def _jitter(box: F64, position: float, scale: float, size: F64, random: Generator) -> F64:
    sides = box[2:] - box[:2]
    middle = (box[:2] + box[2:]) / 2.0 + random.normal(0.0, position, 2) * sides
    sides = sides * np.exp(random.normal(0.0, scale, 2))
    return clip(np.concatenate([middle - sides / 2.0, middle + sides / 2.0]), size)


@dataclass(frozen=True, slots=True)
class Canvas:
    """Pixel centres of an image in fractions of its sides, and the random stream of its texture."""

    x: Pixels  # (1, width)
    y: Pixels  # (height, 1)
    random: Generator

    @classmethod
    def of(cls, width: int, height: int, random: Generator) -> Canvas:
        """Return the canvas of an image of that size."""
        x = ((np.arange(width, dtype=np.float32) + 0.5) / width)[None, :]
        y = ((np.arange(height, dtype=np.float32) + 0.5) / height)[:, None]
        return cls(x, y, random)

    def texture(self, coarseness: float) -> Pixels:
        """Return (height, width) smooth noise of mean 0 and deviation 1; ``coarseness`` is in
        pixels.
        """
        white = self.random.standard_normal((self.y.shape[0], self.x.shape[1]), np.float32)
        rows, columns = (
            np.fft.fftfreq(white.shape[0])[:, None],
            np.fft.rfftfreq(white.shape[1])[None, :],
        )
        # Smoothing in frequencies: a Gaussian of any width costs the same, and needs no library.
        smooth = np.fft.irfft2(
            np.fft.rfft2(white) * np.exp(-2.0 * (np.pi * coarseness) ** 2 * (rows**2 + columns**2)),
            white.shape,
        )
        return np.asarray((smooth - smooth.mean()) / smooth.std())


def draw_phantom(
    size: tuple[int, int],
    anatomy: Anatomy,
    boxes: F64,
    labels: NDArray[np.integer],
    *,
    look: CentreLook,
    random: Generator,
) -> NDArray[np.uint8]:
    """Draw a chest with findings.

    Parameters
    ----------
    size
        Width and height in pixels.
    boxes
        (n, 4) corners of the findings in pixels.
    labels
        (n,) index into `CLASSES`.

    Returns
    -------
    image
        (height, width) grey values.
    """
    canvas = Canvas.of(*size, random)
    scaled = np.asarray(boxes, np.float64).reshape(-1, 4) / np.tile(np.array(size, np.float64), 2)
    hearts = [_inside(box) for box, label in zip(scaled, labels) if label == CARDIOMEGALY]
    # Fluid first: it replaces the air of a lung before anything lies on it.
    dry = np.ones((size[1], size[0]), np.float32)
    for box in scaled[np.asarray(labels) == EFFUSION]:
        dry = dry * (
            1.0 - 0.94 * _fluid(canvas, box, on_right=bool(box[[0, 2]].mean() > anatomy.spine))
        )
    density = _chest(canvas, anatomy, hearts[0] if hearts else anatomy.heart, dry)
    for box, label in zip(scaled, labels):
        if label not in (EFFUSION, CARDIOMEGALY):
            # On a film, dense over dense adds little: a finding behind the heart is hard to see.
            room = np.clip((0.80 - density) / 0.55, 0.10, 1.0)
            density = density + room * _round_shadow(canvas, box, lobed=label == MASS)
    return _develop(canvas, density, look)


def _soft(distance: Pixels, width: float) -> Pixels:
    """Return 1 where the distance to an edge is positive, else 0, smooth over ``width``."""
    return np.asarray(0.5 + 0.5 * np.tanh(distance * (1.0 / width)))


def _inside(box: F64) -> Ellipse:
    low, high = box[:2], box[2:]
    middle, half = (low + high) / 2.0, (high - low) / 2.0
    return Ellipse(float(middle[0]), float(middle[1]), float(half[0]), float(half[1]))


def _disc(canvas: Canvas, ellipse: Ellipse, softness: float) -> Pixels:
    radius = np.hypot(
        (canvas.x - ellipse.x) / ellipse.across, (canvas.y - ellipse.y) / ellipse.along
    )
    return _soft(1.0 - radius, softness)


def _lung(canvas: Canvas, lung: Ellipse, on_right: bool) -> Pixels:
    """Return one lung: narrow at the top, a dome of the diaphragm at the foot."""
    v = (canvas.y - lung.y) / lung.along
    outward = (canvas.x - lung.x) / lung.across * (1.0 if on_right else -1.0)
    breadth = np.sqrt(np.clip(1.0 - np.clip(-v - 0.1, 0.0, None) ** 2.2 / 0.82, 0.0, None)) + 1e-6
    lateral = _soft(breadth * (0.86 + 0.16 * np.clip(v, -1.0, 1.0)) - outward, 0.05)
    medial = _soft(outward + 0.92 * breadth - 0.12 * np.clip(v, 0.0, None), 0.07)
    dome = 0.72 + 0.26 * np.clip(outward + 0.25, -1.0, 1.3) ** 2
    return np.asarray(lateral * medial * _soft(dome - v, 0.035) * _soft(v + 1.0, 0.05))


def _chest(canvas: Canvas, anatomy: Anatomy, heart: Ellipse, dry: Pixels) -> Pixels:
    """Return the density, 0 for air to 1 for bone; ``dry`` is 0 where fluid stands in the lungs."""
    x, y, spine = canvas.x, canvas.y, anatomy.spine
    shoulders = (
        anatomy.width
        + 0.10 * np.exp(-(((y - 0.14) / 0.12) ** 2))
        - 0.40 * np.exp(-((y / 0.07) ** 2))
    )
    body = _soft(shoulders - np.abs(x - spine), 0.03)
    flank = 1.0 - 0.35 * np.clip(np.abs(x - spine) / anatomy.width, 0.0, 1.0) ** 4
    lungs = [_lung(canvas, lung, bool(on_right)) for on_right, lung in enumerate(anatomy.lungs)]
    shadow = _heart(canvas, heart)
    vessels = _soft(
        0.050 + 0.02 * np.exp(-(((y - 0.32) / 0.08) ** 2)) - np.abs(x - spine - 0.008), 0.018
    )
    air = (
        np.maximum(*lungs)
        * dry
        * (1.0 - 0.95 * shadow)
        * (1.0 - 0.85 * vessels * _soft(0.75 - y, 0.05))
    )
    abdomen = _soft(y - 0.70, 0.04)
    density = flank * (0.60 + 0.05 * abdomen) - 0.40 * air + 0.065 * shadow * (1.0 - 0.55 * abdomen)
    density = density + 0.05 * vessels * (1.0 - abdomen) + _spine(canvas, spine)
    density = density - 0.10 * _soft(0.016 - np.abs(x - spine), 0.008) * _soft(
        0.30 - y, 0.03
    )  # the windpipe
    density = density + _ribs(canvas, anatomy) * (0.25 + 0.75 * air) + _clavicles(canvas, spine)
    return np.asarray(density * body + _markings(canvas, anatomy, air))


def _heart(canvas: Canvas, heart: Ellipse) -> Pixels:
    """Return the shadow of the heart: overlapping ellipses that together span its box."""
    across, along = heart.across, heart.along
    upper = Ellipse(heart.x - 0.28 * across, heart.y - 0.08 * along, 0.72 * across, 0.92 * along)
    lower = Ellipse(heart.x + 0.25 * across, heart.y + 0.24 * along, 0.75 * across, 0.76 * along)
    middle = Ellipse(heart.x + 0.02 * across, heart.y + 0.12 * along, 0.82 * across, 0.86 * along)
    return np.asarray(
        np.max([_disc(canvas, part, 0.08) for part in (upper, middle, lower)], axis=0)
    )


def _spine(canvas: Canvas, spine: float) -> Pixels:
    column = _soft(0.030 - np.abs(canvas.x - spine), 0.012)
    return np.asarray(0.07 * column * (0.75 + 0.25 * np.cos(2.0 * np.pi * canvas.y * 15.0)))


def _ribs(canvas: Canvas, anatomy: Anatomy) -> Pixels:
    """Return soft arcs that leave the spine, rise a little and fall towards the flank.

    Rib k runs at height ``first + k * apart``; solving that for k gives all ribs in one go.
    """
    outward = np.abs(canvas.x - anatomy.spine) * (1.0 / anatomy.width)
    fall = outward**2.4
    behind = _arcs(
        canvas.y, 0.13 - 0.10 * outward * (1.0 - outward) + 0.10 * fall, 0.068 + 0.022 * fall, RIBS
    )
    before = _arcs(canvas.y, 0.33 - 0.17 * (outward - 0.15), np.full_like(fall, 0.068), RIBS - 3)
    ribs = 0.075 * behind + 0.030 * before * _soft(outward - 0.35, 0.06)
    return np.asarray(ribs * _soft(outward - 0.10, 0.03) * _soft(0.93 - outward, 0.03))


def _arcs(y: Pixels, first: Pixels, apart: Pixels, number: int) -> Pixels:
    nearest = np.clip(np.round((y - first) / apart), 0, number - 1)
    return _band(y - first - nearest * apart, 0.0125)


def _band(distance: Pixels, half: float) -> Pixels:
    """Return a bone across its length: soft, with a slightly brighter rim."""
    across = np.abs(distance) * (1.0 / half)
    return np.asarray(_soft(1.0 - across, 0.35) * (0.8 + 0.4 * np.minimum(across * across, 1.0)))


def _clavicles(canvas: Canvas, spine: float) -> Pixels:
    outward = np.abs(canvas.x - spine)
    middle = 0.155 - 0.26 * (outward - 0.05) + 0.30 * (outward - 0.05) ** 2
    ends = _soft(outward - 0.045, 0.012) * _soft(0.40 - outward, 0.03)
    return np.asarray(0.11 * _band(canvas.y - middle, 0.014) * ends)


def _markings(canvas: Canvas, anatomy: Anatomy, air: Pixels) -> Pixels:
    """Return the fine drawing of the lungs: vessels that thin out from the hilum."""
    near = np.zeros_like(air)
    for lung in anatomy.lungs:
        hilum = Ellipse(0.55 * lung.x + 0.45 * anatomy.spine, lung.y + 0.02, 0.13, 0.20)
        near += np.exp(
            -(
                (canvas.x - hilum.x) ** 2 / hilum.across**2
                + (canvas.y - hilum.y) ** 2 / hilum.along**2
            )
        )
    threads = np.clip(1.0 - np.abs(canvas.texture(3.2)) / 0.35, 0.0, None)
    return np.asarray(air * (0.018 * canvas.texture(6.0) + near * (0.055 + 0.075 * threads)))


def _round_shadow(canvas: Canvas, box: F64, *, lobed: bool) -> Pixels:
    """Return a nodule (round) or a mass (lobed) that fills its box."""
    ellipse = _inside(box)
    u, v = (canvas.x - ellipse.x) / ellipse.across, (canvas.y - ellipse.y) / ellipse.along
    radius, angle = np.hypot(u, v), np.arctan2(v, u)
    phases = canvas.random.uniform(0.0, 2.0 * np.pi, 3)
    waves = sum(np.cos((k + 2) * angle + phase) / (k + 2) for k, phase in enumerate(phases))
    bumps, height, softness = (0.16, 0.30, 0.10) if lobed else (0.05, 0.27, 0.17)
    edge = 0.90 + bumps * waves
    dome = np.sqrt(np.clip(1.0 - 0.55 * np.clip(radius, 0.0, 1.0) ** 2, 0.0, 1.0))
    return np.asarray(height * _soft(edge - radius, softness) * dome)


def _fluid(canvas: Canvas, box: F64, *, on_right: bool) -> Pixels:
    """Return where fluid fills the foot of a lung; it climbs the chest wall."""
    across = (canvas.x - box[0]) / (box[2] - box[0])
    outward = np.clip(across if on_right else 1.0 - across, 0.0, 1.0)
    level = box[1] + (box[3] - box[1]) * 0.75 * (1.0 - outward**1.6)
    within = _soft(across + 0.03, 0.05) if on_right else _soft(1.03 - across, 0.05)
    return np.asarray(_soft(canvas.y - level, 0.018) * within)


def _develop(canvas: Canvas, density: Pixels, look: CentreLook) -> NDArray[np.uint8]:
    """Turn density into grey values: film curve, the centre's look, vignette, grain."""
    # The film curve: a power a little below 1.
    grey = 0.04 + 0.92 * np.clip(density, 0.0, 1.0) ** 0.9 * 1.15
    grey = 0.5 + look.contrast * (grey - 0.5) + look.brightness
    corner = (canvas.x - 0.5) ** 2 + (canvas.y - 0.5) ** 2
    grey = grey * (1.0 - look.vignette * corner * 2.0)
    grey = grey + look.noise * (0.7 * canvas.texture(0.6) + 0.5 * canvas.texture(9.0))
    return np.asarray(np.round(255.0 * np.clip(grey, 0.0, 1.0)), np.uint8)
