"""Many streams in one compiled program: each with its own weights, environment, normalisers, seed and numbers.

The agents must be made of the same parts; their numbers may differ. The games of a suite differ in channels and
actions: every stream is given room for the most, and what a game does not use stays exactly zero.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from headrace.agents import Agent, module_shapes
from headrace.definition.networks import Layout, layout_in, layout_of
from headrace.definition.trees import Tree
from headrace.engines.base import EpisodeResult, Saved
from headrace.engines.jax.arrays import from_named_arrays, named_arrays
from headrace.engines.jax.compiled import BUFFER, Log, start_shapes, start_stream
from headrace.engines.jax.engine import begin_shapes
from headrace.engines.jax.stream import (
    Setting,
    StreamState,
    Tally,
    chosen,
    learnt_from,
    make_setting,
    means,
    quantities,
    sight_now,
    step_keys,
)
from headrace.envs.base import CompiledEnv, TimeStep
from headrace.errors import BadSetting, HeadraceError
from headrace.part import is_foreign

Carry = tuple[tuple[Tree, ...], StreamState, Log]


class Group:
    """The streams of a fleet that share a game: one block of rows."""

    def __init__(self, env: CompiledEnv, layout: Layout, settings: Setting, rows: slice) -> None:
        self.env, self.layout, self.settings, self.rows = env, layout, settings, rows

    def step(self, state: Tree, actions: jax.Array, keys: jax.Array) -> tuple[Tree, TimeStep]:
        return jax.vmap(self.env.step)(state, actions[self.rows], keys[self.rows])

    def templates(self) -> tuple[Tree, StreamState]:
        one = jax.tree.map(lambda x: x[0], self.settings)
        return start_shapes(self.layout, self.env, one)

    def template(self) -> StreamState:
        """The shapes of one of its streams, without the environment."""
        one = jax.tree.map(lambda x: x[0], self.settings)
        return begin_shapes(one, self.layout, jnp.zeros(self.layout.frame_shape))


class Block:
    """What some steps of all streams left for the host. Asking waits until the steps are taken."""

    def __init__(self, start: int, steps: int, log: Log, tally: Tally, sight: dict[str, jax.Array]) -> None:
        self.start, self.steps, self._log, self._on_device, self._sight = start, steps, log, tally, sight

    @property
    def end(self) -> int:
        return self.start + self.steps

    @functools.cached_property
    def tally(self) -> Tally:
        return jax.device_get(self._on_device)

    def episodes(self) -> list[list[EpisodeResult]]:
        """The episodes that ended, stream by stream."""
        ended, returns, lengths = (np.asarray(x)[: self.steps] for x in self._log)
        found: list[list[EpisodeResult]] = [[] for _ in range(ended.shape[1])]
        for i, stream in zip(*np.nonzero(ended), strict=True):
            found[stream].append(
                EpisodeResult(self.start + int(i) + 1, float(returns[i, stream]), int(lengths[i, stream]))
            )
        return found

    def means(self) -> list[dict[str, float]]:
        """Means since the last multiple of 1,000 steps before this block's end, stream by stream; at such a multiple
        also how well the agents see."""
        columns = {**means(self.tally), **jax.device_get(self._sight)}
        return [dict(zip(columns, row, strict=True)) for row in np.stack(list(columns.values()), axis=-1).tolist()]

    def trouble(self) -> dict[int, tuple[str, int]]:
        """The streams in which a quantity was not finite: which one, and at which step."""
        at, quantity = self.tally.bad_step, self.tally.bad_quantity
        return {int(i): (quantities(self.tally)[quantity[i]], int(at[i])) for i in np.flatnonzero(at >= 0)}


class Fleet:
    """Streams that advance together. Streams of one game must stand next to each other."""

    lockstep = True
    faults: Mapping[int, HeadraceError] = {}

    def __init__(self, agents: Sequence[Agent], envs: Sequence[CompiledEnv], seeds: Sequence[int], steps: int) -> None:
        self.size = len(agents)
        each = [make_setting(agent, seed, steps) for agent, seed in zip(agents, seeds, strict=True)]
        if len({jax.tree.structure(agent) for agent in agents}) != 1:
            raise BadSetting("the agents of a fleet must be made of the same parts; only their numbers may differ")
        self.settings = jax.tree.map(lambda *xs: jnp.stack([jnp.asarray(x) for x in xs]), *each)
        self.groups = _groups(agents[0], envs, self.settings)
        _require_room(agents[0], self.groups)
        self.layout = _roomiest(agents[0], self.groups)
        self._some = jax.jit(self._advance_all, donate_argnums=(1, 2))
        block = functools.partial(self._advance_all, n=BUFFER)
        self._block = jax.jit(block, donate_argnums=(1, 2), compiler_options=on_card(_CARD))
        self._as_written = replace(self.layout, network=self.groups[0].layout.network)
        self._states: tuple[tuple[Tree, ...], StreamState] | None = None
        self.step = 0

    def begin(self) -> None:
        """Every stream as it would begin alone, with room for the largest game."""
        started = [_start(group.layout, group.env, group.settings) for group in self.groups]
        padded = [self._with_room(state) for _, state in started]
        state = jax.tree.map(lambda *xs: jnp.concatenate(xs), *padded)
        self._states, self.step = (tuple(env_state for env_state, _ in started), state), 0

    def run(self, n: int) -> Block:
        """Begins n <= 1,000 steps in every stream. Their outcome is read from the block, while the next one may run."""
        program, arguments = self.program(n)
        env_states, state, log, tally = program(*arguments)
        self._states = env_states, state
        self.step += n
        # Now, since the next block will overwrite the state.
        sight = {} if self.step % BUFFER else sight_of_all(self._as_written, state)
        return Block(self.step - n, n, log, tally, sight)

    def program(self, n: int) -> tuple[Any, tuple[Any, ...]]:
        """The compiled loop that takes n steps, and its arguments.

        On a card a full block has a program of its own. Which of the two takes a step follows from the step's number,
        as long as blocks begin at their multiples: stopping and going on changes nothing.
        """
        if n == BUFFER and jax.default_backend() == "gpu":
            return self._block, (self.settings, *self._begun())
        return self._some, (self.settings, *self._begun(), n)

    def save(self) -> list[Saved]:
        """Each stream as it would have saved itself alone."""
        env_states, state = jax.device_get(self._begun())
        saved: list[Saved] = []
        for group, env_state in zip(self.groups, env_states, strict=True):
            _, template = group.templates()
            for i, row in enumerate(range(*group.rows.indices(self.size))):
                mine = jax.tree.map(lambda like, x, row=row: cut(x[row], like.shape), template, state)
                env_mine = jax.tree.map(lambda x, i=i: x[i], env_state)
                saved.append(({**named_arrays("stream", mine), **named_arrays("env", env_mine)}, {}))
        return saved

    def restore(self, saved: Sequence[Saved]) -> list[str]:
        env_states, states = [], []
        for group in self.groups:
            env_template, template = group.templates()
            mine = [arrays for arrays, _ in saved[group.rows]]
            env_states.append(stack([from_named_arrays("env", env_template, arrays) for arrays in mine]))
            states.append(self._with_room(stack([from_named_arrays("stream", template, a) for a in mine])))
        self._states = tuple(env_states), jax.tree.map(lambda *xs: jnp.concatenate(xs), *states)
        self.step = int(self._states[1].agent.step[0])
        return [""] * self.size

    def close(self) -> None:
        """Lets go of what runs beside the program."""

    def _begun(self) -> tuple[tuple[Tree, ...], StreamState]:
        if self._states is None:
            raise RuntimeError("call begin() or restore(...) first")
        return self._states

    def _with_room(self, state: StreamState) -> StreamState:
        return jax.tree.map(lambda like, x: _widened(x, (x.shape[0], *like.shape)), self._template(), state)

    def _template(self) -> StreamState:
        """The shapes of a stream that has room for every game."""
        blank = jnp.zeros(self.layout.frame_shape, jnp.float32)
        one = jax.tree.map(lambda x: x[0], self.settings)
        return begin_shapes(one, replace(self.layout, actions=1), blank)

    def _advance_all(
        self, settings: Setting, env_states: tuple[Tree, ...], state: StreamState, n: Any
    ) -> tuple[tuple[Tree, ...], StreamState, Log, Tally]:
        choose, learn = jax.vmap(chosen), jax.vmap(learnt_from)

        def one(i: Any, carry: Carry) -> Carry:
            """Choosing comes first: it shares a pass through Q with learning, and the compiler makes one of the two."""
            env_states, state, log = carry
            state = choose(settings, self.layout, state)
            env_states, timestep = self._led_to(settings, env_states, state)
            state, finished = learn(settings, self.layout, state, timestep)
            return env_states, state, Log(*(many.at[i].set(new) for many, new in zip(log, finished, strict=True)))

        room = (BUFFER, self.size)
        log = Log(jnp.zeros(room, bool), jnp.zeros(room, jnp.float32), jnp.zeros(room, jnp.int32))
        env_states, state, log = jax.lax.fori_loop(0, n, one, (env_states, state, log))
        state = choose(settings, self.layout, state)
        return env_states, state._replace(tally=renewed(state.tally, state.agent.step)), log, state.tally

    def _led_to(
        self, settings: Setting, env_states: tuple[Tree, ...], state: StreamState
    ) -> tuple[tuple[Tree, ...], TimeStep]:
        """What the environments answer to the chosen actions."""
        keys = jax.vmap(step_keys)(settings, state.agent.step).env
        stepped = [g.step(s, state.choice.action, keys) for g, s in zip(self.groups, env_states, strict=True)]
        return tuple(s for s, _ in stepped), _joined([t for _, t in stepped], self.layout.frame_shape)


def _start_all(layout: Layout, env: CompiledEnv, settings: Setting) -> tuple[Tree, StreamState]:
    return jax.vmap(functools.partial(start_stream, layout, env))(settings)


# Compiled once for all fleets.
_start = jax.jit(_start_all, static_argnums=(0, 1))
sight_of_all = jax.jit(jax.vmap(sight_now))


def renewed(tally: Tally, step: jax.Array) -> Tally:
    """Sums begin anew at every multiple of 1,000 steps."""
    begun = jax.tree.map(lambda x: jnp.where(step % BUFFER == 0, jnp.zeros_like(x), x), tally)
    return begun._replace(bad_step=tally.bad_step, bad_quantity=tally.bad_quantity)


# Two steps of the loop at a time, so that what one leaves need not be copied to where the next finds it: the compiler
# does so where the number of steps is part of the program. The whole loop is one graph that the card goes through by
# itself, and kernels that do not wait for each other run side by side: most are far too small to fill a card.
GRAPHS = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE",
    "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
}
_CARD = {"xla_gpu_enable_while_loop_unrolling": "WHILE_LOOP_UNROLLING_DOUBLE_BUFFER", **GRAPHS}


def on_card(options: dict[str, str]) -> dict[str, str] | None:
    return options if jax.default_backend() == "gpu" else None


def _groups(agent: Agent, envs: Sequence[CompiledEnv], settings: Setting) -> list[Group]:
    names = [env.spec.name for env in envs]
    starts = [i for i in range(len(names)) if i == 0 or names[i] != names[i - 1]]
    if len(starts) != len(set(names)):
        raise BadSetting(f"streams of one game must stand next to each other, got {names}")
    groups = []
    for start, end in zip(starts, [*starts[1:], len(names)], strict=True):
        env, rows = envs[start], slice(start, end)
        layout = layout_in(agent, env.spec)
        groups.append(Group(env, layout, jax.tree.map(lambda x, rows=rows: x[rows], settings), rows))
    return groups


def _require_room(agent: Agent, groups: Sequence[Group]) -> None:
    """An error where a larger game would change the modules of a part of another package: room is zeros behind every
    axis, and whether such a module computes the same with them is not known."""
    network, beside = groups[0].layout.network, getattr(agent.aux, "objective", agent.aux)
    foreign = [part for part in (network, beside) if is_foreign(type(part))]
    names = set(agent.aux.modules()) | ({"encoder"} if network in foreign else set())
    layouts = [group.layout for group in groups]
    shapes = [module_shapes(agent, layout.observation_shape, layout.n_actions, layout.box) for layout in layouts]
    if foreign and any(each[name] != shapes[0][name] for each in shapes for name in names):
        raise BadSetting(
            f"games of different shapes cannot share a fleet with {', '.join(map(repr, foreign))}, whose arrays depend "
            "on the shape: sweep each game by itself"
        )


def _roomiest(agent: Agent, groups: Sequence[Group]) -> Layout:
    """A layout with room for every group's, and how many actions each stream really has."""
    shapes = np.array([group.layout.observation_shape for group in groups])
    n_actions = max(group.layout.n_actions for group in groups)
    counts = [group.layout.n_actions for group in groups for _ in range(group.rows.stop - group.rows.start)]
    frames = {group.layout.frames for group in groups}
    if len(frames) > 1:
        raise BadSetting(f"the environments of a fleet must stack equally many frames, got {sorted(frames)}")
    boxes = {group.layout.box for group in groups}
    if len(boxes) > 1:
        raise BadSetting("games with actions by number and games with boxes of actions cannot share a fleet")
    wide = layout_of(agent, tuple(int(x) for x in shapes.max(axis=0)), n_actions, frames.pop(), boxes.pop())
    return replace(wide, network=_as_kernels(wide), actions=jnp.array(counts, jnp.int32))


def handicap() -> str:
    """Why fleets are slower here than they could be; empty where they are not."""
    backend = jax.default_backend()
    if backend == "cpu":
        return "no accelerator was found: the fleet runs on the CPU"
    if backend != "gpu":
        return f"headrace's kernels are for GPUs: on this {backend} the fleet is what the compiler makes of it"
    if find_spec("jax.experimental.pallas.triton") is None:  # JAX has announced its end
        said = f"JAX {jax.__version__} runs no kernels of Pallas' Triton: the fleet takes two to three times as long"
        return f"{said}; install a version that does, such as 0.11"
    return ""


def _as_kernels(layout: Layout) -> Any:
    """The network as this machine computes it best."""
    if handicap():
        return layout.network
    from headrace.engines.jax.kernels import fused_where_it_fits

    # The compiler remarks on each load of single numbers, with a stack trace of itself. Where llvm-symbolizer is
    # installed, looking up its lines takes minutes.
    os.environ.setdefault("LLVM_DISABLE_SYMBOLIZATION", "1")

    return fused_where_it_fits(layout.network, layout.observation_shape)


def _joined(timesteps: list[TimeStep], frame_shape: tuple[int, ...]) -> TimeStep:
    def image(x: jax.Array) -> jax.Array:
        return _widened(x, (x.shape[0], *frame_shape))

    wide = [t._replace(obs=image(t.obs), successor=image(t.successor)) for t in timesteps]
    return TimeStep(*(jnp.concatenate(xs) for xs in zip(*wide, strict=True)))


def _widened(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """`x` with zeros behind it on every axis, up to the shape."""
    return x if x.shape == shape else jnp.pad(x, [(0, to - now) for now, to in zip(x.shape, shape, strict=True)])


def cut(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return x[tuple(slice(n) for n in shape)]


def stack(trees: list[Tree]) -> Tree:
    return jax.tree.map(lambda *xs: jnp.stack(xs), *trees)
