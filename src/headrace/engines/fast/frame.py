"""The frame that every agent shares: parameters, the present transition, random numbers, and the names of it all."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np

from headrace.agents import Agent, Conv, Mlp, fit, module_shapes
from headrace.agents.network import latent_shape
from headrace.engines.fast.memory import Block, Memory
from headrace.engines.fast.networks import Encoder, Sizes, ValueWeights, encoder_of
from headrace.envs.base import EnvSpec, one_frame
from headrace.errors import CheckpointDamaged


@dataclass(frozen=True)
class Entry:
    """A named array of the saved state: where it lies, in the floats or (an integer or boolean one) in the wholes."""

    name: str
    offset: int
    shape: tuple[int, ...]
    dtype: type = np.float32
    stride: int = 0  # from one row to the next, where rows do not follow each other

    def read(self, f: np.ndarray, n: np.ndarray) -> np.ndarray:
        return np.array(self._view(f, n), self.dtype).reshape(self.shape)

    def write(self, f: np.ndarray, n: np.ndarray, array: np.ndarray) -> None:
        view = self._view(f, n)
        view[...] = array.reshape(view.shape)

    def _view(self, f: np.ndarray, n: np.ndarray) -> np.ndarray:
        source = f if self.dtype is np.float32 else n
        if not self.stride:
            return source[self.offset : self.offset + prod(self.shape)]
        rows, width = self.shape[0], prod(self.shape[1:])
        flat = source[self.offset : self.offset + (rows - 1) * self.stride + width]
        step = source.itemsize
        return np.lib.stride_tricks.as_strided(flat, (rows, width), (self.stride * step, step))


@dataclass
class Frame:
    agent: Agent
    network: Conv | Mlp
    observation_shape: tuple[int, ...]
    n_actions: int
    frames: int = 1  # that an observation is stacked of
    memory: Memory = field(default_factory=Memory)
    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        memory, size = self.memory, prod(self.observation_shape)
        self.observation_size = size
        self.frame_shape = one_frame(self.observation_shape, self.frames)
        self.latent_shape = latent_shape(self.network, self.observation_shape)
        self.sizes = Sizes(prod(self.latent_shape), self.network.hidden, self.n_actions, self.network.head)
        self.encoder: Encoder = encoder_of(self.network, self.observation_shape, memory)
        shapes = module_shapes(self.agent, self.observation_shape, self.n_actions)
        self.params = {name: self.block(name, f"params/{name}", like=layers) for name, layers in shapes.items()}
        self.transition = memory.room(2 * size + 1)
        self.obs, self.next_obs, self.reward = self.transition, self.transition + size, self.transition + 2 * size
        self.flags = memory.whole(0, 0, 0, 0, 0)
        self.action, self.terminated, self.truncated, self.last, self.greedy = range(self.flags, self.flags + 5)
        self.step = memory.whole(0)
        self.active, self.resting = memory.whole(0), memory.whole(1)
        self.gamma = memory.real(self.agent.td.gamma)
        self.entries.append(Entry("stream/agent/step", self.step, (), np.int32))

    def block(self, module: str, name: str, like: list | None = None) -> Block:
        """Room for arrays like a module's, saved under a name of the agent's state."""
        layers = like if like is not None else self.layers_of(module)
        block = self.memory.block(layers)
        for i, layer in enumerate(block.layers):
            for key, at in (("w", layer.w), ("b", layer.b)):
                if key in layer.shapes:
                    self.entries.append(Entry(f"stream/agent/{name}/{i}/{key}", at, layer.shapes[key]))
        return block

    def take_over(self, block: Block) -> list[Entry]:
        """A block's arrays, which somebody else will save and restore from here on."""
        found = [
            e for e in self.entries if block.offset <= e.offset < block.offset + block.size and e.dtype is np.float32
        ]
        self.entries = [entry for entry in self.entries if entry not in found]
        return found

    def scratch(self, module: str) -> Block:
        """Room for arrays like a module's that are made anew at every step."""
        return self.memory.block(self.layers_of(module))

    def layers_of(self, module: str) -> list:
        return [layer.shapes for layer in self.params[module].layers]

    def value_weights(self, prefix: str = "") -> ValueWeights:
        return ValueWeights(*(self.params[prefix + name] for name in ("encoder", "projection", "head")))


def frame_of(agent: Agent, spec: EnvSpec) -> Frame:
    shape = spec.observation_shape
    return Frame(agent, fit(agent.network, shape), shape, spec.n_actions, spec.frames)


def check_fit(entry: Entry, arrays: dict[str, np.ndarray]) -> None:
    """An error where a saved state lacks an array, or has it in another shape."""
    if entry.name not in arrays:
        raise CheckpointDamaged(f"it has no array {entry.name}")
    array, dtype = arrays[entry.name], np.dtype(entry.dtype)
    if array.shape != entry.shape or array.dtype != dtype:
        raise CheckpointDamaged(
            f"{entry.name} is {array.dtype}{array.shape} in it, this agent needs {dtype}{entry.shape}"
        )
