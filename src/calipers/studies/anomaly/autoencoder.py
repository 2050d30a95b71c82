# SPDX-License-Identifier: Apache-2.0
"""A small convolutional autoencoder of slices (extra ``train``: PyTorch)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
EPOCHS, BATCH, RATE = 12, 32, 2e-3
CHANNELS, CODE = (8, 16, 32), 48  # of the layers, and numbers that a slice is squeezed into


def fit_autoencoder(slices: F32, seed: int) -> Callable[[F32], F32]:
    """Train on slices (n, height, width) whose sides are multiples of 8.

    Returns the function that reproduces slices.
    """
    import torch
    from torch import nn

    with _seeded(seed):
        net = _network(slices.shape[1] // 8, slices.shape[2] // 8)
        data = torch.from_numpy(np.ascontiguousarray(slices))[:, None]
        steps = EPOCHS * -(-len(data) // BATCH)
        optimiser = torch.optim.Adam(net.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
        for _ in range(EPOCHS):
            for part in torch.randperm(len(data)).split(BATCH):
                optimiser.zero_grad()
                nn.functional.mse_loss(net(data[part]), data[part]).backward()
                optimiser.step()
                schedule.step()
    net.eval()

    def reproduce(volume: F32) -> F32:
        with _seeded(seed), torch.no_grad():
            batch = torch.from_numpy(np.ascontiguousarray(volume))[:, None]
            reproduction: F32 = net(batch)[:, 0].numpy()
        return reproduction

    return reproduce


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed PyTorch and use one thread, for bit-identical training; restore both at the end."""
    import torch

    # Several threads would add floating-point numbers in varying order.
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(state)


def _network(height: int, width: int):  # type: ignore[no-untyped-def]  # PyTorch is not there when types are checked
    """Return an encoder of three steps, a code, and a decoder of three steps."""
    from torch import nn

    encoder, decoder = [], []
    sizes = (1, *CHANNELS)
    for n_few, n_many in pairwise(sizes):
        encoder += [nn.Conv2d(n_few, n_many, 3, stride=2, padding=1), nn.ReLU()]
    for n_many, n_few in zip(sizes[:0:-1], sizes[-2::-1]):
        decoder += [nn.Upsample(scale_factor=2), nn.Conv2d(n_many, n_few, 3, padding=1), nn.ReLU()]
    last = CHANNELS[-1]
    to_code = [nn.Flatten(), nn.Linear(last * height * width, CODE)]
    from_code = [
        nn.Linear(CODE, last * height * width),
        nn.ReLU(),
        nn.Unflatten(1, (last, height, width)),
    ]
    return nn.Sequential(*encoder, *to_code, *from_code, *decoder[:-1])
