# SPDX-License-Identifier: Apache-2.0
"""Names that users write in protocols and on the command line, and the objects behind them.

Values are ``"module:object"``, so that looking a name up imports only what is used. `resolve` is
what protocols, matching and readers call. Other packages add formats of files as entry points:
these are looked up when a file is read or formats are listed, never on import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from calipers.errors import CalipersError, PluginError, UsageError, did_you_mean, spelled, word

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


CRITERIA: Mapping[str, str] = {
    "box-iou": "calipers.matching.criteria:BOX_IOU",
    "giou": "calipers.matching.criteria:GIOU",
    "ciou": "calipers.matching.criteria:CENTRED_IOU",
    "complete-iou": "calipers.matching.criteria:COMPLETE_IOU",
    "iop": "calipers.matching.criteria:IOP",
    "ior": "calipers.matching.criteria:IOR",
    "hausdorff": "calipers.matching.criteria:HAUSDORFF",
    "mask-iou": "calipers.matching.criteria:MASK_IOU",
    "dice": "calipers.matching.criteria:DICE",
    "hull-iou": "calipers.matching.criteria:HULL_IOU",
    "boundary-iou": "calipers.matching.criteria:BOUNDARY_IOU",
    "any-overlap": "calipers.matching.criteria:ANY_OVERLAP",
    "centre-distance": "calipers.matching.criteria:CENTRE_DISTANCE",
    "centre-distance-mm": "calipers.matching.criteria:CENTRE_DISTANCE_MM",
    "centre-distance-relative": "calipers.matching.criteria:CENTRE_DISTANCE_RELATIVE",
    "point-in-box": "calipers.matching.criteria:POINT_IN_BOX",
    "point-in-mask": "calipers.matching.criteria:POINT_IN_MASK",
    "point-in-hull": "calipers.matching.criteria:POINT_IN_HULL",
}

ASSIGNMENTS: Mapping[str, str] = {
    "by-score": "calipers.kernels.assignment:by_score",
    "by-overlap": "calipers.kernels.assignment:by_overlap",
    "optimal": "calipers.kernels.assignment:optimal",
    "many-to-one": "calipers.kernels.assignment:many_to_one",
    "many-to-one-counted-first": "calipers.kernels.assignment:many_to_one_counted_first",
    "per-reference-argmax": "calipers.kernels.assignment:per_reference_argmax",
}

METRICS: Mapping[str, str] = {
    "average-precision": "calipers.metrics.ranking:AveragePrecision",
    "size-mean-average-precision": "calipers.metrics.ranking:SizeMeanPrecision",
    "average-recall": "calipers.metrics.ranking:AverageRecall",
    "froc": "calipers.metrics.ranking:Froc",
    "sensitivity": "calipers.metrics.counts:Sensitivity",
    "ppv": "calipers.metrics.counts:PositivePredictiveValue",
    "f-beta": "calipers.metrics.counts:FBeta",
    "accuracy": "calipers.metrics.counts:Accuracy",
    "false-alarms": "calipers.metrics.counts:FalseAlarmsPerImage",
    "count": "calipers.metrics.counts:Count",
    "rodeo": "calipers.metrics.rodeo:Rodeo",
    "voxel-average-precision": "calipers.metrics.maps:VoxelAveragePrecision",
    "voxel-auroc": "calipers.metrics.maps:VoxelAuroc",
    "aupro": "calipers.metrics.maps:Aupro",
    "voxel-dice": "calipers.metrics.maps:VoxelDice",
    "voxel-iou": "calipers.metrics.maps:VoxelIou",
    "soft-instance-iou": "calipers.metrics.soft_iou:SoftInstanceIou",
    "panoptic-quality": "calipers.metrics.instances:PanopticQuality",
    "instance-f1": "calipers.metrics.instances:InstanceF1",
    "instance-iou": "calipers.metrics.instances:InstanceIou",
    "centre-distance": "calipers.metrics.instances:CentreDistance",
    "case-auroc": "calipers.metrics.case_level:CaseAuroc",
    "picai-score": "calipers.metrics.case_level:PicaiScore",
    "sequence-f-beta": "calipers.metrics.sequences:SequenceFBeta",
    "detection-latency": "calipers.metrics.sequences:DetectionLatency",
    "detected-sequences": "calipers.metrics.sequences:DetectedSequences",
    "alarms-per-minute": "calipers.metrics.sequences:AlarmsPerMinute",
    "image-threat-score": "calipers.metrics.image_scores:ImageThreatScore",
    "weighted-sum": "calipers.metrics.weighted_sum:WeightedSum",
    "error-types": "calipers.metrics.error_types:ErrorTypes",
    "tide-average-precision": "calipers.metrics.error_types:TideAveragePrecision",
}

# Kinds of intervals; `calipers.statistics.intervals` makes them.
INTERVALS = (
    "bootse-t-logit",
    "percentile",
    "basic",
    "bca",
    "studentized",
    "jackknife-t",
    "wilson",
    "clopper-pearson",
)

# Formats of references and predictions, in the order in which they are asked whether they recognise
# a file: the general ones last.
FORMATS: Mapping[str, str] = {
    "dicom-sr": "calipers.io.annotations.dicom_sr:DicomReportReader",
    "lidc": "calipers.io.lists.lidc:LidcReader",
    "parquet": "calipers.io.tables.parquet:ParquetReader",
    "labelme": "calipers.io.annotations.labelme:LabelMeReader",
    "label-studio": "calipers.io.annotations.label_studio:LabelStudioReader",
    "nndetection": "calipers.io.volumes.nndetection:NnDetectionReader",
    "ultralytics": "calipers.io.annotations.detection_libraries:UltralyticsReader",
    "torchvision": "calipers.io.annotations.detection_libraries:TorchvisionReader",
    "detectron2": "calipers.io.annotations.detection_libraries:Detectron2Reader",
    "grand-challenge": "calipers.io.lists.grand_challenge:GrandChallengeReader",
    "json-rows": "calipers.io.tables.json_rows:JsonRowsReader",
    "coco": "calipers.io.coco.plugin:CocoReader",
    "vindr": "calipers.io.lists.vindr:VindrReader",
    "rsna": "calipers.io.lists.rsna:RsnaReader",
    "openimages": "calipers.io.lists.open_images:OpenImagesReader",
    "luna16": "calipers.io.lists.luna16:Luna16Reader",
    "deeplesion": "calipers.io.lists.deep_lesion:DeepLesionReader",
    "node21": "calipers.io.lists.node21:Node21Reader",
    "siim": "calipers.io.lists.siim:SiimReader",
    "nih": "calipers.io.tables.nih:NihReader",
    "lard": "calipers.io.tables.lard:LardReader",
    "voc": "calipers.io.annotations.voc:VocReader",
    "cvat": "calipers.io.annotations.cvat:CvatReader",
    "voc-results": "calipers.io.annotations.voc_results:VocResultsReader",
    "polypgen": "calipers.io.annotations.polypgen:PolypGenReader",
    "text-boxes": "calipers.io.annotations.text_boxes:TextBoxesReader",
    "yolo": "calipers.io.annotations.yolo:YoloReader",
    "label-volumes": "calipers.io.volumes.labels:LabelVolumesReader",
    "csv": "calipers.io.tables.delimited:DelimitedReader",
}

# Bytes of which every single file of a format holds at least one, at its beginning or its end;
# without any, only folders have the format. A reader is loaded where one of its marks occurs, and
# decides; a format without an entry is always asked. Most files are COCO or tables, and would load
# ten readers for nothing.
MARKS: Mapping[str, tuple[bytes, ...]] = {
    "dicom-sr": (b"DICM",),
    "lidc": (b"SQLite format 3",),
    "parquet": (b"PAR1",),
    "labelme": (b'"shapes"',),
    "label-studio": (b'"data"', b'labels"'),
    "nndetection": (),
    "text-boxes": (),
    "ultralytics": (b'"box"',),
    "torchvision": (b'"boxes"',),
    "detectron2": (b'"instances"',),
    "grand-challenge": (b"Multiple 2D bounding boxes", b'"outputs"'),
    "json-rows": (
        *(b'"x', b'"X', b'"cx"', b'"CX"', b'"Cx"'),
        *(b'"image"', b'"filename"', b'"image_name"', b'"image_path"'),
    ),
}

# Formats of images and volumes, in the order in which they are asked.
VOLUMES: Mapping[str, str] = {
    "npy": "calipers.io.volumes.numpy:NpyReader",
    "npz": "calipers.io.volumes.numpy:NpzReader",
    "dicom": "calipers.io.volumes.dicom:DicomReader",
    "nifti": "calipers.io.volumes.nifti:NiftiReader",
    "nrrd": "calipers.io.volumes.itk:NrrdReader",
    "metaimage": "calipers.io.volumes.itk:MetaImageReader",
    "picture": "calipers.io.volumes.pictures:PictureReader",
}

TABLES: Mapping[str, Mapping[str, str]] = {
    "criterion": CRITERIA,
    "assignment": ASSIGNMENTS,
    "metric": METRICS,
    "format": FORMATS,
    "volume format": VOLUMES,
}
# Kinds that other packages may add to, and the groups of their entry points.
GROUPS: Mapping[str, str] = {"format": "calipers.readers", "volume format": "calipers.volumes"}


def known(kind: str) -> list[str]:
    """Return the names of a kind, with those of other packages first.

    They come first because a format of others is more special than ours: one that builds on JSON
    or CSV is recognised before the general format is.
    """
    return [*plugins(kind), *TABLES[kind]]


def check(kind: str, name: str) -> str:
    """Return the name if it is known, in the spelling that is, else raise an error that names the
    nearest one.
    """
    # Packages of others are asked only about names that are not ours.
    if word(f"the {kind}", name) in TABLES[kind]:
        return name
    name = spelled(name, known(kind))
    if name not in TABLES[kind] and name not in plugins(kind):
        raise UsageError(f"no {kind} {name!r}; {did_you_mean(name, known(kind))}")
    return name


def own_matching(metric: str) -> bool:
    """Return whether a kind of metric compares places in a way of its own, so that the protocol's
    does not apply.
    """
    return bool(getattr(resolve("metric", metric), "own_matching", False))


def resolve(kind: str, name: str) -> Any:
    """Return the object behind a name."""
    name = check(kind, name)
    if name in TABLES[kind]:
        module, _, attribute = TABLES[kind][name].partition(":")
        return getattr(import_module(module), attribute)
    with blaming(kind, name):
        return plugins(kind)[name].load()


@cache
def plugins(kind: str) -> Mapping[str, EntryPoint]:
    """Return the names that other installed packages add to a kind."""
    if kind not in GROUPS:
        return {}
    from importlib.metadata import entry_points

    entries: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUPS[kind]):
        if entry.name in TABLES[kind] or entry.name in entries:
            raise PluginError(f"{_plugin(kind, entry)} has the name of another one: uninstall it")
        entries[entry.name] = entry
    return entries


@cache
def reader(kind: str, name: str, base: type) -> Any:
    """Return the reader of a format; one of another package has to be a ``base`` of its name."""
    behind = resolve(kind, name)
    with blaming(kind, name):
        if not isinstance(behind, type) or not issubclass(behind, base):
            raise TypeError(f"{behind!r} is not a subclass of {base.__name__}")
        instance = behind()
        if getattr(instance, "name", None) != name:
            raise TypeError(f"its reader is called {getattr(instance, 'name', None)!r}")
        return instance


@contextmanager
def blaming(kind: str, name: str) -> Iterator[None]:
    """Turn exceptions of the code of another package into an error that names the package."""
    try:
        yield
    except CalipersError:
        raise
    except Exception as error:
        if name in TABLES[kind]:
            raise
        message = f"{_plugin(kind, plugins(kind)[name])} fails: {type(error).__name__}: {error}"
        raise PluginError(f"{message}\n  hint: update or uninstall the package") from error


def _plugin(kind: str, entry: EntryPoint) -> str:
    package = "another package" if entry.dist is None else f"the package {entry.dist.name!r}"
    return f"the {kind} {entry.name!r} of {package} ({entry.value})"
