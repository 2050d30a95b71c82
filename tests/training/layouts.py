"""Small copies of the layouts that training data have."""

from __future__ import annotations

import csv
import gzip
import json
import struct
from pathlib import Path

import numpy as np
from PIL import Image


def picture(path: Path, seed: int, size: tuple[int, int] = (40, 30), colour: bool = False) -> None:
    shape = (*size[::-1], 3) if colour else size[::-1]
    pixels = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def table(path: Path, rows: list[dict[str, object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def nih(folder: Path, n: int = 12) -> Path:
    """Two images per patient; every third image shows Cardiomegaly, some have boxes."""
    rows = []
    for i in range(n):
        name = f"{i // 2:08d}_{i % 2:03d}.png"
        labels = "Cardiomegaly|Effusion" if i % 6 == 0 else "Effusion"
        rows.append(
            {
                "Image Index": name,
                "Finding Labels": labels if i % 4 == 0 else "No Finding",
                "Follow-up #": i % 2,
                "Patient ID": i // 2,
            }
        )
        picture(folder / "images_001" / "images" / name, i, (64, 64))
    table(folder / "Data_Entry_2017.csv", rows)
    text = "Image Index,Finding Label,Bbox [x,y,w,h]\n"
    text += "00000000_000.png,Cardiomegaly,100,200,300,200\n99999999_000.png,Effusion,1,2,3,4\n"
    (folder / "BBox_List_2017.csv").write_text(text)
    return folder


def coco(folder: Path, n: int = 6) -> Path:
    """Images 0, 2, 4 have a lesion; image 0 has two."""
    images, annotations = [], []
    for i in range(n):
        picture(folder / "images" / f"{i}.png", i, (50, 40), colour=True)
        images.append({"id": i, "file_name": f"{i}.png", "width": 50, "height": 40})
        for k in range({0: 2, 2: 1, 4: 1}.get(i, 0)):
            box = [5 + 10 * k, 6, 8, 9]
            annotations.append({"id": len(annotations) + 1, "image_id": i, "category_id": 1 + k})
            annotations[-1] |= {"bbox": box, "area": 72, "iscrowd": 0}
    document = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": 1, "name": "lesion"}, {"id": 2, "name": "polyp"}],
    }
    (folder / "annotations.json").write_text(json.dumps(document))
    return folder


def idx(folder: Path, n: int = 40, packed: bool = True) -> Path:
    """Bars that stand (0) and lie (1), 8 x 8."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, number in (("train", n), ("t10k", n // 2)):
        labels = np.arange(number) % 2
        pixels = np.zeros((number, 8, 8), np.uint8)
        pixels[labels == 0, :, 3:5] = 250
        pixels[labels == 1, 3:5, :] = 250
        images = struct.pack(">4I", 0x803, *pixels.shape) + pixels.tobytes()
        codes = struct.pack(">2I", 0x801, number) + labels.astype(np.uint8).tobytes()
        for name, content in (("images-idx3", images), ("labels-idx1", codes)):
            path = folder / f"{prefix}-{name}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(content) if packed else content)
    return folder


def mura(folder: Path) -> Path:
    """Two shoulders and a wrist to train, one of each to test; a study has two images."""
    studies = {
        "train": [
            "XR_SHOULDER/patient00001/study1_positive",
            "XR_WRIST/patient00001/study1_negative",
            "XR_SHOULDER/patient00002/study1_negative",
        ],
        "valid": [
            "XR_SHOULDER/patient11185/study1_negative",
            "XR_WRIST/patient11186/study1_positive",
        ],
    }
    for part, own in studies.items():
        paths, labels = "", ""
        for k, study in enumerate(own):
            for number in (1, 2):
                name = f"{part}/{study}/image{number}.png"
                picture(folder / name, 10 * k + number, (30 + 10 * k, 40))
                paths += f"MURA-v1.1/{name}\n"
            labels += f"MURA-v1.1/{part}/{study}/,{int('positive' in study)}\n"
        (folder / f"{part}_image_paths.csv").write_text(paths)
        (folder / f"{part}_labeled_studies.csv").write_text(labels)
    return folder


def chexpert(folder: Path) -> Path:
    """Four images of two patients to train, one to test; uncertain and empty labels."""
    header = "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Cardiomegaly,Edema\n"
    lines = {
        "train": [
            ("patient00001/study1/view1", "1.0,,"),
            ("patient00001/study1/view2", ",1.0,-1.0"),
            ("patient00002/study1/view1", ",0.0,1.0"),
            ("patient00002/study2/view1", ",-1.0,"),
        ],
        "valid": [("patient64541/study1/view1", "0.0,1.0,0.0")],
    }
    for part, own in lines.items():
        text = header
        for k, (name, labels) in enumerate(own):
            picture(folder / part / f"{name}_frontal.jpg", k)
            text += f"CheXpert-v1.0-small/{part}/{name}_frontal.jpg,Female,68,Frontal,AP,{labels}\n"
        (folder / f"{part}.csv").write_text(text)
    return folder


VOC2005 = """# PASCAL Annotation Version 1.00

Image filename : "PNGImages/{name}.png"
Image size (X x Y x C) : 60 x 40 x 3
Database : "The TU Darmstadt Database"
Objects with ground truth : {n} {{ {labels} }}

# Top left pixel co-ordinates : (1, 1)
{objects}"""


def voc2005(folder: Path) -> Path:
    """A car from behind, a motorbike beside a car, and a background without objects."""
    contents = {
        "cars/image_0001": [("PAScarRear", (11, 6, 30, 25))],
        "bikes/image_0001": [("PASmotorbikeSide", (1, 1, 20, 20)), ("PAScar", (31, 11, 60, 40))],
        "clutter/0001": [],
    }
    for k, (name, objects) in enumerate(contents.items()):
        picture(folder / "PNGImages" / f"{name}.png", k, (60, 40), colour=True)
        text = ""
        for number, (label, (x0, y0, x1, y1)) in enumerate(objects, 1):
            text += f'\n# Details for object {number} ("{label}")\n'
            text += f'Original label for object {number} "{label}" : "{label[3:]}"\n'
            text += f'Bounding box for object {number} "{label}" (Xmin, Ymin) - (Xmax, Ymax) : '
            text += f"({x0}, {y0}) - ({x1}, {y1})\n"
        labels = " ".join(f'"{label}"' for label, _ in objects)
        path = folder / "Annotations" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(VOC2005.format(name=name, n=len(objects), labels=labels, objects=text))
    return folder


def polypgen(folder: Path) -> Path:
    """Two centres; the second image of each has no polyp."""
    for centre in ("C1", "C2"):
        place = folder / f"data_{centre}"
        for k in range(2):
            picture(place / f"images_{centre}" / f"{k}_{centre}.jpg", k, (50, 40), colour=True)
        boxes = place / f"bbox_{centre}"
        boxes.mkdir()
        (boxes / f"0_{centre}_mask.txt").write_text("polyp 5 6 25 30\n")
        (boxes / f"1_{centre}_mask.txt").write_text("")
    return folder
