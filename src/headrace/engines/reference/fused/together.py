"""All that a step sends through the projection: forwards in one pass over its weights, back in another.

Q(s, a), max Q(s', .) and SPR each send rows through the same weights, make a number of what comes out, and want its
gradient. Each by itself would go through the weights twice. What the projection makes of s is known (`seen_ahead`). What
does not need the environment's answer, the imagined latents above all, is computed while the environment makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Agent, Auxiliary, Dqn, Episode, Latest, Online, Qrc, Shared, Spr
from headrace.engines.reference.agent import AgentState, Draws, Projected, found_before, found_together
from headrace.engines.reference.augment import View, augment, views
from headrace.engines.reference.fused.dense import few_times, times_turned
from headrace.engines.reference.fused.halves import Kept, dynamics_gradient, encoded, encoder_gradient, imagined
from headrace.engines.reference.fused.many import ForMany
from headrace.engines.reference.fused.passes import passed
from headrace.engines.reference.later import OuterSum, now
from headrace.engines.reference.networks import Layout, Modules, apart, q_of
from headrace.engines.reference.objectives import guessing_loss, rows_of
from headrace.engines.reference.td import best, value_modules
from headrace.engines.reference.transition import Transition
from headrace.engines.reference.windows import WindowState

Found = dict[str, tuple[jax.Array, Modules]]
Back = Callable[[jax.Array], Modules]  # from the gradients of rows to those of the modules that made them


class Sight(NamedTuple):
    """An image and its latent."""

    image: jax.Array
    z: jax.Array
    kept: Kept


class Valued(NamedTuple):
    """Q(s, a) or h(s, a), and its gradient down to what came out of the projection."""

    value: jax.Array
    slope: jax.Array
    head: Any
    sight: Sight


class Imagined(NamedTuple):
    """What SPR imagines, where it begins, and the truths that are known."""

    first: Sight
    actions: jax.Array
    latents: jax.Array
    kept: Kept
    truths: jax.Array


class Before(NamedTuple):
    q: Valued
    h: Any  # the value and gradient of h(s, a), the weights' as factors; () where there is no h
    imagined: Any  # () where SPR does not go through the projection


@found_before.register
def _(
    network: ForMany, agent: Agent, layout: Layout, state: AgentState, obs: jax.Array, action: jax.Array, draws: Draws,
    projected: Projected,
) -> Any:  # fmt: skip
    if "projection" not in projected:
        return ()
    net, params = network.network, state.params
    obs, action, draws, projected = apart(network, (obs, action, draws, projected))
    q = _valued(net, layout, value_modules(params), obs, action, projected["projection"])
    h: Any = ()
    if "h_projection" in projected:
        modules = value_modules(params, "h_")
        valued = _valued(net, layout, modules, obs, action, projected["h_projection"])
        dx = times_turned(valued.slope[None], modules["projection"][0]["w"])
        h = valued.value, _gradient_of(net, modules, valued, dx)
    guesses = _guesses_through(agent.aux)
    return Before(q, h, _imagine(net, layout, agent, state, obs, action, views(draws.aux)) if guesses else ())


def _valued(net: Any, layout: Layout, modules: Modules, obs: jax.Array, action: jax.Array, row: jax.Array) -> Valued:
    def value(head: Any, y: jax.Array) -> jax.Array:
        return q_of(layout, head[0], y)[action]

    found, (head, slope) = jax.value_and_grad(value, (0, 1))(modules["head"], row + modules["projection"][0]["b"])
    return Valued(found, slope, head, Sight(obs, *encoded(net, modules["encoder"], obs)))


def _gradient_of(net: Any, modules: Modules, valued: Valued, dx: jax.Array) -> Modules:
    """The gradient of the projection's weights is left as the factors (x, d)."""
    projection = {"w": (valued.sight.z.reshape(1, -1), valued.slope[None]), "b": valued.slope}
    encoder = _encoder_gradient(net, modules, valued.sight, dx)
    return {"encoder": encoder, "projection": [projection], "head": valued.head}


def _encoder_gradient(net: Any, modules: Modules, sight: Sight, dx: jax.Array) -> Any:
    return encoder_gradient(net, modules["encoder"], sight.image, sight.kept, dx.reshape(sight.z.shape))


def _imagine(
    net: Any, layout: Layout, agent: Agent, state: AgentState, obs: jax.Array, action: jax.Array, view: View
) -> Imagined:
    window, encoder = state.aux.window, state.params["encoder"]
    images = _viewed(agent, _with(window.observations, obs), view, slice(-1))
    actions = jax.nn.one_hot(_with(window.actions, action), layout.n_actions)
    after = [action.reshape(1)] if LATE else []
    first = Sight(images[0], *encoded(net, encoder, images[0], after))
    latents, kept = imagined(net, state.params["dynamics"], first.z, actions)
    truths = jax.vmap(lambda image: encoded(net, encoder, image, after)[0])(images[1:])
    return Imagined(first, actions, latents, kept, rows_of(truths))


def _with(window: jax.Array, newest: jax.Array) -> jax.Array:
    return jnp.concatenate([window[1:], newest[None]])


def _viewed(agent: Agent, images: jax.Array, view: View, which: slice) -> jax.Array:
    views = jax.tree.map(lambda x: x[which], view)
    return jax.vmap(augment, (None, 0, 0))(agent.aux.objective.augment, images, views)


class Sent(NamedTuple):
    """Rows for the projection, and what is made of what comes out."""

    rows: jax.Array
    back: Back
    behind: Modules  # the modules behind the projection
    value: Callable[[Modules, jax.Array, jax.Array], jax.Array]  # of those, of what comes out, and of what does beside
    beside: jax.Array  # rows without a gradient


class Returning(NamedTuple):
    """A value, and its gradient down to what came out of the projection."""

    value: jax.Array
    rows: jax.Array
    slopes: jax.Array
    behind: Modules
    back: Back


@found_together.register
def _(network: ForMany, agent: Agent, layout: Layout, state: AgentState, t: Transition, draws: Draws) -> Found:
    if not t.before:
        return {}
    net, before, layer = network.network, t.before, state.params["projection"][0]
    modules = jax.tree.map(now, {name: state.params[name] for name in state.params if not name.endswith("projection")})
    sent = {}
    if _looks_ahead_now(agent.td):
        sent["v"] = _best_value(net, layout, modules, t)
    if before.imagined:
        last = _viewed(agent, t.next_obs[None], views(draws.aux), slice(-1, None))
        sent["aux"] = _guesses(net, layout, agent, modules, before.imagined, last)
    returning = {"q": _returning(net, modules, before.q), **_forwards(sent, now(layer["w"]), layer["b"])}
    unasked = {"v"} if not isinstance(agent.td, Qrc) and "v" in returning else set()
    found = {name: (returning.pop(name).value, {}) for name in unasked}
    found |= _backwards(returning, now(layer["w"]))
    return {**found, "h": _as_formula(*before.h)} if before.h else found


def _looks_ahead_now(rule: Any) -> bool:
    """Whether max Q(s', .) is that of the present weights, at this very transition."""
    return isinstance(rule.target, Online) and (not isinstance(rule, Dqn) or isinstance(rule.memory, Latest))


def _guesses_through(aux: Any) -> bool:
    """Whether SPR's guesses and truths both go through the projection of now, its window being in order."""
    if not isinstance(aux, Auxiliary) or not isinstance(aux.objective, Spr):
        return False
    parts = aux.objective.projection, aux.objective.target, aux.objective.window
    return all(isinstance(part, kind) for part, kind in zip(parts, (Shared, Online, Episode), strict=True))


def _best_value(net: Any, layout: Layout, modules: Modules, t: Transition) -> Sent:
    def value(behind: Modules, y: jax.Array, _: jax.Array) -> jax.Array:
        return best(q_of(layout, behind["head"][0], y[0]))

    sight = Sight(t.next_obs, *encoded(net, modules["encoder"], t.next_obs))
    rows = sight.z.reshape(1, -1)
    back = _to_encoder(net, modules, sight)
    return Sent(rows, back, {"head": modules["head"]}, value, rows[:0])


def _to_encoder(net: Any, modules: Modules, sight: Sight) -> Back:
    return lambda dx: {"encoder": _encoder_gradient(net, modules, sight, dx)}


def _guesses(net: Any, layout: Layout, agent: Agent, modules: Modules, given: Imagined, last: jax.Array) -> Sent:
    def value(behind: Modules, y: jax.Array, truth: jax.Array) -> jax.Array:
        return guessing_loss(agent.aux.objective, layout, behind["predictor"], y, truth)

    def back(dx: jax.Array) -> Modules:
        d = dx.reshape(given.latents.shape)
        dynamics, dz = dynamics_gradient(net, modules["dynamics"], given.first.z, given.actions, given.kept, d)
        return {"encoder": _encoder_gradient(net, modules, given.first, dz), "dynamics": dynamics}

    newest = encoded(net, modules["encoder"], last[0])[0].reshape(1, -1)
    truths = jnp.concatenate([given.truths, newest])
    return Sent(rows_of(given.latents), back, {"predictor": modules["predictor"]}, value, truths)


def _returning(net: Any, modules: Modules, valued: Valued) -> Returning:
    back = _to_encoder(net, modules, valued.sight)
    return Returning(valued.value, valued.sight.z.reshape(1, -1), valued.slope[None], {"head": valued.head}, back)


def _forwards(sent: dict[str, Sent], w: jax.Array, b: jax.Array) -> dict[str, Returning]:
    if not sent:
        return {}
    parts = [rows for s in sent.values() for rows in (s.rows, s.beside)]
    came_out = iter(_cut(few_times(jnp.concatenate(parts), w) + b, parts))
    found = {}
    for name, s in sent.items():
        value, (behind, slopes) = jax.value_and_grad(s.value, (0, 1))(s.behind, next(came_out), next(came_out))
        found[name] = Returning(value, s.rows, slopes, behind, s.back)
    return found


def _backwards(returning: dict[str, Returning], w: jax.Array) -> Found:
    parts = [r.slopes for r in returning.values()]
    found = {}
    for (name, r), dx in zip(returning.items(), _cut(times_turned(jnp.concatenate(parts), w), parts), strict=True):
        projection = {"w": (r.rows, r.slopes), "b": jnp.sum(r.slopes, axis=0)}
        made = r.back(dx)
        after = [made["encoder"][0]["w"]] if AFTER and "dynamics" in made else []
        found[name] = _as_formula(r.value, {**made, "projection": [projection], **r.behind}, after)
    return found


def _cut(rows: jax.Array, parts: list[jax.Array]) -> list[jax.Array]:
    """As many rows for each as its part has."""
    found, start = [], 0
    for part in parts:
        found.append(rows[start : start + len(part)])
        start += len(part)
    return found


AFTER = False
LATE = True


def _as_formula(value: jax.Array, gradient: Modules, after: Any = ()) -> tuple[jax.Array, Modules]:
    layer = gradient["projection"][0]
    return value, {**gradient, "projection": [{**layer, "w": OuterSum(*layer["w"], passed, after)}]}
