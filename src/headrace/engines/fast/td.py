"""What the value-learning rules have in common, as instructions.

`prepare` needs only what is known when the action has been chosen. After the environment's answer come `look_ahead`,
`err`, `back_from_bootstrap`, `back_to_next_image`, `move_beside`, `forget`, `see` and `account`, in this order; what
all agents do lies between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.agents import Clip, Dqn, Qrc, StreamQ, Unguarded
from headrace.engines.fast.factored import FactoredLayer
from headrace.engines.fast.frame import Frame
from headrace.engines.fast.guards import Guard, Products
from headrace.engines.fast.kernels.accounts import copy, overshoot, root, size_of
from headrace.engines.fast.kernels.rules import (
    cut_trace,
    select,
    select_best,
    td_error,
)
from headrace.engines.fast.memory import Block, Program
from headrace.engines.fast.networks import DenseLayer, Rows, ValuePass, ValueWeights
from headrace.engines.fast.targets import Target

VALUE_MODULES = ("encoder", "projection", "head")


@dataclass(frozen=True)
class Gradient:
    """Gradients of a value network that are written out, and the rows that the projection's is made of."""

    encoder: Block
    head: Block
    x: int
    d: int


class Td:
    """What the rules have in common. `acting` is the evaluation of Q at the observation to be acted on."""

    metrics: tuple[str, ...] = ("td_error", "q", "q_gradient_norm", "td_update_norm")
    differentiates_bootstrap = False
    prepares = True  # the gradient can be made before the environment answers

    def __init__(self, frame: Frame, rule: Dqn | StreamQ | Qrc, draws: int, rows: Rows) -> None:
        memory = self.memory = frame.memory
        self.frame, self.rule = frame, rule
        self.weights = frame.value_weights()
        self.target = Target(frame, rule.target, VALUE_MODULES, "td/target")
        self.bootstrap_weights = ValueWeights(*(self.target.blocks[name] for name in VALUE_MODULES))
        self.layer: DenseLayer | FactoredLayer = DenseLayer(self.weights.projection)
        self.acting = ValuePass(frame.encoder, frame.sizes, memory, frame.obs)
        self.learning = self.acting
        self.next = ValuePass(frame.encoder, frame.sizes, memory, self._successor(), rows)
        self.gradient = self._gradient()
        self.acted = memory.sum()
        self.guard = self._guard(self.learning, self.gradient)
        self.traces: dict[str, Block] = {}
        self.lr, self.delta, self.discount = memory.real(rule.lr), memory.real(0.0), memory.real(0.0)
        self.keep, self.terms = memory.real(0.0), memory.real(0.0, 0.0, 0.0)
        self.td_square = memory.sum()
        self.cut = memory.whole(0)

    def _successor(self) -> int:
        """Where s' lies."""
        return self.frame.next_obs

    def _gradient(self, prefix: str = "") -> Gradient:
        """The latent that belongs to the gradient is kept apart: the next one is made before it is used up."""
        frame = self.frame
        x = frame.memory.row(frame.sizes.latent)
        return Gradient(frame.scratch(prefix + "encoder"), frame.scratch(prefix + "head"), x, self.learning.d)

    def _guard(self, value: ValuePass, gradient: Gradient) -> Guard:
        rule: Clip | Unguarded = Unguarded() if isinstance(self.rule, StreamQ) else self.rule.guard
        sizes = self.frame.sizes
        outer = Products(value.x, value.d, sizes.latent + 1, sizes.hidden)
        return Guard(rule, self.memory, self.acted, (gradient.encoder, gradient.head), (outer,))

    # before the environment's answer

    def prepare(self, program: Program) -> None:
        """The gradient of Q(s, a)."""
        self.begin_gradient(program)
        self.pass_back(program)
        self.end_gradient(program)

    def begin_gradient(self, program: Program) -> None:
        """As far as the projection."""
        self.frame.encoder.turn(program, self.weights.encoder)
        self._select(program, self.learning, self.weights, self.gradient, self.frame.action)

    def pass_back(self, program: Program) -> None:
        """Back through the projection."""
        self.layer.back(program, self.learning)

    def end_gradient(self, program: Program) -> None:
        """Through the encoder, and what is to be known of the whole gradient."""
        self.learning.back_to_image(program, self.weights, self.gradient.encoder)
        self.guard.measure(program)
        self.guard.bound(program)

    def _select(
        self, program: Program, value: ValuePass, weights: ValueWeights, gradient: Gradient, action: int
    ) -> None:
        program.emit(
            select, values=value.q, actions=value.n_actions, action=action, value=value.value, slopes=value.slopes
        )
        value.back_to_projection(program, weights, gradient.head)

    # after it

    def look_ahead(self, program: Program) -> None:
        """The latent of s'; its way through the projection is shared with others'."""
        self.next.encode(program, self.bootstrap_weights)

    def project(self, program: Program) -> None:
        """That latent through the projection that the bootstrap reads, alone."""
        layer = self.layer if self.target.is_online else DenseLayer(self.bootstrap_weights.projection)
        layer.through(program, self.next)

    def look_ahead_and_back(self, program: Program, count: int = 1) -> None:
        """The latent of s', and others that follow it, through the projection and the gradient of Q(s, a) back, in one
        pass where all share it."""
        self.layer.both_ways(program, self.next, self.learning, count)

    def err(self, program: Program) -> None:
        """The TD error, and how far to go along each direction."""
        self._bootstrap(program)
        self._error(program, self.frame.reward, self.frame.terminated)
        self._choose_terms(program)

    def _bootstrap(self, program: Program) -> None:
        following = self.next
        following.finish(program, self.bootstrap_weights)
        program.emit(
            select_best, values=following.q, actions=following.n_actions, value=following.value,
            slopes=following.slopes,
        )  # fmt: skip

    def _error(self, program: Program, reward: int, terminated: int) -> None:
        program.emit(
            td_error, q=self.learning.value, reward=reward, gamma=self.frame.gamma, terminated=terminated,
            v=self.next.value, discount=self.discount, delta=self.delta,
        )  # fmt: skip

    def _choose_terms(self, program: Program) -> None:
        raise NotImplementedError

    def back_from_bootstrap(self, program: Program) -> None:
        """From max Q(s') to the projection, where its gradient counts."""

    def project_back(self, program: Program) -> None:
        """That gradient back through the projection, alone."""
        if self.differentiates_bootstrap:
            self.layer.back(program, self.next)

    def back_to_next_image(self, program: Program) -> None:
        """On to the encoder, once the projection has been gone back through."""

    def value_gradient(self) -> Gradient | None:
        return None

    @property
    def factored(self) -> list[FactoredLayer]:
        """Layers that are kept as factors."""
        return []

    def clear_traces(self, f: np.ndarray) -> None:
        """Forgets traces that were cut."""
        self._clear(f, self.traces, self.layer)

    @staticmethod
    def _clear(f: np.ndarray, traces: dict[str, Block], layer: DenseLayer | FactoredLayer) -> None:
        written_out = [trace for name, trace in traces.items() if name != "projection"]
        if isinstance(layer, FactoredLayer):
            layer.forget(f)
        elif "projection" in traces:
            written_out.append(traces["projection"])
        for trace in written_out:
            f[trace.offset : trace.offset + trace.size] = 0

    def forget(self, program: Program) -> None:
        """Traces are cut after the step in which the episode ended or the action was not greedy."""

    def _cut(self, program: Program) -> None:
        frame = self.frame
        program.emit(
            cut_trace, terminated=frame.terminated, truncated=frame.truncated, greedy=frame.greedy, cut=self.cut
        )

    def move_beside(self, program: Program) -> None:
        """Modules of the rule's own, except for what `see` does."""

    def see(self, program: Program) -> None:
        """Evaluates at the observation to be acted on what the rule has beside Q; its own modules move on the way."""

    def see_first(self, program: Program) -> None:
        """As `see` where nothing moves: at the very beginning, or after a restart of the program."""

    def account(self, program: Program, values: dict[str, int]) -> None:
        """The rule's metrics of this step."""
        program.emit(size_of, a=self.delta, out=values["td_error"])
        program.emit(root, square=self.guard.square, out=values["q_gradient_norm"])
        program.emit(root, square=self.td_square, out=values["td_update_norm"])
        program.emit(copy, source=self.learning.value, out=values["q"], size=1)

    def _account_of_bounds(self, program: Program, factor: int, values: dict[str, int]) -> None:
        program.emit(overshoot, square=self.guard.kept, factor=factor, out=values["overshoot"])
        program.emit(root, square=self.acted, out=values["guarded"])
