"""The work of one step, counted from the shapes of the agent's network: operations, and bytes that must move.

Counted are matrix products (2 operations for each multiplication and its addition) and the arrays that a step cannot
but read and write: weights, traces, histories, averaged targets. Not counted is everything that is small beside them or
could be done while they go by: LayerNorm, activations, augmentation, gathering patches, normalisation. A step counted
here has a full SPR window; docs/benchmarks.md has the formulas.

The least time that a step could take on this machine is a roofline: each product takes at least as long as its
operations at the best rate at which BLAS does any of them or a square one, and as its operands at the rate of a copy;
then the state goes in and out once.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from headrace.agents import Agent
from headrace.agents.actor_critic import ACTOR, ActorCritic
from headrace.agents.agent import module_shapes
from headrace.agents.aux import Q_NETWORK, Auxiliary, AuxiliaryStream, Every, NoAuxiliary, Orth, Spr
from headrace.agents.merge import AuxOrthogonalToTd, Average, Bounded
from headrace.agents.network import Mlp, Network, count, fit
from headrace.agents.td import Adaptive, DecayedMaximum, Dqn, Intentional, Online, Polyak, Qrc, Replay, Rule, StreamQ
from headrace.errors import BadSetting

FLOAT = 4  # bytes
REPEATS = 7
PATIENCE = 0.005  # seconds that one repeat should last at least
CLEAR = 5.0  # a product is timed well if it takes that many times as long as calling it


class Product(NamedTuple):
    """A matrix product (rows x inner) (inner x columns), done so many times a step."""

    rows: int
    inner: int
    columns: int
    times: float = 1.0

    @property
    def operations(self) -> float:
        return 2.0 * self.rows * self.inner * self.columns * self.times


class Cost(NamedTuple):
    """The work of one step, or of a part of it."""

    products: tuple[Product, ...] = ()  # those that need a pass of their own
    outer: tuple[Product, ...] = ()  # gradients of dense layers, which can be added to the state as it goes by
    state_floats: int = 0  # read and written

    @property
    def operations(self) -> float:
        return sum(p.operations for p in (*self.products, *self.outer))

    @property
    def state_bytes(self) -> int:
        return 2 * FLOAT * self.state_floats


def total(*costs: Cost) -> Cost:
    return Cost(
        tuple(p for cost in costs for p in cost.products),
        tuple(p for cost in costs for p in cost.outer),
        sum(cost.state_floats for cost in costs),
    )


class Shape(NamedTuple):
    """A layer as a product: `positions` output pixels of an image (1 for a dense layer), `inputs` to each."""

    positions: int
    inputs: int
    outputs: int


def forward(layers: Sequence[Shape], images: int = 1, times: float = 1.0) -> Cost:
    return Cost(tuple(Product(images * s.positions, s.inputs, s.outputs, times) for s in layers))


def to_weights(layers: Sequence[Shape], images: int = 1, times: float = 1.0) -> Cost:
    """Gradients with respect to the weights; those of dense layers are outer products."""
    conv, dense = ([s for s in layers if (s.positions == 1) is flat] for flat in (False, True))
    return Cost(
        tuple(Product(s.inputs, images * s.positions, s.outputs, times) for s in conv),
        tuple(Product(s.inputs, images, s.outputs, times) for s in dense),
    )


def to_inputs(layers: Sequence[Shape], images: int = 1, times: float = 1.0) -> Cost:
    return Cost(tuple(Product(images * s.positions, s.outputs, s.inputs, times) for s in layers))


def backward(layers: Sequence[Shape], images: int = 1, times: float = 1.0) -> Cost:
    """All gradients of layers whose input is an observation, which needs none."""
    return total(to_weights(layers, images, times), to_inputs(layers[1:], images, times))


def cost_of(agent: Agent, observation_shape: tuple[int, ...], n_actions: int, box: bool = False) -> Cost:
    """The work of one step in which everything learns that the agent has."""
    network = fit(agent.network, observation_shape)
    encoder = _encoder(network, observation_shape)
    latent = network.latent_shape(observation_shape)
    outputs = 2 * n_actions if box else n_actions  # a mean and a scale for each number
    projection, head = Shape(1, prod(latent), network.hidden), Shape(1, network.hidden, outputs)
    values = _values(agent.td, [*encoder, projection, head])
    beside = _beside(agent.aux, network, encoder, projection, latent)
    return total(values, beside, Cost(state_floats=_state_floats(agent, observation_shape, n_actions, box)))


def _encoder(network: Any, observation_shape: tuple[int, ...]) -> list[Shape]:
    if isinstance(network, Mlp):
        sizes = (observation_shape[0], *network.widths)
        return [Shape(1, i, o) for i, o in itertools.pairwise(sizes)]
    layers, (height, width, depth) = [], observation_shape
    for channels, (kh, kw), (sh, sw) in zip(network.channels, network.kernels, network.strides, strict=True):
        height, width = (height - kh) // sh + 1, (width - kw) // sw + 1
        layers.append(Shape(height * width, kh * kw * depth, channels))
        depth = channels
    return layers


def _values(td: Rule, layers: Sequence[Shape]) -> Cost:
    """Q(s') to learn from and Q of the next observation to act on; Q(s) is left from acting unless it is recalled."""
    recalled = isinstance(td, Dqn) and isinstance(td.memory, Replay)
    once = total(forward(layers, times=3 if recalled else 2), backward(layers))
    if isinstance(td, ActorCritic):  # V of two states; the policy to act by, and its two gradients
        critic = [*layers[:-1], Shape(1, layers[-1].inputs, 1)]
        return total(forward(critic, times=2), backward(critic), forward(layers), backward(layers, times=2))
    if not isinstance(td, Qrc):
        return once
    through_successor = [backward(layers)] if isinstance(td.target, Online) else []
    return total(once, *through_successor, forward(layers), backward(layers))


def _beside(
    aux: AuxiliaryStream,
    network: Network,
    encoder: Sequence[Shape],
    projection: Shape,
    latent: tuple[int, ...],
) -> Cost:
    """SPR: K + 1 images encoded, K guesses and K truths projected, K steps of the dynamics, and the way back."""
    if isinstance(aux, NoAuxiliary):
        return Cost()
    if not isinstance(aux, Auxiliary) or not isinstance(aux.objective, Spr):
        unknown = aux.objective if isinstance(aux, Auxiliary) else aux
        raise BadSetting(f"the work of {type(unknown).__name__} is not counted: headrace bench knows SPR only")
    k = aux.objective.horizon
    share = 1 / aux.gate.n if isinstance(aux.gate, Every) else 1.0
    predictor, dynamics = Shape(1, network.hidden, network.hidden), _dynamics(network, latent)
    return total(
        forward(encoder, k + 1, share),
        forward([projection], 2 * k, share),
        forward([predictor], k, share),
        forward(dynamics, 1, k * share),
        to_weights([projection, predictor], k, share),
        to_inputs([projection, predictor], k, share),
        to_weights(dynamics, k, share),
        to_inputs(dynamics, 1, k * share),
        backward(encoder, 1, share),
    )


def _dynamics(network: Any, latent: tuple[int, ...]) -> list[Shape]:
    """Two layers; what a one-hot action adds to the first is a choice of bias, not a product."""
    if isinstance(network, Mlp):
        return [Shape(1, latent[0], latent[0])] * 2
    height, width, channels = latent
    return [Shape(height * width, 9 * channels, channels)] * 2


def _state_floats(agent: Agent, observation_shape: tuple[int, ...], n_actions: int, box: bool) -> int:
    """Elements of all arrays that every step changes."""
    modules = module_shapes(agent, observation_shape, n_actions, box)
    sizes = {name: count({name: layers}) for name, layers in modules.items()}
    value = sum(sizes[name] for name in ("encoder", "projection", "head"))
    second = sum(size for name, size in sizes.items() if name.startswith("h_"))
    actor = sum(sizes.get(ACTOR + name, sizes[name]) for name in Q_NETWORK)
    traces = {StreamQ: value, Qrc: value + second, ActorCritic: value + actor}
    floats = sum(sizes.values()) + sum(size for rule, size in traces.items() if isinstance(agent.td, rule))
    floats += value if isinstance(agent.td.target, Polyak) else 0
    scaled = Adaptive | Intentional | DecayedMaximum
    floats += value if isinstance(getattr(agent.td, "step_size", None), scaled) else 0
    floats += actor if isinstance(getattr(agent.td, "actor_step_size", None), scaled) else 0
    floats += value if isinstance(agent.td_filter, Orth) else 0
    return floats + _aux_state(agent, sizes)


def _aux_state(agent: Agent, sizes: dict[str, int]) -> int:
    if not isinstance(agent.aux, Auxiliary):
        return 0
    shared = sizes["encoder"] + sizes["projection"]
    learnt = sum(size for name, size in sizes.items() if name != "head" and not name.startswith(("h_", ACTOR)))
    orth2 = agent.merge.inner if isinstance(agent.merge, Bounded) else agent.merge
    averaged = isinstance(orth2, AuxOrthogonalToTd) and isinstance(orth2.against, Average)
    return (
        (learnt if isinstance(agent.aux.filter, Orth) else 0)
        + (shared if isinstance(agent.aux.objective.target, Polyak) else 0)
        + (shared if averaged else 0)
    )


SQUARE = Product(256, 256, 256)


class Peaks(NamedTuple):
    gflops: float  # the best rate of BLAS
    gbytes_per_s: float  # of a copy within an array as large as the state, reading and writing counted
    blas_s: float  # seconds that BLAS takes for all products of a step, as they are

    def limit_s(self, cost: Cost) -> float:
        """Seconds that a step takes at the very least."""
        products = sum(product.times * self._product_s(product) for product in cost.products)
        return products + cost.state_bytes / (self.gbytes_per_s * 1e9)

    def _product_s(self, product: Product) -> float:
        operations = product.operations / product.times
        return max(operations / (self.gflops * 1e9), operand_bytes(product) / (self.gbytes_per_s * 1e9))


def operand_bytes(product: Product) -> int:
    """Of both factors and of the result."""
    rows, inner, columns, _ = product
    return FLOAT * (rows * inner + inner * columns + rows * columns)


def measure_peaks(cost: Cost) -> Peaks:
    """Needs BLAS to have one thread, as the process of a benchmark has."""
    tiny = np.ones((1, 1), np.float32)
    calling = seconds_of(lambda: np.matmul(tiny, tiny, out=tiny))
    shapes = {product._replace(times=1.0) for product in (*cost.products, SQUARE)}
    found = {shape: _product_seconds(shape) for shape in shapes}
    best = max(shape.operations / (s - calling) for shape, s in found.items() if s > CLEAR * calling)
    blas = sum(product.times * max(0.0, found[product._replace(times=1.0)] - calling) for product in cost.products)
    return Peaks(best / 1e9, _copied(cost.state_floats) / 1e9, blas)


def _product_seconds(product: Product) -> float:
    random = np.random.default_rng(0)
    left, right = random.random((product.rows, product.inner)), random.random((product.inner, product.columns))
    a, b = left.astype(np.float32), right.astype(np.float32)
    out = np.empty((product.rows, product.columns), np.float32)
    return seconds_of(lambda: np.matmul(a, b, out=out))


def _copied(floats: int) -> float:
    """Bytes per second, read and written, when one half of so many floats is copied to the other."""
    state = np.ones(max(2, floats), np.float32)
    half = len(state) // 2
    source, target = state[:half], state[half : 2 * half]
    return 2 * FLOAT * half / seconds_of(lambda: np.copyto(target, source))


def seconds_of(do: Callable[[], object]) -> float:
    """Seconds of one call at its best: the least of some repeats, each of enough calls to be timed."""
    do()
    calls = max(1, int(PATIENCE / max(_timed(do, 1), 1e-7)))
    return min(_timed(do, calls) for _ in range(REPEATS))


def _timed(do: Callable[[], object], calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        do()
    return (time.perf_counter() - began) / calls
