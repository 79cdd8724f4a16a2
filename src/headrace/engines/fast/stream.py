"""A whole stream as instructions: normalise, learn, choose, keep account."""

from __future__ import annotations

from itertools import groupby, takewhile
from math import prod

import numpy as np

from headrace.agents import Agent, Auxiliary, Limited
from headrace.engines.fast.bounds import bound_of
from headrace.engines.fast.factored import FactoredLayer
from headrace.engines.fast.frame import Entry, frame_of
from headrace.engines.fast.kernels.accounts import clear, copy, count_step, root, tally
from headrace.engines.fast.kernels.layers import dense, dense_back
from headrace.engines.fast.kernels.randomness import draw
from headrace.engines.fast.kernels.rules import choose, epsilon
from headrace.engines.fast.kernels.scales import limit, scale_reward, stack, stack_first, standardise
from headrace.engines.fast.memory import NONE, Block, Program
from headrace.engines.fast.networks import Rows
from headrace.engines.fast.rules import td_of
from headrace.engines.fast.sight import SightPlan
from headrace.engines.fast.spr import VIEW_DRAWS, SprPlan
from headrace.engines.fast.targets import Target
from headrace.engines.fast.updates import (
    AUX_ALONE,
    SHARED,
    TD_ALONE,
    FactoredModule,
    Flat,
    FlatModule,
    Outer,
    OuterModule,
    Rule,
)
from headrace.envs.base import EnvSpec

# In the order in which one becomes infinite through another; `overshoot` only describes a step and may be infinite.
BY_CAUSE = ("reward", "q", "h", "td_error", "q_gradient_norm", "td_update_norm", "h_update_norm", "aux_loss")
UNWATCHED = ("overshoot",)
STEP_DRAWS = 3  # explore, action, replay


def quantities(names: tuple[str, ...]) -> list[str]:
    """Names of the quantities whose finiteness is watched, in the order of their numbers."""
    watched = {name for name in names if name not in UNWATCHED}
    return [*(name for name in BY_CAUSE if name in watched), *sorted(watched.difference(BY_CAUSE))]


class StreamPlan:
    """An agent's memory and the lists that work on it.

    `prepare` needs nothing from the environment and changes nothing that is saved; `respond` does all the rest of a
    step; `alone` does both, with fewer passes over the weights and the same result; `begin` makes the very first
    choice; `resume` makes anew what is not saved.
    """

    def __init__(self, agent: Agent, spec: EnvSpec) -> None:
        frame = self.frame = frame_of(agent, spec)
        memory = frame.memory
        spr = agent.aux if isinstance(agent.aux, Auxiliary) else None
        horizon = spr.objective.horizon if spr else 0  # type: ignore[union-attr]
        self.n_draws = STEP_DRAWS + (VIEW_DRAWS * (horizon + 1) if spr else 0)
        self.draws, self.seed = memory.room(self.n_draws), memory.whole(0, 0)
        self._rows = Rows.make(frame.sizes, 1 + 2 * horizon, 1 + horizon, memory)
        self.td = td_of(agent.td, frame, self.draws, self._rows)
        self.aux = SprPlan(frame, spr, self.draws + STEP_DRAWS, self._rows) if spr else None
        self._aux_square = memory.sum()
        self.rule = Rule(frame, self.td.keep, self.td.terms, self.td.td_square, self._aux_square)
        self._bound = bound_of(frame)
        self._place_modules()
        self._place_stream()
        self._place_account()
        self.sight = SightPlan(frame, self.td)
        self.prepare, self.respond, self.alone, self.begin, self.resume = (Program() for _ in range(5))
        self._prepare(self.prepare)
        self._respond(self.respond)
        self._prepare_and_respond(self.alone)
        self._standardise_first(self.begin)
        self._see_first(self.begin)
        self._choose(self.begin)
        self._see_first(self.resume)

    @property
    def targets(self) -> list[Target]:
        return [self.td.target, *([self.aux.target] if self.aux else [])]

    def settle(self, f: np.ndarray, n: np.ndarray) -> None:
        """Brings what is put off into the form in which it is saved; what follows is the same."""
        if n[self.td.cut]:
            self.td.clear_traces(f)
            n[self.td.cut] = 0
        if self.aux:
            self.aux.window.settle(f, n)

    def put_nothing_off(self, n: np.ndarray) -> None:
        """After a saved state was put in place."""
        n[self.td.cut] = 0
        if self.aux:
            n[self.aux.window.head] = 0

    def break_off(self, f: np.ndarray, n: np.ndarray) -> None:
        """The episode ends without a last step: traces zero and the window empty, nothing learnt."""
        n[self.td.cut] = 1
        if self.aux:
            n[self.aux.window.held] = 0
        f[self.discounted] = f[self.episode_return] = 0
        n[self.episode_length] = 0

    # where things lie

    def _place_modules(self) -> None:
        td, aux = self.td, self.aux
        q, v = td.gradient, td.value_gradient()
        sharing = SHARED if aux else TD_ALONE
        in_q = aux is not None and aux.name == "projection"
        guesses = (aux.guesses.x, aux.guesses.d) if aux else (NONE, NONE)
        self.flat = [
            FlatModule(
                self.rule, "encoder", sharing, td.traces.get("encoder"),
                Flat(q.encoder, v.encoder if v else None, aux.encoder_gradient if aux else None),
            ),
            FlatModule(self.rule, "head", TD_ALONE, td.traces.get("head"), Flat(q.head, v.head if v else None)),
        ]  # fmt: skip
        self.projection = self._projection(in_q, guesses)
        self.beside: list[OuterModule] = []
        if aux:
            self.flat.append(FlatModule(self.rule, "dynamics", AUX_ALONE, None, Flat(aux=aux.dynamics_gradient)))
            through = Outer(aux=(aux.predictor_x, aux.predictor_d), count=aux.horizon)
            self.beside.append(OuterModule(self.rule, "predictor", AUX_ALONE, None, through))
            if not in_q:
                own = Outer(aux=guesses, count=aux.horizon)
                self.beside.append(OuterModule(self.rule, aux.name, AUX_ALONE, None, own))

    def _projection(self, in_q: bool, guesses: tuple[int, int]) -> OuterModule | FactoredModule:
        td, aux, q, v = self.td, self.aux, self.td.gradient, self.td.value_gradient()
        if isinstance(td.layer, FactoredLayer):
            return FactoredModule(self.rule, td.layer, td.acting, td.next, q.x)
        return OuterModule(
            self.rule, "projection", SHARED if in_q else TD_ALONE, td.traces.get("projection"),
            Outer(
                (q.x, q.d), (v.x, v.d) if v else (NONE, NONE), guesses if in_q else (NONE, NONE),
                aux.horizon if aux and in_q else 0,
            ),
        )  # fmt: skip

    def _place_stream(self) -> None:
        frame, memory = self.frame, self.frame.memory
        shape = frame.frame_shape
        size = self.frame_size = prod(shape)
        self.raw_obs, self.raw_successor, self._seen = (memory.room(size) for _ in range(3))
        self.raw_reward = memory.real(0.0)
        self.moments, self.count = memory.room(4 * size), memory.whole(0)
        self.reward_moments, self.reward_count = memory.room(4), memory.whole(0)
        self.discounted = memory.real(0.0)
        self.episode_return, self.episode_length = memory.real(0.0), memory.whole(0)
        self.finished_return, self.finished_length = memory.real(0.0), memory.whole(0)
        explore, observations = frame.agent.explore, frame.agent.observations
        self._most = memory.real(observations.limit if isinstance(observations, Limited) else 0.0)
        self.total, self.epsilon = memory.real(1.0), memory.real(0.0)
        self.explore = [memory.real(x) for x in (explore.start, explore.end, explore.fraction)]
        parts = ("mean", "mean_rest", "squares", "squares_rest")
        frame.entries += [
            Entry("stream/obs_scale/count", self.count, (), np.int32),
            *(Entry(f"stream/obs_scale/{p}", self.moments + i * size, shape) for i, p in enumerate(parts)),
            Entry("stream/reward_scale/moments/count", self.reward_count, (), np.int32),
            *(Entry(f"stream/reward_scale/moments/{p}", self.reward_moments + i, ()) for i, p in enumerate(parts)),
            Entry("stream/reward_scale/discounted", self.discounted, ()),
            Entry("stream/obs", frame.obs, frame.observation_shape),
            Entry("stream/choice/action", frame.action, (), np.int32),
            Entry("stream/choice/greedy", frame.greedy, (), np.bool_),
            Entry("stream/episode_return", self.episode_return, ()),
            Entry("stream/episode_length", self.episode_length, (), np.int32),
        ]

    def _place_account(self) -> None:
        frame, memory = self.frame, self.frame.memory
        self.always = (*self.td.metrics, "epsilon", "reward")
        self.beside_names = SprPlan.metrics if self.aux else ()
        names = (*self.always, *self.beside_names)
        self.values, self.sums = memory.real(*[0.0] * len(names)), memory.real(*[0.0] * len(names))
        self.value_of = {name: self.values + i for i, name in enumerate(names)}
        self.watched = quantities(names)
        self._order = memory.whole(*(names.index(name) for name in self.watched))
        self.counts = memory.whole(0, 0, -1, -1)
        tallies = ("steps", "active_steps", "bad_step", "bad_quantity")
        frame.entries += [
            Entry(f"stream/tally/{name}", self.counts + i, (), np.int32) for i, name in enumerate(tallies)
        ]
        for i, name in enumerate(names):
            group = "sums" if name in self.always else "aux_sums"
            frame.entries.append(Entry(f"stream/tally/{group}/{name}", self.sums + i, ()))

    # the lists

    def _prepare(self, program: Program) -> None:
        program.emit(clear, start=0, size=self.frame.memory.sums)
        self.td.prepare(program)
        if self.aux:
            self.aux.prepare(program)

    def _respond(self, program: Program) -> None:
        self._look_ahead(program)
        self._project(program)
        self._learn(program)

    def _prepare_and_respond(self, program: Program) -> None:
        """Without a second thread the gradient of Q(s, a) can wait for s': both go through the projection together."""
        if not self.td.prepares:
            self._prepare(program)
            self._respond(program)
            return
        program.emit(clear, start=0, size=self.frame.memory.sums)
        self.td.begin_gradient(program)
        if self.aux:
            self.aux.prepare(program)
        self._look_ahead(program)
        self._project_both_ways(program)
        self.td.end_gradient(program)
        self._learn(program)

    def _look_ahead(self, program: Program) -> None:
        self._normalise(program)
        self.td.look_ahead(program)
        if self.aux:
            self.aux.look_ahead(program)

    def _learn(self, program: Program) -> None:
        frame, td, aux = self.frame, self.td, self.aux
        td.err(program)
        td.back_from_bootstrap(program)
        if aux:
            with program.only_if(frame.active):
                aux.err(program)
        self._project_back(program)
        td.back_to_next_image(program)
        if aux:
            with program.only_if(frame.active):
                aux.back(program)
        self._move(program)
        self._count(program)

    def _normalise(self, program: Program) -> None:
        frame = self.frame
        self._standardise(program, self.raw_successor)
        program.emit(stack, obs=frame.obs, frame=self._seen, out=frame.next_obs, **self._stacking())
        program.emit(
            scale_reward, reward=self.raw_reward, discounted=self.discounted, moments=self.reward_moments,
            count=self.reward_count, last=frame.last, gamma=frame.gamma, out=frame.reward,
        )  # fmt: skip

    def _project(self, program: Program) -> None:
        """Latents through their projections; those that share one go together."""
        frame, bootstrap = self.frame, self.td.bootstrap_weights.projection
        if not self.aux:
            return self.td.project(program)
        with program.only_if(frame.active):
            self._together(program, self._projections(), 0)
        with program.only_if(frame.resting):
            self._together(program, [bootstrap], 0)
        return None

    def _projections(self) -> list[Block]:
        """What s', the guesses and the truths go through."""
        assert self.aux
        horizon, name = self.aux.horizon, self.aux.name
        guess, truth = self.frame.params[name], self.aux.target.blocks[name]
        return [self.td.bootstrap_weights.projection, *[guess] * horizon, *[truth] * horizon]

    def _project_both_ways(self, program: Program) -> None:
        """As `_project`, with the gradient of Q(s, a) on its way back."""
        frame, td = self.frame, self.td
        if not td.target.is_online:
            self._project(program)
            td.pass_back(program)
            return
        if self.aux:
            with program.only_if(frame.active):
                projections = self._projections()
                count = len(list(takewhile(lambda block: block == projections[0], projections)))
                td.look_ahead_and_back(program, count)
                self._together(program, projections[count:], count)
        with program.only_if(frame.resting):
            td.look_ahead_and_back(program)

    def _together(self, program: Program, projections: list[Block], k: int) -> None:
        """Rows from the k-th on."""
        sizes = self.frame.sizes
        for w, group in groupby(block.offset for block in projections):
            count, rows = len(list(group)), self._rows.at(sizes, k)
            program.emit(dense, w=w, x=rows.x, y=rows.y, count=count, inputs=sizes.latent + 1, outputs=sizes.hidden)
            k += count

    def _project_back(self, program: Program) -> None:
        frame = self.frame
        if not self.aux:
            return self.td.project_back(program)
        first = 0 if self.td.differentiates_bootstrap else 1
        own = [self.td.weights.projection] * (1 - first)
        guesses = [frame.params[self.aux.name]] * self.aux.horizon
        with program.only_if(frame.active):
            self._back_together(program, own + guesses, first)
        with program.only_if(frame.resting):
            self._back_together(program, own, first)
        return None

    def _back_together(self, program: Program, projections: list[Block], k: int) -> None:
        sizes = self.frame.sizes
        for w, group in groupby(block.offset for block in projections):
            count, rows = len(list(group)), self._rows.at(sizes, k)
            program.emit(dense_back, w=w, d=rows.d, dx=rows.dx, count=count, inputs=sizes.latent, outputs=sizes.hidden)
            k += count

    def _move(self, program: Program) -> None:
        """New parameters, and the choice that they lead to. Small modules first, the encoder's new latent next; the
        projection moves while that latent goes through it."""
        frame, td = self.frame, self.td
        self._bound.remember(program)
        program.emit(copy, source=td.learning.x, out=td.gradient.x, size=frame.sizes.latent)
        for module in (*self.flat, self.projection, *self.beside):
            module.rest(program)
            module.tie(program)
        for flat in self.flat:
            flat.move(program)
        self.projection.weigh(program)
        for alone in self.beside:
            alone.weigh(program)
            alone.move(program, NONE, NONE)
        td.move_beside(program)
        if self.aux:
            self.aux.window.push(program)
        td.forget(program)
        self._take_over_observation(program)
        td.acting.encode(program, td.weights)
        self.projection.move(program, td.acting.x, td.acting.y)
        td.see(program)
        td.acting.finish(program, td.weights)
        self._bound.draw_back(program, self._evaluate)

    def _take_over_observation(self, program: Program) -> None:
        """What is acted on next: the successor, or the first observation of the next episode."""
        frame, size = self.frame, self.frame.observation_size
        program.emit(copy, source=frame.next_obs, out=frame.obs, size=size)
        with program.only_if(frame.last):
            self._standardise_first(program)

    def _standardise_first(self, program: Program) -> None:
        self._standardise(program, self.raw_obs)
        program.emit(stack_first, frame=self._seen, out=self.frame.obs, **self._stacking())

    def _standardise(self, program: Program, raw: int) -> None:
        program.emit(standardise, raw=raw, moments=self.moments, count=self.count, out=self._seen, size=self.frame_size)
        if isinstance(self.frame.agent.observations, Limited):
            program.emit(limit, x=self._seen, size=self.frame_size, most=self._most)

    def _stacking(self) -> dict[str, int]:
        """How an observation is made of frames; one that is a single frame is taken over whole."""
        channels, new = self.frame.observation_shape[-1], self.frame.frame_shape[-1]
        if new == channels:
            return {"pixels": 1, "channels": self.frame_size, "new": self.frame_size}
        return {"pixels": self.frame_size // new, "channels": channels, "new": new}

    def _count(self, program: Program) -> None:
        frame, values = self.frame, self.value_of
        self.td.account(program, values)
        program.emit(copy, source=self.epsilon, out=values["epsilon"], size=1)
        program.emit(copy, source=self.raw_reward, out=values["reward"], size=1)
        if self.aux:
            program.emit(copy, source=self.aux.loss, out=values["aux_loss"], size=1)
            program.emit(root, square=self._aux_square, out=values["aux_update_norm"])
            program.emit(root, square=self.aux.acted, out=values["aux_guarded"])
            program.emit(copy, source=self.rule.cosines, out=values["cosine_before_orth"], size=2)
        program.emit(
            count_step, reward=self.raw_reward, last=frame.last, episode_return=self.episode_return,
            finished_return=self.finished_return, episode_length=self.episode_length,
            finished_length=self.finished_length, step=frame.step,
        )  # fmt: skip
        program.emit(
            tally, values=self.values, sums=self.sums, always=len(self.always), beside=len(self.beside_names),
            active=frame.active, order=self._order, watched=len(self.watched), counts=self.counts, step=frame.step,
        )  # fmt: skip
        self.td.target.follow(program)
        if self.aux:
            self.aux.target.follow(program)
        self._draw(program)
        self._choose(program)

    def _see_first(self, program: Program) -> None:
        self._evaluate(program)
        self._draw(program)

    def _evaluate(self, program: Program) -> None:
        """Values at the present observation, from parameters that did not just move."""
        td = self.td
        td.acting.encode(program, td.weights)
        td.layer.through(program, td.acting)
        td.see_first(program)
        td.acting.finish(program, td.weights)

    def _draw(self, program: Program) -> None:
        """The random numbers of the step to come, and how likely it is to explore."""
        frame = self.frame
        start, end, fraction = self.explore
        program.emit(draw, seed=self.seed, step=frame.step, out=self.draws, count=self.n_draws)
        program.emit(
            epsilon, step=frame.step, total=self.total, start=start, end=end, fraction=fraction, out=self.epsilon
        )

    def _choose(self, program: Program) -> None:
        frame = self.frame
        program.emit(
            choose, q=self.td.acting.q, actions=frame.n_actions, draws=self.draws, eps=self.epsilon,
            action=frame.action, greedy=frame.greedy,
        )  # fmt: skip
