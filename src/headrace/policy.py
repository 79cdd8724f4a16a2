"""A trained agent in NumPy: its latents, its values, and what it does. Nothing is learnt, and no JAX is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.agents import ACTOR, Agent, Conv, Mlp, Relu, fit, name_of
from headrace.agents.aux import Q_NETWORK
from headrace.errors import BadSetting, CheckpointDamaged, HeadraceError
from headrace.normalize import Moments, limited, standardised

PARAMS, SCALE = "stream/agent/params/", "stream/obs_scale/"
NORM_EPS, NEGATIVE_SLOPE = 1e-5, 0.01
BATCH = 250  # observations at once: the largest image network then needs some 100 MB

Layer = dict[str, np.ndarray]


class Policy:
    """Parameters and normaliser of a saved agent, neither of which changes any more.

    `policy(obs)` is the action for what the environment shows: the best one, or the likeliest of an agent that draws
    its actions from a policy. In a box it is an array of numbers between -1 and 1, to be scaled to the box's bounds.
    Where an agent sees stacks of frames, the frames that are shown one after another are stacked here, and `reset()`
    begins an episode; whole stacks of raw frames are taken too. Observations are as the environment gives them.
    """

    def __init__(self, agent: Agent, arrays: Mapping[str, np.ndarray], *, eps: float = 0.0, seed: int = 0) -> None:
        """`arrays` are those of a checkpoint; a random action is taken with probability `eps`."""
        self.agent, self._eps, self._random = agent, eps, np.random.default_rng(seed)
        self._modules = {name: layers_of(name, arrays) for name in Q_NETWORK}
        actor = {name: layers_of(ACTOR + name, arrays) for name in Q_NETWORK} if agent.td.has_policy else {}
        self._acting = {name: actor.get(name) or layers for name, layers in self._modules.items()}
        head = self._acting["head"]  # none where the encoder alone was kept
        self.n_actions, self.box = head[0]["w"].shape[1] if head else 0, len(head) > 1  # a mean and a scale each
        try:
            scale = Moments(*(arrays[SCALE + name] for name in Moments._fields))
        except KeyError as error:
            raise CheckpointDamaged(f"the checkpoint has no observation scale: {error} is missing") from error
        self.frame_shape = scale.mean.shape
        self.observation_shape, self._network = self._fitted()
        frames = self.observation_shape[-1] // self.frame_shape[-1]
        # The scale of a stack of raw frames: frozen, it is the same for each of them.
        self._scale = Moments(scale.count, *(np.concatenate([x] * frames, axis=-1) for x in scale[1:]))
        self.reset()

    def __repr__(self) -> str:
        does = f"{self.n_actions} {'numbers' if self.box else 'actions'}"
        return f"<Policy of {name_of(self.agent)}: observations {self.observation_shape}, {does}>"

    def _fitted(self) -> tuple[tuple[int, ...], Conv | Mlp]:
        """The shape of what the agent sees, and its network."""
        encoder = self._modules["encoder"]
        shape = (*self.frame_shape[:-1], encoder[0]["w"].shape[-2]) if encoder else self.frame_shape
        network = fit(self.agent.network, shape)
        if not isinstance(network, Conv | Mlp):
            raise HeadraceError(f"only the networks Conv and Mlp are computed without JAX, this agent has {network!r}")
        wanted = len(network.widths if isinstance(network, Mlp) else network.channels)
        if len(encoder) != wanted:
            raise CheckpointDamaged(f"the checkpoint has {len(encoder)} encoder layers, its agent has {wanted}")
        return shape, network

    def reset(self) -> None:
        """Begins an episode: the next frame stands for those before it."""
        self._stack: np.ndarray | None = None

    def __call__(self, obs: Any) -> Any:
        """The number of the action to take, or in a box its numbers."""
        self._stack = whole = self._stacked(obs)
        at_random = self._eps and self._random.random() < self._eps
        if self.box:
            numbers = self._random.uniform(-1, 1, self.n_actions) if at_random else self._outputs(self._acting, whole)
            return np.clip(np.nan_to_num(numbers), -1, 1).astype(np.float32)
        return int(self._random.integers(self.n_actions) if at_random else self._outputs(self._acting, whole).argmax())

    def q(self, obs: Any) -> np.ndarray:
        """Q(s, .), by action; V(s) alone of an agent that learns this instead. A single frame counts as following those
        that the policy was called with."""
        return self._outputs(self._modules, self._stacked(obs))

    def _outputs(self, modules: dict[str, list[Layer]], whole: np.ndarray) -> np.ndarray:
        """What the first layer of the head gives."""
        latents = self._encoded(whole[None], modules["encoder"])
        return dense(modules["head"][0], self._hidden(latents, modules["projection"][0]))[0]

    def latent(self, obs: Any) -> np.ndarray:
        """The encoder's output for an observation, flattened."""
        return self.latents(self._stacked(obs)[None])[0]

    def latents(self, observations: np.ndarray) -> np.ndarray:
        """One flattened latent a row, for whole observations."""
        parts = [observations[i : i + BATCH] for i in range(0, len(observations), BATCH)]
        return np.concatenate([self._encoded(part, self._modules["encoder"]) for part in parts])

    def hidden(self, latents: np.ndarray) -> np.ndarray:
        """The units between the projection and the layer that gives the values."""
        return self._hidden(latents, self._modules["projection"][0])

    def _hidden(self, latents: np.ndarray, projection: Layer) -> np.ndarray:
        projected = dense(projection, latents)
        return np.maximum(projected, 0) if isinstance(self._network.head, Relu) else activate(projected)

    def _encoded(self, observations: np.ndarray, encoder: list[Layer]) -> np.ndarray:
        z = limited(self.agent.observations, standardised(self._scale, observations.astype(np.float32)))
        strides = self._network.strides if isinstance(self._network, Conv) else [None] * len(encoder)
        for layer, stride in zip(encoder, strides, strict=True):
            z = activate(convolve(layer, z, stride) if stride else dense(layer, z))
        return z.reshape(len(z), -1)

    def _stacked(self, obs: Any) -> np.ndarray:
        seen = np.asarray(obs, np.float32)
        if seen.shape == self.observation_shape:
            return seen
        if seen.shape != self.frame_shape:
            shapes = " or ".join(str(shape) for shape in dict.fromkeys((self.frame_shape, self.observation_shape)))
            raise BadSetting(f"an observation of this agent has shape {shapes}, got {seen.shape}")
        if self._stack is None:
            return np.concatenate([seen] * (self.observation_shape[-1] // self.frame_shape[-1]), axis=-1)
        return np.concatenate([self._stack[..., seen.shape[-1] :], seen], axis=-1)


def layers_of(module: str, arrays: Mapping[str, np.ndarray]) -> list[Layer]:
    """A module's layers, first to last; none where the arrays do not have it."""
    found: dict[int, Layer] = {}
    for name, array in arrays.items():
        if name.startswith(f"{PARAMS}{module}/"):
            number, _, kind = name.removeprefix(f"{PARAMS}{module}/").partition("/")
            found.setdefault(int(number), {})[kind] = array
    return [found[number] for number in sorted(found)]


def dense(layer: Layer, x: np.ndarray) -> np.ndarray:
    y = x @ layer["w"]
    return y + layer["b"] if "b" in layer else y


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
