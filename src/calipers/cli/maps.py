# SPDX-License-Identifier: Apache-2.0
"""`calipers maps REFS PREDS...`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click

from calipers.cli.evaluate import check_output, chosen_protocol, show
from calipers.cli.narration import Narrator
from calipers.cli.options import evaluation_options, named_files, output_options
from calipers.errors import UsageError

# options that replace the map settings of the protocol
SETTINGS = ("threshold", "connectivity", "least", "tuning")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="PREDS...", nargs=-1, required=True)
@evaluation_options("Preset: anomaly (default), mood, picai, or another name.")
@click.option(
    "--labels",
    metavar="MEANING",
    default="binary",
    help="Meaning of label values: binary (default), nonzero or instances.",
)
@click.option("--mask-values", metavar="N,...", help="Label values that count, such as 1,3.")
@click.option(
    "--normalise",
    metavar="NAME",
    default="none",
    help="How scores are normalised: none (default), minmax, sigmoid, clip, uint8, uint16 or rank.",
)
@click.option(
    "--threshold", metavar="SCORE", help="Threshold for objects: a score, fpr:0.05, or best-dice."
)
@click.option(
    "--tuning",
    metavar="COLUMN=NAME",
    help="Samples on which the threshold is chosen; they are used for nothing else.",
)
@click.option(
    "--connectivity",
    type=click.Choice(["full", "edges", "faces"]),
    help="Which neighbours belong to one object (full).",
)
@click.option(
    "--least",
    metavar="N",
    type=click.IntRange(min=1),
    help="Smallest predicted object, in voxels (1).",
)
@click.option(
    "--label", metavar="NAME", default="lesion", help="Class name of the objects (lesion)."
)
@click.option(
    "--pattern", metavar="NAMES", help="Names of the prediction files, such as {name}_pred.nii.gz."
)
@click.option(
    "--reference-pattern",
    metavar="NAMES",
    help="Names of the reference files, such as {name}_seg.nii.gz.",
)
@click.option(
    "--missing",
    type=click.Choice(["error", "empty", "skip"]),
    default="error",
    help="What to do about missing maps (error).",
)
@click.option(
    "--resize",
    type=click.Choice(["nearest", "linear"]),
    help="Resample maps to the shape of the labels.",
)
@click.option(
    "--groups", metavar="TABLE", help="Table with a row per sample: patient, centre, or any column."
)
@click.option(
    "--images",
    metavar="DIR",
    help="Folder of the images, for the pictures on the page.",
)
@click.option("--no-images", is_flag=True, help="Write the page without pictures.")
@click.option("--redact", is_flag=True, help="Write the page with hashed ids and without pictures.")
@output_options
def maps(references: str, predictions: tuple[str, ...], **options: Any) -> None:
    """Evaluate score maps against label images or volumes.

    REFS and PREDS are folders with a file per sample (NIfTI, NRRD, MHA, NumPy, PNG, TIFF, DICOM),
    paired by name, or lists of files; name=DIR names a model. Volumes are read one after the other.

    \b
    calipers maps labels ours=maps_a theirs=maps_b --groups patients.csv -o results
    """
    from calipers.evaluate_maps import evaluate_maps
    from calipers.readers.volumes import read_maps

    narrator, start = Narrator(quiet=options["quiet"] or options["as_json"]), datetime.now(UTC)
    protocol = with_settings(chosen_protocol(options, "anomaly"), options)
    folders = named_files(predictions)
    if options["output"] is not None:
        others = [options[name] for name in ("groups", "images") if options[name]]
        inputs = (references, *folders.values(), *others)
        check_output(options["output"], options["force"], inputs)
    samples = read_maps(
        references,
        folders,
        images=options["images"],
        groups=options["groups"],
        pattern=options["pattern"],
        reference_pattern=options["reference_pattern"],
        missing=options["missing"],
        resize=options["resize"],
    )
    narrator.say(f"{len(samples)} samples, {len(folders)} models; protocol {protocol.name}")
    evaluation = evaluate_maps(
        samples,
        protocol,
        labels=meaning_of_labels(options["labels"], options["mask_values"]),
        normalise=options["normalise"],
        label=options["label"],
        seed=options["seed"],
        ci=not options["no_ci"],
        by=tuple(dict.fromkeys(options["by"])),
        jobs=options["jobs"],
        progress=narrator.steps(*steps_of(protocol)),
    )
    narrator.warn(evaluation.warnings)
    if options["output"]:
        command = click.get_current_context().obj or ()
        pictures = {
            "pictures": not options["no_images"] and not options["redact"],
            "redact": options["redact"],
        }
        evaluation.save(
            options["output"],
            force=options["force"],
            command=command,
            started=start,
            step=narrator.doing,
            **pictures,
        )
    show(evaluation, narrator, options)


def with_settings(protocol: Any, options: dict[str, Any]) -> Any:
    """Return the protocol with the settings of maps that the options name."""
    from calipers.metrics.map_settings import MapSettings

    changes = {name: options[name] for name in SETTINGS if options[name] is not None}
    if "threshold" in changes:
        changes["threshold"] = number_or_text(changes["threshold"])
    if not changes:
        return protocol
    return replace(protocol, maps=replace(protocol.maps or MapSettings(), **changes))


def number_or_text(text: str) -> float | str:
    """Return 0.5 of "0.5", and other text as it is."""
    try:
        return float(text)
    except ValueError:
        return text


def steps_of(protocol: Any) -> tuple[str, ...]:
    """Return the steps of the evaluation, in order."""
    steps = ("reading", "matching", "resampling")
    if protocol.maps is not None and protocol.maps.chosen:
        return ("choosing a threshold", *steps)
    return steps


def meaning_of_labels(name: str, values: str | None) -> str | tuple[int, ...]:
    """Return the name of a meaning, or the values that count, of ``1,3``."""
    if values is None:
        return name
    if name != "binary":
        raise UsageError(
            f"--labels {name} and --mask-values {values} contradict each other: give one of them"
        )
    return mask_values(values)


def mask_values(text: str) -> tuple[int, ...]:
    """Return the numbers of ``1,3``."""
    try:
        return tuple(int(value) for value in text.split(","))
    except ValueError:
        raise UsageError(f"--mask-values takes whole numbers such as 1,3, not {text!r}") from None
