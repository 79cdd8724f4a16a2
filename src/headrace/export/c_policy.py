"""A policy as one header and one C file: standardising, stacking, what the head gives, and the action."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from string import Template
from typing import NamedTuple

import numpy as np

from headrace.agents import Conv, Relu
from headrace.export.policy import ACTION, PREFERENCE, Dense, Policy, Q, Saved, policy_of

FILES = Path(__file__).parent / "c_files"
IN_A_LINE = 8
GIVEN = {  # what the last layer gives
    Q: "Q(s, .) of the last frame",
    PREFERENCE: "preferences at the last frame: the action of the highest is the likeliest",
    ACTION: "the numbers of the action at the last frame, from -1 to 1",
}
TOLD = 'printf("%d\\n", policy_act(&p, frame, first));'
POINT_TOLD = """policy_act(&p, frame, first);
        for (int a = 0; a < POLICY_ACTIONS; a++) printf("%g ", p.values[a]);
        printf("\\n");"""


class Layer(NamedTuple):
    """A convolution as `policy.c` has it; a dense layer is one of a 1 x 1 image."""

    name: str
    image: tuple[int, ...]  # height, width, channels
    kernel: tuple[int, int]
    stride: tuple[int, int]
    out: tuple[int, ...]
    activation: str
    arrays: Dense

    @property
    def text(self) -> str:
        numbers = ", ".join(map(str, (*self.image, *self.kernel, *self.stride, *self.out)))
        return f"    {{{numbers}, {self.activation}, {self.name}_w, {self.name}_b}},"


def files(saved: Saved) -> dict[str, bytes]:
    """The exported folder: bytes by name."""
    policy, spec = policy_of(saved), saved.spec
    layers = list(_layers(policy, spec.observation_shape))
    scale = {"mean": policy.mean, "mean_rest": policy.rest, "deviation": policy.deviation}
    arrays = {**scale, **{f"{layer.name}_{k}": x for layer in layers for k, x in layer.arrays._asdict().items()}}
    room = max(prod(layer.out) for layer in layers)
    words = {
        "title": saved.title, "run": saved.run.name, "frames": spec.frames, "actions": spec.n_actions,
        "frame": prod(spec.frame_shape), "shape": " x ".join(map(str, spec.frame_shape)), "room": room,
        "channels": spec.frame_shape[-1], "observation": prod(spec.observation_shape),
        "action_names": ", ".join(f"{i} {name}" for i, name in enumerate(spec.actions)),
        "flash": sum(4 * array.size for array in arrays.values()),
        "ram": 4 * (prod(spec.observation_shape) + 2 * room + spec.n_actions),
        "box": int(policy.box), "given": GIVEN[policy.gives], "told": POINT_TOLD if policy.box else TOLD,
        "limit": f"{np.float32(policy.limit)!s}f", "layers": "\n".join(layer.text for layer in layers),
        "arrays": "\n".join(_array(name, array) for name, array in arrays.items()),
    }  # fmt: skip
    return {path.name: Template(path.read_text()).substitute(words).encode() for path in sorted(FILES.iterdir())}


def _layers(policy: Policy, image: tuple[int, ...]) -> Iterator[Layer]:
    network, one = policy.network, (1, 1)
    image = image if isinstance(network, Conv) else (1, 1, *image)
    for i, arrays in enumerate(policy.encoder):
        kernel, stride = (network.kernels[i], network.strides[i]) if isinstance(network, Conv) else (one, one)
        sides = ((side - k) // s + 1 for side, k, s in zip(image, kernel, stride, strict=False))
        out = (*sides, arrays.b.size)
        yield Layer(f"encoder_{i}", image, kernel, stride, out, "LEAKY_NORM", arrays)
        image = out
    latent, hidden, actions = prod(image), policy.projection.b.size, policy.head.b.size
    head = "RELU" if isinstance(network.head, Relu) else "LEAKY_NORM"
    yield Layer("projection", (1, 1, latent), one, one, (1, 1, hidden), head, policy.projection)
    yield Layer("head", (1, 1, hidden), one, one, (1, 1, actions), "AS_IT_IS", policy.head)


def _array(name: str, array: np.ndarray) -> str:
    """The numbers in C; nine digits name a float32."""
    numbers = [f"{x:.9g}" for x in array.reshape(-1).tolist()]
    lines = (", ".join(numbers[i : i + IN_A_LINE]) for i in range(0, len(numbers), IN_A_LINE))
    return f"static const float {name}[] = {{\n" + ",\n".join(lines) + "};"
