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
