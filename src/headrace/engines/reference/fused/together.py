"""All that a step sends through the projection: forwards in one pass over its weights, back in another.

Q(s, a), max Q(s', .) and SPR each send rows through the same weights, make a number of what comes out, and want its
gradient. Each by itself would go through the weights twice. What the projection makes of s is known (`seen_ahead`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Agent, Auxiliary, Dqn, Episode, Latest, Online, Qrc, Shared, Spr
from headrace.engines.reference.agent import AgentState, Draws, found_together
from headrace.engines.reference.augment import augment, views
from headrace.engines.reference.fused.dense import few_times, times_turned
from headrace.engines.reference.fused.many import ForMany
from headrace.engines.reference.fused.passes import passed
from headrace.engines.reference.later import Later, OuterSum, now
from headrace.engines.reference.networks import Layout, Modules, encode, q_of, unroll
from headrace.engines.reference.objectives import guessing_loss, rows_of
from headrace.engines.reference.td import best
from headrace.engines.reference.transition import Transition
from headrace.engines.reference.windows import WindowState

_LARGE = "projection", "h_projection"  # which are not gone through here but together, or not at all
Back = Callable[[jax.Array], Modules]


class Sent(NamedTuple):
    """Rows for the projection, and what is made of what comes out."""

    rows: jax.Array
    back: Back  # from the gradients of the rows to those of the modules that made them
    behind: Modules  # the modules behind the projection
    value: Callable[[Modules, jax.Array, jax.Array], jax.Array]  # of those, of what comes out, and of what does beside
    beside: jax.Array  # rows without a gradient
    known: jax.Array | None = None  # what comes out, where it is known

    @property
    def unknown(self) -> jax.Array:
        return jnp.concatenate([self.rows[: None if self.known is None else 0], self.beside])


@found_together.register
def _(
    network: ForMany, agent: Agent, layout: Layout, state: AgentState, t: Transition, draws: Draws
) -> dict[str, tuple[jax.Array, Modules]]:
    weights = state.params["projection"][0]["w"]
    if "projection" not in t.projected or not isinstance(weights, Later) or not _learns_from_the_present(agent.td):
        return {}
    modules = jax.tree.map(now, {name: layers for name, layers in state.params.items() if name not in _LARGE})
    sent = {"q": _action_value(network, layout, modules, t), "v": _best_value(network, layout, modules, t)}
    if _guesses_through(agent.aux):
        view = views(draws.aux)
        sent["aux"] = _guesses(network, agent.aux.objective, layout, modules, state.aux.window, t, view)
    return _through(sent, now(weights), state.params["projection"][0]["b"], isinstance(agent.td, Qrc))


def _learns_from_the_present(rule: Any) -> bool:
    """Whether max Q(s', .) is that of the present weights, at this very transition."""
    return isinstance(rule.target, Online) and (not isinstance(rule, Dqn) or isinstance(rule.memory, Latest))


def _guesses_through(aux: Any) -> bool:
    """Whether SPR's guesses and truths both go through the projection of now, its window being in order."""
    if not isinstance(aux, Auxiliary) or not isinstance(aux.objective, Spr):
        return False
    objective = aux.objective
    return (
        isinstance(objective.projection, Shared)
        and isinstance(objective.target, Online)
        and isinstance(objective.window, Episode)
    )


def _action_value(network: Any, layout: Layout, modules: Modules, t: Transition) -> Sent:
    def value(behind: Modules, y: jax.Array, _: jax.Array) -> jax.Array:
        return q_of(layout, behind["head"][0], y[0])[t.action]

    rows, back = _encoded(network, modules, t.obs)
    return Sent(rows, back, {"head": modules["head"]}, value, rows[:0], known=t.projected["projection"][None])


def _best_value(network: Any, layout: Layout, modules: Modules, t: Transition) -> Sent:
    def value(behind: Modules, y: jax.Array, _: jax.Array) -> jax.Array:
        return best(q_of(layout, behind["head"][0], y[0]))

    rows, back = _encoded(network, modules, t.next_obs)
    return Sent(rows, back, {"head": modules["head"]}, value, rows[:0])


def _encoded(network: Any, modules: Modules, obs: jax.Array) -> tuple[jax.Array, Back]:
    z, back = jax.vjp(lambda encoder: encode(network, encoder, obs), modules["encoder"])
    return z.reshape(1, -1), lambda d: {"encoder": back(d.reshape(z.shape))[0]}


def _guesses(
    network: Any, objective: Spr, layout: Layout, modules: Modules, window: WindowState, t: Transition, view: Any
) -> Sent:
    """What is imagined, and the truths beside it. Only the last image has to wait for the environment."""
    look = jax.vmap(augment, (None, 0, 0))
    before, after = (jax.tree.map(lambda x, s=s: x[s], view) for s in (slice(-1), slice(-1, None)))
    images = look(objective.augment, jnp.concatenate([window.observations[1:], t.obs[None]]), before)
    last = look(objective.augment, t.next_obs[None], after)
    actions = jax.nn.one_hot(jnp.concatenate([window.actions[1:], t.action[None]]), layout.n_actions)

    def imagined(encoder: Any, dynamics: Any) -> jax.Array:
        return unroll(network, dynamics, encode(network, encoder, images[0]), actions)

    latents, back = jax.vjp(imagined, modules["encoder"], modules["dynamics"])
    see = jax.vmap(lambda image: encode(network, modules["encoder"], image))
    truths = jnp.concatenate([rows_of(see(images[1:])), rows_of(see(last))])

    def value(behind: Modules, y: jax.Array, truth: jax.Array) -> jax.Array:
        return guessing_loss(objective, layout, behind["predictor"], y, truth)

    def back_to_modules(d: jax.Array) -> Modules:
        return dict(zip(("encoder", "dynamics"), back(d.reshape(latents.shape)), strict=True))

    return Sent(rows_of(latents), back_to_modules, {"predictor": modules["predictor"]}, value, truths)


def _through(
    sent: dict[str, Sent], w: jax.Array, b: jax.Array, all_back: bool
) -> dict[str, tuple[jax.Array, Modules]]:
    """The value and gradient of each. The gradient of max Q(s', .) is asked for by some rules alone."""
    came_out = _shared_out(few_times(jnp.concatenate([s.unknown for s in sent.values()]), w), sent, lambda s: s.unknown)
    values, slopes, behind = {}, {}, {}
    for name, s in sent.items():
        y, beside = (came_out[name][: len(s.rows)], came_out[name][len(s.rows) :])
        if s.known is not None:
            y, beside = s.known, came_out[name]
        values[name], (behind[name], slopes[name]) = jax.value_and_grad(s.value, (0, 1))(s.behind, y + b, beside + b)
    returning = {name: s for name, s in sent.items() if all_back or name != "v"}
    dx = times_turned(jnp.concatenate([slopes[name] for name in returning]), w)
    gradients = _shared_out(dx, returning, lambda s: s.rows)
    found: dict[str, tuple[jax.Array, Modules]] = {name: (value, {}) for name, value in values.items()}
    for name, s in returning.items():
        projection = {"w": OuterSum(s.rows, slopes[name], passed), "b": jnp.sum(slopes[name], axis=0)}
        found[name] = values[name], {**s.back(gradients[name]), "projection": [projection], **behind[name]}
    return found


def _shared_out(rows: jax.Array, sent: dict[str, Sent], of: Callable[[Sent], jax.Array]) -> dict[str, jax.Array]:
    """The rows that belong to each, in their order."""
    shared, start = {}, 0
    for name, s in sent.items():
        shared[name] = rows[start : start + len(of(s))]
        start += len(of(s))
    return shared
