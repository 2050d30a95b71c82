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

SETTINGS = (
    "threshold",
    "connectivity",
    "least",
    "tuning",
)  # options that replace those of the protocol


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="PREDS...", nargs=-1, required=True)
@evaluation_options("anomaly (default), mood, picai, or the name of another one.")
@click.option(
    "--labels", metavar="MEANING", default="binary", help="binary (default), nonzero or instances."
)
@click.option(
    "--mask-values", metavar="N,...", help="The values of the labels that count, such as 1,3."
)
@click.option(
    "--normalise",
    metavar="NAME",
    default="none",
    help="minmax, sigmoid, clip, uint8, uint16 or rank.",
)
@click.option(
    "--threshold", metavar="SCORE", help="Objects start here: a score, fpr:0.05, or best-dice."
)
@click.option(
    "--tuning",
    metavar="COLUMN=NAME",
    help="Samples that the threshold is chosen on, and that is all.",
)
@click.option(
    "--connectivity", type=click.Choice(["full", "edges", "faces"]), help="Of objects (full)."
)
@click.option(
    "--least",
    metavar="N",
    type=click.IntRange(min=1),
    help="Smallest predicted object, in voxels (1).",
)
@click.option("--label", metavar="NAME", default="lesion", help="What the objects are called.")
@click.option(
    "--pattern", metavar="NAMES", help="Files of predictions, such as {name}_pred.nii.gz."
)
@click.option(
    "--reference-pattern", metavar="NAMES", help="Files of references, such as {name}_seg.nii.gz."
)
@click.option(
    "--missing",
    type=click.Choice(["error", "empty", "skip"]),
    default="error",
    help="Maps that are not there.",
)
@click.option(
    "--resize",
    type=click.Choice(["nearest", "linear"]),
    help="Bring maps to the shape of the labels.",
)
@click.option(
    "--groups", metavar="TABLE", help="Table with a row per sample: patient, centre, any column."
)
@click.option(
    "--images",
    metavar="DIR",
    help="Folder of the images below the maps, for the pictures of the page.",
)
@click.option("--no-images", is_flag=True, help="Leave pictures out of the page.")
@click.option("--redact", is_flag=True, help="Page with hashes for ids and without pictures.")
@output_options
def maps(references: str, predictions: tuple[str, ...], **given: Any) -> None:
    """Evaluate maps of scores against label images or volumes.

    REFS and PREDS are folders with a file per sample (NIfTI, NRRD, MHA, NumPy, PNG, TIFF, DICOM),
    paired by name, or lists of files; name=DIR names a model. Volumes are read one after the other.

    \b
    calipers maps labels ours=maps_a theirs=maps_b --groups patients.csv -o results
    """
    from calipers.evaluate_maps import evaluate_maps
    from calipers.readers.volumes import read_maps

    narrator, started = Narrator(quiet=given["quiet"] or given["as_json"]), datetime.now(UTC)
    protocol, folders = (
        with_settings(chosen_protocol(given, "anomaly"), given),
        named_files(predictions),
    )
    if given["output"] is not None:
        others = [given[name] for name in ("groups", "images") if given[name]]
        inputs = (references, *folders.values(), *others)
        check_output(given["output"], given["force"], inputs)
    samples = read_maps(
        references,
        folders,
        images=given["images"],
        groups=given["groups"],
        pattern=given["pattern"],
        reference_pattern=given["reference_pattern"],
        missing=given["missing"],
        resize=given["resize"],
    )
    narrator.say(f"{len(samples)} samples, {len(folders)} models; protocol {protocol.name}")
    evaluation = evaluate_maps(
        samples,
        protocol,
        labels=meaning_of_labels(given["labels"], given["mask_values"]),
        normalise=given["normalise"],
        label=given["label"],
        seed=given["seed"],
        ci=not given["no_ci"],
        by=tuple(dict.fromkeys(given["by"])),
        jobs=given["jobs"],
        progress=narrator.steps(*steps_of(protocol)),
    )
    narrator.warn(evaluation.warnings)
    if given["output"]:
        command = click.get_current_context().obj or ()
        pictures = {
            "pictures": not given["no_images"] and not given["redact"],
            "redact": given["redact"],
        }
        evaluation.save(
            given["output"],
            force=given["force"],
            command=command,
            started=started,
            step=narrator.doing,
            **pictures,
        )
    show(evaluation, narrator, given)


def with_settings(protocol: Any, given: dict[str, Any]) -> Any:
    """Return the protocol with the settings of maps that the options name."""
    from calipers.metrics.map_settings import MapSettings

    changes = {name: given[name] for name in SETTINGS if given[name] is not None}
    if "threshold" in changes:
        changes["threshold"] = number_or_text(changes["threshold"])
    return (
        replace(protocol, maps=replace(protocol.maps or MapSettings(), **changes))
        if changes
        else protocol
    )


def number_or_text(text: str) -> float | str:
    """Return 0.5 of "0.5", and other text as it is."""
    try:
        return float(text)
    except ValueError:
        return text


def steps_of(protocol: Any) -> tuple[str, ...]:
    """Return what is done, in its order."""
    chosen = protocol.maps is not None and protocol.maps.is_rule
    return (*(("choosing a threshold",) if chosen else ()), "reading", "matching", "resampling")


def meaning_of_labels(name: str, values: str | None) -> str | tuple[int, ...]:
    """Return the name of a meaning, or the values that count, of ``1,3``."""
    if values is None:
        return name
    if name != "binary":
        raise UsageError(
            f"--labels {name} and --mask-values {values} say different things: give one of them"
        )
    return mask_values(values)


def mask_values(text: str) -> tuple[int, ...]:
    """Return the numbers of ``1,3``."""
    try:
        return tuple(int(value) for value in text.split(","))
    except ValueError:
        raise UsageError(f"--mask-values takes whole numbers such as 1,3, not {text!r}") from None
