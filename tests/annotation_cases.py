"""Small files of annotation tools, written by hand from the public descriptions of the formats."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

# Pascal VOC development kit, section "Annotation": 1-based pixels, both ends included.
VOC = """<annotation>
  <folder>VOC2007</folder>
  <filename>000001.jpg</filename>
  <size><width>353</width><height>500</height><depth>3</depth></size>
  <segmented>0</segmented>
  <object>
    <name>dog</name><pose>Left</pose><truncated>1</truncated><difficult>0</difficult>
    <bndbox><xmin>48</xmin><ymin>240</ymin><xmax>195</xmax><ymax>371</ymax></bndbox>
  </object>
  <object>
    <name>person</name><difficult>1</difficult>
    <bndbox><xmin>8</xmin><ymin>12</ymin><xmax>352</xmax><ymax>498</ymax></bndbox>
    <part><name>head</name>
      <bndbox><xmin>9</xmin><ymin>13</ymin><xmax>20</xmax><ymax>30</ymax></bndbox></part>
  </object>
</annotation>
"""
# ImageNet: names without suffix, no flag for difficult objects.
IMAGENET = """<annotation>
  <folder>n01440764</folder><filename>n01440764_18</filename>
  <size><width>500</width><height>375</height><depth>3</depth></size>
  <object><name>n01440764</name>
    <bndbox><xmin>1</xmin><ymin>1</ymin><xmax>500</xmax><ymax>375</ymax></bndbox></object>
</annotation>
"""
EMPTY_VOC = "<annotation><filename>e.jpg</filename></annotation>"

# CVAT, "CVAT for images 1.1".
CVAT = """<?xml version="1.0" encoding="utf-8"?>
<annotations>
  <version>1.1</version>
  <meta><task><id>4</id><labels>
    <label><name>polyp</name><color>#ff0000</color><attributes></attributes></label>
    <label><name>vessel</name></label>
  </labels></task><dumped>2024-01-01</dumped></meta>
  <image id="0" name="dir/a.png" width="100" height="80">
    <box label="polyp" source="manual" occluded="0" xtl="10.50" ytl="20.00" xbr="30.50" ybr="50.00"
         z_order="0"><attribute name="size">small</attribute></box>
    <polygon label="vessel" points="1.00,2.00;21.00,2.00;21.00,12.00" z_order="0"></polygon>
    <box label="polyp" xtl="40" ytl="40" xbr="60" ybr="50" rotation="90.0"></box>
    <ellipse label="polyp" cx="50" cy="40" rx="10" ry="5"></ellipse>
    <tag label="bad view" source="manual"></tag>
  </image>
  <image id="1" name="b.png" width="64" height="64"></image>
</annotations>
"""

# "CVAT for video 1.1": every second frame of a video, from frame 10 on.
CVAT_VIDEO = """<?xml version="1.0" encoding="utf-8"?>
<annotations>
  <version>1.1</version>
  <meta><task><id>5</id><name>colon 7</name><size>4</size><mode>interpolation</mode>
    <start_frame>10</start_frame><stop_frame>17</stop_frame><frame_filter>step=2</frame_filter>
    <labels><label><name>polyp</name></label></labels>
    <original_size><width>64</width><height>48</height></original_size></task></meta>
  <track id="0" label="polyp" source="manual">
    <box frame="10" keyframe="1" outside="0" occluded="0" xtl="1" ytl="2" xbr="11" ybr="12"></box>
    <box frame="12" keyframe="0" outside="0" occluded="0" xtl="3" ytl="2" xbr="13" ybr="12"></box>
    <box frame="14" keyframe="1" outside="1" occluded="0" xtl="5" ytl="2" xbr="15" ybr="12"></box>
  </track>
  <track id="1" label="polyp" source="manual">
    <mask frame="10" keyframe="1" outside="0" rle="1, 2, 1, 2" left="4" top="3" width="3"
          height="2"></mask>
  </track>
</annotations>
"""


def labelme(*shapes: Mapping[str, Any], **others: Any) -> str:
    """A LabelMe document of an image of 100 x 80 pixels."""
    document = {"version": "5.4.1", "flags": {}, "shapes": list(shapes), "imagePath": "a.png"}
    return json.dumps(
        {**document, "imageData": None, "imageHeight": 80, "imageWidth": 100, **others}
    )


def labelme_shape(label: str, points: Any, kind: str = "polygon", **others: Any) -> dict[str, Any]:
    shape = {"label": label, "points": points, "group_id": None, "shape_type": kind, "flags": {}}
    return {**shape, **others}


LABELME = (
    labelme_shape("polyp", [[10, 20], [30, 50]], "rectangle"),
    labelme_shape("polyp", [[1.5, 2], [21.5, 2], [21.5, 12]]),
    labelme_shape("vessel", [[50, 40], [53, 44]], "circle"),
)
# Four by two pixels: the two in the middle of the first row, and all of the second.
PAINTED_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAACCAAAAABawyK/AAAAEklEQVR4nGNgYGRkYGRkYGAAAAAiAAWJiKR4"
    "AAAAAElFTkSuQmCC"
)
PAINTED_BRUSH = [0, 0, 0, 32, 57, 27, 252, 96, 19, 255, 198, 1, 127, 252]


def region(
    label: str, value: Mapping[str, Any], kind: str = "rectanglelabels", **others: Any
) -> dict:
    """A region of Label Studio on an image of 200 x 100 pixels."""
    sizes = {"original_width": 200, "original_height": 100, "image_rotation": 0}
    return {
        **sizes,
        "id": "r1",
        "type": kind,
        "from_name": "label",
        "to_name": "image",
        "value": {**value, kind: [label]},
        **others,
    }


RECTANGLE = {"x": 10, "y": 20, "width": 30, "height": 40, "rotation": 0}


def task(name: str, regions: list[Any], **others: Any) -> dict[str, Any]:
    """A task of Label Studio with one annotation."""
    annotation = {"id": 7, "completed_by": 1, "was_cancelled": False, "result": regions}
    data = {"image": f"/data/upload/3/0123abcd-{name}"}
    return {"id": 1, "data": data, "annotations": [annotation], "predictions": [], **others}


def put(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def picture(path: Path, width: int, height: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (width, height)).save(path)


YOLO_NAMES = "path: ../data\ntrain: images/train\nnames:\n  0: polyp\n  1: other thing  # rare\n"
YOLO_LABELS = "0 0.5 0.5 0.2 0.25\n1 0.1 0.2 0.1 0.2\n"


def yolo_data(folder: Path) -> Path:
    """A data set with three pictures, one of them without objects and one without a file."""
    picture(folder / "images" / "a.png", 100, 80)
    picture(folder / "images" / "b.jpg", 200, 100)
    picture(folder / "images" / "c.png", 20, 10)
    return put(folder, {"data.yaml": YOLO_NAMES, "labels/a.txt": YOLO_LABELS, "labels/b.txt": ""})
