# SPDX-License-Identifier: Apache-2.0
"""Networks that learn what is normal, and mark what is not: a score for every pixel or voxel.

They see normal images only. `AnomalyNetwork` has six methods, in 2D (pictures, and slices of
volumes) and in 3D (small volumes, whole), by the key ``method`` of a plan:

- reconstruction: ``ae``, an autoencoder that squeezes an image through a few numbers; ``vae``, the
  same with a distribution of codes (Kingma and Welling 2014); ``denoising``, a U-Net that removes
  coarse noise (Kascenas et al. 2022). The score is what they fail to reproduce;
- features: ``padim``, a normal distribution of features at every place (Defard et al. 2021), and
  ``distillation``, a student that decodes the features of a teacher from its last ones (reverse
  distillation, Deng and Li 2022). Features are those of a backbone with weights of the user's, or
  of an encoder that is trained here, by denoising;
- self-supervised: ``fpi``, foreign patch interpolation (Tan et al. 2020; the winners of MOOD 2020
  worked so): a patch of another image is blended in, and the network says where and how strongly.

After training, `AnomalyModel` fits what needs statistics, and calibrates scores on normal images:
one pixel in 1,000 reaches 0.5, one in 100 reaches 0.01, and the odds are a power of the raw score.
So maps lie in [0, 1] and go into ``calipers maps`` as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cosine_similarity,
    interpolate,
    mse_loss,
)

from calipers.arrays import F32, I64
from calipers.errors import InputError, UsageError
from calipers.results.files import write_atomically
from calipers.training.backbones import backbone
from calipers.training.datasets.frames import Frames
from calipers.training.datasets.splits import ImageSplit
from calipers.training.datasets.training_images import TrainingImages
from calipers.training.loop import (
    LOG,
    WEIGHTS,
    Epoch,
    History,
    Progress,
    in_batches,
    write_weights,
)
from calipers.training.members import Member
from calipers.training.mil import bag_auc
from calipers.training.models import LearningModel, PredictedMaps
from calipers.training.training_plan import TrainingPlan

WIDTHS = (16, 32, 64)  # channels of the encoder, from fine to coarse
DEEPEST = 8  # a side is a multiple of it
GROUPS = 8
CODE = 64  # numbers that an autoencoder squeezes an image into
VARIATION = 1e-3  # weight of the divergence of a variational code
NOISE = 0.4  # deviation of the noise that is to be removed, of values from -1 to 1
COARSE = 8  # pixels of a patch of noise
PATCH = (0.1, 0.4)  # side of a foreign patch, of the side of the image
BLEND = (0.05, 0.95)  # share of the foreign image
UNTOUCHED = 0.2  # share of images without a patch
PADIM_FEATURES, PADIM_RIDGE = 32, 1e-2
SMOOTH = 5  # side of the window over which residuals are averaged, pixels
USUAL, RARE = 0.99, 0.999  # shares of normal pixels below scores of 0.01 and 0.5
LEAST = 1e-6
MOST_CALIBRATION = 200  # images
STAGES = {"resnet18": (4, 5, 6), "resnet50": (4, 5, 6)}  # of the layers of a backbone
STAGE_WIDTHS = {"resnet18": (64, 128, 256), "resnet50": (256, 512, 1024)}
METHODS = ("ae", "vae", "denoising", "padim", "distillation", "fpi")


def _convolution(dimensions: int, *sizes: int, **options: Any) -> nn.Module:
    kind = nn.Conv2d if dimensions == 2 else nn.Conv3d
    return kind(*sizes, **options)


def _block(dimensions: int, inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    layers: list[nn.Module] = []
    for source, step in ((inputs, stride), (outputs, 1)):
        layers += [
            _convolution(dimensions, source, outputs, 3, stride=step, padding=1, bias=False),
            nn.GroupNorm(GROUPS, outputs),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers)


def _resized(features: Tensor, shape: Sequence[int]) -> Tensor:
    mode = "bilinear" if features.ndim == 4 else "trilinear"
    return interpolate(features, size=tuple(shape), mode=mode, align_corners=False)


class OwnStages(nn.Module):
    """Three levels of features, at the full, half and quarter side."""

    widths = WIDTHS

    def __init__(self, dimensions: int, channels: int) -> None:
        super().__init__()
        blocks, inputs = [], channels
        for k, width in enumerate(WIDTHS):
            blocks.append(_block(dimensions, inputs, width, 2 if k else 1))
            inputs = width
        self.blocks = nn.ModuleList(blocks)

    def forward(self, pictures: Tensor) -> list[Tensor]:
        """Return the levels, the finest first."""
        levels = []
        for block in self.blocks:
            pictures = block(pictures)
            levels.append(pictures)
        return levels


class BackboneStages(nn.Module):
    """Three levels of a backbone with weights that stay as they are."""

    def __init__(self, name: str, channels: int, weights: str | None) -> None:
        super().__init__()
        if name not in STAGES:
            names = ", ".join(("small", *STAGES))
            raise UsageError(f"features of {name} cannot be taken level by level; known: {names}")
        self.network = backbone(name, channels, weights)
        self.stages, self.widths = STAGES[name], STAGE_WIDTHS[name]
        for parameter in self.network.parameters():
            parameter.requires_grad_(False)

    def forward(self, pictures: Tensor) -> list[Tensor]:
        """Return the levels, the finest first."""
        # Statistics of batch norm belong to the weights: they never move.
        self.network.eval()
        pictures = pictures.expand(-1, self.network.inputs, *pictures.shape[2:])
        levels = []
        for k, layer in enumerate(self.network.layers):
            pictures = layer(pictures)
            if k in self.stages:
                levels.append(pictures)
        return levels


class Decoder(nn.Module):
    """From the last of three levels back to the first, with or without the levels themselves."""

    def __init__(self, dimensions: int, widths: Sequence[int], *, skips: bool) -> None:
        super().__init__()
        fine, middle, coarse = widths
        self.skips = skips
        own = (middle, fine) if skips else (0, 0)
        self.up = nn.ModuleList(
            [
                _block(dimensions, coarse + own[0], middle),
                _block(dimensions, middle + own[1], fine),
            ]
        )

    def forward(self, levels: Sequence[Tensor], shapes: Sequence[Any]) -> list[Tensor]:
        """Return what was decoded at the levels, the finest first."""
        features = levels[-1]
        decoded: list[Tensor] = []
        for k, block in enumerate(self.up):
            features = _resized(features, shapes[1 - k])
            if self.skips:
                features = torch.cat([features, levels[1 - k]], dim=1)
            features = block(features)
            decoded.insert(0, features)
        return decoded


class AnomalyNetwork(nn.Module):
    """A network that gives every pixel a raw score of 0 or more; see the top of this file."""

    rare: Tensor
    power: Tensor
    feature_index: Tensor
    mean: Tensor
    whitening: Tensor

    def __init__(self, plan: TrainingPlan, channels: int, weights: str | None = None) -> None:
        super().__init__()
        self.method, self.dimensions = plan.method, plan.dimensions
        if plan.side % DEEPEST:
            raise UsageError(f"--side has to be a multiple of {DEEPEST}, got {plan.side}")
        d = plan.dimensions
        is_own = plan.backbone == "small"
        if not is_own and (d == 3 or plan.method not in ("padim", "distillation")):
            raise UsageError(
                f"the backbone {plan.backbone} is for the methods padim and distillation in 2D; "
                "leave out --backbone"
            )
        if weights is not None and is_own:
            raise UsageError("--weights are those of --backbone resnet18 or resnet50")
        stages: Any = OwnStages(d, channels)
        if not is_own:
            stages = BackboneStages(plan.backbone, channels, weights)
        self.stages, self.is_own = stages, is_own
        widths = stages.widths
        if plan.method in ("ae", "vae"):
            self._build_code(plan, widths)
        if is_own:
            self.decoder = Decoder(d, widths, skips=plan.method not in ("ae", "vae"))
            self.head = _convolution(d, widths[0], 1 if plan.method == "fpi" else channels, 1)
        if plan.method == "distillation":
            self.squeeze = _block(d, widths[2], widths[2], 2)
            self.student = Decoder(d, widths, skips=False)
            self.last = _block(d, widths[2], widths[2])
            outputs = [_convolution(d, width, width, 1) for width in widths]
            self.outputs = nn.ModuleList(outputs)
        self.register_buffer("rare", torch.tensor(float("nan")))
        self.register_buffer("power", torch.tensor(float("nan")))
        if plan.method == "padim":
            self._build_statistics(plan, channels, sum(widths))

    def _build_code(self, plan: TrainingPlan, widths: Sequence[int]) -> None:
        side, d = plan.side // DEEPEST, plan.dimensions
        self.code_shape = (widths[2], *(side,) * d)
        n = int(np.prod(self.code_shape))
        self.squeeze = _block(d, widths[2], widths[2], 2)
        self.to_code = nn.Linear(n, CODE if plan.method == "ae" else 2 * CODE)
        self.from_code = nn.Linear(CODE, n)

    def _build_statistics(self, plan: TrainingPlan, channels: int, n_features: int) -> None:
        random = np.random.default_rng(0)
        n = min(PADIM_FEATURES, n_features)
        feature_index = np.sort(random.choice(n_features, n, replace=False))
        self.register_buffer("feature_index", torch.from_numpy(feature_index))
        with torch.no_grad():
            example = torch.zeros(1, channels, *(plan.side,) * plan.dimensions)
            places = int(np.prod(self.stages(example)[1].shape[2:]))
        self.register_buffer("mean", torch.zeros(places, n))
        self.register_buffer("whitening", torch.eye(n).repeat(places, 1, 1))

    def reconstruct(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Return pictures as the network makes them of their features, and the divergence of
        their codes, which is 0 unless these are variational.
        """
        levels = self.stages(pictures)
        shapes = [level.shape[2:] for level in levels]
        divergence = torch.zeros((), device=pictures.device)
        if self.method in ("ae", "vae"):
            code = self.to_code(self.squeeze(levels[2]).flatten(1))
            if self.method == "vae":
                mean, log_variance = code.chunk(2, dim=1)
                log_variance = log_variance.clamp(-10, 10)
                divergence = (mean.square() + log_variance.exp() - 1 - log_variance).mean() / 2
                code = mean
                if self.training:
                    code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
            deep = self.from_code(code).unflatten(1, self.code_shape)
            levels = [*levels[:2], _resized(deep, shapes[2])]
        return self.head(self.decoder(levels, shapes)[0]), divergence

    def features(self, pictures: Tensor) -> Tensor:
        """Return (B, n, ...) features of all levels on the grid of the second one."""
        levels = self.stages(pictures)
        grid = levels[1].shape[2:]
        return torch.cat([_resized(level, grid) for level in levels], dim=1)

    def distances(self, pictures: Tensor) -> list[Tensor]:
        """Return how far the student is from its teacher at every level: 1 - cosine."""
        with torch.set_grad_enabled(False):
            levels = self.stages(pictures)
        levels = [level.detach() for level in levels]
        shapes = [level.shape[2:] for level in levels]
        # The student sees the last level only, squeezed; details have to come from what is usual.
        deep = self.last(_resized(self.squeeze(levels[2]), shapes[2]))
        decoded = [*self.student([deep, deep, deep], shapes), deep]
        return [
            1 - cosine_similarity(output(own), level, dim=1)
            for output, own, level in zip(self.outputs, decoded, levels)
        ]

    def raw_scores(self, pictures: Tensor) -> Tensor:
        """Return (B, ...) how unusual every pixel is, 0 or more."""
        shape = pictures.shape[2:]
        if self.method == "fpi":
            return torch.sigmoid(self.reconstruct(pictures)[0][:, 0])
        if self.method == "padim":
            rows = self.features(pictures)[:, self.feature_index]
            grid = rows.shape[2:]
            away = rows.flatten(2).transpose(1, 2) - self.mean  # (B, places, n)
            white = torch.einsum("pij,bpj->bpi", self.whitening, away)
            score = white.square().sum(dim=2).sqrt().unflatten(1, grid)
            return _resized(score[:, None], shape)[:, 0]
        if self.method == "distillation":
            maps = [_resized(own[:, None], shape) for own in self.distances(pictures)]
            return torch.stack(maps).sum(dim=0)[:, 0].clamp(min=0)
        residual = (pictures - self.reconstruct(pictures)[0]).abs().mean(dim=1, keepdim=True)
        return _averaged(residual, self.dimensions)[:, 0]

    def forward(self, pictures: Tensor) -> Tensor:
        """Return (B, ...) calibrated scores in [0, 1]."""
        odds = (self.raw_scores(pictures) / self.rare) ** self.power
        return 1 - 1 / (1 + odds)


def _averaged(values: Tensor, dimensions: int) -> Tensor:
    pool = nn.functional.avg_pool2d if dimensions == 2 else nn.functional.avg_pool3d
    return pool(values, SMOOTH, stride=1, padding=SMOOTH // 2, count_include_pad=False)


def coarse_noise(pictures: Tensor) -> Tensor:
    """Return pictures with noise whose grains are `COARSE` pixels wide."""
    grid = [max(2, n // COARSE) for n in pictures.shape[2:]]
    noise = torch.randn(len(pictures), pictures.shape[1], *grid)
    strength = NOISE * torch.rand(len(pictures), *(1,) * (pictures.ndim - 1))
    return pictures + _resized(noise, pictures.shape[2:]).to(pictures.device) * strength.to(
        pictures.device
    )


def foreign_patches(pictures: Tensor) -> tuple[Tensor, Tensor]:
    """Return pictures into which a patch of their neighbour in the batch is blended, and the share
    of the foreign picture at every pixel (B, ...).
    """
    shape = pictures.shape[2:]
    shares = torch.zeros(len(pictures), *shape)
    for b in range(len(pictures)):
        low, high = PATCH
        draws = torch.rand(2 * len(shape) + 2)
        if draws[-1] < UNTOUCHED:
            continue
        place: list[slice] = []
        for axis, n in enumerate(shape):
            side = max(2, round(float(low + (high - low) * draws[axis]) * n))
            start = int(draws[len(shape) + axis] * (n - side + 1))
            place.append(slice(start, start + side))
        shares[(b, *place)] = BLEND[0] + (BLEND[1] - BLEND[0]) * draws[-2]
    shares = shares.to(pictures.device)
    blend = shares[:, None]
    return (1 - blend) * pictures + blend * pictures.roll(1, dims=0), shares


class AnomalyTask:
    """A network with its normal images: the loss of a batch, and that of the validation images."""

    def __init__(
        self,
        network: AnomalyNetwork,
        frames: Frames,
        validation: I64,
        plan: TrainingPlan,
        device: torch.device,
    ) -> None:
        self.network = network.to(device)
        self.frames, self.plan, self.device, self.validation = frames, plan, device, validation

    def pictures(self, rows: I64) -> Tensor:
        """Return a batch."""
        return torch.from_numpy(scaled_any(self.frames.pixels[rows], self.network.dimensions)).to(
            self.device
        )

    def loss(self, rows: I64) -> Tensor:
        """Return the loss of a batch."""
        pictures, network = self.pictures(rows), self.network
        if network.method == "fpi":
            blended, shares = foreign_patches(pictures)
            return binary_cross_entropy_with_logits(network.reconstruct(blended)[0][:, 0], shares)
        if network.method in ("ae", "vae"):
            pictures_again, divergence = network.reconstruct(pictures)
            return mse_loss(pictures_again, pictures) + VARIATION * divergence
        loss = torch.zeros((), device=self.device)
        if network.is_own:
            pictures_again, _ = network.reconstruct(coarse_noise(pictures))
            loss = loss + mse_loss(pictures_again, pictures)
        if network.method == "distillation":
            loss = loss + torch.stack([own.mean() for own in network.distances(pictures)]).sum()
        return loss

    def validate(self) -> Mapping[str, float]:
        """Return minus the loss on validation images, with the same random numbers every time."""
        if not len(self.validation):
            return {}
        state = torch.get_rng_state()
        torch.manual_seed(0)
        total = 0.0
        for rows in in_batches(self.validation, self.plan.batch):
            total += float(self.loss(rows).item()) * len(rows)
        torch.set_rng_state(state)
        return {"score": -total / len(self.validation)}


def scaled_any(pixels: Any, dimensions: int) -> F32:
    """Return (n, channels, ...) numbers in [-1, 1] of bytes, with or without colours."""
    values = np.asarray(pixels, np.float32) / 127.5 - 1
    if values.ndim == dimensions + 1:
        return values[:, None]
    return np.ascontiguousarray(np.moveaxis(values, -1, 1))


def fit_statistics(task: AnomalyTask, rows: I64) -> None:
    """Fit the normal distributions of features, from the training images."""
    network = task.network
    if network.method != "padim":
        return
    n = network.mean.shape[1]
    total = torch.zeros(network.mean.shape, dtype=torch.float64)
    square = torch.zeros((*network.mean.shape, n), dtype=torch.float64)
    with torch.no_grad():
        for part in in_batches(rows, task.plan.batch):
            features = network.features(task.pictures(part))[:, network.feature_index].flatten(2)
            own = features.permute(2, 0, 1).double().cpu()  # (places, B, n)
            total += own.sum(dim=1)
            square += own.transpose(1, 2) @ own
    mean = total / len(rows)
    covariance = square / len(rows) - mean[:, :, None] * mean[:, None, :]
    # Few images leave the covariance singular; the ridge is relative to the spread of features.
    scale = covariance.diagonal(dim1=1, dim2=2).mean().clamp(min=LEAST)
    ridge = PADIM_RIDGE * scale * torch.eye(n, dtype=torch.float64)
    values, vectors = torch.linalg.eigh(covariance + ridge)
    whitening = vectors.transpose(1, 2) / values.clamp(min=PADIM_RIDGE * scale).sqrt()[:, :, None]
    network.mean.copy_(mean)
    network.whitening.copy_(whitening)


def fit_calibration(task: AnomalyTask, rows: I64) -> None:
    """Learn from normal images which scores are usual: see the top of this file."""
    values = []
    with torch.no_grad():
        for part in in_batches(rows[:MOST_CALIBRATION], task.plan.batch):
            scores = task.network.raw_scores(task.pictures(part))
            values.append(scores.flatten().double().cpu().numpy())
    usual, rare = np.maximum(np.quantile(np.concatenate(values), (USUAL, RARE)), LEAST)
    # The lower limit keeps the power finite if both quantiles agree.
    power = np.log(USUAL / (1 - USUAL)) / max(np.log(rare / usual), 0.05)
    task.network.rare.fill_(float(rare))
    task.network.power.fill_(float(power))


def scores_of(
    network: AnomalyNetwork,
    frames: Frames,
    rows: I64,
    batch: int,
    device: torch.device,
    progress: Progress | None = None,
) -> F32:
    """Return (n, ...) calibrated maps, as large as the frames."""
    if bool(torch.isnan(network.rare)):
        raise InputError(
            "a calibrated network",
            rule="checkpoint",
            value="weights that were never calibrated",
            hint="train the model again",
        )
    network.eval()
    maps = []
    with torch.no_grad():
        for part in in_batches(rows, batch, progress):
            pictures = torch.from_numpy(scaled_any(frames.pixels[part], network.dimensions))
            maps.append(network(pictures.to(device)).cpu().numpy())
    return np.asarray(np.concatenate(maps), np.float32)


def image_scores(maps: F32) -> F32:
    """Return (n,) one score per image: the mean of its highest thousandth of pixels."""
    flat = np.sort(maps.reshape(len(maps), -1), axis=1)
    n = max(1, flat.shape[1] // 1000)
    return np.asarray(flat[:, -n:].mean(axis=1), np.float32)


class AnomalyModel(LearningModel):
    """Anomaly networks, for the table of models."""

    name = "anomaly"
    measure_name = "AUC"
    output = "maps"
    usual_plans = ("anomaly", "anomaly")
    small_plan = "anomaly"
    many_classes = True
    needs_labels = False
    usual_subsets = 1
    settings = ("backbone", "method", "dimensions")
    takes_weights = True

    def open(
        self, source: str, labels: str | None, canvases: Any, plan: TrainingPlan
    ) -> TrainingImages:
        """Return pictures, or the slices of volumes; without labels all of them are normal."""
        from calipers.training.anomaly_files import open_normal

        return open_normal(source, labels, canvases, plan)

    def frames(self, images: TrainingImages, plan: TrainingPlan, **options: Any) -> Frames:
        """Return the images as squares or cubes."""
        from calipers.training.anomaly_files import prepare_normal

        return prepare_normal(images, plan, **options)

    def adapted_split(self, images: TrainingImages, split: ImageSplit) -> ImageSplit:
        """Return the split with all images that are not normal in the test part."""
        positive = images.positive
        strange = np.concatenate([split.train, split.validation])
        strange = strange[positive[strange]]
        train, validation = split.train[~positive[split.train]], split.validation
        if not len(train):
            raise InputError(
                "normal images to learn from",
                rule="single-class",
                file=images.name,
                value=f"none of {len(images)}",
                hint="normal images are those that --labels gives 0, or no class",
            )
        validation = validation[~positive[validation]]
        return ImageSplit(train, validation, np.sort(np.append(split.test, strange)))

    def network(
        self, plan: TrainingPlan, channels: int, classes: Sequence[str], weights: str | None = None
    ) -> AnomalyNetwork:
        """Return an untrained network."""
        return AnomalyNetwork(plan, channels, weights)

    def task(
        self,
        network: Any,
        member: Member,
        frames: Frames,
        images: TrainingImages,
        device: torch.device,
    ) -> AnomalyTask:
        """Return the network with its data."""
        return AnomalyTask(network, frames, member.validation, member.plan, device)

    def fit(
        self,
        task: Any,
        member: Member,
        folder: Path,
        *,
        identity: str,
        threads: int,
        progress: Any,
    ) -> History:
        """Train; a backbone that stays as it is has nothing to learn but its statistics."""
        if any(parameter.requires_grad for parameter in task.network.parameters()):
            options = {"identity": identity, "threads": threads, "progress": progress}
            return super().fit(task, member, folder, **options)
        history = _nothing_to_train(folder, member.plan)
        task.network.eval()
        self.conclude(task, member)
        write_weights(folder / WEIGHTS, {"network": task.network.state_dict()}, identity)
        return history

    def conclude(self, task: Any, member: Member) -> None:
        """Fit statistics, and calibrate on images that were not trained on if there are any."""
        fit_statistics(task, member.rows)
        fit_calibration(task, member.validation if len(member.validation) else member.rows)

    def measure(
        self, network: Any, frames: Frames, rows: I64, plan: TrainingPlan, device: torch.device
    ) -> float | None:
        """Return the AUC of normal and other test images; None if there is one kind only."""
        positive = frames.images.positive[rows]
        if positive.all() or not positive.any():
            return None
        maps = scores_of(network.to(device), frames, rows, plan.batch, device)
        return bag_auc(image_scores(maps).astype(np.float64), positive)

    def outputs(
        self,
        network: Any,
        frames: Frames,
        plan: TrainingPlan,
        device: torch.device,
        progress: Progress | None = None,
    ) -> F32:
        """Return the maps of all frames."""
        rows = np.arange(len(frames))
        return scores_of(network, frames, rows, plan.batch, device, progress)

    def write(
        self,
        stage: Path,
        frames: Frames,
        plan: TrainingPlan,
        classes: Sequence[str],
        outputs: Mapping[str, Any],
    ) -> None:
        """Write a folder of maps per model, a file per picture or volume, and image scores."""
        from calipers.training.anomaly_files import write_anomaly_maps

        write_anomaly_maps(stage, frames, outputs)

    def next_commands(self, prediction: PredictedMaps) -> list[list[str]]:
        """Return the command that evaluates the maps; the references are the user's."""
        models = [f"{name}={prediction.folder / name}" for name in prediction.models]
        return [["maps", "REFERENCES", *models, "-o", "results"]]


def _nothing_to_train(folder: Path, plan: TrainingPlan) -> History:
    """Return the log of a backbone that stays as it is: one pass, for the statistics."""
    history = History((Epoch(1, 0.0, plan.rate, 0.0, {}),), 1)
    text = json.dumps(history.as_dict(), indent=1, allow_nan=False)
    write_atomically(folder / LOG, text + "\n")
    return history


MODEL = AnomalyModel()
