"""A saved encoder in NumPy: latents of many observations at once, on any machine, whatever engine trained it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.agents import Agent, Conv, Limits, Mlp, Network, Relu, fit
from headrace.errors import HeadraceError
from headrace.normalize import Moments, limited, standardised

PARAMS, SCALE = "stream/agent/params/", "stream/obs_scale/"
NORM_EPS, NEGATIVE_SLOPE = 1e-5, 0.01
BATCH = 250  # observations at once: the largest image network then needs some 100 MB

Layer = dict[str, np.ndarray]


@dataclass(frozen=True)
class Encoder:
    """Encoder and frozen observation scale of one checkpoint."""

    network: Network
    layers: list[Layer]
    scale: Moments
    observations: Limits

    @staticmethod
    def of(agent: Agent, observation_shape: tuple[int, ...], arrays: Mapping[str, np.ndarray]) -> Encoder:
        """The encoder among a checkpoint's arrays; HeadraceError where it is not there or does not fit."""
        network = fit(agent.network, observation_shape)
        if not isinstance(network, Conv | Mlp):
            raise HeadraceError(f"latents are found by Conv and Mlp networks only, this agent has {network!r}")
        layers = layers_of("encoder", arrays)
        try:
            scale = Moments(*(arrays[SCALE + name] for name in Moments._fields))
        except KeyError as error:
            raise HeadraceError(f"the checkpoint has no observation scale: {error} is missing") from error
        wanted = len(network.widths if isinstance(network, Mlp) else network.channels)
        if len(layers) != wanted:
            raise HeadraceError(f"the checkpoint has {len(layers)} encoder layers, its agent has {wanted}")
        frames = observation_shape[-1] // scale.mean.shape[-1]
        repeated = (np.concatenate([x] * frames, axis=-1) for x in scale[1:])
        return Encoder(network, layers, Moments(scale.count, *repeated), agent.observations)

    def latents(self, observations: np.ndarray) -> np.ndarray:
        """One flattened latent a row."""
        parts = [observations[i : i + BATCH] for i in range(0, len(observations), BATCH)]
        return np.concatenate([self._encoded(part) for part in parts])

    def _encoded(self, observations: np.ndarray) -> np.ndarray:
        z = limited(self.observations, standardised(self.scale, observations.astype(np.float32)))
        strides = self.network.strides if isinstance(self.network, Conv) else [None] * len(self.layers)
        for layer, stride in zip(self.layers, strides, strict=True):
            z = activate(convolve(layer, z, stride) if stride else z @ layer["w"] + layer["b"])
        return z.reshape(len(z), -1)


def layers_of(module: str, arrays: Mapping[str, np.ndarray]) -> list[Layer]:
    """A module's layers, first to last; none where the arrays do not have it."""
    found: dict[int, Layer] = {}
    for name, array in arrays.items():
        if name.startswith(f"{PARAMS}{module}/"):
            number, _, kind = name.removeprefix(f"{PARAMS}{module}/").partition("/")
            found.setdefault(int(number), {})[kind] = array
    return [found[number] for number in sorted(found)]


def convolve(layer: Layer, x: np.ndarray, stride: Any) -> np.ndarray:
    """A VALID convolution of every image of the batch."""
    (kh, kw), (sh, sw) = layer["w"].shape[:2], stride
    windows = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), axis=(1, 2))[:, ::sh, ::sw]
    columns = windows.transpose(0, 1, 2, 4, 5, 3).reshape(*windows.shape[:3], -1)
    return columns @ layer["w"].reshape(-1, layer["w"].shape[-1]) + layer["b"]


def activate(x: np.ndarray) -> np.ndarray:
    """LayerNorm over all features of each sample without parameters, then LeakyReLU."""
    axes = tuple(range(1, x.ndim))
    centred = x - x.mean(axis=axes, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + np.float32(NORM_EPS))
    return np.where(normal >= 0, normal, np.float32(NEGATIVE_SLOPE) * normal)


def headed(head: Any, projected: np.ndarray) -> np.ndarray:
    """What the Q network's last layer is given of the projection's result."""
    return np.maximum(projected, 0) if isinstance(head, Relu) else activate(projected)
