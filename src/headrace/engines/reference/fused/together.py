"""All that a step sends through the projection: forwards in one pass over its weights, back in another.

Q(s, a), max Q(s', .) and SPR each send rows through the same weights, make a number of what comes out, and want its
gradient: each by itself would go through the weights twice. What the projection makes of s is known (`seen_ahead`).
What does not need the environment's answer, the imagined latents above all, need not wait for all else to be done
(decision 0028).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Agent, Auxiliary, Dqn, Episode, Latest, Online, Qrc, Shared, Spr
from headrace.engines.reference.agent import AgentState, Draws, Projected, found_before, found_together
from headrace.engines.reference.augment import augment, views
from headrace.engines.reference.fused.dense import few_times, times_turned
from headrace.engines.reference.fused.halves import Kept, dynamics_gradient, encoded, encoder_gradient, imagined
from headrace.engines.reference.fused.many import ForMany
from headrace.engines.reference.fused.passes import passed
from headrace.engines.reference.later import OuterSum, now, promised
from headrace.engines.reference.networks import Latent, Layout, Modules, Seen, apart, q_of
from headrace.engines.reference.objectives import guessing_loss, rows_of
from headrace.engines.reference.td import best, value_modules
from headrace.engines.reference.transition import Transition

Found = dict[str, tuple[jax.Array, Modules]]
Back = Callable[[jax.Array], Modules]  # from the gradients of rows to those of the modules that made them


class Valued(NamedTuple):
    """Q(s, a) or h(s, a), and its gradient down to what came out of the projection."""

    value: jax.Array
    slope: jax.Array
    head: Any
    latent: Latent


class Imagined(NamedTuple):
    """What SPR imagines, where it begins, and the truths that are known: all but the last."""

    image: jax.Array
    first: Latent
    actions: jax.Array
    latents: jax.Array
    kept: Kept
    truths: jax.Array


class Before(NamedTuple):
    """What is known of a step without the environment's answer."""

    q: Valued
    h: Any  # () where there is none
    imagined: Any  # () where SPR does not go through the projection


@found_before.register
def _(
    network: ForMany, agent: Agent, layout: Layout, state: AgentState, obs: jax.Array, action: jax.Array, draws: Draws,
    projected: Projected, after: Sequence[jax.Array],
) -> Any:  # fmt: skip
    if "projection" not in projected:
        return ()
    action = apart(network, action)  # or the compiler has the choice wait for h
    q = _valued(layout, value_modules(state.params), action, projected["projection"])
    h: Any = ()
    if "h_projection" in projected:
        h = _valued(layout, value_modules(state.params, "h_"), action, projected["h_projection"])
    spr = _spr_of(agent.aux)
    return Before(q, h, _imagine(network.network, layout, spr, state, obs, action, draws, after) if spr else ())


def _valued(layout: Layout, modules: Modules, action: jax.Array, seen: Seen) -> Valued:
    def value(head: Any, y: jax.Array) -> jax.Array:
        return q_of(layout, head[0], y)[action]

    found, (head, slope) = jax.value_and_grad(value, (0, 1))(modules["head"], seen.row + modules["projection"][0]["b"])
    return Valued(found, slope, head, seen.latent)


def _imagine(
    net: Any, layout: Layout, spr: Spr, state: AgentState, obs: jax.Array, action: jax.Array, draws: Draws,
    after: Sequence[jax.Array],
) -> Imagined:  # fmt: skip
    window, params = state.aux.window, state.params
    images = _viewed(spr, _with(window.observations, obs), draws, slice(-1))
    actions = jax.nn.one_hot(_with(window.actions, action), layout.n_actions)
    first = Latent(*encoded(net, params["encoder"], images[0], after))
    latents, kept = imagined(net, params["dynamics"], first.z, actions)
    truths = _encoded_rows(net, params["encoder"], images[1:], after) if len(images) > 1 else rows_of(latents)[:0]
    return Imagined(images[0], first, actions, latents, kept, truths)


def _encoded_rows(net: Any, encoder: Any, images: jax.Array, after: Sequence[jax.Array] = ()) -> jax.Array:
    return rows_of(jax.vmap(lambda image: encoded(net, encoder, image, after)[0])(images))


def _with(window: jax.Array, newest: jax.Array) -> jax.Array:
    return jnp.concatenate([window[1:], newest[None]])


def _viewed(spr: Spr, images: jax.Array, draws: Draws, which: slice) -> jax.Array:
    chosen = jax.tree.map(lambda x: x[which], views(draws.aux))
    return jax.vmap(augment, (None, 0, 0))(spr.augment, images, chosen)


def _to_encoder(net: Any, layers: Any, image: jax.Array, latent: Latent) -> Back:
    def back(dx: jax.Array) -> Modules:
        return {"encoder": encoder_gradient(net, layers, image, latent.kept, dx.reshape(latent.z.shape))}

    return back


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
    net, before, params = network.network, t.before, state.params
    modules = jax.tree.map(now, {name: params[name] for name in params if not name.endswith("projection")})
    w, b = now(params["projection"][0]["w"]), params["projection"][0]["b"]
    sent, returning = {}, {}
    if _learns_from_this(agent.td):
        returning["q"] = _returning(net, modules["encoder"], t.obs, before.q)
    if _learns_from_this(agent.td) and isinstance(agent.td.target, Online):
        sent["v"] = _best_value(net, layout, modules, t)
    if spr := _spr_of(agent.aux):
        last = _viewed(spr, t.next_obs[None], draws, slice(-1, None))
        truths = jnp.concatenate([before.imagined.truths, _encoded_rows(net, modules["encoder"], last)])
        sent["aux"] = _guesses(net, layout, spr, modules, before.imagined, truths)
    rows = [rows for s in sent.values() for rows in (s.rows, s.beside)]
    came_out = [few_times(jnp.concatenate(rows), w)] if rows else []
    for y in came_out:
        returning |= _forwards(sent, _cut(y + b, rows))
    found: Found = {}
    if "v" in returning and not isinstance(agent.td, Qrc):
        found["v"] = returning.pop("v").value, {}
    found |= _backwards(returning, w)
    if before.h:
        h = {"h": _returning(net, modules["h_encoder"], t.obs, before.h)}
        found |= _backwards(h, now(params["h_projection"][0]["w"]), came_out, beside=True)
    return found


def _learns_from_this(rule: Any) -> bool:
    """Whether a rule learns from this very transition, and not from one that it recalls."""
    return not isinstance(rule, Dqn) or isinstance(rule.memory, Latest)


def _spr_of(aux: Any) -> Spr | None:
    """SPR, where its guesses and truths both go through the projection of now, its window being in order."""
    if not isinstance(aux, Auxiliary) or not isinstance(aux.objective, Spr):
        return None
    parts = aux.objective.projection, aux.objective.target, aux.objective.window
    fits = all(isinstance(part, kind) for part, kind in zip(parts, (Shared, Online, Episode), strict=True))
    return aux.objective if fits else None


def _best_value(net: Any, layout: Layout, modules: Modules, t: Transition) -> Sent:
    def value(behind: Modules, y: jax.Array, _: jax.Array) -> jax.Array:
        return best(q_of(layout, behind["head"][0], y[0]))

    latent = Latent(*encoded(net, modules["encoder"], t.next_obs))
    rows = latent.z.reshape(1, -1)
    back = _to_encoder(net, modules["encoder"], t.next_obs, latent)
    return Sent(rows, back, {"head": modules["head"]}, value, rows[:0])


def _guesses(net: Any, layout: Layout, spr: Spr, modules: Modules, given: Imagined, truths: jax.Array) -> Sent:
    def value(behind: Modules, y: jax.Array, truth: jax.Array) -> jax.Array:
        return guessing_loss(spr, layout, behind["predictor"], y, truth)

    def back(dx: jax.Array) -> Modules:
        d = dx.reshape(given.latents.shape)
        dz, layers = dynamics_gradient(net, modules["dynamics"], given.first.z, given.actions, given.kept, d)
        made = _to_encoder(net, modules["encoder"], given.image, given.first)(dz)
        return {**made, "dynamics": promised(layers)}

    return Sent(rows_of(given.latents), back, {"predictor": modules["predictor"]}, value, truths)


def _returning(net: Any, encoder: Any, obs: jax.Array, valued: Valued) -> Returning:
    back = _to_encoder(net, encoder, obs, valued.latent)
    return Returning(valued.value, valued.latent.z.reshape(1, -1), valued.slope[None], {"head": valued.head}, back)


def _forwards(sent: dict[str, Sent], came_out: list[jax.Array]) -> dict[str, Returning]:
    found = {}
    for (name, s), y, beside in zip(sent.items(), came_out[::2], came_out[1::2], strict=True):
        value, (behind, slopes) = jax.value_and_grad(s.value, (0, 1))(s.behind, y, beside)
        found[name] = Returning(value, s.rows, slopes, behind, s.back)
    return found


def _backwards(
    returning: dict[str, Returning], w: jax.Array, after: Sequence[jax.Array] = (), beside: bool = False
) -> Found:
    if not returning:
        return {}
    parts = [r.slopes for r in returning.values()]
    rows = _cut(times_turned(jnp.concatenate(parts), w, after, beside), parts)
    found: Found = {}
    for (name, r), dx in zip(returning.items(), rows, strict=True):
        back = r.back(dx)
        # Its inner products with a history are not in a hurry: small kernels of the way back go first.
        weights = OuterSum(r.rows, r.slopes, passed, after=[back["encoder"][0]["b"]])
        projection: Any = {"w": weights, "b": jnp.sum(r.slopes, axis=0)}
        found[name] = r.value, {**back, "projection": [projection], **r.behind}
    return found


def _cut(rows: jax.Array, parts: list[jax.Array]) -> list[jax.Array]:
    """As many rows for each as its part has."""
    found, start = [], 0
    for part in parts:
        found.append(rows[start : start + len(part)])
        start += len(part)
    return found
