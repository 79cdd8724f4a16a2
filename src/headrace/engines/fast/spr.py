"""Self-predictive representations as instructions: window, views, guesses and truths, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.agents import AsIs, Auxiliary, Clipped, Every, Greedy, MeanOverHorizon, ReleasedRing, Separate, Spr
from headrace.agents.aux import ShiftAndIntensity
from headrace.engines.fast.dynamics import dynamics_of
from headrace.engines.fast.frame import Entry, Frame
from headrace.engines.fast.guards import Guard, Products
from headrace.engines.fast.kernels.accounts import copy, cosine_loss, zero
from headrace.engines.fast.kernels.layers import dense, dense_back
from headrace.engines.fast.kernels.windows import ALWAYS, EPISODE, EVERY, GREEDY, RING, augment, look, push
from headrace.engines.fast.memory import Program
from headrace.engines.fast.networks import Rows
from headrace.engines.fast.targets import Target

VIEW_DRAWS = 3  # uniform numbers that one view is made of


def projection_name(objective: Spr) -> str:
    return "aux_projection" if isinstance(objective.projection, Separate) else "projection"


class Window:
    """A ring of the last observations and actions."""

    def __init__(self, frame: Frame, objective: Spr, gate: Any) -> None:
        memory, self.frame, self.horizon = frame.memory, frame, objective.horizon
        self.kind = RING if isinstance(objective.window, ReleasedRing) else EPISODE
        self.slots = self.horizon + (1 if self.kind == RING else 0)
        self.size = frame.observation_size
        self.ring, self.actions = memory.room(self.slots * self.size), memory.whole(*[0] * self.slots)
        self.head, self.held = memory.whole(0), memory.whole(0)
        self.images = memory.whole(*[0] * (self.horizon + 1))
        self.seen_actions = memory.whole(*[0] * (self.horizon + 1))
        self._gate = EVERY if isinstance(gate, Every) else GREEDY if isinstance(gate, Greedy) else ALWAYS
        self._every = memory.whole(gate.n if isinstance(gate, Every) else 1)
        name = "stream/agent/aux/window"
        frame.entries += [
            Entry(f"{name}/observations", self.ring, (self.slots, *frame.observation_shape)),
            Entry(f"{name}/actions", self.actions, (self.slots,), np.int32),
            Entry(f"{name}/held", self.held, (), np.int32),
        ]

    @property
    def known_images(self) -> int:
        """How many images can be looked at before the environment answers."""
        return self.horizon + (1 if self.kind == RING else 0)

    def look(self, program: Program) -> None:
        frame = self.frame
        program.emit(
            look, kind=self.kind, gate=self._gate, every=self._every, horizon=self.horizon, ring=self.ring,
            size=self.size, ring_actions=self.actions, head=self.head, held=self.held, obs=frame.obs,
            next_obs=frame.next_obs, action=frame.action, greedy=frame.greedy, step=frame.step, images=self.images,
            actions=self.seen_actions, active=frame.active, resting=frame.resting,
        )  # fmt: skip

    def push(self, program: Program) -> None:
        frame = self.frame
        program.emit(
            push, kind=self.kind, horizon=self.horizon, ring=self.ring, size=self.size, ring_actions=self.actions,
            head=self.head, held=self.held, obs=frame.obs, action=frame.action, last=frame.last,
        )  # fmt: skip

    def settle(self, f: np.ndarray, n: np.ndarray) -> None:
        """Turns the ring so that the oldest comes first, as it is saved."""
        ring = f[self.ring : self.ring + self.slots * self.size].reshape(self.slots, self.size)
        actions = n[self.actions : self.actions + self.slots]
        ring[:] = np.roll(ring, -int(n[self.head]), 0)
        actions[:] = np.roll(actions, -int(n[self.head]))
        n[self.head] = 0


class SprPlan:
    """`rows` has room for s', the K guesses and the K truths."""

    metrics = ("aux_loss", "aux_update_norm", "aux_guarded", "cosine_before_orth", "cosine_before_orth2")

    def __init__(self, frame: Frame, aux: Auxiliary, draws: int, rows: Rows) -> None:
        assert isinstance(aux.objective, Spr)
        memory, sizes, objective = frame.memory, frame.sizes, aux.objective
        self.frame, self.horizon = frame, objective.horizon
        self.window = Window(frame, objective, aux.gate)
        self.name = projection_name(objective)
        self.target = Target(frame, objective.target, ("encoder", self.name), "aux/target")
        self.guesses, self.truths = rows.at(sizes, 1), rows.at(sizes, 1 + self.horizon)
        self.first = memory.row(sizes.latent)
        # The first view is looked at again on the way back.
        self._first_view, self._other_view = (memory.room(frame.observation_size) for _ in range(2))
        self.trail = frame.encoder.trail(memory, self._first_view, self.first)
        self._aside = frame.encoder.trail(memory, self._other_view, self.truths.x)
        self.dynamics = dynamics_of(frame.network, frame.latent_shape, frame.n_actions, self.horizon, memory)
        self.encoder_gradient, self.dynamics_gradient = frame.scratch("encoder"), frame.scratch("dynamics")
        self.first_slopes = memory.room(sizes.latent)
        self.predictor_x = memory.row(sizes.hidden, self.horizon)
        self.predictor_d = memory.room(self.horizon * sizes.hidden)
        self._guess = memory.room(self.horizon * sizes.hidden)
        mean = isinstance(objective.reduce, MeanOverHorizon)
        self._weight, self.loss = memory.real(1 / self.horizon if mean else 1.0), memory.real(0.0)
        self.acted = memory.sum()
        outer = (
            Products(self.guesses.x, self.guesses.d, sizes.latent + 1, sizes.hidden, self.horizon),
            Products(self.predictor_x, self.predictor_d, sizes.hidden + 1, sizes.hidden, self.horizon),
        )
        self._guard = Guard(aux.guard, memory, self.acted, (self.encoder_gradient, self.dynamics_gradient), outer)
        self._draws = draws
        self._place_views(objective.augment)

    def _place_views(self, kind: ShiftAndIntensity | AsIs | Clipped) -> None:
        memory = self.frame.memory
        inner, self._clip, low, high = (
            (kind.inner, 1, kind.low, kind.high) if isinstance(kind, Clipped) else (kind, 0, 0.0, 0.0)
        )
        shift, intensity = (inner.shift, inner.intensity) if isinstance(inner, ShiftAndIntensity) else (0, 0.0)
        self._shift, self._intensity = memory.whole(shift), memory.real(intensity)
        self._low, self._high = memory.real(low), memory.real(high)

    def _view(self, program: Program, k: int, out: int) -> None:
        shape = self.frame.observation_shape
        height, width, channels = shape if len(shape) == 3 else (1, 1, shape[0])
        program.emit(
            augment, image=self.window.images + k, out=out, draws=self._draws + VIEW_DRAWS * k, height=height,
            width=width, channels=channels, shift=self._shift, intensity=self._intensity, clip=self._clip,
            low=self._low, high=self._high,
        )  # fmt: skip

    # before the environment's answer

    def prepare(self, program: Program) -> None:
        """The guesses' latents, and those truths that are known already."""
        frame, sizes, encoder = self.frame, self.frame.sizes, self.frame.params["encoder"]
        self.window.look(program)
        with program.only_if(frame.active):
            self._view(program, 0, self._first_view)
            frame.encoder.forward(program, encoder, self.trail)
            z = self.first
            for k in range(self.horizon):
                out = self.guesses.at(sizes, k).x
                self.dynamics.forward(program, frame.params["dynamics"], k, z, self.window.seen_actions + k, out)
                z = out
            for k in range(1, self.window.known_images):
                self._see(program, k)

    def _see(self, program: Program, k: int) -> None:
        """The latent of the k-th truth."""
        self._view(program, k, self._other_view)
        trail = self._aside.ending_at(self.truths.at(self.frame.sizes, k - 1).x)
        self.frame.encoder.forward(program, self.target.blocks["encoder"], trail)

    # after it

    def look_ahead(self, program: Program) -> None:
        with program.only_if(self.frame.active):
            for k in range(self.window.known_images, self.horizon + 1):
                self._see(program, k)

    def err(self, program: Program) -> None:
        """From projected latents to the loss, and back to them."""
        sizes, predictor = self.frame.sizes, self.frame.params["predictor"]
        hidden, count = sizes.hidden, self.horizon
        for k in range(count):
            source, out = self.guesses.y + k * hidden, self.predictor_x + k * (hidden + 1)
            program.emit(copy, source=source, out=out, size=hidden)
        program.emit(
            dense, w=predictor.offset, x=self.predictor_x, y=self._guess, count=count, inputs=hidden + 1,
            outputs=hidden,
        )  # fmt: skip
        program.emit(
            cosine_loss, guess=self._guess, truth=self.truths.y, slopes=self.predictor_d, count=count, width=hidden,
            weight=self._weight, loss=self.loss,
        )  # fmt: skip
        program.emit(
            dense_back, w=predictor.offset, d=self.predictor_d, dx=self.guesses.d, count=count, inputs=hidden,
            outputs=hidden,
        )  # fmt: skip

    def back(self, program: Program) -> None:
        """From the gradients of the guesses' latents to those of dynamics and encoder."""
        frame, sizes, weights = self.frame, self.frame.sizes, self.frame.params["dynamics"]
        self.dynamics.turn(program, weights)
        program.emit(zero, start=self.first_slopes, size=sizes.latent)
        for k in range(self.horizon - 1, -1, -1):
            row, before = self.guesses.at(sizes, k), self.guesses.at(sizes, k - 1).dx if k else self.first_slopes
            self.dynamics.backward(program, weights, k, row.x, row.dx, before)
        self.dynamics.gradient(program, self.dynamics_gradient, self.window.seen_actions)
        frame.encoder.backward(program, frame.params["encoder"], self.trail, self.first_slopes, self.encoder_gradient)
        self._guard.measure_and_bound(program)
